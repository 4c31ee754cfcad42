"""What a tuner chose for a call: the configuration of Triton's autotune and of torch.compile, and the code it gave.

From Triton's launch hook and its compiled kernels, and from PyTorch's profiler; nothing is imported here.
"""

from __future__ import annotations

import gc
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from peakgate.core.case import TunedChoice
from peakgate.core.files import scratch_folder

CODE_DIGITS = 12


def choices(run: Callable[[], None]) -> tuple[TunedChoice, ...]:
    """The choices of the tuners in one more call; none where no tuner is loaded that is known here."""
    tuned = _of_triton(run) if "triton" in sys.modules else []
    if "torch._inductor.compile_fx" in sys.modules:  # torch.compile was used, not necessarily by this call
        known = {each.kernel for each in tuned}
        tuned += [each for each in _of_torch(run) if each.kernel not in known]
    return tuple(sorted(set(tuned), key=lambda each: (each.kernel, each.configuration, each.code or "")))


def _of_triton(run: Callable[[], None]) -> list[TunedChoice]:
    """The kernels that the call launches and that have an autotuner."""
    triton: Any = sys.modules["triton"]
    try:
        hook = triton.knobs.runtime.launch_enter_hook
        add, remove = hook.add, hook.remove
    except AttributeError:  # before Triton 3.4
        return []
    launched: dict[int, str] = {}

    def note(metadata: Any) -> None:
        facts = metadata.get()
        launched[int(facts["function"])] = str(facts["name"])

    add(note)
    try:
        run()
    finally:
        remove(note)
    tuners = {_kernel_of(each): each for each in _alive(triton.runtime.Autotuner)}
    codes = _codes_of(triton, launched)
    return [
        TunedChoice(name, str(tuners[name].best_config), codes.get(handle))
        for handle, name in launched.items()
        if getattr(tuners.get(name), "best_config", None) is not None
    ]


def _kernel_of(tuner: Any) -> str:
    return str(getattr(tuner.base_fn, "__name__", ""))


def _codes_of(triton: Any, launched: Mapping[int, str]) -> dict[int, str]:
    """A digest of the machine code of each launched kernel that Triton holds, by its handle."""
    kernels = (each for each in _alive(triton.compiler.CompiledKernel) if each.function in launched)
    return {int(each.function): hashlib.sha256(each.asm["cubin"]).hexdigest()[:CODE_DIGITS] for each in kernels}


def _alive(kind: type) -> list[Any]:
    return [each for each in gc.get_objects() if issubclass(type(each), kind)]  # proxies lie to isinstance


def _of_torch(run: Callable[[], None]) -> list[TunedChoice]:
    """The Triton kernels of torch.compile that the call launches, and the names of all others, a library's say."""
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
    """The choices that a trace of PyTorch's profiler shows."""
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
            yield TunedChoice(str(event["name"])[:120], "not tuned here", None)
