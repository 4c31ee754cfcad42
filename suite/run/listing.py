"""``python -m peakgate.run.listing FILE SCALE``: how the project at hand launches its cases, as data.

A gate takes from a change how its kernels are launched, and what a case must do and how it is judged from the base.
This process imports the change's families, so that the one that judges need not. The file holds each case, its
reference apart, and the edge-size problems of its build; ``read`` gives them back as records whose references, and
input data made by functions, are those that the caller provides.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from peakgate.case import (
    Argument,
    Array,
    Buffer,
    Case,
    Data,
    KernelLaunch,
    Launch,
    Reference,
    Role,
    Scalar,
    Scale,
    Stage,
    Struct,
    Tier,
    Work,
)
from peakgate.common.errors import PeakgateError, refused
from peakgate.common.files import write_whole
from peakgate.common.processes import run_in_group
from peakgate.project import catalogue
from peakgate.texels import Surface, TexelBuffer, Texture
from peakgate.verdict import ExitCode

LIMIT_S = 120.0
FUNCTION = "function"
"""What stands for input data that a function of the family makes."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One case and the edge-size problems of its build."""

    case: Case
    probes: tuple[Case, ...]


Provide = Callable[[str, int | None], tuple[Reference, Callable[[int], Callable[..., Array]]]]
"""For a case id and the number of an edge-size problem (None: the case itself): its reference, and by the place of a
buffer among the problem's buffers, constants last, the function that makes its data."""


def _at_scale(scale: Scale) -> dict[str, Any]:
    families = catalogue.families()
    known: dict[str, int] = {}
    builds: list[list[Any]] = []
    cases: list[Any] = []
    for case in catalogue.cases(scale, listed=families):
        probes = [_described(probe) for probe in catalogue.probes(case, families)]
        key = repr(probes)  # cases of one build may have problems of their own
        if key not in known:
            known[key] = len(builds)
            builds.append(probes)
        cases.append({**_described(case), "build": known[key]})
    return {"cases": cases, "builds": builds}


def read(project: Path, scale: Scale, provide: Provide) -> dict[str, Listed]:
    """The cases of the project in folder ``project``, listed by a process of its own, by id.

    PeakgateError where they cannot be listed: one line of what that process reported.
    """
    with tempfile.TemporaryDirectory(prefix="peakgate-listing-") as scratch:
        file, errors = Path(scratch) / "cases.json", Path(scratch) / "errors"
        with errors.open("wb") as stream:
            command = [sys.executable, "-P", "-m", "peakgate.run.listing", str(file), scale.value]
            code = run_in_group(command, LIMIT_S, cwd=project, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream)
        if code != 0:
            reported = errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            why = (
                reported[-1]
                if reported and code is not None and code > 0
                else f"no end within {LIMIT_S:.0f} s, or a crash (exit {code})"
            )
            raise PeakgateError(f"{project}: its cases cannot be listed: {why}")
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            builds = found["builds"]
            read_cases = [_listed(entry, builds[entry["build"]], provide) for entry in found["cases"]]
        except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise PeakgateError(
                f"{project}: its cases were listed as something else ({error!r}); see its families"
            ) from None
    return {each.case.id: each for each in read_cases}


def _listed(entry: Mapping[str, Any], probes: Sequence[Mapping[str, Any]], provide: Provide) -> Listed:
    case = _case(entry)
    edge_cases = (_provided(_case(probe), provide(case.id, number)) for number, probe in enumerate(probes))
    return Listed(_provided(case, provide(case.id, None)), tuple(edge_cases))


def _provided(case: Case, given: tuple[Reference, Callable[[int], Callable[..., Array]]]) -> Case:
    """The case with its reference function, and with functions for the input data that functions make."""
    function, data_of = given
    place = 0

    def filled(buffer: Buffer) -> Buffer:
        nonlocal place
        place += 1
        return replace(buffer, data=data_of(place - 1)) if buffer.data is _of_function else buffer

    arguments = tuple(filled(each) if isinstance(each, Buffer) else each for each in case.arguments)
    constants = tuple((name, filled(buffer)) for name, buffer in case.stage.constants)
    reference = function if case.reference is None else case.reference
    if isinstance(reference, Case):  # another kernel on the same arguments
        stage = replace(reference.stage, constants=constants if reference.stage.constants else ())
        reference = replace(reference, arguments=arguments, stage=stage)
    return replace(case, reference=reference, arguments=arguments, stage=replace(case.stage, constants=constants))


def _described(case: Case) -> dict[str, Any]:
    stage, launch, work = case.stage, case.launch, case.work
    return {
        "family": case.family,
        "stage": {
            "name": stage.name,
            "lesson": stage.lesson,
            "source": None if stage.source is None else str(stage.source.absolute()),
            "operation": stage.operation,
            "min_capability": list(stage.min_capability),
            "cooperative": stage.cooperative,
            "host_bound": stage.host_bound,
            "entry": stage.entry,
            "more": list(stage.more),
            "options": list(stage.options),
            "include": [str(folder.absolute()) for folder in stage.include],
            "constants": [[name, _described_argument(buffer)] for name, buffer in stage.constants],
        },
        "launch": _described_launch(launch),
        "sequence": [[each.kernel, _described_launch(each.launch), _whole(each.takes)] for each in case.sequence],
        "reference": _described_reference(case),
        "arguments": [_described_argument(argument) for argument in case.arguments],
        "work": {"bytes": int(work.bytes), "flops": int(work.flops), "peak_tflops": work.peak_tflops},
        "size": case.size,
        "block": case.block,
        "variant": case.variant,
        "defines": [list(define) for define in case.defines],
        "dtype": case.dtype,
        "tolerance": float(case.tolerance),
        "roof": case.roof,
        "tier": case.tier.value,
        "predicted": [[name, float(value)] for name, value in case.predicted],
    }


def _described_launch(launch: Launch) -> dict[str, Any]:
    return {"grid": _whole(launch.grid), "block": _whole(launch.block), "shared_bytes": int(launch.shared_bytes)}


def _described_reference(case: Case) -> Any:
    """The files of saved results, or the case of a reference kernel; None for a function."""
    if isinstance(case.reference, tuple):
        return [str(path.absolute()) for path in case.reference]
    return _described(case.reference) if isinstance(case.reference, Case) else None


def _described_argument(argument: Argument) -> dict[str, Any]:
    match argument:
        case Buffer(role, shape, dtype, data):
            kept: Any = data if data is None or isinstance(data, (float, int, tuple)) else FUNCTION
            kept = {"saved": str(data.absolute())} if isinstance(data, Path) else kept
            described = {"role": role.value, "shape": _whole(shape), "dtype": dtype, "data": kept}
            return described | _seen_as(argument)
        case Struct(values, members):
            return {"values": [_number(value) for value in values], "members": [list(member) for member in members]}
        case Scalar(value, dtype):
            return {"value": _number(value), "dtype": dtype}


def _seen_as(buffer: Argument) -> dict[str, Any]:
    if not isinstance(buffer, TexelBuffer):
        return {}
    return {"texture" if isinstance(buffer.seen_as, Texture) else "surface": asdict(buffer.seen_as)}


def _case(entry: Mapping[str, Any]) -> Case:
    stage = dict(entry["stage"])
    stage |= {
        "source": None if stage["source"] is None else Path(stage["source"]),
        "min_capability": tuple(map(int, stage["min_capability"])),
        "more": tuple(map(str, stage["more"])),
        "options": tuple(map(str, stage["options"])),
        "include": tuple(map(Path, stage["include"])),
        "constants": tuple((str(name), _buffer(buffer)) for name, buffer in stage["constants"]),
    }
    reference = entry["reference"]
    saved = tuple(map(Path, reference)) if isinstance(reference, list) else None
    return Case(
        family=entry["family"],
        stage=Stage(**stage),
        launch=_launch(entry["launch"]),
        sequence=tuple(KernelLaunch(str(name), _launch(of), tuple(map(int, at))) for name, of, at in entry["sequence"]),
        arguments=tuple(map(_argument, entry["arguments"])),
        work=Work(**entry["work"]),
        reference=saved or (_case(reference) if reference else None),
        **{name: str(entry[name]) for name in ("size", "block", "variant", "dtype", "roof")},
        defines=tuple((str(name), str(value)) for name, value in entry["defines"]),
        tolerance=float(entry["tolerance"]),
        tier=Tier(entry["tier"]),
        predicted=tuple((str(name), float(value)) for name, value in entry["predicted"]),
    )


def _launch(entry: Mapping[str, Any]) -> Launch:
    return Launch(_three(entry["grid"]), _three(entry["block"]), int(entry["shared_bytes"]))


def _argument(entry: Mapping[str, Any]) -> Argument:
    if "role" in entry:
        return _buffer(entry)
    if "members" in entry:
        return Struct(tuple(entry["values"]), tuple((str(name), str(dtype)) for name, dtype in entry["members"]))
    return Scalar(entry["value"], str(entry["dtype"]))


def _buffer(entry: Mapping[str, Any]) -> Buffer:
    given: Any = entry["data"]
    data: Data = given
    if given == FUNCTION:
        data = _of_function
    elif isinstance(given, dict):
        data = Path(given["saved"])
    elif isinstance(given, list):
        low, high = given
        data = (low, high)
    described = (Role(entry["role"]), tuple(map(int, entry["shape"])), str(entry["dtype"]), data)
    if "texture" in entry:
        return TexelBuffer(*described, Texture(**entry["texture"]))
    if "surface" in entry:
        return TexelBuffer(*described, Surface(**entry["surface"]))
    return Buffer(*described)


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _whole(numbers: Sequence[Any]) -> list[int]:
    return [int(number) for number in numbers]


def _three(numbers: Sequence[Any]) -> tuple[int, int, int]:
    x, y, z = numbers
    return int(x), int(y), int(z)


def _of_function(_: Any, __: tuple[int, ...]) -> Array:
    raise NotImplementedError("input data of a case that was listed as data")


def main(arguments: Sequence[str]) -> int:
    """Write the cases; exit 2 on bad input."""
    file, scale = arguments
    try:
        write_whole(Path(file), json.dumps(_at_scale(Scale(scale))))
    except PeakgateError as error:
        return refused(error)
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
