"""How long people wait on a GPU: ``python -m lab.growth.waits OUT [WHAT ...]``, each of WAITS unless some are named.

A gate in a fresh process, twice; `ab` of two commits that differ in a number that kernels of sgemm give a counter,
which changes no time, nine cases and thirty; and `ab` of commits with equal code, everything measured. OUT/waits.json
has wall seconds, exit codes and what each phase or step took, written anew after each; ``python -m lab.growth.growth``
reads the folders of the `ab` too.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lab.injected.campaign import VERDICTS, copied
from lab.records import checked_out
from peakgate.base import config
from peakgate.base.files import CACHE_VARIABLE, cache_folder, write_whole
from peakgate.case import Scale, Tier
from peakgate.spec import catalogue

KERNEL = re.compile(r"__global__[^;{]*\{", re.DOTALL)
INSTRUCTION = '\n    asm volatile("pmevent {};");'
"""In front of a kernel's statements: by its number other machine code, and the same time."""
FAMILY = "sgemm"

Measured = dict[str, Any]


def chosen(cases: int, of_file: Counter[Path]) -> list[Path]:
    """Files, those of many cases first, that have so many together, as near as whole files come from below."""
    found: list[Path] = []
    for path, count in of_file.most_common():
        if count <= cases:
            found.append(path)
            cases -= count
    return found


def numbered(text: str, number: int) -> str:
    """A source in which each kernel begins with the instruction; it must have one."""
    found, count = KERNEL.subn(lambda found: found[0] + INSTRUCTION.format(number), text)
    assert count, "there is no kernel"
    return found


def committed(files: Sequence[Path], number: int, repository: Path) -> None:
    """Commit a copy of the project at hand in which each kernel of these files begins with the instruction."""
    project = config.required()
    copied(project, repository)
    for path in files:
        copy = repository / path.relative_to(project.root)
        copy.write_text(numbered(copy.read_text(encoding="utf-8"), number), encoding="utf-8")
    someone = ("-c", "user.name=T", "-c", "user.email=t@example.org")
    for command in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--allow-empty", "-m", str(number))):
        subprocess.run(["git", *someone, *command], cwd=repository, check=True)


def gate(out: Path) -> Measured:
    """A `bench` of the gate's cases, nothing saved beside the repository's own runs, with how many and its steps."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "peakgate", "bench", f"--out={out}"]
        start = time.monotonic()
        done = subprocess.run([*command, f"--benchmark-storage=file://{scratch}"], check=False)
        seconds = time.monotonic() - start
        runs = [json.loads(saved.read_text(encoding="utf-8")) for saved in Path(scratch).rglob("*.json")]
    found: Measured = {"wall_s": round(seconds, 2), "exit_code": done.returncode}
    for run in runs:  # none where it ended before it saved one
        found |= {"cases": len(run["benchmarks"]), "steps_s": run["peakgate"]["wall_s"]}
    return found


def ab(changed: int, arguments: Sequence[str], out: Path) -> Measured:
    """An `ab` of two commits, between which so many cases get other machine code.

    The other kernels are in the cache as they are in a checkout, once a gate has built them.
    """
    sources = [case.stage.source for case in catalogue.cases(Scale.BENCH, Tier.GATE) if case.stage.source]
    of_file = Counter(path for path in sources if path.parent.name == FAMILY)
    files = chosen(changed, of_file)
    with tempfile.TemporaryDirectory() as scratch:
        repository = Path(scratch, "repository")
        for number in (0, 1):
            committed(files, number, repository)
        command = [sys.executable, "-m", "peakgate", "ab", "HEAD~1", "HEAD", f"--out={out}", *arguments]
        environment = os.environ | {CACHE_VARIABLE: str(cache_folder())}
        start = time.monotonic()
        code = subprocess.run(command, cwd=repository, env=environment, check=False).returncode
        seconds = time.monotonic() - start
    verdict = json.loads((out / VERDICTS).read_text(encoding="utf-8")) if (out / VERDICTS).is_file() else {}
    phases = verdict.get("wall_s", {})
    cases = sum(of_file[path] for path in files)
    return {"wall_s": round(seconds, 2), "exit_code": code, "changed_cases": cases, "phases": phases}


WAITS: Mapping[str, Callable[[Path], Measured]] = {
    "gate_first": gate,
    "gate_warm": gate,
    "ab_9": partial(ab, 9, ()),
    "ab_30": partial(ab, 30, ()),
    "ab_everything": partial(ab, 0, ("--measure-unchanged",)),
}


def main() -> None:
    """Wait for each, and write down what it took."""
    out, *names = sys.argv[1:]
    folder = Path(out).resolve()
    record: Measured = {"commit": checked_out(), "waits": {}}
    for name in names or WAITS:
        record["waits"][name] = WAITS[name](folder / name)
        write_whole(folder / "waits.json", json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
