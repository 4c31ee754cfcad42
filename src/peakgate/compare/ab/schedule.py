"""In which order the two sides run, and after how many confirming pairs they are looked at; pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

# Family-wise error rate: the chance that any case at all is flagged when nothing changed; the suite's own shift has as
# much, both ways.
PAIRS_ALPHA = 0.01

# Error spending (Lan and DeMets, 1983): (share of the confirming pairs, share of PAIRS_ALPHA). What doubled is plain
# after a fifth of them; what the last pair leaves open is measured again. The shares of PAIRS_ALPHA add up to one:
# interim looks add no false positives.
CONFIRMING_LOOKS = ((0.2, 0.1), (0.5, 0.2), (1.0, 0.5), (2.0, 0.2))

FEWEST_PAIRS = 4  # of the first look: three degrees of freedom of a case's own


class Side(StrEnum):
    """One of the two sides."""

    BASE = "base"
    HEAD = "head"


class Phase(StrEnum):
    """Purpose of a process: proving results (its times are not used), screening all cases, confirming suspects."""

    PROOF = "proof"
    SCREEN = "screen"
    CONFIRM = "confirm"


@dataclass(frozen=True, slots=True)
class Look:
    """Decide when so many confirming pairs are in, at this share of PAIRS_ALPHA.

    ``final`` once the pairs that were asked for are in: a suspect that then leans nowhere is dropped.
    """

    pairs: int
    alpha: float
    final: bool


def order(pair: int) -> tuple[Side, Side]:
    """Which side goes first in this pair, counted from 0: A B, B A, A B, ... so that a steady drift cancels."""
    return (Side.BASE, Side.HEAD) if pair % 2 == 0 else (Side.HEAD, Side.BASE)


def looks(confirm_pairs: int) -> tuple[Look, ...]:
    """When suspects are looked at; even numbers of pairs, so that both orders count alike."""
    planned: dict[int, Look] = {}
    for share, alpha_share in CONFIRMING_LOOKS:
        pairs = max(FEWEST_PAIRS, 2 * math.ceil(share * confirm_pairs / 2))
        alpha = alpha_share * PAIRS_ALPHA + (planned[pairs].alpha if pairs in planned else 0.0)
        planned[pairs] = Look(pairs, alpha, final=share >= 1)
    return tuple(planned.values())


def seconds_left(pairs_left: int, recent_pairs_s: list[float]) -> float | None:
    """How long so many pairs take, by the mean of those measured; None before the first."""
    return pairs_left * sum(recent_pairs_s) / len(recent_pairs_s) if recent_pairs_s else None
