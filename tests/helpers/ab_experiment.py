"""A whole experiment on two fake sides, and what it left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ab_fake import HARNESS, FakeSide
from synthetic_runs import LADDER

from peakgate.base.processes import variables
from peakgate.cli import main
from peakgate.compare import report
from peakgate.compare.ab import command, plan, process
from peakgate.run.ab_process import AB_VARIABLE

PAD = "transpose.smem_pad-8192-32x8"
CHANGED = dict.fromkeys(LADDER, "same") | {PAD: "changed"}
"""The machine code by case of a side that changed one kernel."""


def start_quickly(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw nothing, stand where no saved runs are found, and start few processes, which import nothing of ours."""
    monkeypatch.setattr(process, "PRELOAD", ())
    monkeypatch.setattr(process, "AHEAD", 1)
    monkeypatch.setattr(plan, "own_module", lambda module, *arguments, python: [python, "-P", "-m", module, *arguments])
    monkeypatch.setattr(report, "_drawn", lambda *_: ((), ()))
    monkeypatch.setattr(process, "HARNESS", HARNESS)
    monkeypatch.setattr(command, "device_uuid", lambda _device: f"GPU-{folder.name}")
    (folder / "cwd").mkdir()
    monkeypatch.chdir(folder / "cwd")


def ab(tmp_path: Path, base: FakeSide, head: FakeSide, *options: str, **asked: int) -> int:
    """Run ``ab`` on two folders with few pairs; ``asked`` are fields of its ``AskedOfAb``."""
    log = tmp_path / "runs.log"
    folders = [side.write(tmp_path / name, name, log) for name, side in (("base", base), ("head", head))]
    arguments = ["ab", *map(str, folders), "--out", str(tmp_path / "out"), "--pairs", "4,4", *options]
    with variables(**{AB_VARIABLE: json.dumps(asked)}):
        return main(arguments)


def ran(tmp_path: Path) -> list[list[str]]:
    """Side, kind and cases of each process, as they ran."""
    return [line.split() for line in (tmp_path / "runs.log").read_text().splitlines()]


def reported(tmp_path: Path) -> dict[str, Any]:
    verdict = json.loads((tmp_path / "out" / "ab.json").read_text())
    assert isinstance(verdict, dict)
    return verdict


def row(tmp_path: Path, case: str) -> dict[str, Any]:
    return next(row for row in reported(tmp_path)["rows"] if row["case"] == case)
