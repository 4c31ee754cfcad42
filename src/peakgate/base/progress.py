"""How far a command is: a bar on a terminal, a line now and then in a log.

It is never a part of what a command prints: it goes to standard error, and leaves a terminal as it found it.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from peakgate.base.formatting import counted, duration, figure, one_line
from peakgate.base.streams import warn

Thing = TypeVar("Thing")

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

FIRST_LINE_S, EVERY_S = 0.3, 10.0
"""A log gets its first line after so long, then one in so long at most: a quick one writes none."""
AT_ONCE_S = 0.0
"""That of a command that is never quick."""
REDRAW_S, LEAST_REDRAW_S = 0.25, 0.05
"""How often a thread redraws a bar, and how often things that are done do so at most."""
ENOUGH_DONE = 3
"""So many have to be done before a rate is worth printing."""
BAR_COLUMNS, LEAST_COLUMNS = 16, 12  # of the bar; of the words before it on a narrow terminal
ERASE_LINE = "\r\x1b[2K"


class Stream(Protocol):
    """Destination of progress: a text file, or pytest's terminal reporter."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> None: ...

    def isatty(self) -> bool: ...


class Progress:
    """The step that a command is at, and how much of it is done; ``clear`` ends what is shown of it.

    With ``ticks`` a thread redraws it, so that seconds go by while nothing is reported: not where processes are forked
    or times are measured meanwhile. With ``at_once`` a log gets its first line after AT_ONCE_S.
    """

    def __init__(
        self,
        stream: Stream | None = None,
        *,
        ticks: bool = False,
        at_once: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream, self._ticks, self._clock = stream or sys.stderr, ticks, clock
        self._bars = _rewrites(self._stream)
        self._bar: Bar | None = None
        self._line_due_s = clock() + (AT_ONCE_S if at_once else FIRST_LINE_S)
        self._text, self._noun, self._total, self._done, self._done_before = "", "", 0, 0, 0
        self._seconds_left: float | None = None
        self._began_s = self._advanced_s = self._drawn_s = clock()
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._ticking: threading.Thread | None = None

    def step(
        self, text: str, total: int = 0, noun: str = "", *, done: int = 0, seconds_left: float | None = None
    ) -> None:
        """Begin a step, of ``total`` things that are called ``noun``; 0 where nothing can be counted.

        ``done`` of them are done already. ``seconds_left`` where the caller knows better than the mean of the others.
        """
        with self._lock:
            self._text, self._noun, self._total = one_line(text), noun, total
            self._done = self._done_before = done
            self._seconds_left, self._began_s = seconds_left, self._clock()
            self._draw()
        if self._ticks and self._ticking is None:
            self._ended.clear()
            self._ticking = threading.Thread(target=self._tick, daemon=True)
            self._ticking.start()

    def advance(self, text: str | None = None) -> None:
        """One more is done; ``text`` says what comes next."""
        with self._lock:
            self._done, self._advanced_s = self._done + 1, self._clock()
            self._text = self._text if text is None else one_line(text)
            if self._advanced_s >= self._drawn_s + LEAST_REDRAW_S or self._done == self._total:
                self._draw()

    def clear(self) -> None:
        """Remove what is shown."""
        if self._ticking is not None:
            self._ended.set()
            self._ticking.join()
            self._ticking = None
        with self._lock:
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def _tick(self) -> None:
        while not self._ended.wait(REDRAW_S):
            with self._lock:
                self._draw()

    def _draw(self) -> None:
        self._drawn_s = self._clock()
        if self._bars:
            columns = shutil.get_terminal_size().columns - 1
            how_far = self._how_far()
            room = max(columns - len(how_far) - BAR_COLUMNS - 2, LEAST_COLUMNS)  # a blank on both sides of the bar
            text = self._text if len(self._text) <= room else f"{self._text[: room - 1]}…"
            fields: dict[str, Any] = {
                "description": text,
                "completed": self._done,
                "total": self._total or None,
                "how_far": how_far,
            }
            if self._bar is None:
                # The words alone at once: rich takes a third of a second to import.
                self._stream.write(f"{ERASE_LINE}{self._text[:columns]}")
                self._stream.flush()
                self._bar = _bar(self._stream)
                self._bar.add_task(**fields)
                self._stream.write(ERASE_LINE)
                self._bar.start()
            else:
                self._bar.update(self._bar.task_ids[0], **fields)
                self._bar.refresh()
        elif self._clock() >= self._line_due_s:
            self._stream.write(f"{', '.join(filter(None, (self._text, self._how_far())))}\n")
            self._stream.flush()
            self._line_due_s = self._clock() + EVERY_S

    def __str__(self) -> str:
        return f"{self._text}, {self._done} of {counted(self._total, self._noun)}" if self._total else self._text

    def _how_far(self) -> str:
        """``12 of 31 builds, 1.4/s, 14 s left``; of what cannot be counted, seconds so far."""
        spent_s, left_s = self._clock() - self._began_s, self._seconds_left
        if not self._total:
            known = [] if spent_s < 1 else [duration(spent_s)]
            return ", ".join(known if left_s is None else [f"{duration(left_s)} left"])
        parts = [f"{self._done} of {counted(self._total, self._noun)}"]
        if (counted_here := self._done - self._done_before) >= ENOUGH_DONE:
            each_s = max(self._advanced_s - self._began_s, 0.001) / counted_here
            parts.append(f"{figure(1 / each_s, 2)}/s" if each_s <= 1 else f"{figure(each_s, 2)} s each")
            if left_s is None:
                left_s = max(each_s * (self._total - self._done) - (self._clock() - self._advanced_s), 0.0)
        elif spent_s >= 1 and left_s is None:
            parts.append(duration(spent_s))
        if left_s is not None and self._done < self._total:
            parts.append(f"{duration(left_s)} left")
        return ", ".join(parts)


def _rewrites(stream: Stream) -> bool:
    """Whether a line can be replaced there: on a terminal that is not a dumb one."""
    return stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


NOTHING_SAVED = "nothing was saved; run the same command again"


@contextmanager
def starting(text: str) -> Iterator[None]:
    """Show words while the modules of a verb are loaded, without rich, which is one of them; in a log if it is slow."""
    stream = sys.stderr
    if not _rewrites(stream):
        late = threading.Timer(FIRST_LINE_S, warn, (text,))
        late.daemon = True
        late.start()
        try:
            yield
        finally:
            late.cancel()
        return
    stream.write(ERASE_LINE + text)
    stream.flush()
    try:
        yield
    finally:
        stream.write(ERASE_LINE)
        stream.flush()


_shown: list[Progress] = []
"""The progress displays of the running command; empty if there is none, as in a notebook."""


@contextmanager
def shown(
    text: str,
    *,
    stream: Stream | None = None,
    ticks: bool = True,
    at_once: bool = False,
    interrupted: str = NOTHING_SAVED,
) -> Iterator[Progress]:
    """Show the steps of a command for the length of a ``with`` block, ``text`` the first of them.

    Code in the block goes on with ``step``, ``each`` and ``advance``. After Ctrl-C one line says how far it was, and by
    ``interrupted``, unless that is empty, what was saved and how to go on. The others as in ``Progress``.
    """
    progress = Progress(stream, ticks=ticks, at_once=at_once)
    _shown.append(progress)
    try:
        progress.step(text)
        yield progress
    except KeyboardInterrupt:
        progress.clear()
        if interrupted:
            warn(f"interrupted while {progress}; {interrupted}")
        raise
    finally:
        _shown.remove(progress)
        progress.clear()


def step(text: str, total: int = 0, noun: str = "", *, done: int = 0, seconds_left: float | None = None) -> None:
    """Begin a step of what is ``shown``, as ``Progress.step``; nothing where nothing is."""
    if _shown:
        _shown[-1].step(text, total, noun, done=done, seconds_left=seconds_left)


def each(things: Iterable[Thing], text: str, total: int, noun: str) -> Iterator[Thing]:
    """The things one after the other, a step of what is ``shown``."""
    step(text, total, noun)
    for thing in things:
        yield thing
        advance()


def advance() -> None:
    """One more of the step of what is ``shown`` is done."""
    if _shown:
        _shown[-1].advance()


def _bar(stream: Any) -> Bar:
    """A bar between the words of a step and those of how far it is; what is printed meanwhile goes above it."""
    from rich.console import Console  # noqa: PLC0415  (slow, and for terminals alone)
    from rich.progress import BarColumn, TextColumn  # noqa: PLC0415
    from rich.progress import Progress as Bar  # noqa: PLC0415
    from rich.table import Column  # noqa: PLC0415

    ours, unbroken = stream is sys.stderr, Column(no_wrap=True, overflow="ellipsis")
    return Bar(
        TextColumn("{task.description}", markup=False, table_column=unbroken),
        BarColumn(BAR_COLUMNS),
        TextColumn("{task.fields[how_far]}", markup=False, table_column=unbroken),
        console=Console(file=stream, force_terminal=True),
        auto_refresh=False,
        transient=True,
        redirect_stdout=ours and sys.stdout.isatty(),
        redirect_stderr=ours,
    )
