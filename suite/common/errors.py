"""Errors a user can cause, each reported in one line."""

from __future__ import annotations

import sys

from peakgate.common.text import one_line
from peakgate.verdict import ExitCode


class PeakgateError(Exception):
    """Bad input or a missing prerequisite.

    The message is one line: what was given, what was expected, where to look, what to do next. Commands print it
    without a traceback and exit with ``exit_code``.
    """

    exit_code = ExitCode.BAD_INPUT


class CannotDecide(PeakgateError):
    """The input is right, but nothing can be measured now: the GPU is in use, or without free memory."""

    exit_code = ExitCode.UNDECIDED


def refused(error: PeakgateError) -> ExitCode:
    """Print a user's error as one line on stderr, whatever line breaks its message quotes, and return the exit code."""
    sys.stderr.write(one_line(" ".join(str(error).split())) + "\n")
    return error.exit_code
