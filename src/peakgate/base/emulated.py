"""Translates the errors of the emulator, whose package does not know this one, into PeakgateErrors with codes.

Its functions that read sources are wrapped here, those that build and launch in ``device.cpu``.
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
"""Codes of the emulator's errors that become plain PeakgateErrors."""


class LaunchNotEnded(CannotDecide):
    """An emulated launch reached its limit of processor time without a defect: it may be right but long."""

    code = Code.UNENDED


@contextmanager
def translated() -> Iterator[None]:
    """Raise the emulator's errors within the block as PeakgateErrors, except KernelDefect."""
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
