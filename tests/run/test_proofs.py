"""Builds are proven in processes of their own, and only what these find right counts."""

from pathlib import Path

import pytest
from proving import CASES, opened

from peakgate.run import proofs


def found(*ends):
    """The ends of the builds that two processes find right, and their numbers of problems."""
    provers = proofs.Provers(opened, Path(), 2)
    processes = list(provers._processes.values())
    right = [(case.size, problems) for case, problems in provers.right([CASES[end] for end in ends])]
    assert not any(process.is_alive() for process in processes)
    return right


def test_what_a_process_finds_right_is_proven(capfd):
    assert found("right", "right", "right") == [("right", 5)] * 3
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("end", "right"), [("wrong", 2), ("dies", 1)])
def test_what_no_process_finds_right_is_not_proven(end, right):
    assert found(end, "right", end, "right") == [("right", 5)] * right  # two deaths leave nobody for the last


def test_a_build_that_does_not_end_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(proofs, "PATIENCE_S", 0.1)
    assert found("hangs") == []
