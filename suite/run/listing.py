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
import types
import typing
from collections import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any, cast, get_args, get_origin, get_type_hints

import numpy as np
from peakgate.case import (
    Array,
    Buffer,
    Case,
    KernelLaunch,
    Launch,
    RefusedCase,
    Role,
    Scalar,
    Scale,
    Stage,
    Struct,
    Tier,
    Work,
)
from peakgate.common import errors
from peakgate.common.errors import PeakgateError
from peakgate.common.files import LARGEST_FILE_BYTES, read_limited, write_whole
from peakgate.common.processes import own_module, run_in_group
from peakgate.project import catalogue
from peakgate.project.catalogue import Described
from peakgate.texels import Surface, TexelBuffer, Texture
from peakgate.verdict import ExitCode

LISTING_LIMIT_S = 120.0
FUNCTION = "function"
"""What stands for a function of the family: a reference, or one that makes input data."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One case and the edge-size problems of its build."""

    case: Case
    probes: tuple[Case, ...]


_UNREADABLE = (PeakgateError, RecursionError, OSError, ValueError, KeyError, TypeError, IndexError, AttributeError)
"""What records of another form raise."""

Provide = Callable[[str, int | None], Case]
"""A problem as its family defines it: by case id, and the number of an edge-size problem (None: the case itself)."""


def with_probes(found: Described) -> tuple[list[Listed], list[RefusedCase]]:
    """Each case with its edge-size problems; a case whose problems are not described is refused."""
    known, refused = [], list(found.refused)
    for case in found.cases:
        try:
            known.append(Listed(case, tuple(catalogue.probes(case, found.families))))
        except PeakgateError as error:
            refused.append(catalogue.refused_as(case, str(error)))
    return known, refused


def _at_scale(scale: Scale) -> dict[str, Any]:
    listed, refused = with_probes(catalogue.described(scale))
    known: dict[str, int] = {}
    builds: list[list[Any]] = []
    cases: list[Any] = []
    for each in listed:
        probes = [as_data(probe) for probe in each.probes]
        key = repr(probes)  # cases of one build may have problems of their own
        if key not in known:
            known[key] = len(builds)
            builds.append(probes)
        name = each.case.id.removeprefix(f"{each.case.family}.")
        cases.append({"of": (each.case.family, name), "case": as_data(each.case), "build": known[key]})
    reasons = [(each.case.family, each.case.stage.name, each.reason, each.whole) for each in refused]
    return {"cases": cases, "builds": builds, "refused": reasons}


def read(project: Path, scale: Scale, provide: Provide) -> tuple[dict[str, Listed], list[RefusedCase]]:
    """The cases of the project in folder ``project``, listed by a process of its own, by id, and what is refused.

    PeakgateError where they cannot be listed: one line of what that process reported.
    """
    with tempfile.TemporaryDirectory(prefix="peakgate-listing-") as scratch:
        file, errors = Path(scratch) / "cases.json", Path(scratch) / "errors"
        with errors.open("wb") as stream:
            command = own_module("peakgate.run.listing", str(file), scale.value)
            code = run_in_group(
                command, LISTING_LIMIT_S, cwd=project, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
            )
        if code != 0:
            reported = errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            why = (
                reported[-1]
                if reported and code is not None and code > 0
                else f"no end within {LISTING_LIMIT_S:.0f} s, or a crash (exit {code})"
            )
            raise PeakgateError(f"{project}: its cases cannot be listed: {why}")
        try:
            found = json.loads(read_limited(file, LARGEST_FILE_BYTES))
            builds = found["builds"]
            every = [_listed(entry["of"], entry["case"], builds[entry["build"]], provide) for entry in found["cases"]]
            refused = [
                RefusedCase.named(family, name, reason, whole=whole) for family, name, reason, whole in found["refused"]
            ]
        except _UNREADABLE as error:
            raise PeakgateError(
                f"{project}: its cases were listed as something else ({error!r}); see its families"
            ) from None
    refused += [each for each in every if isinstance(each, RefusedCase)]
    return {each.case.id: each for each in every if isinstance(each, Listed)}, refused


def _listed(of: Sequence[str], data: Any, probes: Sequence[Any], provide: Provide) -> Listed | RefusedCase:
    family, name = of
    try:
        case = as_record(data)
        edges = [_provided(as_record(each), partial(provide, case.id, number)) for number, each in enumerate(probes)]
        return Listed(_provided(case, partial(provide, case.id, None)), tuple(edges))
    except _UNREADABLE as error:
        return RefusedCase.named(family, name, f"{family}.{name}: it was listed as something else ({error!r})")


def _provided(case: Case, own: Callable[[], Case]) -> Case:
    """The case with the functions of the problem as its family defines it: its reference, those of its input data."""
    places = count()

    def filled(buffer: Buffer) -> Buffer:
        place = next(places)
        if buffer.data is not _of_function:
            return buffer
        return replace(buffer, data=_later(lambda: _buffers(own())[place].data, f"{case.id}: its input data"))

    arguments = tuple(filled(each) if isinstance(each, Buffer) else each for each in case.arguments)
    constants = tuple((name, filled(buffer)) for name, buffer in case.stage.constants)
    reference = case.reference
    if reference is _of_function:
        reference = _later(lambda: own().reference, f"{case.id}: its reference")
    elif isinstance(reference, Case):  # another kernel on the same arguments
        stage = replace(reference.stage, constants=constants if reference.stage.constants else ())
        reference = replace(reference, arguments=arguments, stage=stage)
    scale: Any = case.scale
    if scale is _of_function:
        scale = _later(lambda: own().scale, f"{case.id}: its scale")
    stage = replace(case.stage, constants=constants)
    return replace(case, reference=reference, scale=scale, arguments=arguments, stage=stage)


def _buffers(case: Case) -> list[Buffer]:
    return [*case.buffers, *(buffer for _, buffer in case.stage.constants)]


def _later(find: Callable[[], object], what: str) -> Callable[..., Any]:
    """A function that is looked up when it is called; PeakgateError where it is none any more."""

    def function(*given: Any) -> Any:
        found = find()
        if not callable(found):
            raise PeakgateError(f"{what} was a function when its cases were listed")
        return found(*given)

    return function


RECORDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (Case, Stage, Launch, KernelLaunch, Work, Buffer, TexelBuffer, Texture, Surface, Scalar, Struct)
}
_TAKEN: dict[type, tuple[type, ...]] = {int: (int, float), float: (int, float), str: (str, int, float)}
"""A number does for another, and as the text of a macro's value: families may give these."""
NAMED: dict[str, Callable[[str], object]] = {"Path": Path, "Role": Role, "Tier": Tier}


def as_data(value: object) -> Any:
    """A record as JSON: an object with its type's name as the one key, tuples as lists, FUNCTION for a function."""
    if isinstance(value, tuple | list):
        return [as_data(member) for member in value]
    if isinstance(value, Path):
        return {"Path": str(value.absolute())}
    if isinstance(value, Enum):
        return {type(value).__name__: value.value}
    if isinstance(value, np.generic):
        return value.item()
    if type(value).__name__ in RECORDS:
        members = {field.name: as_data(getattr(value, field.name)) for field in fields(cast("Any", value))}
        return {type(value).__name__: members}
    return {FUNCTION: None} if callable(value) else value


def as_record(data: Any) -> Any:
    """What ``as_data`` was given, with ``_of_function`` for functions; TypeError, ValueError or KeyError else."""
    if isinstance(data, list):
        return tuple(map(as_record, data))
    if not isinstance(data, dict):
        return data
    ((name, given),) = data.items()
    if name == FUNCTION:
        return _of_function
    if name in NAMED:
        return NAMED[name](given)
    kinds = _kinds(name)
    members = {member: as_record(value) for member, value in given.items()}
    for member, value in members.items():
        if not _fits(value, kinds[member]):
            raise TypeError(f"{name}.{member} is {value!r}")
    return RECORDS[name](**members)


@cache
def _kinds(name: str) -> dict[str, Any]:
    return get_type_hints(RECORDS[name])


def _fits(value: object, kind: Any) -> bool:
    """Whether a value is of an annotated type."""
    origin, members = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, each) for each in members)
    if origin is tuple:
        given = value if isinstance(value, tuple) else (None,)
        each = members[:1] * len(given) if members[-1] is Ellipsis else members
        return given is value and len(each) == len(given) and all(map(_fits, given, each))
    if origin is typing.Literal:
        return value in members
    if origin is abc.Callable:
        return value is _of_function
    return isinstance(value, _TAKEN.get(kind, kind))


def _of_function(_: Any, __: object) -> Array:
    """What stands in a record for a function until ``_provided`` puts the family's own in its place."""
    raise AssertionError("a record that was read has its own functions")


def main(arguments: Sequence[str]) -> int:
    """Write the cases; exit 2 on bad input."""
    file, scale = arguments
    try:
        write_whole(Path(file), json.dumps(_at_scale(Scale(scale)), default=repr))
    except PeakgateError as error:
        return errors.refused(error)
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
