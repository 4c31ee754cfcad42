"""The request of one run: a record whose fields are options of both `peakgate bench` and pytest.

The field ``device`` is ``--device`` in `peakgate bench` and ``--peakgate-device`` in pytest. Fields without a help text
are passed between Peakgate's own processes, by their names in pytest, and are not options of `peakgate bench`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

OPTION_PREFIX = "--peakgate-"
"""Prefix of the options in pytest."""

MODE_VARIABLE = "PEAKGATE_AB"
"""The mode of a process of an A/B. `peakgate ab` watches its processes itself: such a run has no supervisor."""


class Mode(StrEnum):
    """The purpose of a run."""

    WHOLE = "whole"
    """Measure the roofs; prove, time and judge the cases."""
    PROOF = "proof"
    """In an A/B: prove the kernels before any is timed; other processes may use the GPU meanwhile."""
    PAIR = "pair"
    """In an A/B: time the cases of one side of a pair, without proving them again."""


def mode_of_environment() -> Mode:
    """The mode in the environment variable that `peakgate ab` sets; WHOLE if it is not set."""
    named = os.environ.get(MODE_VARIABLE)
    if named is None:
        return Mode.WHOLE
    if named not in (Mode.PROOF, Mode.PAIR):
        from peakgate.base.errors import Code, PeakgateError  # noqa: PLC0415  (only a mistake needs it)

        raise PeakgateError(
            f"{MODE_VARIABLE}={named}: expected {Mode.PROOF} or {Mode.PAIR}; `peakgate ab` sets it", Code.OPTION
        )
    return Mode(named)


def _seed(text: str) -> int:
    from peakgate.base.options import at_least  # noqa: PLC0415  (slow to import for other test suites)

    return at_least(0)(text)


def _option(say: str | None = None, **how: Any) -> dict[str, Any]:
    """The option of a field: ``say`` is its help text, ``how`` the other arguments of ``add_argument``."""
    return {"help": say, "how": how}


@dataclass(frozen=True, slots=True)
class Request:
    """The options of a run, from `peakgate bench`, `peakgate ab` or pytest."""

    device: str = field(
        default="auto",
        metadata=_option(
            "auto (default: a GPU if one answers, else cpu), cpu, gpu or gpu:N; gpu:0,1 for cases on several GPUs"
        ),
    )
    tier: str | None = field(
        default=None,
        metadata=_option(
            "gate (default): every stage, few sizes and blocks; full: all of them",
            choices=("gate", "full"),
        ),
    )
    strict_gate: bool = field(
        default=False,
        metadata=_option("exit 3 where a case has no floor, and before measuring on a GPU that the preflight doubts"),
    )
    baselines_from: str | None = field(
        default=None,
        metadata=_option(
            "judge by the floors of this commit, for instance a change's base, and judge the cases that it has by its "
            "work, tolerance, reference and edge cases",
            metavar="REF",
        ),
    )
    cases: Path | None = field(default=None, metadata=_option(type=Path))
    """A file of case ids, one per line: run these, of any tier."""
    seed: int | None = field(
        default=None,
        metadata=_option(
            "fill buffers and place arrays as the run did whose file has this seed",
            type=_seed,
            metavar="N",
        ),
    )
    determinism: bool = field(
        default=False,
        metadata=_option("launch each kernel again on the same data and report outputs whose bits differ"),
    )
    energy: bool = field(
        default=False,
        metadata=_option("also measure joules per launch, in loops of back-to-back launches: some seconds per case"),
    )
    commit: str | None = field(default=None, metadata=_option())
    """The commit that is measured, where git cannot know it."""
    out: Path | None = field(
        default=None, metadata=_option("folder for the verdict (default: the project's)", type=Path)
    )
    mode: Mode = field(default=Mode.WHOLE, metadata=_option(type=Mode))
    """Of a process of `peakgate ab`."""
    other_builds: Path | None = field(default=None, metadata=_option(type=Path))
    """Of a process of `peakgate ab`: a file of builds to sample interleaved with the cases."""
    link: int | None = field(default=None, metadata=_option(type=int))
    """The supervisor's: the pipe for events."""
    journal: Path | None = field(default=None, metadata=_option(type=Path))
    """The supervisor's: cases to take over."""
    no_prebuild: bool = field(default=False, metadata=_option())
    """The supervisor's: build each case by itself."""

    @staticmethod
    def of(options: argparse.Namespace) -> Request:
        """The request in pytest's options."""
        return Request(**{each.name: getattr(options, f"peakgate_{each.name}") for each in fields(Request)})


def add_options(add: Callable[..., Any], prefix: str) -> None:
    """Add the options to a parser, or a group of pytest's, by its method ``add``.

    With pytest's prefix each has its default; without it what is not given is None or False.
    """
    for each in fields(Request):
        how, say = dict(each.metadata["how"]), each.metadata["help"]
        if say is None and prefix != OPTION_PREFIX:
            continue
        if each.default is False:
            how["action"] = "store_true"
        elif prefix == OPTION_PREFIX:
            how["default"] = each.default
        add(f"{prefix}{each.name.replace('_', '-')}", help=say or argparse.SUPPRESS, **how)


def parser() -> argparse.ArgumentParser:
    """The parser of the options of `peakgate bench` that are not pytest's."""
    from peakgate.base.options import MEANING, VerbParser  # noqa: PLC0415  (as above)
    from peakgate.base.report import add_json_option  # noqa: PLC0415  (as above)
    from peakgate.run.lock import add_lock_options  # noqa: PLC0415  (as above)

    made = VerbParser(
        prog="peakgate bench",
        description="Check every kernel of the project against its reference, time it and compare it with its floor. "
        "After a case that crashes or does not end, the others are measured in a fresh process. -k EXPRESSION: "
        f"{MEANING}. Other options are pytest's and pytest-benchmark's: `--collect-only`, `--benchmark-json FILE`, "
        "`--benchmark-storage FOLDER`, ...",
        epilog="exit codes: 0 pass, 1 regression, 2 bad input, 3 could not decide, 130 interrupted",
        allow_abbrev=False,
    )
    add_options(made.add_argument, "--")
    for theirs in ("--benchmark-json", "--benchmark-storage"):  # pytest-benchmark's, whose files we move into place
        made.add_argument(theirs, help=argparse.SUPPRESS)
    made.add_argument(
        "--resume",
        action="store_true",
        help="continue an interrupted run of the same tree, Peakgate, GPU and driver (not with --strict-gate)",
    )
    made.add_argument(
        "--counters",
        action="store_true",
        help="then profile each kernel case once by ncu and save its hardware counters in the run file",
    )
    add_json_option(made)
    add_lock_options(made)
    return made


def as_arguments(given: argparse.Namespace) -> list[str]:
    """The given options as arguments for pytest."""
    found = []
    for each in fields(Request):
        value = getattr(given, each.name, None)
        if value is not None and value is not False:
            option = f"{OPTION_PREFIX}{each.name.replace('_', '-')}"
            found.append(option if value is True else f"{option}={value}")
    return found
