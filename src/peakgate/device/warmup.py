"""Use the GPU while Python still imports: read its state and its processes, create the contexts.

Finding the driver takes 0.1 to 0.2 s, a CUDA context 0.1 s, pytest and CuPy half a second; neither needs the other.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass

from peakgate.compile import nvrtc
from peakgate.device import driver, nvml, references
from peakgate.device.interface import Load, Preflight


@dataclass(frozen=True, slots=True)
class Before:
    """A GPU before this process has anything on it: its state, who computes there and what slows its clocks."""

    state: Preflight
    load: Load


_begun: dict[int, Future[Before | None]] = {}


def begin(index: int) -> None:
    """Have a thread make this process's context on the GPU with this CUDA index, if there is one.

    Where nothing is in the caches yet, the processes that compile begin with it.
    """
    _begun[index] = Future()
    threading.Thread(target=_work, args=(index, _begun[index]), daemon=True).start()


def before(index: int) -> Before:
    """The GPU before this process had anything on it, once its context is there if that was begun."""
    begun = _begun.pop(index, None)
    return (begun and begun.result()) or _seen(index)


def _work(index: int, found: Future[Before | None]) -> None:
    try:
        seen = None
        if index < driver.gpu_count():
            references.begin(index)
            nvrtc.begin()
            seen = _seen(index)
            driver.retain_context(index)  # where that fails, opening the device reports why
            references.make_contexts()  # after ours, which may be the only one that the GPU allows
        found.set_result(seen)
    except Exception as error:
        found.set_exception(error)
    threading.main_thread().join()  # the kernel ends what a thread has started with the thread (PR_SET_PDEATHSIG)


def _seen(index: int) -> Before:
    return Before(nvml.state(nvml.handle(index)), nvml.load(index))
