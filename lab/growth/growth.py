"""How cost grows: seconds of the commands by the size of what they are given, a line through each, and a page of it.

``nox -s speed -- --growth`` measures what needs no GPU, CPU seconds, into growth.json. On a GPU ``python -m
lab.growth.growth OUT [COUNT ...]`` adds wall seconds of `bench` by cases to OUT/growth-gpu.json, and those of every
`ab` whose output folder is in OUT. Both records fill the page of this folder: ``nox -s speed -- --page``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lab.pages import ROOT, fill_page, read_json, table
from lab.records import checked_out
from peakgate.base.files import write_whole

HERE = Path(__file__).resolve().parent
RECORDS = (HERE / "growth.json", HERE / "growth-gpu.json")
PAGE = HERE / "README.md"
WAITS = (
    *("gates-86845f7", "gates-b7f787f", "gates-4b25cee", "gates-901c6ea"),
    *("ab-86845f7", "ab_9-901c6ea", "ab_30-901c6ea", "ab_everything-901c6ea"),
    *("gates-b783c88", "ab-b783c88", "all-c3bae75", "all-2d00a65", "all-8df5262"),
)
"""Records of ``waits``, the oldest first."""
PHASES = ("start and imports", "cases and machine code", "proof", "screen", "confirm")

STEPS = ("start", "build", "roofs", "prepare", "check", "sample")

COMPARED = (50, 200, 800, 2000)
"""Cases of two runs."""
HISTORIES = ((30, 300), (100, 300), (300, 100), (300, 300), (1000, 100), (1000, 300))
"""Runs, and cases of each."""
FLEETS = (16, 64, 256, 1024)
FLEET_CASES = 179

FLEET = """
import sys, time
import numpy as np
from peakgate.fleet import analysis, dataset
gpus, cases = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(1)
times = 100 * np.exp(rng.normal(0, 0.002, (gpus, cases)))
about = {"slug": "nvidia-h200", "driver": "580", "mode": "exclusive", "fleet": "f", "outcome": "measured"}
about |= {"emulated": False, "started": "2026-11-22T00:00:00", "exit_code": 0, "verdict": "PASS"}
table = dataset.frame(
    about | {"uuid": f"GPU-{gpu}", "node": f"node{gpu // 8}", "case": f"case{case}", "time_us": times[gpu, case]}
    | {"bound": "memory" if case % 4 else "compute"}
    for gpu in range(gpus) for case in range(cases)
)
start = time.process_time()
analysis.analyse(table)
print(time.process_time() - start)
"""

Point = dict[str, Any]
"""``what`` was measured, ``x`` of which ``unit``, and its ``seconds``."""
Measure = Callable[[Sequence[str], Path, bool], float]
"""CPU seconds of a command; its cache folder; whether it finds no index of the archive."""


def reports(archive: Callable[[Path, int, int], Path], measure: Measure) -> list[Point]:
    """Points of the reports: CPU seconds, which another load of the machine moves least."""
    found: list[Point] = []

    def add(what: str, x: int, unit: str, seconds: float, **more: int) -> None:
        found.append({"what": what, "x": x, "unit": unit, "seconds": round(seconds, 3), **more})

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for cases in COMPARED:
            pair = sorted(archive(folder / f"pair-{cases}", 2, cases).glob("*.json"))
            arguments = ["-m", "peakgate", "compare", *map(str, pair), f"--out={folder / 'out'}"]
            add("compare", cases, "cases of two runs", measure(arguments, folder / "cache", False), runs=2)
        for runs, cases in HISTORIES:
            saved = archive(folder / f"history-{runs}-{cases}", runs, cases)
            arguments = ["-m", "peakgate", "history", "--runs", str(saved), f"--out={folder / 'out'}"]
            for what, cold in (("history, first time", True), ("history, indexed", False)):
                seconds = measure(arguments, folder / f"cache-{runs}-{cases}", cold)
                add(what, runs * cases, "runs x cases", seconds, runs=runs, cases=cases)
    for gpus in FLEETS:
        command = [sys.executable, "-c", FLEET, str(gpus), str(FLEET_CASES)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        add("fleet analysis", gpus, "GPUs", float(done.stdout), cases=FLEET_CASES)
    return found


def on_gpu(out: Path, counts: Iterable[int]) -> list[Point]:
    """Points of `bench` with so many cases of the gate tier, and of the `ab` whose folders are in ``out``."""
    from peakgate.case import Scale, Tier  # noqa: PLC0415  (the page needs no families)
    from peakgate.spec import catalogue  # noqa: PLC0415

    listed = [case.id for case in catalogue.cases(Scale.BENCH, Tier.GATE)]
    found: list[Point] = []
    for count in counts:
        chosen = [listed[at * len(listed) // count] for at in range(min(count, len(listed)))]
        with tempfile.TemporaryDirectory() as scratch:
            cases = Path(scratch, "cases")
            cases.write_text("\n".join(chosen) + "\n", encoding="utf-8")
            command = [sys.executable, "-m", "peakgate", "bench", f"--cases={cases}", f"--out={scratch}"]
            start = time.monotonic()
            subprocess.run([*command, f"--benchmark-storage=file://{scratch}/saved"], check=True, capture_output=True)
            seconds = time.monotonic() - start
        found.append({"what": "bench", "x": len(chosen), "unit": "cases", "seconds": round(seconds, 2)})
    for path in sorted(out.glob("*/ab.json")):
        verdict = read_json(path)
        planned = read_json(path.parent / "ab" / "manifest.json")["plan"]
        measured = len(planned["measured"]) + len(planned["sentinels"])
        seconds = sum(phase["wall"] for phase in verdict["wall_s"].values())
        found.append({"what": "ab", "x": measured, "unit": "measured cases", "seconds": round(seconds, 2)})
    return found


def fitted(points: Sequence[Point]) -> tuple[float, float]:
    """Intercept and slope of the line of least relative squares through the points."""
    x, seconds = (np.array([point[name] for point in points], float) for name in ("x", "seconds"))
    slope, intercept = np.polyfit(x, seconds, 1, w=1 / seconds)
    return float(intercept), float(slope)


def page(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The blocks of the page."""
    points = [point | {"clock": record["clock"]} for record in records for point in record["points"]]
    groups: dict[str, list[Point]] = {}
    for point in points:
        groups.setdefault(point["what"], []).append(point)
    lines, slopes = [], []
    for what, group in groups.items():
        lines += [(what, f"{point['x']} {point['unit']}", f"{point['seconds']:.2f}", point["clock"]) for point in group]
        if len({point["x"] for point in group}) > 1:
            intercept, slope = fitted(group)
            off = max(abs(intercept + slope * point["x"] - point["seconds"]) / point["seconds"] for point in group)
            each = f"{1000 * slope:.3g} s per 1000 {group[0]['unit']}"
            slopes.append((what, f"{max(intercept, 0.0):.2f} s", each, f"{100 * off:.0f} %"))
    taken = "\n".join(f"- {record['taken']}: {record['machine']}, commit {record['commit']}." for record in records)
    return {
        "growth-slopes": table(("command", "at size 0", "slope", "farthest point from the line"), slopes),
        "growth-points": table(("command", "size", "seconds", "clock"), lines),
        "growth-taken": taken,
        "growth-waits": waits(),
        "growth-gates": gates(),
    }


def waited() -> list[tuple[str, str, dict[str, Any]]]:
    """Command, commit and what was found, of each command the records of ``waits`` as they were taken."""
    records = [read_json(HERE / f"waits-{name}.json") for name in WAITS]
    found = [(what, record["commit"], wait) for record in records for what, wait in record["waits"].items()]
    return sorted(found, key=lambda each: each[0])


def waits() -> str:
    """The table of what people waited for on H200s."""
    rows: list[tuple[str, ...]] = []
    for what, commit, found in waited():
        phases = {each: f"{phase['wall']:.1f}" for each, phase in found.get("phases", {}).items()}
        shown = [phases.get(each, "") for each in PHASES]
        rows.append((what, commit, f"{found['wall_s']:.1f}", *shown, str(found["exit_code"])))
    return table(("command", "commit", "s", *PHASES, "exit code"), rows)


def gates() -> str:
    """The table of what a gate's seconds went to; what no step has is the start and the end of its processes."""
    rows = []
    for what, commit, found in waited():
        if steps_s := found.get("steps_s"):
            seconds = [f"{each:.1f}" for each in (found["wall_s"], *(steps_s[step] for step in STEPS))]
            rows.append((what, commit, str(found["cases"]), *seconds))
    return table(("command", "commit", "cases", "s", *STEPS), rows)


def write_page() -> None:
    """Fill the page from the records that are there."""
    fill_page(PAGE, page([read_json(path) for path in RECORDS if path.is_file()]))


def write_record(path: Path, clock: str, machine: str, points: Sequence[Point]) -> None:
    """A record: when, where, at which commit, by which clock, and its points."""
    taken = time.strftime("%Y-%m-%d", time.gmtime())
    record = {"taken": taken, "commit": checked_out(), "clock": clock, "machine": machine, "points": list(points)}
    write_whole(path, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    write_record(folder / RECORDS[1].name, "wall", "NVIDIA H200", on_gpu(folder, map(int, sys.argv[2:])))
