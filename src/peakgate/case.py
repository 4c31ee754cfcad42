"""The records of a case, as a ``family.py`` imports them; ``spec/case.py`` defines them."""

from peakgate.spec.case import *  # noqa: F403  (its __all__)
