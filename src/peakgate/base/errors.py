"""Errors that a user can cause, reported in one line with a code, and their location in the user's Python."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Self

from peakgate.base.streams import warn
from peakgate.base.verdict import ExitCode


class Code(StrEnum):
    """The code of a kind of mistake and its remedy, see docs/reference/errors.md.

    Error messages end with it in brackets. A code is never reused for another kind.
    """

    # The command line
    OPTION = "PG101"
    SELECTION = "PG102"
    COMMIT = "PG103"

    # Files and settings
    UNREADABLE = "PG201"
    MALFORMED = "PG202"
    RECORD = "PG203"
    UNWRITABLE = "PG204"
    TAKEN = "PG205"
    PROJECT = "PG206"
    SETTING = "PG207"
    CHANGED = "PG208"

    # Cases and benchmark tests
    FAMILY = "PG301"
    REFERENCE = "PG302"
    DATA = "PG303"
    TYPE = "PG304"
    TEXELS = "PG305"
    BENCHMARK_TEST = "PG306"
    OPERATION = "PG307"

    # Kernels
    BUILD = "PG401"
    SOURCE = "PG402"
    ARGUMENTS = "PG403"
    LAUNCH = "PG404"
    WRONG = "PG405"
    UNENDED = "PG406"

    # The machine
    INSTALLATION = "PG501"
    NO_GPU = "PG502"
    BUSY = "PG503"
    MEMORY = "PG504"
    ISOLATION = "PG505"
    PROCESS = "PG506"
    SYSTEM = "PG507"
    UPSTREAM = "PG508"
    ENVIRONMENT = "PG509"

    # Saved runs and their judgement
    WHICH_RUN = "PG601"
    NO_RUN = "PG602"
    GPU_MODELS = "PG603"
    EMULATED = "PG604"
    TOO_FEW = "PG605"
    NOT_ALIKE = "PG606"
    SIDE = "PG607"
    PROTECTED = "PG608"
    PAGE = "PG609"


class PeakgateError(Exception):
    """Bad input or a missing prerequisite.

    The message is one line: what was given, what was expected, where to look, what to do next. ``str()`` appends the
    ``code`` in brackets. Commands print it without a traceback and exit with ``exit_code``.
    """

    exit_code = ExitCode.BAD_INPUT
    code: Code | None = None

    def __init__(self, message: str, code: Code | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.code

    def __str__(self) -> str:
        return self.message if self.code is None else f"{self.message} [{self.code}]"

    @classmethod
    def repeated(cls, text: str, otherwise: Code | None = None) -> Self:
        """The error with a text that may end with its code, such as another process's; else with ``otherwise``."""
        message, _, code = text.removesuffix("]").rpartition(" [")
        known = next((each for each in Code if each == code), None)
        return cls(text, otherwise) if known is None else cls(message, known)


class CannotDecide(PeakgateError):
    """The input is valid, but nothing can be measured now: the GPU is in use or its memory is full, for example."""

    exit_code = ExitCode.UNDECIDED


class BuildError(PeakgateError):
    """A kernel does not compile, or its source cannot be read; the message names file and line."""

    code = Code.BUILD


NOT_OF_A_PROJECT = (KeyboardInterrupt, GeneratorExit)
"""Exceptions that are never the failure of a project's Python; all others are, including SystemExit."""


class RefusedSize(Exception):
    """A reference does not support a size that was chosen for it."""


def refused(error: PeakgateError) -> ExitCode:
    """Print a user's error as one line on stderr, without the line breaks that it quotes, and return the exit code."""
    warn(" ".join(str(error).split()))
    return error.exit_code


def defect(command: str, error: Exception) -> ExitCode:
    """Print the traceback of a defect of Peakgate, and return its exit code."""
    warn("".join(traceback.format_exception(error)).rstrip())
    warn(f"{command}: a defect of peakgate: {described(error)}; report it with the lines above")
    return ExitCode.DEFECT


def raised_at(error: BaseException, folder: Path | None) -> str:
    """``file:line`` of the innermost frame of an error in a file of this folder, or of a syntax error.

    Empty if there is none.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{frame.filename}:{frame.lineno}" for frame in frames if Path(frame.filename).parent == folder]
    return places[-1] if places else ""


def defined_at(function: Callable[..., Any]) -> str:
    """``file:line`` where a Python function (unwrapped) begins; empty for any other callable."""
    function = inspect.unwrap(function)
    while isinstance(function, partial):
        function = inspect.unwrap(function.func)
    code = getattr(function, "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def described(error: BaseException) -> str:
    """The type and the message of an error in one line."""
    if isinstance(error, PeakgateError):  # without the code: the quoting message has its own
        message = error.message
    else:
        message = error.msg if isinstance(error, SyntaxError) else " ".join(str(error).split())
    return f"{type(error).__name__}: {message}"
