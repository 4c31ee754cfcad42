"""Errors a user can cause, each told in one line."""

from __future__ import annotations


class PeakgateError(Exception):
    """Bad input or a missing prerequisite.

    The message is one line: what was given, what was expected, where to look, what to do next. Commands print it
    without a traceback and exit with ``ExitCode.BAD_INPUT``.
    """
