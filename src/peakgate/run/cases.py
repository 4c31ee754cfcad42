"""The cases of a run by its project's own terms; ``base_contract`` has those of a change that a base judges."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from peakgate.base.verdict import Judgement
from peakgate.spec import catalogue
from peakgate.spec.case import Case, RefusedCase, Scale, Tier
from peakgate.spec.catalogue import Catalogue

RunCase = Case | RefusedCase
"""What a run has a result of; one that is not described is never measured."""


@dataclass(frozen=True)
class Cases:
    """The cases of a run: those of the project at hand, by its own terms.

    ``new`` are cases that the base does not have, ``notes`` what a report says of the choice.
    """

    scale: Scale
    new: Collection[str] = ()
    notes: Sequence[str] = ()

    @cached_property
    def _own(self) -> Catalogue:
        return catalogue.described(self.scale)

    @property
    def refused(self) -> Sequence[RefusedCase]:
        """Those that are not described."""
        return self._own.refused

    def listed(self, tier: Tier) -> list[RunCase]:
        """Those of a tier, and all that are not described; FULL: all. Small problems have no tiers."""
        every = tier is Tier.FULL or self.scale is Scale.SMALL
        return [case for case in self._all() if every or isinstance(case, RefusedCase) or case.tier is Tier.GATE]

    def of_refused_family(self, case_id: str) -> RefusedCase | None:
        """A case that is not known, where its family may have it; None where no family may."""
        family, _, name = case_id.partition(".")
        whole = next((each for each in self.refused if each.whole and each.family == family and name), None)
        return RefusedCase.named(family, name, whole.reason) if whole else None

    def _all(self) -> Collection[RunCase]:
        return [*self._own.cases, *self.refused]

    def probes(self, case: Case) -> list[Case]:
        """The edge-size problems that prove a case's build right."""
        return catalogue.probes(case, self._own.families)

    def objection(self, case: RunCase) -> Judgement | None:
        """Why a case cannot be measured; None where it can."""
        return case.judgement if isinstance(case, RefusedCase) else None


def refusal_of(case: Case, refused: Sequence[RefusedCase]) -> Judgement | None:
    """Why a side that does not have a case may have it all the same: it, or its family, is not described there."""
    alike = (each for each in refused if each.id == case.id or (each.whole and each.family == case.family))
    found = next(alike, None)
    return found.judgement if found else None
