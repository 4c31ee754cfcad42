"""`peakgate gate` where no GPU is there: `protect` runs, `bench` on one small case, `ab` is a saved experiment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from emulator_cache import with_runtime

from peakgate.base.processes import BYTECODE
from peakgate.cli import main
from peakgate.review import command as gate

OF_GATE = gate._environment


def environment(home: Path, repository: Path) -> dict[str, str]:
    """That of a gate, with the bytecode of the tests where they keep some: a gate's own begins empty."""
    return OF_GATE(home, repository) | {name: os.environ[name] for name in {BYTECODE} & os.environ.keys()}


def measured(self: gate._Gate, _settings: object) -> dict[str, gate.GateStep]:
    """`ab` as an experiment that was saved, decided anew; `bench` of the emulator on one small case."""
    out = self.home / "out"
    with_runtime(Path(self.environment["PEAKGATE_CACHE"]))
    bench = ["bench", "--device=cpu", "--strict-gate", f"--out={out}", "-k", os.environ.get("STAND_IN_K", "memcpy")]
    found = {}
    for verb, command in {
        "bench": [*bench, f"--baselines-from={self.refs.base}", f"--benchmark-storage={self.home / 'runs'}"],
        "ab": ["ab", "--from", os.environ["STAND_IN_AB"], f"--out={out}"],
    }.items():
        tool = [sys.executable, "-I", "-m", "peakgate"]
        code = subprocess.run([*tool, *command], cwd=self.head, env=self.environment, check=False).returncode
        verdict = out / f"{verb}.json"
        found[verb] = gate.GateStep(code, verdict=verdict if verdict.is_file() else None)
    return found


if __name__ == "__main__":
    gate._environment = environment
    gate._Gate.measured = measured  # type: ignore[method-assign, assignment]
    gate.why_no_gpu = lambda _device: ""  # type: ignore[attr-defined, assignment]
    sys.exit(main(["gate", *sys.argv[1:]]))
