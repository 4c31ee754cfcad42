"""What a run does while its kernels and references are compiled."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from synthetic_cases import make_case, make_samples

from peakgate.base.errors import BuildError, Code, PeakgateError
from peakgate.base.verdict import Judgement, Verdict
from peakgate.device.expected import ReferenceFault
from peakgate.device.interface import DeviceLost, KernelCrash, KernelFault, KernelTimeout
from peakgate.judge.correctness import Deviation
from peakgate.judge.floors import Floors
from peakgate.judge.metrics import Peaks
from peakgate.judge.occupancy import Resources
from peakgate.measure.sampling import FIRST_LAUNCH
from peakgate.run.base_contract import judged_by
from peakgate.run.listing import Listed
from peakgate.session import pairs
from peakgate.session.outcome import WrongResult, extra_info, verdict_of
from peakgate.session.prover import LostEarly, Prover, compared_when_timed
from peakgate.session.session import Session, Steps
from peakgate.spec.case import Buffer, Launch, Role, Scalar, Stage, Tier, Work
from peakgate.spec.recorded import TENSOR_MATH
from peakgate.spec.stage import KernelLaunch

CASES = [make_case(size=str(size)) for size in range(3)]


class Compiling:
    """A device that compiles for as long as it takes to be called with every case."""

    peaks: Peaks | None = None
    lost = None
    capability: tuple[int, int] | None = None

    def draw_from(self, seed):
        pass

    def disturbance(self, gpus=1):
        return "another process"

    def refusal(self, case):
        return "too large" if case.size == "2" else None

    def prebuild(self, cases, *, checked, meanwhile):
        self.checked = checked
        for case in cases if meanwhile else ():
            meanwhile(case)

    def warm_up(self):
        self.warm = True


def launchable(case):
    """What a device has prepared of a case that is never launched."""
    return SimpleNamespace(case=case, resources=(), fingerprint=None)


def begun(monkeypatch, prove, **options):
    """Begin a session whose builds are proven by ``prove``; the session and the steps it announced."""
    steps = []
    session = Session(Compiling(), SimpleNamespace(), Tier.GATE, expect=lambda *step: steps.append(step))
    monkeypatch.setattr(Prover, "prove_build", prove)
    session.begin(CASES, {}, **options)
    return session, steps


def test_builds_are_proven_early_only_where_that_is_asked(monkeypatch):
    proven = []
    session, steps = begun(monkeypatch, lambda _, case: proven.append(case.size), prove_early=True)
    assert proven == ["0", "1"]
    # Again after each case, whose steps have limits of their own.
    assert [step for step, *_ in steps].count("build") == 4
    begun(monkeypatch, lambda _, case: proven.append(case.size))
    assert proven == ["0", "1"]
    assert session.device.checked
    assert session.device.warm


def test_what_others_find_right_is_not_proven_again(monkeypatch):
    asked = []

    def right(cases, _meanwhile):
        asked.append([case.size for case in cases])
        yield cases[0], 7

    cases = [make_case(size=size, stage=Stage(size, "", Path("x.cu"))) for size in ("0", "0", "1", "2", "3")]
    session = Session(Compiling(), SimpleNamespace(), Tier.GATE, expect=lambda *_: None)
    session.device.is_built = lambda case: case.size != "3"
    session.begin(cases, {}, prove_beside=right)
    assert asked == [["0", "1"]]  # of each build one; the device refuses 2
    monkeypatch.setattr(Prover, "_run_probes", lambda _prover, case: int(case.size))
    assert [session.prover.prove_build(case) for case in cases[1:]] == [7, 1, 2, 3]


@pytest.mark.parametrize("error", [WrongResult("0 is 1"), KernelFault("a guard was hit"), MemoryError()])
def test_what_is_wrong_early_is_left_to_the_proof_of_the_case(monkeypatch, error):
    def prove(_session, _case):
        raise error

    session, _ = begun(monkeypatch, prove, prove_early=True)
    assert session.device.warm  # it began all the same


def test_a_kernel_that_takes_the_context_with_it_early_is_named(monkeypatch):
    def prove(prover, _case):
        prover._device.lost = "gone"
        raise KernelFault("an illegal address")

    with pytest.raises(LostEarly, match="illegal address") as lost:
        begun(monkeypatch, prove, prove_early=True)
    assert lost.value.case is CASES[0]
    assert isinstance(lost.value.error, KernelFault)


def test_a_fault_on_an_edge_size_problem_names_it(monkeypatch):
    def check(*_):
        raise KernelCrash("an illegal access")

    with pytest.raises(KernelCrash, match=r"^edge-size problem 7: an illegal access$"):
        found_on_edge_sizes(monkeypatch, check)


def found_on_edge_sizes(monkeypatch, check, *problems):
    """What comes of a build whose edge-size problems, one of saved results unless given, are compared by ``check``."""
    problems = problems or (make_case(size="7", reference=(Path("saved.npy"),)),)
    device = SimpleNamespace(xp=np, prepare=launchable)
    prover = Prover(device, SimpleNamespace(), lambda _case: problems)
    monkeypatch.setattr(Prover, "_launch", lambda *_: None)
    monkeypatch.setattr(Prover, "_expected", lambda *_: None)
    monkeypatch.setattr(Prover, "_compare", check)
    return prover.prove_build(CASES[0])


def test_the_smallest_wrong_problem_is_named(monkeypatch):
    problems = [
        make_case(size=str(n), arguments=(Buffer(Role.OUT, (n,)),), reference=(Path("saved.npy"),)) for n in (64, 3, 9)
    ]
    with pytest.raises(WrongResult, match=r"^edge-size problem 3:"):
        found_on_edge_sizes(monkeypatch, lambda *_: Deviation(1.0, 2.0, "0 is 1"), *problems)


ONES = Buffer(Role.IN, (8, 4), data=(1, 1))


def twice(_xp, inputs):
    return [inputs[0] * 2]


@pytest.mark.parametrize(
    ("other", "evaluated"),
    [
        ({"size": "as-another-build-names-it"}, 1),
        ({"reference": lambda _xp, inputs: inputs}, 2),
        ({"scale": lambda _xp, inputs: inputs}, 2),
        ({"tolerance": 1e-3}, 2),
        ({"arguments": (Buffer(Role.OUT, (8, 4)), Scalar(32), ONES)}, 2),
        ({"arguments": (Buffer(Role.OUT, (8, 4)), Buffer(Role.IN, (8, 4), data=(2, 2)))}, 2),
        ({"arguments": (Buffer(Role.OUT, (1 << 24,)), ONES)}, 3),  # too large to be kept beside another
    ],
)
def test_builds_share_the_reference_of_one_problem(monkeypatch, other, evaluated):
    asked = []
    monkeypatch.setattr("peakgate.session.prover.expected", lambda _xp, made, _prepare: asked.append(made.case))
    monkeypatch.setattr(Prover, "_launch", lambda *_: None)
    monkeypatch.setattr(Prover, "_compare", lambda *_: Deviation(0.0, 0.0, None))
    arguments = (Buffer(Role.OUT, (8, 4)), ONES)
    stages = (Stage(name, "", Path("x.cu")) for name in "abc")
    first, second, third = (make_case(stage=stage, arguments=arguments, reference=twice) for stage in stages)
    prover = Prover(SimpleNamespace(xp=np, prepare=launchable), SimpleNamespace(), lambda case: [case])
    for case in (first, replace(second, **other), third):
        prover.prove_build(case)
    assert len(asked) == evaluated


def right(_xp, inputs):
    return [2 * inputs[0]]


def wrong(_xp, inputs):
    return [3 * inputs[0]]


def failing(_xp, inputs):
    raise TypeError(inputs)


@pytest.mark.parametrize(
    ("on_host", "on_gpu", "evaluated"),
    [(right, failing, ["host"]), (wrong, right, ["host", "gpu"]), (failing, right, ["host", "gpu"])],
)
def test_what_is_not_right_on_the_host_is_compared_on_the_gpu(monkeypatch, on_host, on_gpu, evaluated):
    assert compared_in_turn(monkeypatch, on_host, on_gpu) == evaluated


def test_an_edge_size_problem_wrong_on_the_host_and_the_gpu_is_wrong(monkeypatch):
    with pytest.raises(WrongResult):
        compared_in_turn(monkeypatch, wrong, wrong)


def compared_in_turn(monkeypatch, on_host, on_gpu):
    """Where the reference of a problem is evaluated, by these functions on the host and on the GPU."""
    gpu = ModuleType("gpu")
    gpu.__dict__.update(vars(np))
    asked = []

    def reference(xp, inputs):
        asked.append("gpu" if xp is gpu else "host")
        return (on_gpu if xp is gpu else on_host)(xp, inputs)

    def prepare(case):
        numbers = np.arange(16, dtype="float32").reshape(4, 4)
        return SimpleNamespace(case=case, inputs=[numbers], outputs=[2 * numbers])

    monkeypatch.setattr(Prover, "_launch", lambda *_: None)
    arguments = (Buffer(Role.OUT, (4, 4)), Buffer(Role.IN, (4, 4), data=(1, 1)))
    problem = make_case(arguments=arguments, reference=reference, tolerance=0.0)
    device = SimpleNamespace(xp=gpu, prepare=prepare, compared=lambda *_: None)
    Prover(device, SimpleNamespace(), lambda _case: [problem]).prove_build(problem)
    return asked


def test_a_problem_whose_pattern_is_refused_is_compared_without_it(monkeypatch):
    compared = []

    def check(_prover, _xp, launched, _wanted):
        if launched.case.variant:
            raise PeakgateError("negative numbers are not supported", Code.REFERENCE)
        compared.append(launched.case.size)
        return Deviation(0.0, 1.0, None)

    shapes = {"small": (30, 90), "middle": (30, 100), "large": (30, 110)}
    arguments = {size: (Buffer(Role.OUT, shape), Buffer(Role.IN, shape)) for size, shape in shapes.items()}
    problems = [make_case(size=size, arguments=each) for size, each in arguments.items()]
    found_on_edge_sizes(monkeypatch, check, *problems)
    assert compared == ["small", "middle", "large"]


def test_without_a_reference_every_problem_is_launched_and_none_compared(monkeypatch):
    launched = []
    unchecked = make_case(stage=Stage("x", "", Path("x.cu")), reference=None)
    prover = Prover(
        SimpleNamespace(xp=np, prepare=launchable), Steps(Compiling(), Floors(Path())), lambda _case: [unchecked]
    )
    monkeypatch.setattr(Prover, "_launch", lambda _prover, _launchable, owner: launched.append(owner))
    assert prover.prove(launchable(unchecked)) is None
    assert len(launched) > 1


@pytest.mark.parametrize("error", [1e-9, 0.01, 0.99, 1.0, float("inf")])
def test_an_edge_size_problem_barely_wrong_makes_its_build_wrong(monkeypatch, error):
    with pytest.raises(WrongResult, match=r"^edge-size problem 7: 0 is 1$"):
        found_on_edge_sizes(monkeypatch, lambda *_: Deviation(error, 2.0, "0 is 1"))
    assert found_on_edge_sizes(monkeypatch, lambda *_: Deviation(error, 1.0, None)) == 1


@pytest.mark.parametrize(("role", "launches"), [(Role.SCRATCH, 2), (Role.TEMP, 1)])
def test_a_problem_with_scratch_memory_is_launched_twice(monkeypatch, role, launches):
    results = iter([Deviation(0.0, 0.0, None), Deviation(1.0, 2.0, "0 is 1")])
    problem = make_case(
        size="7", arguments=(Buffer(Role.OUT, (4,)), Buffer(role, (4,))), reference=(Path("saved.npy"),)
    )
    found = 1
    try:
        found_on_edge_sizes(monkeypatch, lambda *_: next(results), problem)
    except WrongResult:
        found = 2
    assert found == launches


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        *((DeviceLost("gone"), "INCONCLUSIVE"), (MemoryError(), "INCONCLUSIVE"), (PeakgateError("x"), "INCONCLUSIVE")),
        *((ReferenceFault("x"), "INCONCLUSIVE"), (BuildError("x"), "INCONCLUSIVE"), (WrongResult("x"), "WRONG")),
        *((KernelFault("x"), "WRONG"), (KernelCrash("x"), "CRASHED"), (KernelTimeout("x"), "TIMEOUT")),
    ],
)
def test_a_case_without_figures_never_passes(error, verdict):
    assert verdict_of(error) == verdict


@pytest.mark.parametrize("changes", [{}, {"tolerance": 1e-3}, {"atol": 1e-6}, {"rtol": 1e-6}])
def test_every_kernels_timed_launches_are_compared(changes):
    kernel = Stage("x", "", Path("x.cu"))
    assert compared_when_timed(make_case(stage=kernel, **changes))
    assert not compared_when_timed(make_case(stage=kernel, reference=None, **changes))
    assert not compared_when_timed(make_case(**changes))


@pytest.mark.parametrize("verdict", Verdict)
def test_a_case_is_new_where_it_lacks_nothing_but_a_floor(monkeypatch, verdict):
    monkeypatch.setattr("peakgate.session.session.judge", lambda *_: Judgement(verdict, "why"))
    session = Session(Compiling(), Floors(Path()), Tier.GATE, new={CASES[0].id})
    judged = session.judged(launchable(CASES[0]), None, SimpleNamespace(conclusive=False)).judgement.verdict
    assert judged is (Verdict.NEW if verdict is Verdict.NO_FLOOR else verdict)


@pytest.mark.parametrize("alone", [True, False])
def test_disturbances_are_asked_for_where_we_are_alone(monkeypatch, alone):
    asked = []
    monkeypatch.setattr(
        "peakgate.session.session.judge", lambda *given: asked.append(given[-1]) or Judgement(Verdict.PASS, "")
    )
    session = Session(Compiling(), Floors(Path()), Tier.GATE, alone=alone)
    session.judged(launchable(CASES[0]), None, SimpleNamespace(conclusive=False))
    assert asked == ["another process" if alone else None]


def test_constants_filled_otherwise_keep_the_bases_data():
    def listed(data, lesson):
        constants = (("table", Buffer(Role.IN, (4,), data=data)),)
        case = make_case(stage=Stage("x", lesson, Path("x.cu"), constants=constants, min_capability=(8, len(lesson))))
        return Listed(case, (case,))

    judged, (probe,) = judged_by(listed((1, 2), "base"), listed((5, 6), "a change"))
    for case in (judged, probe):
        assert [buffer.data for _, buffer in case.stage.constants] == [(1, 2)]
        assert (case.stage.lesson, case.stage.min_capability) == ("base", (8, 4))


def test_a_kernel_for_one_architecture_is_compiled_for_it():
    def listed(capability, specific):
        case = make_case(stage=Stage("x", "", Path("x.cu"), min_capability=capability, specific=specific))
        return Listed(case, (case,))

    judged, _ = judged_by(listed((8, 0), False), listed((9, 0), True))
    assert (judged.stage.needs, judged.stage.runs_on((10, 0))) == ("9.0a", False)
    judged, _ = judged_by(listed((9, 0), True), listed((8, 0), False))
    assert judged.stage.needs == "9.0"


class WithTensorCores(Compiling):
    """A device with peaks, whose roofs are taken as measured once they are asked for."""

    peaks = Peaks(4000, 60, "synthetic", tensor_tflops={"bf16": 1000.0})
    capability = (9, 0)
    warmed = 0

    def warm_up(self):
        self.warmed += 1


@pytest.fixture
def asked(monkeypatch):
    """The roofs that sessions ask for, one list per measurement."""
    found = []

    def measured(_device, cases):
        found.append([case.roof for case in cases if case.roof in TENSOR_MATH])
        return dict.fromkeys(found[-1], 1.0)

    monkeypatch.setattr("peakgate.device.roofs.measure_roofs", measured)
    return found


def timed(device, case):
    """A session on the device that gates one case of which it has a sample."""
    session = Session(device, Floors(Path("floors.toml")), Tier.GATE)
    session.begin([case], prebuild=False)
    return session, lambda: session.judged(launchable(case), None, make_samples(1.0))


def test_a_run_measures_the_roofs_of_its_cases_types(asked):
    device = WithTensorCores()
    session, gated = timed(device, make_case(work=Work(4, 8, math="bf16"), roof="bf16"))
    assert asked == [["bf16"]]
    assert device.warmed == 2  # tensor cores leave a low clock
    assert gated().metrics.roof == "bf16"
    assert len(asked) == 1
    assert session.roofs == {"bf16": 1.0}


def test_a_run_without_such_cases_measures_none(asked):
    device = WithTensorCores()
    timed(device, make_case())
    assert asked == [[]]
    assert device.warmed == 1


def test_a_type_that_a_test_says_has_its_roof_measured_once(asked):
    session, _ = timed(WithTensorCores(), make_case())
    case = make_case(work=Work(4, 8, math="fp8"), roof="fp8")
    for _ in range(2):
        assert session.judged(launchable(case), None, make_samples(1.0)).metrics.roof == "fp8"
    assert asked == [[], ["fp8"]]


def test_of_several_launches_the_fullest_sm_is_not_shown():
    small, large = Launch((1, 1, 1), (256, 1, 1)), Launch((1, 1, 1), (128, 1, 1), 100_000)
    stage = Stage("first", "", Path("x.cu"), more=("second",))
    sequence = tuple(KernelLaunch(name, shape, (0, 1, 2)) for name, shape in (("first", small), ("second", large)))
    case = make_case(stage=stage, launch=small, sequence=sequence)
    device = Compiling()
    device.capability = (9, 0)
    session = Session(device, Floors(Path("floors.toml")), Tier.GATE)
    made = SimpleNamespace(case=case, resources=(Resources(16, 0, 0, 0), Resources(200, 0, 8, 64)), fingerprint="f00d")
    info = extra_info(session.judged(made, None, make_samples(1.0)))
    assert (info["registers"], info["spill_bytes"], info["shared_bytes"]) == (200, 8, 100_064)
    assert info["occupancy"] == pytest.approx(2 * 4 / 64)


class InTurns(Compiling):
    """A device whose two builds of a kernel take given times, in microseconds, and of which one is loaded."""

    kind = "gpu"

    def __init__(self, own_us, other_us):
        self.times_us = {"own": own_us, "other": other_us}
        self.order, self.drawn, self.compared = [], {"own": [], "other": []}, []
        self.loaded = ""

    def disturbance(self, gpus=1):
        return None

    def prepare(self, case):
        self.loaded = "own"
        return self.launchable(case, "own")

    def prepare_other(self, beside, fingerprint):
        assert fingerprint == "f00d"
        self.loaded = "other"
        return self.launchable(beside.case, "other")

    def exchange(self, leaving, coming):
        assert leaving.fingerprint == self.loaded
        self.loaded = coming.fingerprint

    def launchable(self, case, which):
        def sample(plan, checker):
            assert self.loaded == which
            if plan == FIRST_LAUNCH:
                return make_samples(self.times_us[which])
            self.order.append(which)
            self.drawn[which].append(checker.draw(1 << 30))
            for place in checker.chosen(1, 10.0).values():
                self.compared.append(which)
                checker.kept[place] = lambda: SimpleNamespace(where="timed launch 1", case=case)
            checker.check_kept(10.0)
            return make_samples(self.times_us[which])

        return SimpleNamespace(case=case, resources=(), fingerprint=which, sample=sample)


def in_turns(monkeypatch, device, mismatch=None, before=None):
    """The outcomes of a kernel's two builds on that device; ``mismatch`` is what comparing their launches finds."""
    monkeypatch.setattr(Prover, "compare_timed", lambda _prover, _launch: Deviation(0.0, 0.0, mismatch))
    session = Session(device, Floors(Path()), Tier.GATE, checks=False)
    case = make_case(stage=Stage("x", "", Path("x.cu")))
    return pairs.interleaved(session, case, "f00d", pairs=2, cases=1, before=before)


def test_two_builds_are_sampled_in_turns_on_the_same_contents(monkeypatch):
    device = InTurns(10.0, 11.0)
    own, other = in_turns(monkeypatch, device)
    assert (own.samples.median_us, other.samples.median_us) == (10.0, 11.0)
    assert (own.fingerprint, other.fingerprint) == ("own", "other")
    rounds = ["own", "other", "other", "own", "other", "own", "own", "other"]
    assert device.order == [*rounds, *rounds[::-1]]
    assert other.samples.pair_ratios == pytest.approx([1.1, 1.1])
    assert own.samples.pair_ratios == ()
    assert device.drawn["own"] == device.drawn["other"]
    assert len({*device.drawn["own"]}) == len(device.drawn["own"])
    assert sorted(device.compared) == ["other", "own"]


def test_what_is_sampled_after_a_look_is_added(monkeypatch):
    before = in_turns(monkeypatch, InTurns(10.0, 11.0))
    own, other = in_turns(monkeypatch, InTurns(10.0, 12.0), before=before)
    assert other.samples.pair_ratios == pytest.approx([1.1, 1.1, 1.2, 1.2])
    assert [len(each.samples.times_us) for each in (own, other)] == [16, 16]
    failed = in_turns(monkeypatch, InTurns(10.0, 11.0), mismatch="0 is 1")
    assert in_turns(monkeypatch, InTurns(10.0, 11.0), before=failed) == failed


def test_a_build_whose_timed_launch_is_wrong_is_wrong(monkeypatch):
    own, other = in_turns(monkeypatch, InTurns(10.0, 11.0), mismatch="0 is 1")
    assert sorted([own.judgement.verdict, other.judgement.verdict]) == [Verdict.INCONCLUSIVE, Verdict.WRONG]
    assert own.metrics is None
    assert other.metrics is None


def test_a_build_that_cannot_be_had_leaves_both_undecided(monkeypatch):
    device = InTurns(10.0, 11.0)
    device.prepare_other = lambda *_: (_ for _ in ()).throw(PeakgateError("cache has none"))
    own, other = in_turns(monkeypatch, device)
    assert [own.judgement.verdict, other.judgement.verdict] == [Verdict.INCONCLUSIVE] * 2
    assert "cache has none" in other.judgement.reason


def test_samples_that_are_all_throttled_are_not_conclusive(monkeypatch):
    device = InTurns(10.0, 11.0)
    ordinary = device.launchable

    def throttled(case, which):
        found = ordinary(case, which)
        sample = found.sample
        found.sample = lambda *given: replace(sample(*given), times_us=(), sm_clocks_mhz=(), discarded=6)
        return found

    device.launchable = throttled
    own, other = in_turns(monkeypatch, device)
    assert [own.judgement.verdict, other.judgement.verdict] == [Verdict.INCONCLUSIVE] * 2
