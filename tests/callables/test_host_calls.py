"""How the host's time of a callable is sampled, with a clock and a GPU that are played; needs CuPy, no GPU."""

import gc
import itertools
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("cupy", exc_type=ImportError)
pytest.importorskip("cuda.bindings.nvrtc", reason="needs NVRTC: the extra cuda12 or cuda13")

from peakgate.base.ranks import ALONE
from peakgate.callables import call as calls
from peakgate.callables import gpu_call, host_call
from peakgate.callables.call import Call
from peakgate.callables.gpu_call import Behaviour
from peakgate.callables.host_call import HostCall
from peakgate.callables.output_check import OutputCheck
from peakgate.callables.settings import Given, case_of
from peakgate.device.interface import Unmeasurable
from peakgate.measure.sampling import SamplingPlan
from peakgate.session.outcome import Proof, WrongResult
from peakgate.session.prover import LEAST_COMPARED, LEAST_LONG_COMPARED, TimedChecks

PLAN = SamplingPlan(min_samples=10, max_samples=40)
QUEUED = Behaviour(waits_for_host=False, batch=6, event_us=5.0)


class Words(np.ndarray):
    """Words of an array in the memory of a GPU that is played."""

    device = type("Device", (), {"id": 0, "__enter__": lambda self: self, "__exit__": lambda *_: None})()


def change(numbered, keys):
    """Give each array another element, at a place by its seed."""
    for words, kept, seed in numbered:
        words[seed % words.size] = kept[seed // 8 % kept.size] + 1.0 + seed % 7


@pytest.fixture(autouse=True)
def processors(monkeypatch):
    """The processors that the thread was moved to; it may run on one."""
    moved = []
    monkeypatch.setattr(host_call.os, "sched_getaffinity", lambda _thread: {3})
    monkeypatch.setattr(host_call.os, "sched_setaffinity", lambda _thread, to: moved.append([*to]))
    return moved


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch):
    cuda = SimpleNamespace(Device=lambda number: nullcontext())
    monkeypatch.setattr(gpu_call, "cupy", SimpleNamespace(asarray=np.asarray, cuda=cuda))
    monkeypatch.setattr(gpu_call, "as_words", lambda array: array.view(Words))
    monkeypatch.setattr(gpu_call, "elements", SimpleNamespace(change=change))


class Played:
    """A call on played devices: ``log`` has each call and each wait for the GPU."""

    def __init__(self, function, behaviour=QUEUED, **options):
        self.log = []
        self.call = Call(function, (np.arange(8.0),), {})
        self.call.run()
        self.call.learn()
        self.case = case_of("a.py::b[launch]", metric="launch")
        stream = SimpleNamespace(synchronize=lambda: self.log.append("idle"))
        rng = np.random.default_rng(1)
        self.device = SimpleNamespace(lost=None, ranks=ALONE, draw=lambda end: int(rng.integers(end)))
        self.launchable = HostCall(self.device, self.case, self.call, stream, behaviour, **options)
        launch = self.call.launch
        self.call.launch = lambda: (self.log.append("call"), launch())

    @property
    def batches(self):
        """The number of calls between waits."""
        return [len([*own]) for each, own in itertools.groupby(self.log) if each == "call"]


def compared(function, behaviour=QUEUED, **given):
    """The proof of a call whose timed calls are compared, and its samples."""
    call = Call(function, (np.arange(8.0),), {})
    checks = OutputCheck(call, Given(reference=lambda x: 2 * x, **given))
    played = Played(function, behaviour, outputs=checks.outputs, fresh=True)
    played.launchable._call = call
    call.run()
    call.learn()
    words = [(array.view(Words), saved.view(Words)) for array, saved in zip(call.arrays, call.saved, strict=True)]
    played.launchable._words = words
    rng = np.random.default_rng(2)
    steps = SimpleNamespace(expect=lambda *_: None)
    timed = TimedChecks(steps, played.case, Proof(0.0, 0, 0.0), checks.timed, rng, once=False)
    return played.launchable.sample(PLAN, timed), timed.proof


def test_a_batch_begins_on_an_idle_gpu_and_its_first_call_is_not_counted(monkeypatch):
    ticks = iter(np.arange(10_000) * 1e-5)
    monkeypatch.setattr(calls, "time", SimpleNamespace(perf_counter=lambda: float(next(ticks))))
    played = Played(lambda x: None)
    found = played.launchable.sample(PLAN)
    assert set(played.batches) == {QUEUED.batch}
    assert len(found.times_us) == sum(played.batches) - len(played.batches)
    assert found.times_us == pytest.approx([10.0] * len(found.times_us))
    assert found.sm_clocks_mhz == (None,) * len(found.times_us)


def test_samples_are_those_of_the_fastest_of_several_processors(monkeypatch, processors):
    now = [0.0]

    def clock():
        now[0] += {4: 6e-6, 7: 4e-6}.get(processors[-1][0], 9e-6)
        return now[0]

    monkeypatch.setattr(host_call.os, "sched_getaffinity", lambda _thread: set(range(1, 17)))
    played = Played(lambda x: None)
    monkeypatch.setattr(calls, "time", SimpleNamespace(perf_counter=clock))
    found = played.launchable.sample(PLAN)
    assert found.times_us == pytest.approx([4.0] * len(found.times_us))
    assert "5 processors" in found.method
    assert processors == [[1], [4], [7], [10], [13], [*range(1, 17)]]


def test_a_long_call_is_timed_on_one_processor(monkeypatch, processors):
    monkeypatch.setattr(host_call, "LONGEST_S", 0.0)
    monkeypatch.setattr(host_call.os, "sched_getaffinity", lambda _thread: {1, 2})
    assert "processors" not in Played(lambda x: None).launchable.sample(PLAN).method
    assert processors == [[1], [1, 2]]


def test_a_call_that_fails_leaves_the_thread_on_all_processors(processors):
    played = Played(lambda x: None)
    played.call.function = lambda x: 1 / 0
    with pytest.raises(ZeroDivisionError):
        played.launchable.sample(PLAN)
    assert processors == [[3], [3]]


def test_a_call_of_many_launches_is_alone_in_its_batch_and_counted():
    played = Played(lambda x: None, Behaviour(False, 1, 5.0))
    found = played.launchable.sample(PLAN)
    assert set(played.batches) == {1}
    assert len(found.times_us) == len(played.batches)


def test_long_calls_get_small_batches_and_few_samples():
    played = Played(lambda x: None, Behaviour(False, 6, 100_000.0))
    assert len(played.launchable.sample(PLAN).times_us) == PLAN.min_samples
    assert set(played.batches) == {2}


def test_a_call_that_waits_for_the_gpu_is_no_launch():
    with pytest.raises(Unmeasurable, match="no launch"):
        Played(lambda x: None, Behaviour(True, 6, 5.0)).launchable.sample(PLAN)


def test_what_a_call_changes_is_put_back_before_each_call():
    seen = []

    def count(x):
        seen.append(float(x[0]))
        x += 1

    found = Played(count).launchable.sample(PLAN)
    assert set(seen) == {0.0}
    assert "put back" in found.method


def test_an_honest_call_is_compared_with_other_contents():
    found, proof = compared(lambda x: 2 * x)
    assert proof.timed >= LEAST_COMPARED
    assert "not excluded" not in found.method


def test_an_honest_call_in_place_is_right_in_every_compared_call():
    def doubled(x):
        x *= 2

    _, proof = compared(doubled, outputs=lambda x: x)
    assert proof.timed >= LEAST_COMPARED


def test_of_long_calls_few_are_compared():
    _, proof = compared(lambda x: 2 * x, Behaviour(False, 6, 100_000.0))
    assert LEAST_LONG_COMPARED <= proof.timed < LEAST_COMPARED


def test_a_stored_result_is_wrong_in_a_timed_call():
    kept = []

    def stored(x):
        kept.append(2 * x)
        return kept[0]

    with pytest.raises(WrongResult, match="timed call"):
        compared(stored)


def test_a_result_that_is_stored_after_the_first_batches_is_wrong(monkeypatch, processors):
    monkeypatch.setattr(host_call.os, "sched_getaffinity", lambda _thread: set(range(5)))
    ticks = itertools.count()
    clock = SimpleNamespace(perf_counter=lambda: next(ticks) * (1e-6 if [4] in processors else 1e-5))
    monkeypatch.setattr(calls, "time", clock)  # the last processor is the fastest
    kept = []

    def stored(x):
        kept.append(2 * x)
        return kept[-1] if len(kept) < 40 else kept[0]

    with pytest.raises(WrongResult, match="timed call"):
        compared(stored)


def test_without_a_compared_call_a_stored_result_is_not_excluded():
    assert "not excluded" in Played(lambda x: None).launchable.sample(PLAN).method


@pytest.mark.parametrize("collects", [True, False])
def test_garbage_is_collected_as_pytest_benchmark_does(collects):
    seen = set()
    played = Played(lambda x: seen.add(gc.isenabled()), collects=collects)
    seen.clear()
    found = played.launchable.sample(PLAN)
    assert seen == {collects}
    assert gc.isenabled()
    assert f"garbage collection {'enabled' if collects else 'disabled'}" in found.method


def test_the_host_has_no_energy():
    assert Played(lambda x: None).launchable.energy(10.0, 3) is None
