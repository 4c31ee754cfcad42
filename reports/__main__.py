"""``python -m reports``: compare saved runs, propose floors from them."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from reports.compare import compare
from reports.files import write_whole
from reports.locate import FORMS, Archive, apart, find_history, find_side, without_copies
from reports.render import machine, markdown, terminal
from reports.result import Comparison
from suite.baseline import load_floors
from suite.errors import PeakgateError
from suite.verdict import ExitCode

DEFAULT_OUT = Path("reports/out")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one sub-command and return its exit code; a user's error is one line on stderr."""
    options = _parser().parse_args(arguments)
    try:
        code: ExitCode = options.run(options)
    except PeakgateError as error:
        sys.stderr.write(" ".join(str(error).split()) + "\n")
        return ExitCode.BAD_INPUT
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    return code


def _compare(options: argparse.Namespace) -> ExitCode:
    archive = Archive(options.runs)
    sides = apart(find_side(options.base, archive), find_side(options.new, archive))
    comparison = compare(*sides, find_history(archive, sides), across_gpus=options.across_gpus)
    console = Console(highlight=False)
    terminal.show(comparison, console, everything=options.all)
    written = [] if options.no_files else _write(comparison, options.out, strict=options.strict)
    terminal.last_line(comparison, console, strict=options.strict, written=written)
    return comparison.exit_code(strict=options.strict)


def _floors(options: argparse.Namespace) -> ExitCode:
    from reports import floors  # noqa: PLC0415  # as in _write

    archive = Archive(options.runs)
    runs = without_copies(run for wanted in options.run_names for run in find_side(wanted, archive).runs)
    path = options.baselines / runs[0].slug / "floors.toml"
    present = load_floors(path)
    text = path.read_text(encoding="utf-8") if present.present else ""
    proposals = floors.propose(runs, present)
    revised = floors.revised(text, proposals, lower=options.lower)
    sys.stdout.write(floors.diff(text, revised, path))
    sys.stdout.write(floors.summary(proposals, len(runs), lower=options.lower))
    if options.write and revised != text:
        write_whole(path, revised)
        sys.stdout.write(f"written: {path}\n")
    return ExitCode.OK


def _write(comparison: Comparison, folder: Path, *, strict: bool) -> list[Path]:
    from reports.render import tables  # noqa: PLC0415  # pandas takes over a second to import; --no-files saves it

    texts = {
        "compare.md": markdown.markdown(comparison, strict=strict),
        "compare.csv": tables.csv(comparison),
        "compare.json": machine.verdict_json(comparison, strict=strict),
    }
    for name, text in texts.items():
        write_whole(folder / name, text)
    return [folder / name for name in texts]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m reports", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    comparing = commands.add_parser(
        "compare",
        help="say what is slower in NEW than in BASE",
        description=f"Say what is slower in NEW than in BASE. Each is {FORMS}.",
        epilog="exit codes: 0 pass, 1 regression, 2 bad input, 3 could not decide",
    )
    comparing.set_defaults(run=_compare)
    comparing.add_argument("base", metavar="BASE")
    comparing.add_argument("new", metavar="NEW")
    _add_runs(comparing)
    comparing.add_argument("--out", type=Path, default=DEFAULT_OUT, metavar="DIR", help="folder of the written reports")
    comparing.add_argument("--no-files", action="store_true", help="print only")
    comparing.add_argument("--across-gpus", action="store_true", help="compare runs of two GPU models")
    comparing.add_argument("--all", action="store_true", help="list unchanged cases too")
    comparing.add_argument("--strict", action="store_true", help="a case without a floor leaves the gate undecided")
    proposing = commands.add_parser(
        "floors",
        help="propose floors from several saved runs",
        description=f"Propose floors from at least 2, better 5, sessions, as a diff. Each RUN is {FORMS}.",
    )
    proposing.set_defaults(run=_floors)
    proposing.add_argument("run_names", metavar="RUN", nargs="+")
    _add_runs(proposing)
    proposing.add_argument(
        "--baselines", type=Path, default=Path("baselines"), metavar="DIR", help="holds <gpu>/floors.toml"
    )
    proposing.add_argument("--lower", action="store_true", help="take floors lower than today's too")
    proposing.add_argument("--write", action="store_true", help="change floors.toml")
    return parser


def _add_runs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs",
        type=Path,
        action="append",
        metavar="DIR",
        help="search below DIR instead of .benchmarks and baselines/*/runs; may be given again",
    )


if __name__ == "__main__":
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    sys.exit(main())
