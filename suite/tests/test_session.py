"""What a run does while its kernels and references are compiled."""

from types import SimpleNamespace

import pytest
from peakgate.case import Tier
from peakgate.device.interface import KernelCrash, KernelFault
from peakgate.run.session import LostEarly, Session, WrongResult
from synthetic_cases import make_case

CASES = [make_case(size=str(size)) for size in range(3)]


class Compiling:
    """A device that compiles for as long as it takes to be called with every case."""

    peaks = None
    lost = None

    def refusal(self, case):
        return "too large" if case.size == "2" else None

    def prebuild(self, cases, *, checked, meanwhile):
        self.checked = checked
        for case in cases if meanwhile else ():
            meanwhile(case)

    def warm_up(self):
        self.warm = True


def begun(monkeypatch, prove, *, new=(), **options):
    """Begin a session whose builds are proven by ``prove``; the session and the steps it announced."""
    steps = []
    session = Session(Compiling(), SimpleNamespace(), Tier.GATE, new=new, expect=lambda *step: steps.append(step))
    monkeypatch.setattr(Session, "_prove_build", prove)
    session.begin(CASES, {}, **options)
    return session, steps


def test_builds_are_proven_early_only_where_that_is_asked_for_and_the_device_takes_the_case(monkeypatch):
    proven = []
    session, steps = begun(monkeypatch, lambda _, case: proven.append(case.size), prove_early=True)
    assert proven == ["0", "1"]
    assert [step for step, *_ in steps].count(
        "build"
    ) == 4  # again after each case, whose steps have limits of their own
    begun(monkeypatch, lambda _, case: proven.append(case.size))
    assert proven == ["0", "1"]
    assert session.device.checked
    assert session.device.warm


def test_a_case_that_the_base_does_not_have_is_never_proven_early(monkeypatch):
    proven = []
    begun(monkeypatch, lambda _, case: proven.append(case.size), new={CASES[0].id}, prove_early=True)
    assert proven == ["1"]


@pytest.mark.parametrize("error", [WrongResult("0 is 1"), KernelFault("a guard was hit"), MemoryError()])
def test_what_is_wrong_early_is_left_to_the_proof_of_the_case(monkeypatch, error):
    def prove(_session, _case):
        raise error

    session, _ = begun(monkeypatch, prove, prove_early=True)
    assert session.device.warm, "it began all the same"


def test_a_kernel_that_takes_the_context_with_it_early_is_named(monkeypatch):
    def prove(session, _case):
        session.device.lost = "gone"
        raise KernelFault("an illegal address")

    with pytest.raises(LostEarly, match="illegal address") as lost:
        begun(monkeypatch, prove, prove_early=True)
    assert lost.value.case is CASES[0]
    assert isinstance(lost.value.error, KernelFault)


def test_a_fault_on_an_edge_size_problem_names_the_problem_and_keeps_its_kind(monkeypatch):
    def check(_session, _launchable, _owner):
        raise KernelCrash("an illegal access")

    device = SimpleNamespace(prepare=lambda case: case)
    session = Session(device, SimpleNamespace(), Tier.GATE)
    session.probes = lambda _case: [make_case(size="7")]
    monkeypatch.setattr(Session, "_check", check)
    with pytest.raises(KernelCrash, match=r"^edge-size problem 7: an illegal access$"):
        session._prove_build(CASES[0])
