"""``peakgate inspect``: the checks of kernels that go deeper than ``check``, each a subject with options of its own.

``check`` shares the options of ``mutants``, and the verdict without a compiler.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from peakgate.base import config
from peakgate.base.errors import PeakgateError
from peakgate.base.options import VerbParser, add_selection, at_least
from peakgate.base.processes import one_blas_thread, variables
from peakgate.base.report import not_checked
from peakgate.render import terminal
from peakgate.render.findings import leave_verdict

SUBJECTS = {
    "resources": ("resources.command", "compare registers, spills and occupancy with a baseline; needs no GPU"),
    "mutants": (
        "mutants",
        "delete each barrier and guard, one at a time, and see whether `check` notices; needs no GPU",
    ),
    "sanitize": ("sanitize.command", "run every kernel under NVIDIA's compute-sanitizer on the GPU"),
}
"""Subject -> its module, which runs it by ``main(verb, arguments)``, and what it does."""


def main(verb: str, arguments: Sequence[str]) -> int:
    """Run the subject that is named first and return its exit code."""
    parser = VerbParser(
        prog=f"peakgate {verb}",
        description="Examine every kernel without timing it.",
        epilog=f"`peakgate {verb} SUBJECT --help` lists the options of a subject.",
    )
    listed = "; ".join(f"{subject}: {what}" for subject, (_, what) in SUBJECTS.items())
    parser.add_argument("subject", choices=SUBJECTS, metavar="SUBJECT", help=listed)
    subject = parser.parse_args(arguments[:1]).subject
    with variables(**one_blas_thread()):  # as NumPy is imported: its work is done by processes beside it
        command = import_module(f"peakgate.inspect.{SUBJECTS[subject][0]}")
    code: int = command.main(f"{verb} {subject}", arguments[1:])
    return code


def add_emulator_options(parser: VerbParser) -> None:
    """Add the selection of cases, the number of processes and the verdict's folder."""
    add_selection(parser, default="")
    jobs = os.cpu_count() or 1
    parser.add_argument(
        "--jobs", type=at_least(1), default=jobs, metavar="N", help="number of processes (default: one per core)"
    )
    add_verdict_folder(parser)


def add_verdict_folder(parser: VerbParser) -> None:
    """Add ``--out``, the verdict's folder; by default the project's."""
    default, what = config.near(config.current().out), "folder for the verdict (default: the project's)"
    parser.add_argument("--out", type=Path, default=default, metavar="DIR", help=what)


def leave_not_checked(verb: str, reason: PeakgateError | str, path: Path) -> int:
    """Print why nothing could be checked, write the verdict to ``path``, and return its exit code."""
    left = not_checked(verb, str(reason))
    terminal.show(left)
    return leave_verdict(left, path)
