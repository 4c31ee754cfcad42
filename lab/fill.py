"""Fills the blocks of pages from the records of experiments: ``python -m lab.fill [NAME ...]``.

Without a name all pages are filled, except that of ``lab.injected``: ``python -m lab.injected.page`` resamples its
tables, in minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

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

EXPLANATION, LAB = ROOT / "docs" / "explanation", ROOT / "lab"
PAGES: Mapping[str, tuple[Path, Callable[[], Mapping[str, str]]]] = {
    "calibrated": (EXPLANATION / "races.md", emulated.blocks),
    "compared": (LAB / "compared" / "README.md", compared.blocks),
    "correctness": (LAB / "correctness" / "README.md", correctness.blocks),
    "dodges": (EXPLANATION / "promises.md", lambda: {**dodges.blocks(), "gates": pool.passing()}),
    "faults": (LAB / "faults" / "README.md", counts.blocks),
    "fleet": (EXPLANATION / "slow-gpus.md", known.blocks),
    "floors": (LAB / "floors" / "README.md", held_out.blocks),
    "history": (EXPLANATION / "change-points.md", bound.blocks),
    "mutation": (LAB / "mutation" / "README.md", mutation.blocks),
}
"""Experiment to its page, and the function that gives the page's blocks by name."""


def main() -> None:
    """Fill the pages of the named experiments, or all."""
    parser = argparse.ArgumentParser(prog="python -m lab.fill", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *PAGES], help=f"of {', '.join(PAGES)}")
    for name in parser.parse_args().names or PAGES:
        page, blocks = PAGES[name]
        fill_page(page, blocks())


if __name__ == "__main__":
    main()
