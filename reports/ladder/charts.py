"""The kinds of picture as plain data, which can be tested, and compared with older data, without drawing."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Curve:
    """Points by x. A predicted curve is dashed, in the colour of the measured one of the same ``colour``."""

    label: str
    points: Points
    colour: int
    predicted: bool = False


@dataclass(frozen=True, slots=True)
class Curves:
    """Measured and predicted curves; ``doubling`` axes are logarithmic, ticks of fractions read as percentages.

    ``steps`` is for what has no values in between: predicted curves are drawn as steps, measured ones as points.
    """

    title: str
    note: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    x_ticks: tuple[float, ...]
    steps: bool = False
    y_limits: tuple[float | None, float | None] = (None, None)
    doubling: bool = False
    x_fractions: bool = False
    y_fractions: bool = True
    roof: tuple[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """A stage's figure and, where another of its shapes beats it, the best one's label and figure."""

    label: str
    value: float
    better: tuple[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar per stage, from the first to the last of the ladder, against a roof."""

    title: str
    note: str
    x_label: str
    bars: tuple[Bar, ...]
    roof: tuple[str, float] | None


@dataclass(frozen=True, slots=True)
class Groups:
    """One group per size, one bar per stage, the reference implementation as a line; None where there is no figure."""

    title: str
    note: str
    y_label: str
    sizes: tuple[str, ...]
    stages: tuple[tuple[str, tuple[float | None, ...]], ...]
    reference: tuple[str, tuple[float | None, ...]]


Picture = Curves | Bars | Groups


def is_empty(picture: Picture) -> bool:
    """Whether the run has nothing to show in it."""
    if isinstance(picture, Curves):
        return not any(curve.points for curve in picture.curves if not curve.predicted)
    return not (picture.bars if isinstance(picture, Bars) else picture.sizes)


def digest(picture: Picture) -> str:
    """Identifies the data of a picture."""
    return hashlib.sha256(repr(picture).encode()).hexdigest()[:16]
