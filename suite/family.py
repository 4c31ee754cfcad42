"""The short form of a family, as a ``family.py`` imports it; ``core/family.py`` defines it."""

from peakgate.core.case import *  # noqa: F403  (the records that the long form takes, as families import them from here)
from peakgate.core.family import *  # noqa: F403  (its __all__)
