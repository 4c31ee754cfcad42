"""The configurations that the tuners of Triton and PyTorch chose for a call."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from peakgate.base.scratch import scratch_folder
from peakgate.spec.case import TunedChoice

NOT_TUNED = "not tuned here"
CODE_DIGITS = 12


def choices(run: Callable[[], None]) -> tuple[TunedChoice, ...]:
    """The choices of the tuners, found by one more call; none if neither Triton nor torch.compile was used."""
    tuned = _of_triton(run) if "triton" in sys.modules else []
    if "torch._inductor.compile_fx" in sys.modules:  # torch.compile was used, not necessarily by this call
        known = {each.kernel for each in tuned}
        tuned += [each for each in _of_torch(run) if each.kernel not in known]
    return tuple(sorted(set(tuned), key=lambda each: (each.kernel, each.configuration, each.code or "")))


def _of_triton(run: Callable[[], None]) -> list[TunedChoice]:
    """The autotuned kernels that the call launches, each with its configuration.

    An autotuner sets ``best_config`` at every launch: it is removed before the call, and those that have one afterwards
    were launched. The compiled code is in no public attribute, so it is not reported.
    """
    kind = sys.modules["triton"].runtime.Autotuner
    tuners: list[Any] = [each for each in gc.get_objects() if issubclass(type(each), kind)]
    before = [(tuner, vars(tuner).pop("best_config", None)) for tuner in tuners]
    try:
        run()
        launched = [tuner for tuner in tuners if hasattr(tuner, "best_config")]
    finally:
        for tuner, config in before:
            if config is not None:
                vars(tuner).setdefault("best_config", config)
    return [TunedChoice(tuner.base_fn.__name__, str(tuner.best_config)) for tuner in launched]


def _of_torch(run: Callable[[], None]) -> list[TunedChoice]:
    """The Triton kernels of torch.compile that the call launches, and the names of all others, such as a library's."""
    torch: Any = sys.modules["torch"]
    kinds = torch.profiler.ProfilerActivity
    wanted = [kinds.CPU, *([kinds.CUDA] if torch.cuda.is_available() else [])]
    with torch.profiler.profile(activities=wanted, record_shapes=True) as profile:
        run()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    with scratch_folder("trace") as folder:
        trace = folder / "trace.json"
        profile.export_chrome_trace(str(trace))
        return list(of_trace(json.loads(trace.read_text(encoding="utf-8"))))


def of_trace(trace: Mapping[str, Any]) -> Iterable[TunedChoice]:
    """The choices in a trace of PyTorch's profiler."""
    generated = set()
    for event in trace.get("traceEvents", ()):
        facts = event.get("args", {})
        if facts.get("kernel_backend") == "triton":
            generated.add(str(event["name"]))
            sizes = [str(facts[name]) for name in ("kernel_kwargs",) if facts.get(name)]
            sizes += [f"{name}={facts[name]}" for name in ("num_warps", "num_stages") if name in facts]
            yield TunedChoice(
                str(event["name"]), ", ".join(sizes), str(facts.get("kernel_hash", ""))[:CODE_DIGITS] or None
            )
    for event in trace.get("traceEvents", ()):
        if event.get("cat") == "kernel" and str(event["name"]) not in generated:
            yield TunedChoice(str(event["name"])[:120], NOT_TUNED, None)
