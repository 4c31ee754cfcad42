"""Workers that are forked from a process that has imported what they need, where the tool would spawn them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from multiprocessing import get_context
from types import SimpleNamespace
from typing import Any

_SERVED = get_context("forkserver")
_SERVED.set_forkserver_preload(["peakgate.inspect.emulate", "peakgate.inspect.skeleton.extents"])


def _process(target: Callable[..., None], args: tuple[Any, ...], **options: Any) -> Any:
    return _SERVED.Process(target=_in_environment, args=(dict(os.environ), target, args), **options)


def _in_environment(environment: Mapping[str, str], target: Callable[..., None], args: tuple[Any, ...]) -> None:
    """Run what a process is for in the environment that it would inherit if it were spawned."""
    os.environ.clear()
    os.environ.update(environment)
    target(*args)


_IN_PLACE_OF_SPAWN = SimpleNamespace(Pipe=_SERVED.Pipe, Process=_process)


def context(method: str) -> Any:
    """In place of multiprocessing's ``get_context``: a spawned worker takes a third of a second for its imports."""
    return _IN_PLACE_OF_SPAWN if method == "spawn" else get_context(method)
