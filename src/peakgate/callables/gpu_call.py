"""A callable on the GPU: one stream for all frameworks, a trial of its behaviour, and the sampling of its calls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import cupy

from peakgate.callables.arrays import announce_change, arrays_in, as_words, copy_of, framework, real, restore, span
from peakgate.callables.call import Call
from peakgate.callables.kernels import Launched, launched
from peakgate.callables.unchanged import described
from peakgate.device import elements
from peakgate.device.arrays import room_for
from peakgate.device.driver import persisting_l2_bytes
from peakgate.device.gpu import GpuDevice
from peakgate.device.interface import CallableLaunchable, DeviceLost, SampleChecker, TimedLaunch, Unmeasurable
from peakgate.device.modules import loaded_code
from peakgate.device.state import DeclaredState, footprint_bytes, measured_energy
from peakgate.device.stream import SampleStream, StreamHandle, recorded
from peakgate.judge.activity import Activity
from peakgate.measure.refill import KEY_WORDS, SEEDS, round_keys
from peakgate.measure.sampling import Samples, Sampling, SamplingPlan, let_clock_recover
from peakgate.spec.case import Case
from peakgate.spec.recorded import Energy

# Time for which a trial blocks the GPU, to detect calls that wait for it.
TRIAL_LIMIT_NS = 200_000_000

# Trials, and least calls of each: to wait for several GPUs takes 26 µs, which is divided among the calls.
TRIALS, TRIAL_CALLS = 3, 6

# A call works on other streams if the GPU is busy for longer than this, and this share of the call, after its stream.
LEAST_TAIL_US, LEAST_TAIL_SHARE = 3.0, 0.05

# Work ran before a sample began if the sample is shorter than this share of a call on a busy GPU, less these µs.
EARLY_SHARE, EARLY_US = 0.7, 3.0


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How a callable behaves besides launching on its stream.

    ``batch`` is the number of calls that can be queued at once; ``event_us`` the time of a call queued behind others.
    """

    waits_for_host: bool
    batch: int
    event_us: float


def stream_handle(call: Call, wanted: object = None) -> int:
    """The handle of the stream a callable works on: ``wanted``, a stream among its arguments, or the current one.

    0, the legacy default stream, is the default of CuPy and PyTorch.
    """
    given = [wanted, *call.args, *call.kwargs.values()]
    for candidate in given:
        if candidate is not None and hasattr(type(candidate), "__cuda_stream__"):
            return int(candidate.__cuda_stream__()[1])
    handle = int(cupy.cuda.get_current_stream().ptr)
    torch = sys.modules.get("torch")
    if not handle and torch is not None and torch.cuda.is_initialized():
        handle = int(torch.cuda.current_stream().cuda_stream)
    return handle


@contextmanager
def one_stream(device: GpuDevice, handle: int, largest_batch: int, gpus: int = 1) -> Iterator[SampleStream]:
    """Make a stream current in every imported framework; yields the ``SampleStream`` on it.

    Warp cannot use the legacy default stream: if it is imported, a new stream replaces that. With several GPUs the
    current stream of each is kept.
    """
    with ExitStack() as stack:
        if gpus > 1:
            yield device.sample_stream(largest_batch, gpus)
            return
        warp: Any = sys.modules.get("warp")
        if warp is not None and not handle:
            handle = int(stack.enter_context(cupy.cuda.Stream()).ptr)
        if not handle:
            if device.ranks.size == 1:
                yield device.sample_stream(largest_batch)
            else:  # with the device's own stream each rank measures its roofs by itself
                yield SampleStream(device.facts.l2_bytes, largest_batch, device.gpus, device.ranks)
            return
        stack.enter_context(cupy.cuda.Stream.from_external(StreamHandle(handle)))
        torch: Any = sys.modules.get("torch")
        if torch is not None:
            stack.enter_context(torch.cuda.stream(torch.cuda.ExternalStream(handle)))
        if warp is not None:
            of_device = f"cuda:{device.facts.index}"
            warp.init()  # a stream is refused before
            stack.enter_context(warp.ScopedStream(warp.Stream(of_device, cuda_stream=handle)))
        yield SampleStream(device.facts.l2_bytes, largest_batch, ranks=device.ranks)


def find_out(stream: SampleStream, call: Call, plan: SamplingPlan) -> Behaviour:
    """Whether a callable waits for the host, and how many of its calls can be queued at once, by trials.

    The callable must have run before. Raises Unmeasurable if its work continues after its stream is done.
    """
    for _ in range(plan.warmup):
        call.rewind()
        call.run()
    alone = stream.trial(call.launch, 1, limit_ns=TRIAL_LIMIT_NS)
    batch = max(plan.batch, TRIAL_CALLS)
    if not alone.waited and stream.trial(call.launch, batch, limit_ns=TRIAL_LIMIT_NS).waited:
        batch = 1  # more launches than the driver queues
    limit_ns = None if alone.waited else TRIAL_LIMIT_NS
    trials = [stream.trial(call.launch, batch, limit_ns=limit_ns) for _ in range(TRIALS)]
    idle = [stream.trial(lambda: None, batch, limit_ns=limit_ns) for _ in range(TRIALS)]
    event_us = min(trial.event_us for trial in trials)
    if call.note:  # a launch does what is not timed too
        event_us -= min(stream.trial(call.prepare, batch, limit_ns=limit_ns).event_us for _ in range(TRIALS))
        call.run()  # uses what the last one prepared
    tail_us = min(trial.tail_us for trial in trials) - median(trial.tail_us for trial in idle)
    # Host callbacks, by which JAX frees memory, also keep the GPU from being idle: CUPTI tells them from kernels.
    busy = tail_us > max(LEAST_TAIL_US, LEAST_TAIL_SHARE * event_us)
    if busy and stream.leaves_work(call.launch, batch) is not False:
        raise Unmeasurable(
            f"works on other streams: the GPU is busy for {tail_us:.1f} µs after the measured stream is done "
            f"({event_us:.1f} µs); launch on the current stream, or let it wait for the other one"
        )
    return Behaviour(alone.waited, min(batch, plan.batch), event_us)


class GpuCall(CallableLaunchable):
    """One callable as a case on the GPU; its arrays are not moved."""

    def __init__(
        self,
        device: GpuDevice,
        case: Case,
        call: Call,
        stream: SampleStream,
        behaviour: Behaviour,
        *,
        outputs: Callable[[], Sequence[Any]] | None = None,
        fresh: bool = False,
    ) -> None:
        """``outputs`` returns the last call's outputs; with ``fresh`` the elements of arrays may change."""
        self.case = case
        self._device, self._call, self._stream, self._behaviour = device, call, stream, behaviour
        self._outputs = outputs
        self._seeds: list[int] = []
        self._keys = round_keys(device.ranks.same("its keys", [device.draw(SEEDS) for _ in range(KEY_WORDS)]))
        self._keys_there = cupy.asarray(self._keys)
        self._words: list[tuple[Any, Any]] = []
        """Real arrays as words, each with its elements at the start."""
        self._integers: list[Any] = []
        """Other arrays as words: their elements are exchanged, so that indices stay valid."""
        for at, (array, saved) in enumerate(zip(call.arrays, call.saved, strict=True)):
            words = as_words(array) if fresh and at not in call.left else None
            if words is not None and real(array) and (kept := as_words(saved)) is not None:
                self._words.append((words, kept))
                announce_change(array)
                with words.device:  # loads the kernel, which a blocked stream may wait for
                    elements.change([(words[:2].copy(), kept, 0)], self._keys)
            elif words is not None and not real(array) and at not in call.changed:
                self._integers.append(words)
                announce_change(array)
                with words.device:  # as above
                    elements.exchange(words[:2].copy(), 0, self._keys_there)

    def run(self) -> None:
        """Run the call once on its initial arrays and synchronize each GPU."""
        if self._device.lost:
            raise DeviceLost(self._device.lost)
        self._call.rewind()
        self._stream.synchronize()  # one GPU may read arrays that are restored on another
        self._call.run()
        self._stream.synchronize()

    def sample(self, plan: SamplingPlan, checker: SampleChecker | None = None) -> Samples:
        """Time calls; raises Unmeasurable if part of their work ran before the timed interval.

        Before each sample, untimed, arrays that a call changes are restored, and one word in every 4 KiB of all arrays
        changes, except in ``Call.left``. The checker gets the calls that it requests, with the arrays as each call
        found them. If the process reserves L2 for persisting lines, these are reset before each sample, and batches
        have one sample.
        """
        call, stream, behaviour, facts = self._call, self._stream, self._behaviour, self._device.facts
        blocked = not behaviour.waits_for_host
        checks = checker or SampleChecker(self._device.draw)
        changing = bool(self._words or self._integers)
        ranks = self._device.ranks  # which draw the same numbers, and so change their arrays alike
        renewing = bool(call.note) or ranks.any("contents that change", call.changed or changing)
        change = partial(self._renew, checks.draw) if renewing else None
        state = DeclaredState(
            self.case,
            stream,
            blocked=blocked,
            footprint_bytes=footprint_bytes([span(array) for array in arrays_in([call.arrays, call.result])]),
            by_torch=_by_torch(call),
        )
        state.begin(call.launch, behaviour.batch, call.rewind if call.changed else None)
        ready = state.ready(call.launch)
        power = self._device.power_meter(self.case)
        highest_mhz = ranks.same("its highest clock", facts.sm_clock_max_mhz)
        sampling = Sampling(plan, highest_mhz, checks.owed if self._outputs else lambda _launch_us: 0)
        outputs = self._outputs or tuple
        launch_us: float | None = None
        for index, most in sampling.batches():
            # Persisting lines are reset once per batch.
            count = 1 if ranks.any("persisting lines", persisting_l2_bytes()) else min(most, behaviour.batch)

            # Choose the calls to compare, and allocate memory for their outputs, which the calls cannot see.
            chosen = checks.chosen(count, launch_us, lambda: room_for(outputs())) if self._outputs else {}
            ranks.all(f"batch {index + 1} with calls {sorted(chosen)} compared")
            copies = self._copies(chosen)

            # Queue and time. The outputs of a chosen call are copied right behind it.
            taken = state.batch(
                [ready] * count,
                change=change,
                after={at: partial(copy_all, outputs, copies[at]) for at in chosen},
            )
            launch_us = min(time_us for time_us, _ in taken)
            for at, place in chosen.items():
                where = f"timed call {at + 1} of batch {index + 1}"
                checks.kept[place] = partial(self._timed_call, where, self._seeds[: at + 1], copies.pop(at))
            with self._result_kept():
                checks.make_room(launch_us)

            # Keep undisturbed samples.
            reading = power() if power else None
            if reading is not None:
                reading = replace(reading, steady=all(ranks.all("its power", reading.steady)))
            if not sampling.add(taken, reading):
                let_clock_recover()

        with self._result_kept():
            checks.check_kept(launch_us or 0.0)
        controls = [stream.control() for _ in range(sampling.control_batches if blocked and not state.captures else 0)]
        notes = ["persisting L2 reset"] + (["changed arrays put back before each sample"] if call.changed else [])
        notes.append("contents of arrays change with every call" if changing else "a replayed answer is not excluded")
        notes += filter(None, [described(call.left), call.note])
        if not blocked:
            notes.append("the stream is not blocked, because the callable waits for the host")
        method = state.method(stream.method(blocked=blocked, moved=False))
        samples = sampling.samples(", ".join([method, *notes]), controls)
        if (
            blocked
            and not state.captures
            and samples.times_us
            and samples.median_us < EARLY_SHARE * behaviour.event_us - EARLY_US
        ):
            raise Unmeasurable(
                f"works on other streams: {samples.median_us:.1f} µs on the measured stream, "
                f"{behaviour.event_us:.1f} µs where nothing runs ahead of it; let the other streams wait for it"
            )
        if blocked and not self.case.repeated:
            samples = stream.with_second_clock(samples, call.launch, behaviour.batch, change)
        call.rewind_all()
        memory_gbs = self._device.peaks.memory_gbs if self._device.peaks else None
        return state.shown(samples, facts.l2_bytes, memory_gbs)

    def kernels(self, own: Mapping[str, str]) -> Launched:
        """The kernels of one more call; ``own`` as for ``launched``."""
        self._call.rewind()
        self._call.prepare()
        self._stream.synchronize()

        def run() -> list[float]:
            self._call.run()
            self._stream.synchronize()
            return []

        def observe() -> Sequence[Activity] | None:
            found = recorded(run)
            if found is None:
                run()
            return None if found is None else found[1]

        return launched(observe, own, loaded_code)

    def energy(self, launch_us: float, loops: int) -> Energy | None:
        """The energy of a call, by loops of calls on the arrays as they are, which are restored afterwards.

        None on several GPUs, whose calls would not start together, and for a call that needs other work before it.
        """
        if self.case.gpus > 1 or self._call.note:
            return None
        call = self._call
        found = measured_energy(
            self._device.energy_meter,
            call.launch,
            launch_us,
            loops,
            by_torch=_by_torch(call),
            waits=self._behaviour.waits_for_host,
        )
        call.rewind_all()
        return found

    def _copies(self, chosen: Collection[int]) -> dict[int, list[Any]]:
        """Room for the outputs of each chosen call; if any is, undo the changes of batches without compared calls."""
        if not chosen:
            return {}
        self._call.rewind_all()
        self._seeds.clear()
        outputs = self._outputs or tuple
        return {at: [copy_of(each) if framework(each) else each for each in outputs()] for at in chosen}

    def _renew(self, draw: Callable[[int], int]) -> None:
        """Restore the arrays that calls change, replace some words of all arrays, and prepare the call."""
        self._call.rewind()
        self._seeds.append(draw(SEEDS))
        self._change(self._seeds[-1])
        self._call.prepare()

    def _timed_call(self, where: str, seeds: Sequence[int], outputs: Sequence[Any]) -> TimedLaunch:
        """A timed call, with the arrays as it found them: changed by these seeds, in the same way as by ``_renew``."""
        self._call.rewind_all()
        for seed in seeds:
            self._call.rewind()
            self._change(seed)
        return TimedLaunch(self.case, where, self._call.arrays, outputs)

    @contextmanager
    def _result_kept(self) -> Iterator[None]:
        """Put the last call's result back after the block, in which calls are checked."""
        result = self._call.result
        yield
        self._call.result = result

    def _change(self, seed: int) -> None:
        by_gpu: dict[int, list[tuple[Any, Any, int]]] = {}
        for at, (words, kept) in enumerate(self._words):
            by_gpu.setdefault(words.device.id, []).append((words, kept, seed + at))
        for gpu, numbered in by_gpu.items():
            with cupy.cuda.Device(gpu):
                elements.change(numbered, self._keys)
        for at, words in enumerate(self._integers):
            with words.device:
                elements.exchange(words, seed + len(self._words) + at, self._keys_there)


def _by_torch(call: Call) -> bool:
    return any(framework(array) == "torch" for array in arrays_in([call.arrays, call.result]))


def copy_all(outputs: Callable[[], Sequence[Any]], copies: list[Any]) -> None:
    """Copy the last call's outputs, in stream order, into ``copies``, reusing its memory; keep numbers."""
    found = outputs()
    for at, output in enumerate(found):
        reusable = at < len(copies) and framework(copies[at]) not in (None, "exchanged")
        if framework(output) and reusable and copies[at].shape == output.shape:
            restore(copies[at], output)
        else:
            copies[at : at + 1] = [copy_of(output) if framework(output) else output]
    del copies[len(found) :]
