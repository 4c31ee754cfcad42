"""What the tests of a suite import: ``cases``, which gives a test the cases of kernel families.

::

    @cases("transpose")
    def test_transpose(case, gpu_benchmark):
        gpu_benchmark(case)
"""

from __future__ import annotations

import pytest

__all__ = ["cases"]


def cases(*families: str) -> pytest.MarkDecorator:
    """Parametrize a test over the cases of these families, in its argument ``case``; over all cases without a name.

    On a GPU these are the cases of both tiers, those of the gate with the mark ``gate``; without one they are the small
    problems that the emulator runs. Ids are case ids.
    """
    if not all(isinstance(family, str) for family in families):
        raise TypeError(f"@cases takes names of families, such as @cases('transpose', 'sgemm'); given {families}")
    return pytest.mark.peakgate_cases(*families)
