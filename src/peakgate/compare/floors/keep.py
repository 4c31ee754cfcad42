"""Copies saved runs beside the floors as references, without their samples, packed by gzip: ``floors --keep``."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peakgate.base import records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import LARGEST_FILE_BYTES, read_limited, write_whole
from peakgate.runfile.saved import REMEDY, Run, load_run

LARGEST_KEPT_BYTES = 4_000_000
"""Larger runs do not belong in a repository, which keeps many."""


def keep(runs: Sequence[Run], baselines: Path) -> dict[Path, bool]:
    """Write each run to ``<baselines>/<gpu>/runs/<when>-<tier>.json.gz``; returns the paths, and whether each is new.

    Only samples and white space are removed. A run already kept there, packed or as ``.json``, is left as it is. A
    PeakgateError names an emulated run, one that is too large, or one whose path holds another run; then nothing is
    written.
    """
    kept: dict[Path, bool] = {}
    new: dict[Path, bytes] = {}
    for run in runs:
        if run.emulated:
            raise PeakgateError(f"{run.path}: emulated times cannot be a reference; keep runs of a GPU", Code.EMULATED)
        plain = baselines / run.slug / "runs" / f"{run.taken:%Y%m%dT%H%M%S}-{run.tier or 'run'}.json"
        packed = plain.with_name(f"{plain.name}.gz")
        content = trimmed(records.read(run.path, dict[str, Any], REMEDY)).encode()
        if len(content) > LARGEST_KEPT_BYTES:
            raise PeakgateError(
                f"{run.path}: over {LARGEST_KEPT_BYTES} bytes even without samples; keep fewer cases", Code.UNREADABLE
            )
        there = next((path for path in (packed, plain) if path.exists()), None)
        if there is None:
            new[packed] = gzip.compress(content, mtime=0)
        elif records.unpacked(read_limited(there, LARGEST_FILE_BYTES), there, REMEDY) != content:
            raise PeakgateError(f"{there}: holds another run; saved runs are never overwritten", Code.TAKEN)
        kept[there or packed] = there is None
    for path, content in new.items():
        write_whole(path, content)
        load_run(path)
    return kept


def trimmed(document: dict[str, Any]) -> str:
    """The run file as text without samples; each benchmark and each other section is one line."""
    benchmarks = [
        benchmark | {"stats": {name: value for name, value in benchmark["stats"].items() if name != "data"}}
        for benchmark in document["benchmarks"]
    ]
    sections = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in document.items() if name != "benchmarks"]
    lines = ",\n  ".join(json.dumps(benchmark) for benchmark in benchmarks)
    return "{\n " + ",\n ".join([*sections, f'"benchmarks": [\n  {lines}\n ]']) + "\n}\n"
