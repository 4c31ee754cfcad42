"""A command that is run in this process on a hostile file, and what it must not do."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import fuzz_mutate as mutate

from peakgate import cli
from peakgate.base.verdict import ExitCode

VERDICTS = (ExitCode.OK, ExitCode.REGRESSION, ExitCode.BAD_INPUT, ExitCode.UNDECIDED)


class Finding(Exception):
    """A reader did what it must not; the message says what."""


@dataclass(frozen=True, slots=True)
class Reader:
    """One kind of file.

    ``make`` gives a hostile one, ``read`` puts it at its place in a folder and reads it as a command would: its exit
    code. ``inputs`` is how many of these a whole campaign makes: fewer where reading takes long.
    """

    make: Callable[[Random], bytes]
    read: Callable[[Path, bytes], int]
    inputs: int

    def repeat(self, name: str, number: int, folder: Path) -> int:
        """Read input ``number`` once more, with the traceback that it may give; the exit code."""
        data = self.make(Random(f"{name} {number}"))  # as attempt does
        sys.stdout.write(data.decode("utf-8", errors="replace")[:5000] + "\n")
        return self.read(folder, data)


@dataclass
class Outcome:
    """The exit code of a command, and what it wrote."""

    code: int
    out: str = ""
    err: str = ""
    error: BaseException | None = field(default=None)


def call(action: Callable[[], int | None]) -> Outcome:
    """Run a command in this process; Finding for an exception, another exit code, or more than one line with a 2."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = int(cli.guarded("fuzz", lambda: action() or 0))
    found = Outcome(code, out.getvalue(), err.getvalue())
    if code not in VERDICTS:
        places = re.findall(r'File ".*/(?:suite|reports)/(.*)", line (\d+)', found.err)
        at = f" at {places[-1][0]}:{places[-1][1]}, {found.err.splitlines()[-1][-200:]}" if places else ""
        raise Finding(f"exit code {code}{at}")
    if code == ExitCode.BAD_INPUT and len(found.err.splitlines()) != 1:
        raise Finding(f"exit code 2 with {len(found.err.splitlines())} lines: {found.err[:300]!r}")
    if "Traceback" in found.out + found.err:
        raise Finding("a traceback is printed")
    return found


def verb(*arguments: object) -> Outcome:
    """Run ``peakgate VERB ...`` in this process."""
    return call(lambda: cli.main([str(each) for each in arguments]))


def text(base: str) -> Callable[[Random], bytes]:
    """A maker of hostile variants of a file of lines."""
    return lambda random: mutate.lines(base, random)
