"""The second clock of a GPU: CUPTI's activity records, where the package cupti-python is installed."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from peakgate.judge.activity import Activity

_BUFFER_BYTES = 1 << 20


@cache
def _installed() -> Any:
    """CUPTI; None where it is not installed."""
    if importlib.util.find_spec("cupti") is None:
        return None
    try:
        return importlib.import_module("cupti.cupti")
    except Exception:  # its library is missing
        return None


def _cupti() -> Any:
    """CUPTI with our callbacks, which a profiler of a framework may have replaced; None where it does not take them."""
    cupti = _installed()
    try:
        if cupti is not None:
            cupti.activity_register_callbacks(lambda: (_BUFFER_BYTES, 0), _completed.extend)
    except Exception:  # another tool holds CUPTI: there is no second clock
        return None
    return cupti


_completed: list[Any] = []


def recorded(run: Callable[[], Sequence[float]]) -> tuple[Sequence[float], list[Activity]] | None:
    """The result of a batch and CUPTI's records of the work during it; None without cupti-python."""
    cupti = _cupti()
    if cupti is None:
        return None
    kinds = (cupti.ActivityKind.CONCURRENT_KERNEL, cupti.ActivityKind.MEMCPY, cupti.ActivityKind.MEMSET)
    _completed.clear()
    try:
        for kind in kinds:
            cupti.activity_enable(kind)
        times_us = run()
        cupti.activity_flush_all(1)
    finally:
        for kind in kinds:
            cupti.activity_disable(kind)
    found = [Activity(getattr(each, "name", None) or "", each.start, each.end, each.stream_id) for each in _completed]
    return times_us, found
