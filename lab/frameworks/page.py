"""Tables of frameworks, states, energy and tuners, of ``lab.frameworks.measure``: ``python -m lab.frameworks.page``.

Records are ``cpu.json``, of a machine without a GPU, and ``h200-*.json``. ``ab-nvrtc.json`` is the verdict of an ``ab``
of two environments.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.pages import ROOT, fill_page, read_json
from peakgate.base.verdict import REGRESSIONS, UNDECIDED
from peakgate.callables.call import NOT_TUNED
from peakgate.render.files import table_line

HERE = Path(__file__).parent
HOW_TO = ROOT / "docs" / "how-to"
PAGES = {
    "frameworks": HOW_TO / "frameworks.md",
    "states": HOW_TO / "state.md",
    "energy": HOW_TO / "energy.md",
    "tuners": HOW_TO / "tuners.md",
    "environments": HOW_TO / "library-upgrade.md",
}
"""Block to its page."""

FRAMEWORKS: Mapping[str, tuple[str, str]] = {
    "torch": ("PyTorch: eager, autograd, compiled", "torch"),
    "jax": ("JAX: compiled, gradients, bfloat16, trees, Pallas", "jax"),
    "triton": ("Triton; its interpreter", "triton"),
    "numba": ("Numba-CUDA; its simulator", "numba-cuda"),
    "warp": ("Warp", "warp-lang"),
    "cupy": ("CuPy: fusion, ElementwiseKernel", "cupy-cuda13x"),
    "cuda_core": ("cuda.core", "cuda-core"),
    "tilelang": ("TileLang", "tilelang"),
}
"""By file of benchmark tests: what is tried, and the package whose version counts."""

ELSEWHERE = {"numba": "numba"}
"""The package that stands for a framework without a GPU."""

TUNED = ("tuners", "max_autotune")
"""The files of benchmark tests that a tuner chooses for."""

Record = Mapping[str, Any]


def records() -> tuple[Record, list[Record]]:
    """The record without a GPU, and those with one."""
    cpu, *gpus = (read_json(path) for path in (HERE / "cpu.json", *sorted(HERE.glob("h200-*.json"))))
    return cpu, gpus


def frameworks(cpu: Record, gpus: Sequence[Record]) -> Iterator[str]:
    """A row for each framework: what became of its cases, with the version of its package."""
    yield table_line(("framework", "on an H200", "without a GPU"))
    yield table_line(("---", "---", "---"))
    for name, (what, package) in FRAMEWORKS.items():
        on_gpu = next((each for each in gpus if name in each["files"]), None)
        yield table_line(
            (
                what,
                outcome(on_gpu, name, package, "not on a GPU"),
                outcome(cpu, name, ELSEWHERE.get(name, package), "not tried"),
            )
        )


def outcome(record: Record | None, name: str, package: str, without: str) -> str:
    """Version and verdicts of a framework's cases in a record."""
    cases = record["files"].get(name, {}).get("cases", []) if record else []
    if record is None or not cases:
        return without
    right = [each for each in cases if each["verdict"] not in REGRESSIONS | UNDECIDED]
    hosts = [each for each in right if each.get("host_bound")]
    said = f"{record['versions'].get(package, '?')}: {len(right)} of {len(cases)} right"
    if record["gpu"] and right:
        said += f", {len(right) - len(hosts)} timed on the GPU alone"
    others = [f"{each['case'].rpartition('.')[2]} {each['verdict']}" for each in cases if each not in right]
    return "; ".join([said, *others])


def states(gpus: Sequence[Record]) -> Iterator[str]:
    """A row for each call: its time in each state, or that it was not shown."""
    record = next(each for each in gpus if "states" in each["files"])
    rows: dict[str, dict[str, Record]] = {}
    for each in record["files"]["states"]["cases"]:
        name, _, state = each["case"].rpartition(".")[2].rpartition("-")
        known = state in ("warm", "graph")
        rows.setdefault(name if known else each["case"].rpartition(".")[2], {})[state if known else "cold"] = each
    yield table_line(("call", "arrays MB", "cold µs", "warm µs", "in a graph µs"))
    yield table_line(("---", "--:", "--:", "--:", "--:"))
    for name, row in rows.items():
        sizes = [each["footprint_bytes"] for each in row.values() if each.get("footprint_bytes")]
        size = f"{max(sizes) / 1e6:.1f}" if sizes else ""
        yield table_line((name, size, *(_time(row.get(state)) for state in ("cold", "warm", "graph"))))


def _time(case: Record | None) -> str:
    if case is None:
        return ""
    return case["verdict"] if case["verdict"] in UNDECIDED | REGRESSIONS else f"{case['time_us']:.2f}"


def energy(gpus: Sequence[Record]) -> Iterator[str]:
    """A row for each call: joules with their range, power, and the power without work."""
    record = next(each for each in gpus if "energy" in each["files"])
    yield table_line(("call", "mJ per launch", "least to most", "µs per launch", "W", "W without work"))
    yield table_line(("---", "--:", "---", "--:", "--:", "--:"))
    for each in record["files"]["energy"]["cases"]:
        found = each.get("energy")
        if found is None:
            continue
        span = f"{1e3 * found['least_joules']:.4g} to {1e3 * found['most_joules']:.4g}"
        yield table_line(
            (
                each["case"].rpartition(".")[2],
                f"{1e3 * found['joules']:.4g}",
                span,
                f"{found['launch_us']:.1f}",
                f"{found['power_w']:.0f}",
                "" if found["idle_w"] is None else f"{found['idle_w']:.0f}",
            )
        )


def tuners(gpus: Sequence[Record]) -> Iterator[str]:
    """A row for each kernel of a tuned call: its configuration, and the digest of its code where that was seen."""
    yield table_line(("call", "kernel", "chosen", "code"))
    yield table_line(("---", "---", "---", "---"))
    cases = [each for gpu in gpus for name in TUNED for each in gpu["files"].get(name, {}).get("cases", ())]
    for each in cases:
        call = each["case"].rpartition(".")[2]
        for choice in () if each["verdict"] in UNDECIDED else each.get("tuned") or ():
            chosen = "a library's" if choice["configuration"] == NOT_TUNED else choice["configuration"]
            yield table_line((call, choice["kernel"], chosen, choice["code"] or "not reported"))


def environments() -> Iterator[str]:
    """A row for each case that was measured in two environments."""
    record = read_json(HERE / "ab-nvrtc.json")
    (differs,) = record["differences"]
    old, new = (f"{differs['name']} {differs[side]} µs" for side in ("base", "new"))
    yield table_line(("case", old, new, "verdict", "change, 99 % interval"))
    yield table_line(("---", "--:", "--:", "---", "--:"))
    for row in record["rows"]:
        interval = f"{row['low_percent']:+.2f} to {row['high_percent']:+.2f}"
        times = (f"{row[f'{side}_time_us']:.1f}" for side in ("base", "new"))
        yield table_line((row["case"], *times, row["verdict"], f"{row['change_percent']:+.2f} % ({interval})"))


def blocks() -> dict[str, str]:
    """The tables by the name of their block, of those that there are records of."""
    cpu, gpus = records()
    measured = {name for each in gpus for name in each["files"]}
    found = {"frameworks": frameworks(cpu, gpus), "environments": environments()}
    found |= {"states": states(gpus)} if "states" in measured else {}
    found |= {"energy": energy(gpus)} if "energy" in measured else {}
    found |= {"tuners": tuners(gpus)} if measured & set(TUNED) else {}
    return {name: "\n".join(lines) for name, lines in found.items()}


def main() -> int:
    """Fill the pages."""
    for name, text in blocks().items():
        fill_page(PAGES[name], {name: text})
    return 0


if __name__ == "__main__":
    sys.exit(main())
