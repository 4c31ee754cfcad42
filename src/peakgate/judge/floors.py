"""Floors: the least fraction of peak that each case may have, in a file that people edit, and judging a case by them.

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
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct

from peakgate.base import records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import counted, nearest
from peakgate.base.verdict import FAILING, OVER_PEAK, Judgement, Verdict

if TYPE_CHECKING:  # a supervisor does not import NumPy
    from peakgate.judge.metrics import Metrics
    from peakgate.measure.sampling import Samples

NO_REFERENCE = "not checked, no reference is given"
UNCHECKED = f"; result {NO_REFERENCE}"
"""The end of the reason for a callable or a kernel without a reference."""

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


def judge(samples: Samples, metrics: Metrics | None, floor: float | None, disturbance: str | None = None) -> Judgement:
    """Judge a case with a right result.

    ``disturbance`` is why the samples are doubtful, None if they are not. ``metrics`` is None if too few samples were
    undisturbed. The reason is one line without the case id. A transfer between host and device, which depends on the
    host, passes without a floor. A fraction of peak over 1.02 is IMPOSSIBLE: the case declares work that it does not
    do.
    """
    if metrics is None:
        taken = len(samples.times_us) + samples.discarded
        return Judgement(
            Verdict.INCONCLUSIVE,
            f"{samples.discarded} of {taken} samples ran throttled or disturbed and were discarded",
        )
    fraction = metrics.peak_fraction
    disturbance = samples.doubt or disturbance
    if disturbance is not None and (fraction is None or fraction <= OVER_PEAK):
        return Judgement(Verdict.INCONCLUSIVE, disturbance)
    if fraction is None and samples.first_us is not None:
        peak = "bytes may come from the L2, and no flops are given: no peak is claimed"
        if floor is not None:
            return Judgement(Verdict.INCONCLUSIVE, f"has a floor of {floor:.3g}, but {peak}")
        return Judgement(Verdict.NO_FLOOR, f"{peak}, only `peakgate ab` judges it")
    if fraction is None:
        clock = f" ({samples.clock})" if samples.power_bound else ""
        return Judgement(Verdict.NO_FLOOR, f"right; speed not judged, no peak is claimed on this device{clock}")
    how = f"{len(samples.times_us)} samples" + (f", {samples.clock}" if samples.clock else "")
    return by_floor(fraction, floor, how, transfer=metrics.bound == "link")


def unchecked(judgement: Judgement, *, on_gpu: bool) -> Judgement:
    """The judgement of a kernel whose result was compared with nothing, in place of that of a right one.

    On a GPU it is INCONCLUSIVE, whatever its floor; in the emulator it stays NO_FLOOR, which is shown as RAN.
    """
    if judgement.verdict in FAILING:
        return judgement
    verdict = Verdict.INCONCLUSIVE if on_gpu else Verdict.NO_FLOOR
    return Judgement(verdict, judgement.reason.removeprefix("right; ") + UNCHECKED)


def by_floor(peak_fraction: float, floor: float | None, how: str, *, transfer: bool = False) -> Judgement:
    """Judge a fraction of peak; the reason ends with ``how`` it was measured. Without a floor a ``transfer`` passes."""
    if peak_fraction > OVER_PEAK:
        return Judgement(
            Verdict.IMPOSSIBLE,
            f"{peak_fraction:.3g} of peak, and nothing exceeds the peak: the case claims more bytes or floating-point "
            "operations than its launch needs, or does not say their type; correct its work, or give its math",
        )
    if floor is not None:
        return held_to(peak_fraction, floor, how)
    if transfer:
        return Judgement(Verdict.PASS, f"{peak_fraction:.3g} of peak, a transfer has no floor ({how})")
    return Judgement(Verdict.NO_FLOOR, f"{peak_fraction:.3g} of peak, no floor set ({how})")


def held_to(peak_fraction: float, floor: float, how: str) -> Judgement:
    """Compare a fraction of peak with a floor; the reason ends with ``how`` it was measured."""
    verdict = Verdict.BELOW_FLOOR if peak_fraction < floor else Verdict.PASS
    return Judgement(verdict, f"{peak_fraction:.3g} of peak, floor {floor:.3g} ({how})")
