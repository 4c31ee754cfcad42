"""``peakgate inspect``: the checks of kernels that go deeper than ``check``, each a subject with options of its own."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from peakgate.base.options import VerbParser
from peakgate.base.processes import one_blas_thread, variables

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
