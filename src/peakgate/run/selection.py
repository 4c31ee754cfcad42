"""Which cases a run measures, judged by the project's own contract; ``base_contract`` has those judged by a base."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from peakgate.base import config
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import UnreadableFile, read_text
from peakgate.base.formatting import nearest
from peakgate.base.verdict import Judgement
from peakgate.spec import catalogue
from peakgate.spec.case import Case, RefusedCase, Scale, Tier
from peakgate.spec.catalogue import Catalogue

RunCase = Case | RefusedCase
"""A case that a run reports: one that can be measured, or one that its family does not describe."""


@dataclass(frozen=True)
class Cases:
    """The cases of the project at hand.

    ``new`` are the ids of cases that the base does not have; ``notes`` are lines for the report.
    """

    scale: Scale
    new: Collection[str] = ()
    notes: Sequence[str] = ()

    @cached_property
    def _own(self) -> Catalogue:
        return catalogue.described(self.scale)

    @property
    def refused(self) -> Sequence[RefusedCase]:
        """The cases whose family does not describe them."""
        return self._own.refused

    def listed(self, tier: Tier) -> list[RunCase]:
        """The cases of a tier and all refused ones; with FULL all. At the emulator's scale there are no tiers."""
        every = tier is Tier.FULL or self.scale is Scale.SMALL
        return [case for case in self._all() if every or isinstance(case, RefusedCase) or case.tier is Tier.GATE]

    def of_refused_family(self, case_id: str) -> RefusedCase | None:
        """An unknown case id as a RefusedCase, if its whole family was refused and may have it; else None."""
        family, _, name = case_id.partition(".")
        whole = next((each for each in self.refused if each.whole and each.family == family and name), None)
        return RefusedCase.named(family, name, whole.reason) if whole else None

    def _all(self) -> Collection[RunCase]:
        return [*self._own.cases, *self.refused]

    def probes(self, case: Case) -> list[Case]:
        """The edge-size problems on which a case's build is proven."""
        return catalogue.probes(case, self._own.families)

    def objection(self, case: RunCase) -> Judgement | None:
        """Why a case cannot be measured; None if it can."""
        return case.judgement if isinstance(case, RefusedCase) else None


def _is_within(case: RunCase, paths: Sequence[Path]) -> bool:
    """Whether a case's source file, or its family's folder if it has none, is at or within one of the paths."""
    source = case.stage.source if isinstance(case, Case) else None
    place = config.current().kernels / case.family if source is None else source.absolute()
    return any(place.is_relative_to(path) or path.is_relative_to(place) for path in paths)


def wanted_cases(
    cases: Cases, tier: Tier, listed: Path | None, within: Sequence[Path] = ()
) -> tuple[dict[str, RunCase], list[str] | None]:
    """The tier's cases by id, or those that the file ``listed`` names, in its order; and its ids, None without a file.

    With files or folders ``within``, only cases whose sources are there. Raises PeakgateError for an unknown id,
    unless the project has benchmark tests, which may have it.
    """
    if listed is None:
        chosen = {case.id: case for case in cases.listed(tier) if not within or _is_within(case, within)}
        if within and not chosen:
            raise PeakgateError(f"{config.near(within[0])}: no case uses it", Code.SELECTION)
        return chosen, None
    every = {case.id: case for case in cases.listed(Tier.FULL)}
    try:
        wanted = list(dict.fromkeys(read_text(listed).split()))
    except UnreadableFile as error:
        raise PeakgateError(
            f"{config.near(listed)}: {error.why}; expected a file of case ids, one per line", Code.UNREADABLE
        ) from None
    every |= {
        case_id: case
        for case_id in wanted
        if case_id not in every and (case := cases.of_refused_family(case_id)) is not None
    }
    for case_id in wanted:
        if case_id not in every and not config.current().benchmarks:
            raise PeakgateError(
                f"{config.near(listed)}: no case is named {case_id!r}{nearest(case_id, every)}", Code.SELECTION
            )
    return {case_id: every[case_id] for case_id in wanted if case_id in every}, wanted
