"""What the emulator refuses, each in one line: what was given, what was expected, what to do next.

What is wrong with a kernel itself is a ``KernelDefect`` of ``defects``.
"""

from __future__ import annotations


class EmulatorError(Exception):
    """Something that a caller gives, or that is missing; ``message`` is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class SourceError(EmulatorError):
    """A source that cannot be read, or that does not have what is asked for."""


class ArgumentsError(EmulatorError):
    """Arguments that do not fit the kernel's parameters, or a variable that it does not have."""


class LaunchError(EmulatorError):
    """A grid, a block or an amount of shared memory that no launch can have."""


class CannotEmulate(EmulatorError):
    """A launch for which this machine has no memory or no timer."""


class NoCompiler(EmulatorError):
    """No C++ compiler that kernels could be built with."""


class UnwritableCache(EmulatorError):
    """The folder of builds cannot be written."""


class KernelBuildError(EmulatorError):
    """A kernel that does not compile: the message is ``file:line: error``."""


class LaunchNotEnded(EmulatorError):
    """A launch that was ended at its limit of processor time, and no defect was seen: it may be right, and long."""
