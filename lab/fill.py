"""Fills the blocks of pages from the records of experiments: ``python -m lab.fill [NAME ...]``.

Without a name all pages are filled, except that of ``lab.injected``: ``python -m lab.injected.page`` resamples its
tables, in minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from lab.calibrated import emulated
from lab.compared import study as compared
from lab.correctness import study as correctness
from lab.dodges import dodges
from lab.faults import counts
from lab.fleet import known
from lab.floors import held_out
from lab.history import bound, pool
from lab.mutation import mutation
from lab.pages import ROOT, fill_page


class Filled(NamedTuple):
    """A page, and the function that gives its blocks by name."""

    page: Path
    blocks: Callable[[], Mapping[str, str]]


EXPLANATION, LAB = ROOT / "docs" / "explanation", ROOT / "lab"
PAGES = {
    "calibrated": Filled(EXPLANATION / "races.md", emulated.blocks),
    "compared": Filled(LAB / "compared" / "README.md", compared.blocks),
    "correctness": Filled(LAB / "correctness" / "README.md", correctness.blocks),
    "dodges": Filled(EXPLANATION / "promises.md", lambda: {**dodges.blocks(), "gates": pool.passing()}),
    "faults": Filled(LAB / "faults" / "README.md", counts.blocks),
    "fleet": Filled(EXPLANATION / "slow-gpus.md", known.blocks),
    "floors": Filled(LAB / "floors" / "README.md", held_out.blocks),
    "history": Filled(EXPLANATION / "change-points.md", bound.blocks),
    "mutation": Filled(LAB / "mutation" / "README.md", mutation.blocks),
}
"""Experiment to its page."""


def main() -> None:
    """Fill the pages of the named experiments, or all."""
    parser = argparse.ArgumentParser(prog="python -m lab.fill", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *PAGES], help=f"of {', '.join(PAGES)}")
    for name in parser.parse_args().names or PAGES:
        page, blocks = PAGES[name]
        fill_page(page, blocks())


if __name__ == "__main__":
    main()
