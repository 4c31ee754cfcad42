"""What one run is asked for: one record, whose options `peakgate bench` and pytest both have.

`peakgate bench` spells ``device`` as ``--device``, pytest as ``--peakgate-device``. Fields without a help text are
passed between our own processes, by their names for pytest, and are no options of `peakgate bench`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

OPTION_PREFIX = "--peakgate-"
"""How pytest's options of ours begin."""


class Mode(StrEnum):
    """The purpose of a run."""

    WHOLE = "whole"
    """Prove its cases, time and judge them, beside the roofs."""
    PROOF = "proof"
    """One process of an A/B that proves its kernels before any is timed; others may be on the GPU meanwhile."""
    PAIR = "pair"
    """One side of a pair of an A/B: it repeats the cases of a proof and only times them."""


def _seed(text: str) -> int:
    from peakgate.base.options import at_least  # noqa: PLC0415  (a stranger's tests must not pay for it)

    return at_least(0)(text)


def _option(say: str | None = None, **how: Any) -> dict[str, Any]:
    """The option of a field: ``say`` is its help text, ``how`` the other arguments of ``add_argument``."""
    return {"help": say, "how": how}


@dataclass(frozen=True, slots=True)
class Request:
    """What a run is asked for, by `peakgate bench`, by the processes of `peakgate ab` or by pytest's options."""

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
        """What pytest's options ask for."""
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
        add(f"{prefix}{each.name.replace('_', '-')}", help=say, **how)


def as_arguments(given: argparse.Namespace) -> list[str]:
    """Our options under the names that the plug-in gives them; what was not given is left out."""
    found = []
    for each in fields(Request):
        value = getattr(given, each.name, None)
        if value is not None and value is not False:
            option = f"{OPTION_PREFIX}{each.name.replace('_', '-')}"
            found.append(option if value is True else f"{option}={value}")
    return found
