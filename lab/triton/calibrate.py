"""Precision and recall of `check` on Triton kernels: ``python -m lab.triton.calibrate FILE``, with the extra triton.

The fifteen kernels of ``bench_kernels`` are right. A twin of each has one injected defect, by an edit of its text. Both
sets are checked as projects of their own; a kernel counts as flagged where `check` reports a defect of it, and the
defect as placed where one of the reports names a line that the defect concerns.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from peakgate.base.files import write_whole

SOURCE = Path(__file__).with_name("bench_kernels.py")


@dataclass(frozen=True)
class Injected:
    """A defect: the kernel's text ``old`` becomes ``new``, once."""

    kernel: str
    kind: str
    old: str
    new: str


MASK, STRIDE, RACE, TAIL = "missing mask", "wrong stride", "race between programs", "uninitialised tail"
DEFECTS = (
    Injected("scale", MASK, "tl.load(x + i, mask=i < n)", "tl.load(x + i)"),
    Injected("softmax", MASK, "tl.sum(power, 0), mask=i < columns)", "tl.sum(power, 0))"),
    Injected("matmul", MASK, "mask=(r < m) & (across < k)", "mask=r < m"),
    Injected("stencil", MASK, "mask=(i > 0) & (i < n)", "mask=i < n"),
    Injected("layer_norm", STRIDE, "x.stride(0), B=128)", "x.stride(0) + 1, B=128)"),
    Injected("transpose", STRIDE, "out + c * rows + r", "out + c * columns + r"),
    Injected("rms_norm", STRIDE, "out.stride(0), B=32)", "out.stride(0) - 1, B=32)"),
    Injected("copy", STRIDE, "x.stride(0), B=32)", "COLUMNS, B=32)"),
    Injected("clamp", RACE, "tl.program_id(0) * B + tl.arange", "tl.program_id(0) * (B - 1) + tl.arange"),
    Injected(
        "column_sum",
        RACE,
        "tl.atomic_add(out + i, value, mask=i < columns)",
        "tl.store(out + i, tl.load(out + i, mask=i < columns) + value, mask=i < columns)",
    ),
    Injected("partial_sums", RACE, "tl.store(partial + at, ", "tl.store(partial + at // 2, "),
    Injected("running_sum", RACE, "tl.store(out + row * columns + i", "tl.store(out + (row // 2 * 2) * columns + i"),
    Injected("add", TAIL, "mask = i < n", "mask = i < n - 1"),
    Injected("row_sum", TAIL, "row_sum[(ROWS,)]", "row_sum[(ROWS - 1,)]"),
    Injected("gather", TAIL, "gather[(50,)]", "gather[(49,)]"),
)


def twins(text: str) -> str:
    """The kernels with their defects; ValueError where an edit does not fit once."""
    parts = text.split("\n\n\n@triton.jit\n")
    for each in DEFECTS:
        (at,) = [number for number, part in enumerate(parts) if part.startswith(f"def {each.kernel}(")]
        at += each.kernel == "partial_sums" and each.old not in parts[at]
        if parts[at].count(each.old) != 1:
            raise ValueError(f"{each.kernel}: {each.old!r} is there {parts[at].count(each.old)} times")
        parts[at] = parts[at].replace(each.old, each.new)
    return "\n\n\n@triton.jit\n".join(parts)


def concerned(sound: str, defective: str) -> set[int]:
    """The lines of the kernels that differ, and those of their loads and stores: where a report may point."""
    lines: set[int] = set()
    starts = [number for number, line in enumerate(defective.splitlines(), 1) if line == "@triton.jit"]
    for number, (before, after) in enumerate(zip(sound.splitlines(), defective.splitlines(), strict=True), 1):
        if before != after:
            first = max(start for start in starts if start <= number)
            end = min((start for start in starts if start > number), default=10**6)
            texts = enumerate(defective.splitlines(), 1)
            lines |= {at for at, text in texts if first <= at < end and ("tl.load" in text or "tl.store" in text)}
    return lines


def checked(text: str) -> dict[str, Any]:
    """What ``check --json`` says of a project with these benchmark tests."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pyproject.toml").write_text('[tool.peakgate]\nbenchmarks = ["benchmarks"]\n', encoding="utf-8")
        Path(folder, "benchmarks").mkdir()
        Path(folder, "benchmarks", "bench_kernels.py").write_text(text, encoding="utf-8")
        command = [sys.executable, "-P", "-m", "peakgate", "check", "--json"]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def judged(found: dict[str, Any], lines: set[int]) -> dict[str, dict[str, Any]]:
    """By kernel the kinds that were reported, whether a line fits, and what was not checked."""
    return {
        kernel["kernel"].rpartition(".")[2]: {
            "reported": sorted({defect["kind"] for defect in kernel["defects"]}),
            "placed": any(defect["line"] in lines for defect in kernel["defects"]),
            "not_checked": kernel["not_checked"],
        }
        for kernel in found["kernels"]
    }


def main() -> None:
    """Check both sets and write the record."""
    (out,) = sys.argv[1:]
    text = SOURCE.read_text(encoding="utf-8")
    defective = twins(text)
    sound = checked(text)
    broken = checked(defective)
    right, wrong = judged(sound, set()), judged(broken, concerned(text, defective))
    rows = [{"kernel": each.kernel, "injected": None, **right[each.kernel]} for each in DEFECTS]
    rows += [{"kernel": each.kernel, "injected": each.kind, **wrong[each.kernel]} for each in DEFECTS]
    versions = {name: metadata.version(name) for name in ("triton", "triton-viz", "torch", "numpy")}
    document = {"versions": versions, "kernels": rows, "notes": {"sound": sound["notes"], "defective": broken["notes"]}}
    write_whole(Path(out), json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
