"""The baseline file: JSON in a fixed order, one line a kernel and architecture, so that a diff can be reviewed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from peakgate.build.cubin import Resources
from peakgate.common.errors import PeakgateError
from peakgate.common.files import write_whole
from peakgate.resources.usage import Occupancy, Survey, Target, Usage

SCHEMA = 1


def read(path: Path) -> Survey:
    """Read a baseline; PeakgateError names a file that is missing, broken or of another schema."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise PeakgateError(
            f"{path}: no baseline there; write one with `peakgate resources --baseline {path} --update`"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise PeakgateError(f"{path}: not a baseline: {error}; restore it, or write it again with --update") from None
    try:
        if content["schema"] != SCHEMA:
            raise PeakgateError(f"{path}: schema {content['schema']}, expected {SCHEMA}; write it again with --update")
        usage = {
            Target(kernel, int(name.removeprefix("sm_"))): _usage(line)
            for kernel, by_architecture in content["kernels"].items()
            for name, line in by_architecture.items()
        }
        return Survey(str(content["nvrtc"]), tuple(content["options"]), usage, {})
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise PeakgateError(
            f"{path}: not a baseline: {type(error).__name__} at {error}; restore it, or write it again with --update"
        ) from None


def render(survey: Survey) -> str:
    """A survey as the text of a baseline; equal surveys give equal texts. Builds that do not compile are left out."""
    kernels = []
    for kernel, targets in groupby(sorted(survey.usage), key=lambda target: target.kernel):
        rows = [f'   "sm_{target.sm}": {json.dumps(_line(survey.usage[target]))}' for target in targets]
        kernels.append(f"  {json.dumps(kernel)}: {{\n" + ",\n".join(rows) + "\n  }")
    header = {"schema": SCHEMA, "nvrtc": survey.nvrtc, "options": list(survey.options)}
    head = "".join(f" {json.dumps(key)}: {json.dumps(value)},\n" for key, value in header.items())
    body = "{\n" + ",\n".join(kernels) + "\n }" if kernels else "{}"
    return f'{{\n{head} "kernels": {body}\n}}\n'


def write(path: Path, survey: Survey) -> None:
    """Write a baseline whole or not at all."""
    write_whole(path, render(survey))


def _line(usage: Usage) -> dict[str, Any]:
    occupancy = {block: [filled.fraction, filled.limiter] for block, filled in sorted(usage.occupancy.items())}
    return asdict(usage.resources) | {"occupancy": occupancy}


def _usage(line: Mapping[str, Any]) -> Usage:
    resources = {name: int(value) for name, value in line.items() if name != "occupancy"}
    occupancy = {
        block: Occupancy(float(fraction), str(limiter)) for block, (fraction, limiter) in line["occupancy"].items()
    }
    return Usage(Resources(**resources), occupancy)
