"""The border to the emulator, whose package knows nothing of this one: its errors become ours, with our codes.

What reads sources is called from here; what builds and launches, from ``device.cpu``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from peakgate.base.errors import BuildError, CannotDecide, Code, PeakgateError
from peakgate_emulator import compiler, errors, sources

CODES = {
    errors.SourceError: Code.SOURCE,
    errors.ArgumentsError: Code.ARGUMENTS,
    errors.LaunchError: Code.LAUNCH,
    errors.CannotEmulate: Code.EMULATED,
    errors.NoCompiler: Code.INSTALLATION,
    errors.UnwritableCache: Code.UNWRITABLE,
}
"""Of each of the emulator's errors that has no class of its own here."""


class LaunchNotEnded(CannotDecide):
    """An emulated launch that was ended at its limit of processor time, without a defect: it may be right, and long."""

    code = Code.UNENDED


@contextmanager
def translated() -> Iterator[None]:
    """PeakgateError in place of the emulator's errors; a KernelDefect, which is about the kernel, stays one."""
    try:
        yield
    except errors.KernelBuildError as error:
        unread = isinstance(error.__cause__, errors.SourceError)
        raise BuildError(error.message, Code.SOURCE if unread else None) from error
    except errors.LaunchNotEnded as error:
        raise LaunchNotEnded(error.message) from error
    except errors.EmulatorError as error:
        raise PeakgateError(error.message, CODES[type(error)]) from error


read_sources = translated()(sources.read_sources)
source_text = translated()(sources.source_text)
entry_of = translated()(sources.entry_of)
find_compiler = translated()(compiler.find_compiler)
