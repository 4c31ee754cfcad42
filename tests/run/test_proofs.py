"""Builds are proven in processes of their own, and only what these find right counts."""

from multiprocessing.connection import wait

import pytest
from proving import CASES, opened

from peakgate.run import proofs


def proven(*ends):
    """The ends of the builds that two processes find right, and of those proven here until the first answer."""
    provers, here = proofs.Provers(2), []
    provers.open(opened)
    processes = dict(provers._processes)

    def prove_here(case):
        here.append(case.size)
        wait(processes)

    right = [(case.size, problems) for case, problems in provers.right([CASES[end] for end in ends], prove_here)]
    assert not any(process.is_alive() for process in processes.values())
    assert {problems for _, problems in right} <= {5}
    return [end for end, _ in right], here


def test_what_a_process_finds_right_is_proven(capfd):
    assert proven("right", "right", "right") == (["right", "right"], ["right"])
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("end", ["wrong", "dies"])
def test_what_no_process_finds_right_is_not_proven(end):
    assert proven(end, "right", end, "right") == (["right", "right"], [end])


def test_a_build_that_does_not_end_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(proofs, "BUILD_PATIENCE_S", 0.1)
    assert proven("hangs") == ([], [])


@pytest.mark.parametrize(("files", "processors", "count"), [(19, 16, 0), (20, 16, 6), (20, 8, 3), (20, 5, 0)])
def test_many_kernel_files_and_processors_begin_processes(tmp_path, monkeypatch, files, processors, count):
    for at in range(files):
        (tmp_path / f"{at}.cu").touch()
    monkeypatch.setattr(proofs.os, "cpu_count", lambda: processors)
    monkeypatch.setattr(proofs, "Provers", lambda count: count)
    proofs.begin(tmp_path)
    assert (proofs.begun() or 0) == count
    assert proofs.begun() is None
