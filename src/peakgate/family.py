"""The short form of a family, as a ``family.py`` imports it; ``spec/family.py`` defines it.

With the records of the long form, so that one module has all that a family may need.
"""

from peakgate.spec.case import *  # noqa: F403  (its __all__)
from peakgate.spec.family import *  # noqa: F403  (its __all__)
