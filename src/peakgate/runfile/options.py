"""The command-line options that several verbs share; without pandas, which not every verb needs."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from peakgate.base import config, git
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.options import VerbParser

READING = "reading the saved runs"
FORMS = "a file, a folder, a commit (as git names it, or 4 or more hex digits), driver:VERSION, latest or latest~N"
LONGEST_NAME = 1000
COMMIT_PREFIX = re.compile(r"[0-9a-fA-F]{4,40}")
LATEST = re.compile(r"latest(?:~(\d+))?")
GATE_EXIT_CODES = "exit codes: 0 pass, 1 regression, 2 bad input, 3 could not decide"


def verb_parser(verb: str, description: str, epilog: str | None = None) -> argparse.ArgumentParser:
    """A parser of one verb's options, as ``peakgate VERB --help`` shows them."""
    return VerbParser(prog=f"peakgate {verb}", description=description, epilog=epilog)


def run_name(wanted: str) -> str:
    """The text if it may name saved runs, in one of ``FORMS``, a name of git's as its commit's hash.

    Raises PeakgateError before any run is read.
    """
    if len(wanted.encode(errors="replace")) > LONGEST_NAME:
        raise PeakgateError(f"{wanted[:40]}...: {len(wanted)} characters; expected {FORMS}", Code.WHICH_RUN)
    known = LATEST.fullmatch(wanted) or COMMIT_PREFIX.fullmatch(wanted) or wanted.startswith("driver:")
    if known or Path(wanted).exists():
        return wanted
    if re.fullmatch(r"[0-9a-fA-F]{1,3}", wanted):
        raise PeakgateError(f"{wanted}: a commit needs 4 or more hex digits", Code.WHICH_RUN)
    try:
        named = git.ask(Path.cwd(), "rev-parse", "--verify", "--quiet", "--end-of-options", f"{wanted}^{{commit}}")
    except PeakgateError:
        raise PeakgateError(f"{wanted}: no such file, folder or commit; expected {FORMS}", Code.WHICH_RUN) from None
    return named.decode().strip()


def add_run(parser: argparse.ArgumentParser, name: str, **options: Any) -> None:
    """Add an argument that names saved runs; a shell completes it by ``latest``, ``latest~1`` and files."""

    def completer(prefix: str, **_: object) -> list[str]:
        from argcomplete.completers import FilesCompleter  # noqa: PLC0415  (optional, and there if it asks)

        return ["latest", "latest~1", *FilesCompleter()(prefix)]

    vars(parser.add_argument(name, **options))["completer"] = completer


def add_runs(parser: argparse.ArgumentParser) -> None:
    """Add ``--runs``, the folders of saved runs to search: None, or the folders in the order given."""
    parser.add_argument(
        "--runs",
        type=Path,
        action="append",
        metavar="DIR",
        help="search for saved runs below DIR, not in .benchmarks and baselines/*/runs; again for more",
    )


def add_run_names(parser: argparse.ArgumentParser) -> None:
    """Add the arguments RUN ... and ``--runs``, which ``runfile.find.named_runs`` reads."""
    add_run(parser, "run_names", metavar="RUN", nargs="+", help="saved sessions of one GPU model")
    add_runs(parser)


def add_out(parser: argparse.ArgumentParser) -> None:
    """Add ``--out``, the folder of the written reports; by default the project's."""
    default = config.near(config.current().out)
    parser.add_argument("--out", type=Path, default=default, metavar="DIR", help="folder of the written reports")


def commit_url() -> Callable[[str], str] | None:
    """A function that makes the address of a commit of its hash, by the setting; None without it."""
    address = config.current().commit_url
    return None if address is None else lambda commit: address.replace("{}", quote(commit, safe=""))


def add_verdict_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--out``, ``--all`` and ``--strict-gate``: how a comparison is reported and what fails it."""
    add_out(parser)
    parser.add_argument("--all", action="store_true", help="list unchanged cases too")
    parser.add_argument("--strict-gate", dest="strict", action="store_true", help="exit 3 where a case has no floor")
