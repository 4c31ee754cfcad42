"""What a batch of samples queues on which GPU, on GPUs whose streams only add up times; needs CuPy, no GPU."""

from types import SimpleNamespace

import numpy as np
import pytest
from rank_processes import in_ranks

pytest.importorskip("cupy", exc_type=ImportError)

from peakgate.base.ranks import ALONE, started
from peakgate.device import stream as sampled
from peakgate.device.stream import SampleStream
from peakgate.judge.activity import STAMP, Activity

RELEASED_US, FLUSH_US, STAMP_US, CONTROL_US = 1000.0, (20.0, 35.0), 1.0, 3.5


class Stream:
    """A stream of one GPU, by when it will be done with what it was given."""

    def __init__(self, machine, gpu):
        self.machine, self.gpu, self.done_us = machine, gpu, 0.0

    def __enter__(self):
        assert self.machine.current == self.gpu
        return self

    def __exit__(self, *_):
        pass

    def work(self, time_us):
        assert self.machine.current == self.gpu
        self.done_us += time_us

    def wait_event(self, event):
        self.machine.waits += 1
        self.done_us = max(self.done_us, event.done_us)

    def synchronize(self):
        assert self.machine.current == self.gpu


class Event:
    done = False

    def __init__(self, **_):
        self.done_us, self.gpu = 0.0, None

    def record(self, stream):
        self.done_us, self.gpu = stream.done_us, stream.gpu

    def synchronize(self):
        pass


def elapsed_ms(start, stop):
    assert start.gpu == stop.gpu
    return (stop.done_us - start.done_us) / 1e3


class Device:
    """A GPU, which is the current one in a ``with`` block."""

    def __init__(self, machine, gpu):
        self.id, self._machine = gpu, machine
        self.attributes = {"MaxThreadsPerMultiProcessor": 2048, "MultiProcessorCount": 132}

    def __enter__(self):
        self._before, self._machine.current = self._machine.current, self.id

    def __exit__(self, *_):
        self._machine.current = self._before


class Machine:
    """CuPy, as far as a stream of samples uses it, on this many GPUs."""

    def __init__(self, gpus):
        self.current, self.waits, self.synchronized = 0, 0, []
        self.streams = [Stream(self, gpu) for gpu in range(gpus)]
        self.uint8, self.uint64 = np.uint8, np.uint64
        self.cuda = SimpleNamespace(
            Device=self.device,
            Event=Event,
            get_current_stream=lambda: self.streams[self.current],
            get_elapsed_time=elapsed_ms,
            alloc_pinned_memory=lambda size: SimpleNamespace(ptr=0, buffer=np.zeros(size, np.uint8)),
            runtime=SimpleNamespace(deviceSynchronize=lambda: self.synchronized.append(self.current)),
        )

    def device(self, gpu=None):
        return Device(self, self.current if gpu is None else gpu)

    def empty(self, shape, _dtype):
        data = SimpleNamespace(memset_async=lambda _value, _size, stream: stream.work(FLUSH_US[self.current]))
        return OnGpu(np.zeros(shape, np.uint64), self.current, data)

    @staticmethod
    def asnumpy(array):
        return array.values

    def RawModule(self, **_):  # noqa: N802
        return SimpleNamespace(get_function=lambda name: getattr(self, name))

    def hold(self, *_):
        self.streams[self.current].done_us = RELEASED_US

    def stamp(self, _grid, _block, arguments):
        assert arguments[0].gpu == self.current
        self.streams[self.current].work(STAMP_US)

    def control(self, _grid, _block, arguments):
        assert arguments[1].gpu == self.current
        self.streams[self.current].work(CONTROL_US)


class OnGpu:
    """An array of one GPU."""

    def __init__(self, values, gpu, data):
        self.values, self.gpu, self.data, self.nbytes = values, gpu, data, values.nbytes

    def __getitem__(self, key):
        return OnGpu(self.values[key], self.gpu, self.data)


@pytest.fixture
def machine(monkeypatch):
    def made(gpus, ranks=ALONE):
        machine = Machine(gpus)
        monkeypatch.setattr(sampled, "cupy", machine)
        monkeypatch.setattr(sampled.np, "frombuffer", lambda memory, dtype, count: np.zeros(count, dtype))
        monkeypatch.setattr(sampled.driver, "reset_persisting_l2", lambda: None)
        return machine, SampleStream(1 << 20, 4, range(gpus), ranks)

    return made


def on(machine, *times_us):
    """A launch that takes so long on each GPU."""

    def launch():
        assert machine.current == 0
        for gpu, time_us in enumerate(times_us):
            with machine.device(gpu):
                machine.streams[gpu].work(time_us)

    return launch


def test_a_sample_takes_as_long_as_on_the_slowest_gpu(machine):
    gpus, stream = machine(2)
    for slow_before in ((0.0, 0.0), (300.0, 0.0), (0.0, 500.0)):
        taken = stream.batch([on(gpus, 10.0, 25.0)] * 4, blocked=True, before=on(gpus, *slow_before))
        assert [time_us for time_us, _ in taken] == pytest.approx([25.0] * 4)


@pytest.mark.parametrize("slow_before", [(0.0, 0.0), (300.0, 0.0), (0.0, 500.0)])
def test_what_one_gpu_waits_for_begins_on_all_of_them_together(machine, slow_before):
    gpus, stream = machine(2)

    def collective():
        done_us = max(each.done_us for each in gpus.streams) + 25.0
        for each in gpus.streams:
            each.done_us = done_us

    taken = stream.batch([collective] * 4, blocked=True, before=on(gpus, *slow_before))
    assert [time_us for time_us, _ in taken] == pytest.approx([25.0] * 4)


def test_no_gpu_goes_on_before_all_are_done(machine):
    gpus, stream = machine(2)
    seen = []

    def after():
        seen.append([each.done_us for each in gpus.streams])

    stream.batch([on(gpus, 40.0, 5.0)] * 3, blocked=False, after=dict.fromkeys(range(3), after))
    assert len(seen) == 3
    assert all(first == second for first, second in seen)


def test_every_gpu_is_flushed_and_the_first_is_current_again(machine):
    gpus, stream = machine(2)
    stream.batch([on(gpus, 0.0, 0.0)], blocked=True)
    assert gpus.streams[1].done_us == RELEASED_US + FLUSH_US[1] + 2 * STAMP_US
    assert gpus.current == 0
    assert stream.clock_mhz() is None
    stream.synchronize()
    assert gpus.synchronized == [0, 1]


def test_a_trial_takes_as_long_as_the_slowest_too(machine):
    gpus, stream = machine(2)
    assert stream.trial(on(gpus, 10.0, 30.0), 3, limit_ns=1000).event_us == pytest.approx(30.0)
    assert stream.trial(on(gpus, 70.0, 0.0), 3, limit_ns=None).event_us == pytest.approx(70.0)


def test_one_gpu_waits_for_nobody(machine):
    gpus, stream = machine(1)
    taken = stream.batch([on(gpus, 10.0)] * 4, blocked=True)
    assert [time_us for time_us, _ in taken] == pytest.approx([10.0] * 4)
    assert [time_us for time_us, _ in stream.control()] == pytest.approx([CONTROL_US] * 4)
    assert gpus.waits == 0
    assert "GPUs" not in stream.method(blocked=True, moved=False)


def test_the_control_kernel_of_several_gpus_runs_on_the_first(machine):
    _, stream = machine(2)
    assert [time_us for time_us, _ in stream.control()] == pytest.approx([CONTROL_US] * 4)
    assert "2 GPUs" in stream.method(blocked=True, moved=False)


def test_ranks_have_the_times_of_the_slowest(machine, tmp_path):
    def run():
        rank = started()
        rank.connect()
        gpus, stream = machine(1, rank)
        times_us = [10.0, 40.0, 10.0] if rank.rank else [20.0, 30.0, 50.0]
        taken = stream.batch([on(gpus, each) for each in times_us], blocked=True)
        unblocked = stream.batch([on(gpus, 7.0 + rank.rank)], blocked=False)
        trial = stream.trial(on(gpus, 10.0 * (1 + rank.rank)), 3, limit_ns=1000)
        unknown = stream.leaves_work(on(gpus, 1.0), 1), stream.with_second_clock(None, on(gpus, 1.0), 1)
        rank.finish()
        rank.close()
        found = [time_us for time_us, _ in (*taken, *unblocked)]
        return [found, trial.event_us, trial.waited, unknown, stream.method(blocked=True, moved=False)]

    first, second = in_ranks(tmp_path, run)
    assert first.value == second.value
    times_us, event_us, waited, unknown, method = first.value
    assert times_us == pytest.approx([20.0, 40.0, 50.0, 8.0])
    assert (event_us, waited, unknown) == (pytest.approx(20.0), False, [None, None])
    assert "2 processes" in method


STAMPED = Activity(STAMP, 100, 101, 7)


@pytest.mark.parametrize(
    ("recorded", "leaves"),
    [
        (None, None),
        ([], None),
        ([Activity("kernel", 0, 90, 7)], None),
        ([Activity("kernel", 0, 90, 13), STAMPED], False),
        ([Activity("kernel", 0, 190, 13), STAMPED], True),
    ],
    ids=["without CUPTI", "nothing recorded", "without the end", "work before the end", "work after the end"],
)
def test_work_after_a_stream_is_known_where_its_end_is_recorded(machine, monkeypatch, recorded, leaves):
    gpus, stream = machine(1)
    launched = []

    def record(run):
        run()
        return None if recorded is None else ([], recorded)

    monkeypatch.setattr(sampled, "recorded", record)
    assert stream.leaves_work(lambda: launched.append(gpus.current), 3) is leaves
    assert launched == [0] * 3
