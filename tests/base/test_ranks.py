"""What the processes of one run exchange, and how all of them end when one does."""

import os
import socket
import threading
import time

import pytest
from rank_processes import in_ranks, variables

from peakgate.base import ranks
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.ranks import EndedElsewhere, Ranks, launched, started
from peakgate.base.verdict import Judgement, Verdict

RIGHT, WRONG = Judgement(Verdict.PASS, "0.8 of peak"), Judgement(Verdict.WRONG, "output 0 is wrong")
UNDECIDED = Judgement(Verdict.INCONCLUSIVE, "the GPU was in use")


def connected():
    """This process's rank, connected with the others and within a test."""
    one = started()
    one.connect()
    one.all("its tests")
    one.begin_test("a.case")
    return one


def test_a_process_by_itself_agrees_with_itself():
    alone = Ranks()
    assert (alone.rank, alone.size, launched()) == (0, 1, False)
    assert alone.all("a step", 3) == [3]
    assert alone.same("a step", "x") == "x"
    assert not alone.any("a step", [])
    assert alone.end_test("a.case", WRONG) is WRONG
    alone.end_all("nobody is there")
    alone.finish()
    alone.close()


def test_every_rank_gets_the_values_of_all(tmp_path):
    def run():
        one = connected()
        found = [one.all("numbers", one.rank), one.same("first", one.rank), one.any("any", one.rank == 2)]
        one.end_test("a.case", RIGHT)
        one.finish()
        one.close()
        return found

    assert [(each.code, each.value) for each in in_ranks(tmp_path, run, 3)] == [(0, [[0, 1, 2], 0, True])] * 3


def test_all_start_after_the_last_has_come(tmp_path):
    def run():
        one = connected()
        came = time.monotonic_ns()
        one.start("together")
        times = one.all("times", [came, time.monotonic_ns()])
        one.finish()
        one.close()
        return times

    for ended in in_ranks(tmp_path, run, 3):
        assert max(came for came, _ in ended.value) < min(started for _, started in ended.value)


def test_the_others_stay_until_rank_0_leaves(tmp_path):
    left = tmp_path / "left"

    def run():
        one = connected()
        one.end_test("a.case", RIGHT)
        one.finish()
        seen = left.exists()
        left.touch()  # as the run file
        one.close()
        return seen

    assert [each.value for each in in_ranks(tmp_path, run)] == [False, True]


@pytest.mark.parametrize(
    ("of_each", "verdict", "reason"),
    [
        ((RIGHT, RIGHT), "PASS", "0.8 of peak"),
        ((RIGHT, WRONG), "WRONG", "rank 1: output 0 is wrong"),
        ((UNDECIDED, WRONG), "WRONG", "rank 1: output 0 is wrong"),
        ((RIGHT, UNDECIDED), "INCONCLUSIVE", "rank 1: the GPU was in use"),
        ((Judgement(Verdict.BELOW_FLOOR, "slow"), RIGHT), "BELOW_FLOOR", "slow"),
    ],
)
def test_all_ranks_have_the_verdict_of_the_worst(tmp_path, of_each, verdict, reason):
    def run():
        one = connected()
        found = one.end_test("a.case", of_each[one.rank])
        one.finish()
        one.close()
        return [found.verdict, found.reason]

    assert [each.value for each in in_ranks(tmp_path, run)] == [[verdict, reason]] * 2


def test_a_verdict_of_one_ends_the_test_of_the_others(tmp_path):
    def run():
        one = connected()
        try:
            found = one.end_test("a.case", WRONG) if one.rank else one.all("a call")
        except EndedElsewhere:
            found = one.end_test("a.case", UNDECIDED)
        one.begin_test("b.case")
        again = one.all("a call", one.rank)
        one.end_test("b.case", RIGHT)
        one.finish()
        one.close()
        return [found.verdict, found.reason, again]

    assert [each.value for each in in_ranks(tmp_path, run)] == [["WRONG", "rank 1: output 0 is wrong", [0, 1]]] * 2


def apart(one):
    one.all("a call" if one.rank == 1 else "its reference")


def in_other_tests(one):
    one.begin_test(f"{'aba'[one.rank]}.case")
    one.all("a call")


def done_by_one(one):
    if one.rank == 1:
        one.end_test("a.case", RIGHT)
    one.all("a call")


def skipped_by_one(one):
    one.end_test("a.case", None if one.rank == 1 else RIGHT)


def raised_in_one(one):
    if one.rank == 1:
        one.end_all("rank 1: out of luck", "its traceback")
    one.all("a call")


def killed(one):
    if one.rank == 1:
        os._exit(0)
    one.all("a call")


def left_early(one):
    if one.rank == 1:
        one.close()
        os._exit(0)
    one.finish()


def endless(one):
    if one.rank == 1:
        ranks.WAIT_LIMIT_S = 0.05
    one.all("a call")
    if one.rank == 1:
        threading.Event().wait()  # as a collective that nobody else calls
    one.all("its times")


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (apart, "rank 0 is at its reference of a.case, rank 1 is at a call of a.case"),
        (in_other_tests, "rank 0 is at a call of a.case, rank 1 is at a call of b.case"),
        (done_by_one, "rank 0 is at a call of a.case, rank 1 is at the end of a.case"),
        (skipped_by_one, "rank 0 is at the end of a.case, rank 1 skips a.case"),
        (raised_in_one, "rank 1: out of luck"),
        (killed, "rank 1 of 3 ended before the others"),
        (left_early, "rank 1 of 3 ended before the others"),
        (endless, "rank 1: 0 s passed at a call of a.case"),
    ],
)
def test_a_rank_that_leaves_the_others_ends_all(tmp_path, run, reason):
    for rank, ended in enumerate(in_ranks(tmp_path, lambda: run(connected()), 3)):
        if rank == 1 and run in (killed, left_early):
            assert ended.code == 0
        else:
            assert (ended.code, ended.value) == (3, None), ended.output
            assert f"not measured: {reason}" in ended.output
            assert f"[{Code.PROCESS}]\n" in ended.output
            assert ("its traceback" in ended.output) == (run is raised_in_one and rank == 1)


@pytest.fixture
def of_torchrun(monkeypatch):
    """The variables of rank 0 of two, and others."""

    def given(**other):
        for name, value in (variables(0, 2, os.getpid()) | other).items():
            monkeypatch.setenv(name, value)

    return given


@pytest.mark.parametrize(
    "other",
    [{"LOCAL_WORLD_SIZE": "1"}, {"RANK": "2"}, {"LOCAL_RANK": "-1"}, {"MASTER_PORT": ""}],
    ids=["several hosts", "rank", "local rank", "no port"],
)
def test_variables_that_name_no_ranks_of_this_host_are_refused(of_torchrun, other):
    of_torchrun(**other)
    assert launched()
    with pytest.raises(PeakgateError, check=lambda error: error.code is Code.OPTION):
        started()


def test_one_process_of_torchrun_is_by_itself(of_torchrun):
    of_torchrun(WORLD_SIZE="1")
    assert (launched(), started().size) == (False, 1)


def test_a_rank_that_does_not_come_is_named(tmp_path):
    def run():
        os.environ["WORLD_SIZE"] = os.environ["LOCAL_WORLD_SIZE"] = "3"  # two of them are there
        if (one := started()).rank == 0:
            ranks.WAIT_LIMIT_S = 0.5
        one.connect()
        one.all("its tests")

    for ended in in_ranks(tmp_path, run):
        assert ended.code == 3
        assert "rank 2" in ended.output


def test_two_runs_with_one_port_are_refused(of_torchrun):
    of_torchrun()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(f"\0peakgate-ranks-{os.getuid()}-{os.getpid()}")
        with pytest.raises(PeakgateError, check=lambda error: error.code is Code.OPTION):
            started().connect()
