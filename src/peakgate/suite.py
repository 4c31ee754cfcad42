"""The API of a suite's tests: ``cases`` parametrizes a test with the cases of kernel families.

::

    @cases("transpose")
    def test_transpose(case, gpu_benchmark):
        gpu_benchmark(case)
"""

from __future__ import annotations

import pytest

__all__ = ["cases"]


def cases(*families: str) -> pytest.MarkDecorator:
    """Parametrize a test's argument ``case`` with the cases of these families, or of all families.

    On a GPU these are the cases of both tiers, with the mark ``gate`` on those of the gate tier; without a GPU they are
    the small problems for the emulator. Test ids are case ids.
    """
    if not all(isinstance(family, str) for family in families):
        raise TypeError(f"@cases takes names of families, such as @cases('transpose', 'sgemm'); given {families}")
    return pytest.mark.peakgate_cases(*families)
