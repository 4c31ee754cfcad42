"""Floors: the least fraction of peak that each case may have, in a file that people edit.

::

    schema = 1
    gpu = "nvidia-h200"

    [floors]
    "transpose.smem_pad-8192-32x8" = 0.68  # 5 sessions of 1 GPU, median 0.725, spread 0.12 %, room 6.6 %, driver ...

Reading is strict, because a floor with a misspelt case id has no effect. Rewriting keeps order and comments.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from peakgate.base import records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import counted, nearest

FLOORS_SCHEMA = 1
_FLOOR = "a fraction of peak above 0 and up to 1, behind the whole case id in quotation marks"
Floor = Annotated[float, Meta(gt=0, le=1, description=_FLOOR)]
IMPORTED = re.compile(r"\.(?:nvbench|google-benchmark)(?:-|$)")
"""Matches the id of a case read by `peakgate import`, which no run of Peakgate has."""

ORIGIN = re.compile(r"(?:^|; )\d+ sessions?(?: of \d+ GPUs?)?, median .*$")


class FloorsFile(Struct, forbid_unknown_fields=True):
    """``floors.toml``."""

    schema: Literal[1]
    gpu: Annotated[str, Meta(min_length=1, description="the GPU the floors are of, as its folder is named")]
    floors: dict[str, Floor] = {}


@dataclass(frozen=True, slots=True)
class Floors:
    """The floors of one GPU model. ``present`` is False without a file."""

    path: Path
    gpu: str | None = None
    present: bool = False
    by_case: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def get(self, case_id: str) -> float | None:
        """The floor of a case as a fraction of peak in (0, 1]; None if it has none."""
        return self.by_case.get(case_id)


@dataclass(frozen=True, slots=True)
class Origin:
    """The evidence for a floor: median and spread of the fractions of peak, and the slowdown that it allows."""

    sessions: int
    gpus: int
    median: float
    spread_percent: float
    driver: str
    date: str
    room_percent: float = 0.0


def load_floors(path: Path, known_cases: Collection[str] | None = None, gpu: str | None = None) -> Floors:
    """Read ``floors.toml``; without a file no floors, with ``present`` False.

    Raises PeakgateError with the line of an unknown key, another schema, or a floor that is not in (0, 1]; with
    ``known_cases`` also of an unknown case id, except of imported cases; with ``gpu`` (a slug) if the floors are of
    another GPU model.
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
    """The text of ``floors.toml`` with new floors, each with a comment on its origin: case id to (floor, origin).

    ``text`` is the current content, empty for a new file. Order, blank lines and comments are kept; an earlier origin
    is replaced, and the new one follows a person's comment. New cases are appended. The floors of ``dropped`` cases are
    removed.
    """
    import tomlkit  # noqa: PLC0415  # every run reads floors, only a rewrite needs this

    document = tomlkit.parse(text)
    if not text.strip():
        document.add(tomlkit.comment("Least fraction of peak that each case may have. Peakgate proposes, you decide."))
        document.add("schema", tomlkit.item(FLOORS_SCHEMA))
        document.add("gpu", tomlkit.item(gpu))
        document.add(tomlkit.nl())
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
    """The comment on a proposed floor's origin; ``ORIGIN`` matches it."""
    return (
        f"{counted(origin.sessions, 'session')} of {counted(origin.gpus, 'GPU')}, median {origin.median:.3g}, "
        f"spread {origin.spread_percent:.2f} %, room {origin.room_percent:.1f} %, driver {origin.driver}, {origin.date}"
    )
