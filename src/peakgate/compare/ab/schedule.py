"""The order of the sides (ABBA), and the schedule of interim looks; pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

# Family-wise error rate: the probability that any case is flagged when nothing changed. The shift of the whole suite
# has the same, two-sided.
PAIRS_ALPHA = 0.01

# Error spending (Lan and DeMets, 1983): (share of the confirming pairs, share of PAIRS_ALPHA). A doubled time is
# flagged after a fifth of them; what is open after all of them is measured for as many again. The shares of PAIRS_ALPHA
# add up to one, so interim looks do not add false positives.
CONFIRMING_LOOKS = ((0.2, 0.1), (0.5, 0.2), (1.0, 0.5), (2.0, 0.2))

FEWEST_PAIRS = 4  # before the first look: a case's own variance has three degrees of freedom


class Side(StrEnum):
    """One of the two sides."""

    BASE = "base"
    HEAD = "head"


class Phase(StrEnum):
    """Purpose of a process: prove results (its times do not count), screen all cases, or confirm suspects."""

    PROOF = "proof"
    SCREEN = "screen"
    CONFIRM = "confirm"


@dataclass(frozen=True, slots=True)
class Look:
    """An interim decision after ``pairs`` confirming pairs at level ``alpha``.

    ``final`` once all requested pairs are measured; a suspect that is then not significant is dropped.
    """

    pairs: int
    alpha: float
    final: bool


def order(pair: int) -> tuple[Side, Side]:
    """The order of the sides in this pair (from 0): A B, B A, A B, ... so that a linear drift cancels."""
    return (Side.BASE, Side.HEAD) if pair % 2 == 0 else (Side.HEAD, Side.BASE)


def looks(confirm_pairs: int) -> tuple[Look, ...]:
    """The interim looks; even numbers of pairs, so that both orders occur equally often."""
    planned: dict[int, Look] = {}
    for share, alpha_share in CONFIRMING_LOOKS:
        pairs = max(FEWEST_PAIRS, 2 * math.ceil(share * confirm_pairs / 2))
        alpha = alpha_share * PAIRS_ALPHA + (planned[pairs].alpha if pairs in planned else 0.0)
        planned[pairs] = Look(pairs, alpha, final=share >= 1)
    return tuple(planned.values())


def seconds_left(pairs_left: int, recent_pairs_s: list[float]) -> float | None:
    """Estimated seconds for so many pairs, by the mean of the recent ones; None before the first."""
    return pairs_left * sum(recent_pairs_s) / len(recent_pairs_s) if recent_pairs_s else None
