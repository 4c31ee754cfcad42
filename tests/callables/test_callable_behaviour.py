"""What is found out of a callable before it is sampled, with a stream that plays back trials; needs CuPy, no GPU."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("cupy", exc_type=ImportError)
pytest.importorskip("cuda.bindings.nvrtc", reason="needs NVRTC: the extra cuda12 or cuda13")

from peakgate.base.ranks import ALONE
from peakgate.callables import gpu_call as measured
from peakgate.callables.call import Call
from peakgate.callables.settings import case_of
from peakgate.device.interface import DeviceLost, Unmeasurable
from peakgate.device.state import footprint_bytes
from peakgate.device.stream import Trial
from peakgate.judge.metrics import Peaks
from peakgate.measure.sampling import ONE_BATCH, SamplingPlan

PLAN = SamplingPlan(min_samples=4, max_samples=12)


class Stream:
    """Plays back trials by a rule of count and limit, and samples of one length."""

    def __init__(self, trial, time_us=100.0, leaves_work=None):
        self._trial, self._time_us, self._leaves_work = trial, time_us, leaves_work
        self.batches = []

    def leaves_work(self, launch, count):
        return self._leaves_work

    def trial(self, launch, count, *, limit_ns):
        launch()
        return self._trial(launch, count, limit_ns)

    def batch(self, launches, *, blocked, before=None, after=None, prime=None):
        self.batches.append((len(launches), blocked))
        for launch in launches:
            for each in (before, prime, launch):
                if each is not None:
                    each()
        return [(self._time_us, None)] * len(launches)

    def synchronize(self):
        self.batches.append("idle")

    def control(self):
        return [(3.5, None)] * PLAN.batch

    @staticmethod
    def with_second_clock(samples, *_):
        return samples

    @staticmethod
    def method(*, blocked, moved):
        return "blocked" if blocked else "not blocked"


def idle(launch):
    """Whether a trial is of no call: the time that the stream itself takes."""
    return not isinstance(getattr(launch, "__self__", None), Call)


def device_of(lost=None):
    facts = SimpleNamespace(sm_clock_max_mhz=2000.0, l2_bytes=50_000_000)
    drawn = {"draw": lambda end: 0, "ranks": ALONE, "power_meter": lambda case: None}
    return SimpleNamespace(facts=facts, peaks=Peaks(4800.0, 60.0, ""), lost=lost, **drawn)


def launchable(call, stream, behaviour, *, lost=None, state="cold"):
    return measured.GpuCall(device_of(lost), case_of("a.py::b", state), call, stream, behaviour)


@pytest.fixture(autouse=True)
def _no_driver(monkeypatch):
    monkeypatch.setattr(measured, "persisting_l2_bytes", lambda: 0)
    monkeypatch.setattr(measured, "cupy", SimpleNamespace(asarray=np.asarray))


def test_what_the_host_takes_to_see_the_end_is_no_other_stream_where_one_sample_is_wanted():
    def trial(launch, count, limit_ns):
        return Trial(False, 0.0 if idle(launch) else 470.0, (2.0 if idle(launch) else 28.0) / count)

    found = measured.find_out(Stream(trial), Call(lambda: None, (), {}), ONE_BATCH)
    assert found == measured.Behaviour(False, 1, 470.0)


def test_a_callable_that_only_launches_is_sampled_in_blocked_batches():
    stream = Stream(lambda launch, count, limit_ns: Trial(False, 0.0 if idle(launch) else 90.0, 1.0))
    behaviour = measured.find_out(stream, Call(lambda: None, (), {}), PLAN)
    assert behaviour == measured.Behaviour(False, PLAN.batch, 90.0)
    samples = launchable(Call(lambda: None, (), {}), stream, behaviour).sample(PLAN)
    assert samples.median_us == 100.0
    assert set(stream.batches) == {(PLAN.batch, True)}


def test_one_that_waits_for_the_host_is_sampled_unblocked_and_the_record_says_so():
    stream = Stream(lambda launch, count, limit_ns: Trial(limit_ns is not None and not idle(launch), 90.0, 1.0))
    behaviour = measured.find_out(stream, Call(lambda: None, (), {}), PLAN)
    assert behaviour.waits_for_host
    samples = launchable(Call(lambda: None, (), {}), stream, behaviour).sample(PLAN)
    assert {blocked for _, blocked in stream.batches} == {False}
    assert "for the host" in samples.method


def test_one_of_more_launches_than_the_driver_queues_is_sampled_one_at_a_time():
    stream = Stream(lambda launch, count, limit_ns: Trial(count > 1, 90.0, 1.0))
    assert measured.find_out(stream, Call(lambda: None, (), {}), PLAN) == measured.Behaviour(False, 1, 90.0)


@pytest.mark.parametrize("recorded", [None, True], ids=["without CUPTI", "recorded by CUPTI"])
def test_work_that_goes_on_after_the_stream_is_refused_in_one_line(recorded):
    stream = Stream(lambda launch, count, limit_ns: Trial(False, 3.0, 1.0 if idle(launch) else 140.0), 100.0, recorded)
    with pytest.raises(Unmeasurable, match=r"works on other streams: the GPU is busy for 139\.0 µs"):
        measured.find_out(stream, Call(lambda: None, (), {}), PLAN)


def test_host_callbacks_after_the_stream_are_no_work_where_cupti_records_none():
    stream = Stream(lambda launch, count, limit_ns: Trial(False, 90.0, 1.0 if idle(launch) else 140.0), 100.0, False)
    assert measured.find_out(stream, Call(lambda: None, (), {}), PLAN) == measured.Behaviour(False, PLAN.batch, 90.0)


def test_work_that_ran_ahead_of_the_sample_is_refused():
    stream = Stream(lambda launch, count, limit_ns: Trial(False, 130.0, 1.0), time_us=2.0)
    behaviour = measured.find_out(stream, Call(lambda: None, (), {}), PLAN)
    with pytest.raises(Unmeasurable, match=r"2\.0 µs on the measured stream, 130\.0 µs where nothing runs ahead"):
        launchable(Call(lambda: None, (), {}), stream, behaviour).sample(PLAN)


def test_where_l2_is_reserved_for_persisting_lines_samples_come_one_at_a_time(monkeypatch):
    monkeypatch.setattr(measured, "persisting_l2_bytes", lambda: 1 << 20)
    stream = Stream(lambda launch, count, limit_ns: Trial(False, 90.0, 1.0))
    launchable(Call(lambda: None, (), {}), stream, measured.Behaviour(False, 6, 90.0)).sample(PLAN)
    assert {count for count, _ in stream.batches} == {1}


def counting(x):
    """A call that ran once and adds 1 to an array, and the first elements that it found."""
    seen = []

    def count(array):
        seen.append(float(array[0]))
        array += 1

    call = Call(count, (x,), {})
    call.run()
    call.learn()
    return call, seen


def test_what_a_call_changes_is_put_back_before_each_sample():
    call, seen = counting(np.zeros(3))
    stream = Stream(lambda launch, count, limit_ns: Trial(False, 90.0, 1.0))
    found = launchable(call, stream, measured.Behaviour(False, 6, 90.0)).sample(PLAN)
    assert set(seen) == {0.0}
    assert "put back" in found.method


def test_a_warm_call_follows_one_like_it_and_starts_from_the_same_contents():
    x = np.zeros(1 << 20)
    call, seen = counting(x)
    seen.clear()
    stream = Stream(lambda launch, count, limit_ns: Trial(False, 90.0, 1.0))
    found = launchable(call, stream, measured.Behaviour(False, 6, 90.0), state="warm").sample(PLAN)
    assert seen[7::2] == [0.0] * len(found.times_us)
    assert (found.first_us, found.footprint_bytes) == (100.0, x.nbytes)
    assert "not shown" not in (found.doubt or "")
    assert "right behind" in found.method


def test_memory_that_arrays_share_counts_once():
    assert footprint_bytes([(0, 100), (200, 250), (50, 150), (60, 70)]) == 200


def test_after_a_lost_device_nothing_runs():
    with pytest.raises(DeviceLost, match="gone"):
        launchable(Call(lambda: None, (), {}), None, measured.Behaviour(False, 6, 0.0), lost="gone").run()
