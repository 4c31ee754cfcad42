"""Floors: the least fraction of peak a case may reach, in a file that people own.

::

    schema = 1
    gpu = "nvidia-h200"

    [floors]
    "transpose.smem_pad-8192-32x8" = 0.68  # 5 sessions of 1 GPU, median 0.725, spread 0.12 %, room 6.6 %, driver ...

Reading is strict, because a floor under a misspelt name holds nothing. Rewriting keeps order and comments.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct

from peakgate.base import records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import counted, nearest

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

FLOORS_SCHEMA = 1
_FLOOR = "a fraction of peak above 0 and up to 1, behind the whole case id in quotation marks"
Floor = Annotated[float, Meta(gt=0, le=1, description=_FLOOR)]
IMPORTED = re.compile(r"\.(?:nvbench|google-benchmark)(?:-|$)")
"""In the id of a case that `peakgate import` read: no run of this tool knows it."""

ORIGIN = re.compile(r"(?:^|; )\d+ sessions?(?: of \d+ GPUs?)?, median .*$")


class FloorsFile(Struct, forbid_unknown_fields=True):
    """``floors.toml``."""

    schema: Literal[1]
    gpu: Annotated[str, Meta(min_length=1, description="the GPU the floors are of, as its folder is named")]
    floors: dict[str, Floor] = {}


@dataclass(frozen=True, slots=True)
class Floors:
    """The floors of one GPU model. ``present`` separates an empty file from a missing one."""

    path: Path
    gpu: str | None = None
    present: bool = False
    by_case: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def get(self, case_id: str) -> float | None:
        """The floor of a case as a fraction of peak in (0, 1]; None when it has none."""
        return self.by_case.get(case_id)


@dataclass(frozen=True, slots=True)
class Origin:
    """The evidence for a floor: median and spread of the fractions of peak, and the slowdown that it lets pass."""

    sessions: int
    gpus: int
    median: float
    spread_percent: float
    driver: str
    date: str
    room_percent: float = 0.0


def load_floors(path: Path, known_cases: Collection[str] | None = None, gpu: str | None = None) -> Floors:
    """Read ``floors.toml``; no file gives no floors, ``present`` False.

    A PeakgateError names the line of an unknown key, another schema, a floor that is no number in (0, 1], and, when
    ``known_cases`` or ``gpu`` (a slug) are given, a case id that is not among them, with the nearest that is, or floors
    of another GPU. Floors of imported cases are not looked up.
    """
    found = records.read(path, FloorsFile, "correct it; see `peakgate help floors`", absent=FloorsFile(1, ""))
    if not found.gpu:
        return Floors(path)
    if gpu is not None and found.gpu != gpu:
        where = records.place(path, "gpu")
        raise PeakgateError(
            f"{where}: floors of {found.gpu!r}, expected {gpu}; floors belong to one GPU model", Code.GPU_MODELS
        )
    for case_id in found.floors:
        if known_cases is not None and case_id not in known_cases and not IMPORTED.search(case_id):
            where = records.place(path, "floors", case_id)
            raise PeakgateError(f"{where}: no case is named {case_id!r}{nearest(case_id, known_cases)}", Code.SELECTION)
    return Floors(path, found.gpu, True, MappingProxyType(found.floors))


def revise_floors(text: str, gpu: str, floors: Mapping[str, tuple[float, str]], dropped: Collection[str] = ()) -> str:
    """The text of ``floors.toml`` with each case's floor and the comment on where it comes from, as (floor, origin).

    ``text`` is the present content, empty for a new file. Order, blank lines and people's comments stay; an origin
    written here before is replaced, a person's comment beside a floor is kept in front of the new origin. New cases
    come last. ``dropped`` are cases whose floor is taken out.
    """
    import tomlkit  # noqa: PLC0415  # every run reads floors, only a rewrite needs this

    document = tomlkit.parse(text) if text.strip() else _new_document(gpu)
    table: Any = document.setdefault("floors", tomlkit.table())
    for case_id, (floor, origin) in floors.items():
        value = tomlkit.item(floor)
        before = table[case_id].trivia.comment if case_id in table else ""
        comment = ORIGIN.sub("", before.removeprefix("#").strip())
        value.comment(f"{comment}; {origin}" if comment else origin)
        table[case_id] = value
    for case_id in dropped:
        table.pop(case_id, None)
    return tomlkit.dumps(document)


def origin_comment(origin: Origin) -> str:
    """A proposed floor's origin as a comment; ``revise_floors`` recognises it by its first words."""
    return (
        f"{counted(origin.sessions, 'session')} of {counted(origin.gpus, 'GPU')}, median {origin.median:.3g}, "
        f"spread {origin.spread_percent:.2f} %, room {origin.room_percent:.1f} %, driver {origin.driver}, {origin.date}"
    )


def _new_document(gpu: str) -> TOMLDocument:
    import tomlkit  # noqa: PLC0415  # as in revise_floors

    document = tomlkit.document()
    document.add(tomlkit.comment("Least fraction of peak each case may reach. People own this file, tools propose."))
    document.add("schema", tomlkit.item(FLOORS_SCHEMA))
    document.add("gpu", tomlkit.item(gpu))
    document.add(tomlkit.nl())
    return document
