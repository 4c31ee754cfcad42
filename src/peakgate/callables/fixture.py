"""``gpu_benchmark``: any callable as a case, checked, timed and judged like a kernel."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import nearest, shown
from peakgate.base.verdict import Judgement, Verdict
from peakgate.callables.arrays import dtype_name, wait_for
from peakgate.callables.backward import BackwardCall
from peakgate.callables.call import Call, out_of_memory
from peakgate.callables.cpu_call import CpuCall, lacks_gpu
from peakgate.callables.kernels import choices
from peakgate.callables.loaded import as_call, code_of
from peakgate.callables.output_check import OutputCheck
from peakgate.callables.settings import PARTS_KEY, case_of, collects_garbage, given_by, too_few
from peakgate.callables.values import NotAnArray
from peakgate.device.driver import gpu_count
from peakgate.device.interface import CallableLaunchable, DeviceLost, KernelFault, TimedLaunch, Unmeasurable
from peakgate.judge.correctness import Deviation
from peakgate.judge.floors import NO_REFERENCE, UNCHECKED
from peakgate.measure.limits import HOST_LIMIT_S
from peakgate.measure.sampling import Samples
from peakgate.session.outcome import Outcome, Proof, ReplayFixture, ReplayTimer, WrongResult, extra_info, raise_for
from peakgate.session.session import Session
from peakgate.spec import dtypes
from peakgate.spec.case import Buffer, Case, Role
from peakgate.spec.stage import MATH_OF_INPUTS, Work, default_roof

if TYPE_CHECKING:  # a machine without a GPU has no CuPy
    from peakgate.callables.gpu_call import Behaviour, GpuCall
    from peakgate.device.gpu import GpuDevice
    from peakgate.device.stream import SampleStream


class GpuBenchmark(ReplayFixture):
    """The fixture: call it as pytest-benchmark's ``benchmark``.

    ``group``, ``extra_info``, ``name`` and ``stats`` are those of pytest-benchmark. ``gpus`` are the CUDA indices of
    the test's GPUs; the test is skipped if the run has fewer than it needs. In a process per GPU it is this process's.
    """

    def __init__(self, node: pytest.Item, session: Session, benchmark: BenchmarkFixture, timer: ReplayTimer) -> None:
        super().__init__(session, benchmark, timer)
        self._node = node
        self._given = given_by(node)
        listed = case_of(node.nodeid, self._given.state, max(1, self._given.gpus), self._given.metric)
        self._listed = replace(listed, parts=node.stash.get(PARTS_KEY, ()))
        has = session.device.gpus
        self._ranks = session.device.ranks
        if (lacking := too_few(self._given.gpus, len(has), gpu_count(), self._ranks.size)) is not None:
            pytest.skip(f"{self._listed.id}: {lacking}")
        benchmark.fullname = f"peakgate::{self._listed.id}"  # runs are compared by it
        self.gpus = has[: max(1, self._given.gpus) if self._ranks.size == 1 else 1]
        self.outcome: Outcome | None = None
        self.called = False
        self._call: Call | None = None

    @property
    def xp(self) -> Any:
        """The array module of the device: CuPy, or NumPy without a GPU."""
        return self._session.device.xp

    @property
    def raised(self) -> BaseException | None:
        """What the callable raised."""
        return None if self._call is None else self._call.raised

    @property
    def compares(self) -> bool:
        """Whether results are compared with a reference."""
        return self._given.reference is not None

    @property
    def name(self) -> str:
        return str(self.benchmark.name)

    @property
    def stats(self) -> Any:
        return self.benchmark.stats

    def work(
        self,
        bytes: object = None,  # noqa: A002
        flops: object = None,
        peak_tflops: float | None = None,
        math: str | None = None,
        **unknown: object,
    ) -> GpuBenchmark:
        """Declare the least work of one call; see ``Given``. Another name fails the test."""
        self._refuse_names("work", unknown, ("bytes", "flops", "peak_tflops", "math"))
        self._given = replace(self._given, bytes=bytes, flops=flops, peak_tflops=peak_tflops, math=math)
        return self

    def expect(
        self,
        reference: object = None,
        *,
        tolerance: float | None = None,
        atol: float = 0.0,
        rtol: float | None = None,
        outputs: object = None,
        fresh: object = True,
        **unknown: object,
    ) -> GpuBenchmark:
        """Declare the expected result; see ``Given``. Another name fails the test."""
        self._refuse_names("expect", unknown, ("reference", "tolerance", "atol", "rtol", "outputs", "fresh"))
        self._given = replace(
            self._given,
            reference=reference,
            tolerance=tolerance,
            atol=atol,
            rtol=rtol,
            outputs=outputs,
            fresh=fresh,
        )
        return self

    def tuned(self, choice: object) -> GpuBenchmark:
        """Declare what your own tuner chose: a mapping by kernel, or a function of the arguments that returns it."""
        self._given = replace(self._given, tuned=choice)
        return self

    def on(self, stream: object) -> GpuBenchmark:
        """Declare the stream that the callable works on: an object with ``__cuda_stream__``."""
        self._given = replace(self._given, stream=stream)
        return self

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Prove, time and judge one callable; returns its result. The test fails if the verdict does.

        A kernel of ``load_kernel`` or CuPy is passed with its launch: ``(kernel, grid, block, arguments)``.
        """
        return self._called(function, lambda: Call(*as_call(function, args, kwargs)))

    def backward(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """As a call, for the backward pass of a PyTorch function alone; returns the gradients of its arguments.

        They are of every argument that requires a gradient, for random gradients of the outputs. The forward pass is
        not timed. Expected are the gradients of the function itself in float64, or of the function in ``reference``.
        """
        given = self._given
        other = {"outputs": given.outputs is not None, "state": given.state != "cold", "metric": given.metric != "gpu"}
        for name in (name for name, is_given in other.items() if is_given):
            self._refuse(
                f"gpu_benchmark.backward with {name}={shown(getattr(given, name))}; expected none: its outputs are the "
                "gradients, and it is measured cold, on the GPU"
            )
        if given.reference is None:
            self._given = replace(given, reference=function)
        return self._called(function, lambda: BackwardCall(function, args, kwargs))

    def _called(self, function: object, make: Callable[[], Call]) -> Any:
        if self.called:
            self.benchmark.has_error = True  # discards the first measurement
            self._refuse("gpu_benchmark measures one callable per test, and is called twice; parametrize the test")
        self.called = True
        if not callable(function):
            self._refuse(f"gpu_benchmark is given {shown(function)}; expected a function and its arguments")
        try:
            self._call = call = make()
            call.ranks = self._ranks
            call.prepare()
            wait_for(call.arrays)  # they are copied on the current stream, which may not be the callable's
        except PeakgateError as error:
            self._fail(self._listed, error)
        except Exception as error:
            if (full := _no_room(error)) is not None:
                self._fail(self._listed, full)
            raise
        session = self._session
        if session.device.kind == "cpu" or not session.timed:
            return self._once(call)
        return self._measured(call, session, code_of(function))

    def pedantic(
        self,
        target: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        setup: Callable[[], tuple[Sequence[Any], Mapping[str, Any]] | None] | None = None,
        *,
        teardown: Callable[..., Any] | None = None,
        rounds: int = 1,  # noqa: ARG002  (pytest-benchmark's)
        warmup_rounds: int = 0,  # noqa: ARG002
        iterations: int = 1,  # noqa: ARG002
    ) -> Any:
        """As ``gpu_benchmark(target, *args, **kwargs)``, with the parameters of pytest-benchmark's ``pedantic``.

        ``setup`` is called once, and may return the arguments, ``teardown`` once behind it: arrays that a call changes
        are restored before each sample. The numbers of rounds and iterations follow from the spread, not from these.
        """
        given = setup() if setup else None
        args, kwargs = (args, kwargs or {}) if given is None else given
        try:
            return self(target, *args, **kwargs)
        finally:
            if teardown:
                teardown(*args, **kwargs)

    def _once(self, call: Call) -> Any:
        """Run and check it without a GPU or without timing: on its own inputs and on fresh ones."""
        case = self._listed
        try:
            case = self._case(call)
            output_check = OutputCheck(call, self._given) if self.compares else None
            launchable = CpuCall(case, call)
            launchable.run()
            proof = output_check.first() if output_check else None
            # An output may have held the right result before the run.
            checked = output_check.on_fresh_inputs(launchable.run) if output_check else ""
            tuned = self._given.choices(call)
        except (WrongResult, KernelFault, NotAnArray, PeakgateError, MemoryError) as error:
            if isinstance(error.__cause__, Exception) and not gpu_count() and lacks_gpu(error.__cause__):
                raise error.__cause__ from None  # a reference that needs a GPU: the test is skipped
            self._fail(case, _wrong(error))
        session = self._session
        right = "right" if proof is not None else NO_REFERENCE
        if case.of_host:
            untimed = Judgement(Verdict.NO_FLOOR, f"{right}; ran once on the CPU, where nothing is launched: not timed")
            self._keep(replace(session.untimed(case, proof, right), judgement=untimed), Samples((), (), 0, ""))
        elif session.timed:
            samples, _ = session.sample(launchable, None, 0.0, None)
            if output_check:
                samples = replace(samples, method=f"{samples.method}, {checked}")
                launchable.case = replace(case, tolerance=output_check.tolerance)
            outcome = session.judged(launchable, proof, samples)
            judgement = Judgement(Verdict.NO_FLOOR, f"{right}; ran once on the CPU, speed not judged")
            self._keep(replace(outcome, judgement=judgement, tuned=tuned), samples)
        else:
            self._keep(session.untimed(case, proof, right), Samples((), (), 0, ""))
        return call.result

    def _measured(self, call: Call, session: Session, own: Mapping[str, str]) -> Any:
        from peakgate.callables.gpu_call import find_out, one_stream, stream_handle  # noqa: PLC0415
        from peakgate.device.gpu import GpuDevice  # noqa: PLC0415  (only a machine with a GPU has CuPy)

        device = session.device
        assert isinstance(device, GpuDevice)
        case = self._listed
        self._refuse_elsewhere(call, session)
        try:
            handle, gpus = stream_handle(call, self._given.stream), len(self.gpus)
            with one_stream(device, handle, session.plan.batch, gpus) as stream:
                case = self._case(call)
                output_check = OutputCheck(call, self._given) if self.compares and session.checks else None
                call.run()  # the first call may compile
                stream.synchronize()
                call.learn()
                proof = output_check.first() if output_check else None
                behaviour = find_out(stream, call, session.plan)
                case = replace(case, stage=replace(case.stage, host_bound=behaviour.waits_for_host))
                launchable = self._launchable(device, case, call, stream, behaviour, output_check=output_check)
                start = time.perf_counter()
                launchable.run()
                launch_s = max(self._ranks.all("the time of a call", time.perf_counter() - start))
                samples, proof = self._sampled(
                    session, launchable, proof, launch_s, output_check.timed if output_check else None
                )
                session.steps.expect("a benchmark test", HOST_LIMIT_S, case.id)
                if output_check:
                    checked = output_check.on_fresh_inputs(launchable.run)
                    samples = replace(samples, method=f"{samples.method}, {checked}")
                launchable.run()
                if output_check:
                    output_check.check("after it was timed: ")
                kernels, tuned = launchable.kernels(own), self._given.choices(call) or choices(launchable.run)
                energy = session.energy_of(launchable, samples)
        except (WrongResult, NotAnArray) as error:
            self._fail(case, _wrong(error))
        except (DeviceLost, Unmeasurable, PeakgateError) as error:
            self._fail(case, _fault_behind(device, case, error) or error)
        except Exception as error:
            if self._ranks.size > 1:  # it ends all of them; this GPU may wait for theirs
                raise
            if (full := _no_room(error)) is not None:
                self._fail(case, full)
            found = device.faulted(case, error)
            if device.lost or isinstance(found, MemoryError):
                self._fail(case, found)
            raise
        if output_check:
            launchable.case = replace(case, tolerance=output_check.tolerance)
        outcome = replace(
            session.judged(launchable, proof, samples),
            fingerprint=None if case.of_host else kernels.fingerprint,  # which says nothing of the host's code
            kernels=kernels.codes,
            tuned=tuned,
            energy=energy,
        )
        self._keep(replace(outcome, judgement=_judged(outcome, launchable.case)), samples)
        return call.result

    def _launchable(
        self,
        device: GpuDevice,
        case: Case,
        call: Call,
        stream: SampleStream,
        behaviour: Behaviour,
        *,
        output_check: OutputCheck | None,
    ) -> GpuCall:
        """The callable as a case of its metric."""
        from peakgate.callables.gpu_call import GpuCall  # noqa: PLC0415  (as above)
        from peakgate.callables.host_call import HostCall  # noqa: PLC0415  (as above)

        outputs, fresh = output_check.outputs if output_check else None, bool(self._given.fresh)
        of_call = device, case, call, stream, behaviour
        if case.of_host:
            return HostCall(*of_call, outputs=outputs, fresh=fresh, collects=collects_garbage(self._node))
        return GpuCall(*of_call, outputs=outputs, fresh=fresh)

    def _refuse_elsewhere(self, call: Call, session: Session) -> None:
        """Fail the test if the GPU is lost, or if another GPU than the test's holds an array."""
        if session.device.lost:
            self._fail(self._listed, DeviceLost(session.device.lost))
        if (other := call.elsewhere(self.gpus)) is not None:
            measured = f"an array is on GPU {other}, the run measures gpu:{','.join(map(str, self.gpus))}"
            self._fail(
                self._listed, PeakgateError(f"{measured}; choose the GPU with CUDA_VISIBLE_DEVICES", Code.NO_GPU)
            )

    def _sampled(
        self,
        session: Session,
        launchable: CallableLaunchable,
        proof: Proof | None,
        launch_s: float,
        compare: Callable[[TimedLaunch], Deviation] | None,
    ) -> tuple[Samples, Proof | None]:
        """Time a callable that was right; raises Unmeasurable if its captured graph is wrong."""
        try:
            return session.sample(launchable, proof, launch_s, compare)
        except WrongResult as error:
            if launchable.case.state != "graph":
                raise
            raise Unmeasurable(
                f"state graph not shown: {error}; a plain call is right, so the callable keeps state, works in "
                "place, or its graph differs"
            ) from None

    def _case(self, call: Call) -> Case:
        self._given.refuse_invalid()
        work = Work(0) if self._listed.of_host else self._given.work(call)  # no peak limits the host
        arrays = tuple(sized_input(each, size) for each, size in zip(call.arrays, call.nbytes, strict=True))
        roof = "nvlink" if self._listed.gpus > 1 else default_roof(work.math)
        return replace(self._listed, work=work, arguments=arrays, roof=roof)

    def _keep(self, outcome: Outcome, samples: Samples) -> None:
        """Keep the outcome and show it in pytest-benchmark's table; fail the test if the verdict does."""
        self.outcome = outcome
        if self.group is None:
            self.group = outcome.case.family
        self.show(extra_info(outcome), samples.times_us)

    def take_over(self, entry: Mapping[str, Any], times_us: Sequence[float]) -> None:
        """Show the result of an earlier process of the run; fail the test if its verdict does."""
        self.group = entry["family"]
        self.show(entry, times_us)

    def _refuse_names(self, method: str, unknown: Iterable[str], names: Sequence[str]) -> None:
        for name in unknown:
            self._refuse(f"gpu_benchmark.{method} got {name!r}{nearest(name, names)}; expected {', '.join(names)}")

    def _refuse(self, problem: str) -> NoReturn:
        self._fail(self._listed, PeakgateError(problem, Code.BENCHMARK_TEST))

    def _fail(self, case: Case, error: Exception) -> NoReturn:
        self.outcome = self._session.failed(case, error)
        raise_for(extra_info(self.outcome), self._session)
        raise AssertionError(self.outcome.judgement) from error  # each error fails


def sized_input(array: Any, nbytes: int) -> Buffer:
    """A callable's array as a case's input: its size selects the roof, its type the default math."""
    dtype = dtype_name(array)
    dtype = dtype if dtype in MATH_OF_INPUTS else "uint8"
    return Buffer(Role.IN, (nbytes // dtypes.storage(dtype).itemsize,), dtype)


def _no_room(error: Exception) -> MemoryError | None:
    """An out-of-memory error of any framework as MemoryError; None for another error."""
    return MemoryError(str(error)) if out_of_memory(error) else None


def _fault_behind(device: GpuDevice, case: Case, error: Exception) -> Exception | None:
    """The lost GPU or full memory that made a function of the test's settings fail; None for another cause."""
    if not isinstance(error.__cause__, Exception):
        return None
    found = device.faulted(case, error.__cause__)
    return found if device.lost or isinstance(found, MemoryError) else None


def _wrong(error: Exception) -> Exception:
    if isinstance(error, NotAnArray):
        return KernelFault(f"gives a {error}, which may compute its values lazily; return plain arrays or numbers")
    return error


def _judged(outcome: Outcome, case: Case) -> Judgement:
    """The judgement of a callable; no floor applies to the host's time, nor without declared work."""
    judgement = outcome.judgement
    if judgement.verdict not in (Verdict.PASS, Verdict.NO_FLOOR, Verdict.BELOW_FLOOR):
        return judgement
    if case.stage.host_bound:
        waits = "waits for the host, whose time is included: recorded, not judged"
        judgement = Judgement(Verdict.NO_FLOOR, waits)
    elif not case.work.claimed:
        why = "it is the host's time, which no peak limits" if case.of_host else "no bytes or flops are given"
        if outcome.floor is not None:
            return Judgement(Verdict.INCONCLUSIVE, f"has a floor of {outcome.floor:.3g}, but {why}")
        judges = "comparisons judge" if case.of_host else "only `peakgate ab` judges"
        judgement = Judgement(Verdict.NO_FLOOR, f"{why}: {judges} it")
    return judgement if outcome.proof is not None else replace(judgement, reason=judgement.reason + UNCHECKED)
