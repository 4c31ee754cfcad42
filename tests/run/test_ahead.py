"""Shares of the emulator's cases in other processes: what they hand over, and what is left to the one that reports."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import cast

import pytest

from peakgate.base.verdict import Judgement, Verdict
from peakgate.callables.settings import case_of
from peakgate.run import ahead
from peakgate.run.ahead import CaseShares
from peakgate.session.outcome import Outcome
from peakgate.session.session import Session, unwatched
from peakgate.spec.case import Case

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
CASES = [replace(case, defines=(("N", case.size),)) for case in (case_of(f"b.py::t[{n}]") for n in range(4))]


@dataclass
class Measuring:
    """Tells in a case's reason which process measured it; ``deadly`` is the case that another process dies of."""

    reporting: int = field(default_factory=os.getpid)
    deadly: str = ""

    steps: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(expect=unwatched))

    def measured(self, case: Case) -> Outcome:
        here = os.getpid() == self.reporting
        if case.id == self.deadly and not here:
            os.kill(os.getpid(), signal.SIGKILL)
        if not here:
            os.write(1, f"printed {case.size}\n".encode())
        return Outcome(case, Judgement(Verdict.NO_FLOOR, "here" if here else "elsewhere"))


@pytest.fixture
def shared():
    def measured(session: Measuring) -> list[Outcome]:
        shares = CaseShares(cast("Session", session), CASES, 2)
        shares.begin()
        return [shares.outcome(case) for case in CASES]

    return measured


def test_every_other_build_is_measured_by_another_process_and_what_it_printed_is_shown(shared, capsys):
    outcomes = shared(Measuring())
    assert [outcome.case for outcome in outcomes] == CASES
    assert [outcome.judgement.reason for outcome in outcomes] == ["here", "elsewhere"] * 2
    assert capsys.readouterr().out == "printed 1\nprinted 3\n"


def test_cases_that_another_process_does_not_come_back_from_are_measured_here(shared):
    outcomes = shared(Measuring(deadly=CASES[1].id))
    assert [outcome.case for outcome in outcomes] == CASES
    assert {outcome.judgement.reason for outcome in outcomes} == {"here"}


def test_a_process_that_takes_too_long_over_a_case_is_given_up(shared, monkeypatch):
    monkeypatch.setattr(ahead, "PATIENCE_S", 0.0)
    monkeypatch.setattr(CaseShares, "begin", lambda shares: None)  # none of them ever ends a case
    assert {outcome.judgement.reason for outcome in shared(Measuring())} == {"here"}
