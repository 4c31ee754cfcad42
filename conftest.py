"""What the tests of suite/ share."""

from __future__ import annotations

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Where nobody asked for a run there are no cases: say how to ask for one."""
    of_suite = metafunc.definition.path.parent.name == "suite" and "case_id" in metafunc.fixturenames
    if of_suite and not metafunc.config.option.peakgate:
        skipped = pytest.mark.skip(reason="measured by `pytest suite --peakgate`, or by `peakgate bench`")
        metafunc.parametrize("case_id", [pytest.param("", marks=skipped, id="not-measured")])
