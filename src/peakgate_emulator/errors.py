"""The emulator's errors; messages are one line: what was given, what was expected, what to do next.

Defects of a kernel are raised as ``KernelDefect`` (defects.py).
"""

from __future__ import annotations


class EmulatorError(Exception):
    """Base class: invalid input, or something is missing; ``message`` is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class SourceError(EmulatorError):
    """A source that cannot be read, or that lacks the kernel asked for."""


class ArgumentsError(EmulatorError):
    """Arguments that do not fit the kernel's parameters, or a variable that does not exist.

    ``value_type`` is the type that a value of another one should have had.
    """

    def __init__(self, message: str, value_type: str | None = None) -> None:
        super().__init__(message)
        self.value_type = value_type


class LaunchError(EmulatorError):
    """An impossible grid, block or amount of shared memory."""


class CannotEmulate(EmulatorError):
    """A launch for which this machine has no memory or no timer."""


class NoCompiler(EmulatorError):
    """No usable C++ compiler."""


class UnwritableCache(EmulatorError):
    """The cache folder cannot be written."""


class KernelBuildError(EmulatorError):
    """A kernel that does not compile: the message is ``file:line: error``.

    ``undeclared`` are the names that the compiler says it does not know, ``std::min`` for a member of a namespace,
    ``missing`` the headers that are not found, ``files`` the names of the files that have errors.
    """

    def __init__(
        self,
        message: str,
        undeclared: tuple[str, ...] = (),
        missing: tuple[str, ...] = (),
        files: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.undeclared = undeclared
        self.missing = missing
        self.files = files


class LaunchNotEnded(EmulatorError):
    """A launch that exceeded its limit of processor time without a defect; the kernel may be correct but slow."""
