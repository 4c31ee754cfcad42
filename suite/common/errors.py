"""Errors a user can cause, each told in one line."""

from __future__ import annotations

import sys

from peakgate.common.text import one_line
from peakgate.verdict import ExitCode


class PeakgateError(Exception):
    """Bad input or a missing prerequisite.

    The message is one line: what was given, what was expected, where to look, what to do next. Commands print it
    without a traceback and exit with ``ExitCode.BAD_INPUT``.
    """


def refused(error: PeakgateError) -> ExitCode:
    """Tell a user's error in one line on stderr, whatever line breaks its message quotes, and give the exit code."""
    sys.stderr.write(one_line(" ".join(str(error).split())) + "\n")
    return ExitCode.BAD_INPUT
