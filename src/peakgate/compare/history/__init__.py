"""``peakgate history``: report what got slower over the saved runs of one GPU model, and between which commits."""

from __future__ import annotations

from collections.abc import Sequence

from peakgate.base import progress
from peakgate.base.options import add_selection
from peakgate.runfile.options import GATE_EXIT_CODES, READING, add_out, add_runs, verb_parser


def main(verb: str, arguments: Sequence[str]) -> int:
    """Judge the history and return the exit code of the verdict."""
    parser = verb_parser(
        verb,
        "Report what got slower over the saved runs of one GPU model, in the order of their commits, or of time where "
        "the repository does not know them: the change points of each case over the history of all GPUs of the model. "
        "A change point to slower is a regression; it is open until a later change undoes it or a person accepts it in "
        "baselines/<gpu>/acknowledged.toml. A case is SLOWER while one is among its newest sessions. Where the "
        "runs of several branches are saved, name those of one by --runs.",
        GATE_EXIT_CODES,
    )
    parser.add_argument(
        "--gpu", metavar="SLUG", help="the GPU model, as its folder is named; needed if there are several"
    )
    add_runs(parser)
    add_selection(parser, default="")
    parser.add_argument(
        "--fail-on-open",
        action="store_true",
        help="exit 1 while a regression is open, 3 while a recent change is unconfirmed (default: only warn)",
    )
    add_out(parser)
    parser.add_argument("--all", action="store_true", help="list unchanged cases too")
    options = parser.parse_args(arguments)
    with progress.shown(READING):  # pandas takes a second to import: after the arguments are known to be right
        from peakgate.compare.history import judged  # noqa: PLC0415
    return judged.write(options)
