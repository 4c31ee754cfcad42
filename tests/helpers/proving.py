"""A session whose builds end as the sizes of their cases say; processes import it by name."""

import os
import signal
import sys
from types import SimpleNamespace

from synthetic_cases import make_case

ENDS = ("right", "wrong", "dies", "hangs")
CASES = {end: make_case(size=end) for end in ENDS}


def prove_build(case):
    """5 problems, or what else the case is named after."""
    if case.size == "dies":
        os._exit(3)
    if case.size == "hangs":
        signal.pause()
    if case.size == "wrong":
        raise ValueError(case.id)
    return 5


def opened():
    """A session and the cases of its project."""
    sys.stdout.write("a family says something as it is imported\n")
    known = SimpleNamespace(listed=lambda _tier: list(CASES.values()))
    return SimpleNamespace(device=SimpleNamespace(lost=None), prover=SimpleNamespace(prove_build=prove_build)), known
