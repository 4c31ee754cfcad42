"""Runs in several processes, as torchrun starts them: one verdict, one file, one end. Without a GPU."""

import json
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
from rank_processes import pytest_in_ranks

from peakgate.base.errors import CannotDecide, Code
from peakgate.base.ranks import ALONE
from peakgate.device import choose, driver
from peakgate.run import lock
from peakgate.run.loop import RUN_AGAIN, meet, unlike

COLLECTIVES = Path(__file__).parents[1] / "data" / "ranks" / "bench_ranks.py"


@pytest.fixture
def in_ranks(tmp_path):
    """What two ranks make of a file of benchmark tests, and the run file, None without one."""
    (tmp_path / "peakgate.toml").write_text('benchmarks = ["bench_ranks.py"]\n')
    (tmp_path / "bench_ranks.py").write_text(COLLECTIVES.read_text())

    def run(*arguments, more="", size=2):
        with (tmp_path / "bench_ranks.py").open("a") as file:
            file.write(more)
        ended = pytest_in_ranks(tmp_path, "bench_ranks.py", "--benchmark-json=run.json", *arguments, size=size)
        saved = tmp_path / "run.json"
        return ended, json.loads(saved.read_text()) if saved.exists() else None

    return run


def test_what_ranks_do_together_is_proven_in_each_and_saved_once(in_ranks):
    ended, saved = in_ranks("-k", "right")
    assert [each.code for each in ended] == [0, 0], ended
    found = {each["extra_info"]["case"].partition(".")[2]: each["extra_info"] for each in saved["benchmarks"]}
    assert set(found) == {f"bench_right_{name}-2gpu-ranks" for name in ("sum", "copy", "cancellation")}
    for name, entry in found.items():
        assert (entry["verdict"], entry["gpus"], entry["error_over_bound"] is None) == ("NO_FLOOR", 2, False), name
    assert saved["peakgate"]["partial"] is None
    assert "3 RIGHT" in ended[0].output
    assert "RIGHT" not in ended[1].output
    assert "Wrote benchmark data" not in ended[1].output


def test_a_wrong_result_of_any_rank_is_wrong(in_ranks):
    ended, saved = in_ranks("-k", "wrong or right_sum")
    assert [each.code for each in ended] == [1, 1], ended
    failed = {each["case"].partition(".")[2]: each for each in saved["peakgate"]["not_measured"]}
    assert {name: each["verdict"] for name, each in failed.items()} == {
        "bench_wrong_in_rank_1-2gpu-ranks": "WRONG",
        "bench_wrong_in_rank_0-2gpu-ranks": "WRONG",
        "bench_wrong_assertion-2gpu-ranks": "WRONG",
        "bench_wrong_setting-2gpu-ranks": "INCONCLUSIVE",
    }
    assert failed["bench_wrong_in_rank_1-2gpu-ranks"]["reason"].startswith("rank 1: ")
    assert failed["bench_wrong_in_rank_0-2gpu-ranks"]["reason"].startswith("rank 0: ")
    assert [each["extra_info"]["verdict"] for each in saved["benchmarks"]] == ["NO_FLOOR"]


def test_tests_for_other_numbers_of_gpus_are_skipped(in_ranks):
    ended, saved = in_ranks("-k", "other or right_sum")
    assert [each.code for each in ended] == [0, 0], ended
    assert {case.partition(".")[2]: reason for case, reason in saved["peakgate"]["skipped"].items()} == {
        "bench_other_number-4gpu-ranks": "needs 4 GPUs, and 2 processes run it, with a GPU each",
        "bench_other_form": "declares no gpus=, and 2 processes run it, with a GPU each",
        "bench_other_skip-2gpu-ranks": "not here",
    }


IT = "bench_ranks.bench_it-2gpu-ranks"
RAISES = """
@pytest.mark.peakgate(gpus=2)
def bench_it(gpu_benchmark, both):
    gpu_benchmark(lambda: both(1.0) if RANK == 0 else {}["missing"])
"""
IN_A_FIXTURE = """
@pytest.fixture
def prepared():
    assert RANK == 0 or {}["missing"]

@pytest.mark.peakgate(gpus=2)
def bench_it(gpu_benchmark, prepared, both):
    gpu_benchmark(both, 1.0)
"""
IN_A_TEARDOWN = """
@pytest.fixture
def prepared():
    yield
    assert RANK == 0 or {}["missing"]

@pytest.mark.peakgate(gpus=2)
def bench_it(gpu_benchmark, prepared, both):
    gpu_benchmark(both, 1.0)
"""
SKIPS = """
@pytest.mark.peakgate(gpus=2)
def bench_it(gpu_benchmark, both):
    if RANK == 1:
        pytest.skip("no time")
    gpu_benchmark(both, 1.0)
"""
DIES = """
@pytest.mark.peakgate(gpus=2)
def bench_it(gpu_benchmark, both):
    gpu_benchmark(lambda: both(1.0) if RANK == 0 else os._exit(0))
"""
CALLS_MORE = """
@pytest.mark.peakgate(gpus=2)
def bench_it(gpu_benchmark, both):
    ranks.WAIT_LIMIT_S = 0.2
    gpu_benchmark(lambda: (both(1.0), both(1.0)) if RANK == 0 else both(1.0))
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (RAISES, f"rank 1: {IT}: KeyError: 'missing'"),
        (IN_A_FIXTURE, f"rank 1: {IT}: KeyError: 'missing'"),
        (IN_A_TEARDOWN, f"rank 1: {IT}: the test's teardown fails: KeyError: 'missing'"),
        (SKIPS, f"rank 0 is at a call of {IT}, rank 1 skips {IT}"),
        (DIES, "rank 1 of 2 ended before the others"),
        (CALLS_MORE, "0 s passed at "),
    ],
    ids=["raises", "raises in a fixture", "raises in a teardown", "skips", "dies", "waits for a collective"],
)
def test_a_rank_that_others_wait_for_ends_all(in_ranks, text, reason):
    ended, saved = in_ranks("-k", "right_sum or bench_it", more=text)
    assert saved is None, ended
    for rank, each in enumerate(ended):
        if text is not DIES or rank == 0:
            assert each.code == 3, each.output
            *_, line = each.output.splitlines()
            assert line.partition("not measured: ")[2].endswith(f" [{Code.PROCESS}]")
            assert reason in line


def test_ranks_with_other_tests_are_refused(in_ranks):
    ended, saved = in_ranks(more="\nif RANK == 1:\n    bench_other_number = None\n")
    assert (saved, [each.code for each in ended]) == (None, [2, 2]), ended
    for each in ended:
        assert "bench_ranks.bench_other_number-4gpu-ranks" in each.output
        assert f"[{Code.SELECTION}]" in each.output


def test_a_rank_alone_says_which_one_is_missing(in_ranks):
    late = "\nranks.WAIT_LIMIT_S = 0.2\nif RANK == 1:\n    os._exit(0)\n"
    ended, saved = in_ranks(more=late)
    assert (saved, ended[0].code) == (None, 3), ended
    assert "rank 1" in ended[0].output


def test_a_run_in_one_process_knows_the_floors_of_ranks(tmp_path, bench):
    (tmp_path / "peakgate.toml").write_text('benchmarks = ["bench_it.py"]\n')
    (tmp_path / "bench_it.py").write_text(ONE)
    floors = tmp_path / "baselines" / "cpu-emulator" / "floors.toml"
    floors.parent.mkdir(parents=True)
    for case, code in (("bench_it.bench_it-2gpu-ranks", 0), ("bench_it.bench_it-3gpu-ranks", 2)):
        floors.write_text(f'schema = 1\ngpu = "cpu-emulator"\n\n[floors]\n"{case}" = 0.5\n')
        done = bench(tmp_path)
        assert done.returncode == code, done.stdout + done.stderr


ONE = """
import pytest

@pytest.mark.peakgate(gpus=2)
def bench_it(gpu_benchmark):
    gpu_benchmark(int)

def bench_one(gpu_benchmark):
    gpu_benchmark.expect(2)(lambda: 2)
"""


def about(tests=("a.b",), slug="nvidia-h200", uuid="GPU-0"):
    return [list(tests), slug, uuid]


@pytest.mark.parametrize(
    ("other", "code", "undecided"),
    [
        (about(("a.c",)), Code.SELECTION, False),
        (about(slug="nvidia-a10", uuid="GPU-1"), Code.GPU_MODELS, False),
        (about(), Code.NO_GPU, True),
    ],
    ids=["tests", "model", "one GPU"],
)
def test_ranks_that_cannot_measure_together_are_refused(other, code, undecided):
    refusal = unlike([about(), other])
    assert (refusal.code, isinstance(refusal, CannotDecide)) == (code, undecided)


def test_ranks_with_a_gpu_each_or_none_measure_together():
    assert unlike([about(), about(uuid="GPU-1")]) is None
    assert unlike([about(uuid=None)] * 2) is None


def test_two_runs_of_plain_pytest_do_not_share_a_gpu(monkeypatch, tmp_path):
    monkeypatch.delenv(lock.HELD_VARIABLE, raising=False)
    monkeypatch.setattr(lock, "LOCK_FOLDERS", (tmp_path,))
    monkeypatch.setattr(driver, "gpu_uuid", lambda index: f"GPU-{index}")
    session = SimpleNamespace(device=SimpleNamespace(gpus=(0, 1), ranks=ALONE))
    with ExitStack() as locks:
        meet(session, ["a.test"], locks)
        assert len(lock.inherited()) == 2
        monkeypatch.delenv(lock.HELD_VARIABLE)
        with pytest.raises(CannotDecide) as busy, lock.locked("GPU-1", 0.0, RUN_AGAIN):
            pass
    assert (busy.value.code, RUN_AGAIN in busy.value.message) == (Code.BUSY, True)
    assert lock.inherited() == ()


@pytest.mark.parametrize(
    ("choice", "gpus", "opened"),
    [("auto", 2, "gpu:1"), ("gpu", 8, "gpu:1"), ("auto", 1, "auto"), ("auto", 0, "auto"), ("cpu", 2, "cpu")],
)
def test_each_rank_measures_on_a_gpu_of_its_own(monkeypatch, choice, gpus, opened):
    monkeypatch.setattr(driver, "gpu_count", lambda: gpus)
    assert choose._of_rank(choice, 1) == opened
