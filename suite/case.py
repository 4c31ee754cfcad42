"""The records of a case, as a ``family.py`` imports them; ``core/case.py`` defines them."""

from peakgate.core.case import *  # noqa: F403  (its __all__)
