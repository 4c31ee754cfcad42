"""The records of a case for import by a ``family.py``; defined in ``spec/case.py``."""

from peakgate.spec.case import *  # noqa: F403
from peakgate.spec.case import __all__ as __all__  # noqa: PLC0414
