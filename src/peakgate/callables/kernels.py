"""The kernels that a call launches, digests of their machine code where it is known, and the choices of their tuners.

CUPTI's records name the kernels, if the package cupti-python is installed. The machine code comes from objects that
hold it: those of Triton that one more call launches, found by a hook of Triton's, and kernels that ``load_kernel``
built; all other code from the modules that the driver has loaded, where all kernels of one name have the same.
"""

from __future__ import annotations

import gc
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from peakgate.base.files import scratch_folder
from peakgate.compile.kernel_code import DIGEST_DIGITS, kernel_code, stable_name
from peakgate.judge.activity import Activity
from peakgate.spec.case import TunedChoice

Codes = Mapping[str, str | None]

LONGEST_KERNEL_NAME = 120

NOT_TUNED = "not tuned here"
CODE_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Launched:
    """The digest of the machine code of each kernel of a call by name, None if unknown.

    ``fingerprint`` is a hash of all digests and launches; None if one is unknown, or whether there are others.
    """

    codes: Codes
    fingerprint: str | None = None


def launched(
    observe: Callable[[], Sequence[Activity] | None],
    own: Mapping[str, str] | None = None,
    loaded: Callable[[str], str | None] = lambda _kernel: None,
) -> Launched:
    """What a call launches.

    ``observe`` runs it and returns the activities of the GPU meanwhile, None without CUPTI. ``own``: the digests of
    the one kernel that the call is, if it is one. ``loaded`` returns the digest that all loaded kernels of a name
    have, None if they differ or are unknown.
    """
    with _launches_of_triton() as functions:
        seen = observe()
    found: dict[str, list[str | None]] = {}
    for name, code in _of_triton(functions):
        found.setdefault(name, []).append(code)
    for name, digest in (own or {}).items():
        found.setdefault(name, []).append(digest)
    known = {name: _joined(codes) for name, codes in found.items()}
    if seen is None:
        return Launched(_named(known))
    times = Counter(each.name for each in seen if each.name)
    # A replayed graph launches what no hook sees, perhaps under the name of a kernel that one does.
    codes = {
        name: (known.get(name) if len(found.get(name, ())) == count else None) or loaded(name)
        for name, count in times.items()
    }
    if not codes or not all(codes.values()):
        return Launched(_named(codes))
    work = sorted(Counter((stable_name(each.name), codes.get(each.name), each.work) for each in seen).items(), key=repr)
    return Launched(_named(codes), hashlib.sha256(repr(work).encode()).hexdigest()[:DIGEST_DIGITS])


@contextmanager
def _launches_of_triton() -> Iterator[list[Any]]:
    """Collect the functions that Triton launches meanwhile; none without Triton, or with one that has no such hook."""
    triton: Any = sys.modules.get("triton")
    runtime = getattr(getattr(triton, "knobs", None), "runtime", None)
    hooks: Any = getattr(runtime, "launch_enter_hook", None)
    functions: list[Any] = []
    if not hasattr(hooks, "add"):
        yield functions
        return

    def note(launch: Any) -> None:
        functions.append(getattr(launch, "data", {}).get("function"))  # without the user's own facts of a launch

    hooks.add(note)
    try:
        yield functions
    finally:
        hooks.remove(note)


def _of_triton(functions: Sequence[Any]) -> Iterator[tuple[str, str | None]]:
    """Name and digest of each function, by the compiled kernels that this process holds."""
    if not functions:
        return
    if gc.get_freeze_count():  # gc.get_objects leaves out frozen objects
        gc.unfreeze()
    kind = sys.modules["triton"].compiler.CompiledKernel
    held = [each for each in gc.get_objects() if issubclass(type(each), kind)]
    for function in functions:
        kernel: Any = next((each for each in held if vars(each).get("function") == function), None)
        if kernel is not None:
            cubin = kernel.asm.get("cubin")  # none on other backends
            code = kernel_code(cubin, frozenset([kernel.name])) if cubin else {}
            yield kernel.name, code.get(kernel.name)


def _joined(codes: Sequence[str | None]) -> str | None:
    """One digest for the launches of a kernel: of several builds, such as for other block sizes, a hash of theirs."""
    several = sorted({code for code in codes if code is not None})
    if len(several) < 2 or None in codes:
        return None if None in codes else several[0]
    return hashlib.sha256("".join(several).encode()).hexdigest()[:DIGEST_DIGITS]


def _named(codes: Codes) -> Codes:
    """The digests by names as a report shows them: of bounded length, without spaces."""
    shown: dict[str, str | None] = {}
    for name, code in sorted(codes.items()):
        text = stable_name("".join(name.split()))
        if len(text) > LONGEST_KERNEL_NAME:
            digest = hashlib.sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]
            text = f"{text[: LONGEST_KERNEL_NAME - DIGEST_DIGITS - 1]}~{digest}"
        shown[text] = code if shown.get(text, code) == code else None
    return shown


def choices(run: Callable[[], None]) -> tuple[TunedChoice, ...]:
    """The choices of the tuners, found by one more call; none if neither Triton nor torch.compile was used."""
    tuned = _tuned_by_triton(run) if "triton" in sys.modules else []
    if "torch._inductor.compile_fx" in sys.modules:  # torch.compile was used, not necessarily by this call
        known = {each.kernel for each in tuned}
        tuned += [each for each in _tuned_by_torch(run) if each.kernel not in known]
    return tuple(sorted(set(tuned), key=lambda each: (each.kernel, each.configuration, each.code or "")))


def _tuned_by_triton(run: Callable[[], None]) -> list[TunedChoice]:
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


def _tuned_by_torch(run: Callable[[], None]) -> list[TunedChoice]:
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
