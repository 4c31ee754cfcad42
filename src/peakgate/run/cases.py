"""The cases of a run judged by its project's own contract; ``base_contract`` has those judged by a base."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

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


def refusal_of(case: Case, refused: Sequence[RefusedCase]) -> Judgement | None:
    """The judgement of a case that one side lacks because it, or its whole family, was refused there; else None."""
    alike = (each for each in refused if each.id == case.id or (each.whole and each.family == case.family))
    found = next(alike, None)
    return found.judgement if found else None
