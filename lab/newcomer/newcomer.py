"""Eight small projects of other kinds, used as a newcomer would, in git repositories of their own.

    python -m lab.newcomer.newcomer OUT [--device cpu] [--seconds 350] [PROJECT ...]

Of `sgemm` and `norms`: five sessions, proposed floors, and `ab` between a commit and one in which one kernel is slower
by about 2 %, which alone has to be flagged. Of the others a session, and the sanitizer where the kernels
are files.
OUT/<project>.json holds each command with its exit code, seconds and last lines as it ends; verdicts are beside it.
Exits 1 where a command ended otherwise than expected, 3 where time ran out.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NARROW = Path(__file__).parents[2] / "tests" / "data" / "narrow"
PROJECTS = {path.name: path for path in (*Path(__file__).with_name("projects").iterdir(), NARROW)}
SLOWER = {
    "sgemm": ("kernels/sgemm/shared.cu", "start < k;", "start < k + k / 50;"),
    "norms": ("kernels/norms/layernorm.cu", "step < rows;", "step < rows + rows / 50;"),
}
"""By project: a file, a loop's bound, and one that adds about 2 % of iterations with the same registers."""

SESSIONS = 5
LAST_LINES = 40


@dataclass
class Trial:
    """One project in a repository of its own: what was run there and what came of it."""

    name: str
    root: Path
    out: Path
    ends: float
    device: str
    steps: list[dict[str, Any]] = field(default_factory=list)

    def run(self, *command: str, expected: tuple[int, ...] = (0,)) -> None:
        """Run a command to its end, or to that of the time, and note it."""
        start = time.monotonic()
        try:
            left_s = max(1.0, self.ends - start)
            done = subprocess.run(command, cwd=self.root, capture_output=True, text=True, timeout=left_s, check=False)
            code, said = done.returncode, done.stdout + done.stderr
        except subprocess.TimeoutExpired:
            code, said = None, "out of time"
        shown = " ".join(command).replace(sys.executable, "python").replace("python -m peakgate", "peakgate")
        said = said.replace(f"{self.root}/", "").replace(str(self.root), ".")
        self.note(shown, said, right=code in expected, exit_code=code, seconds=round(time.monotonic() - start, 1))

    def note(self, what: str, said: str, *, right: bool, **more: object) -> None:
        """Write down a command, or what was found in its output."""
        self.steps.append({"command": what, **more, "as_expected": right, "said": said.splitlines()[-LAST_LINES:]})
        (self.out / f"{self.name}.json").write_text(json.dumps(self.steps, indent=1) + "\n", encoding="utf-8")
        print(f"{self.name}: {what}: {more or said} {'' if right else 'NOT AS EXPECTED'}", flush=True)  # noqa: T201

    def peakgate(self, *arguments: str, expected: tuple[int, ...] = (0,)) -> None:
        """Run one of our commands."""
        self.run(sys.executable, "-m", "peakgate", *arguments, expected=expected)

    def commit(self, message: str) -> None:
        """Commit everything."""
        for command in (("add", "--all"), ("commit", "--quiet", "--message", message)):
            self.run("git", *command)

    def keep(self, *names: str) -> None:
        """Copy files of the project that are there."""
        for name in names:
            for path in self.root.glob(name):
                shutil.copy(path, self.out / f"{self.name}-{path.name}")


def begin(trial: Trial) -> None:
    """A repository with the project's files committed."""
    shutil.copytree(PROJECTS[trial.name], trial.root, ignore=shutil.ignore_patterns("__pycache__"))
    (trial.root / ".gitignore").write_text(".peakgate/\n.benchmarks/\n.cache/\n__pycache__/\n", encoding="utf-8")
    written = [path for path in sorted(trial.root.rglob("*")) if path.suffix in (".py", ".cu", ".cuh", ".toml")]
    lines = {str(path.relative_to(trial.root)): len(path.read_text().splitlines()) for path in written}
    trial.note("lines written", json.dumps(lines), right=True, lines=sum(lines.values()))
    trial.run("git", "init", "--quiet")
    trial.run("git", "config", "user.name", "Newcomer")
    trial.run("git", "config", "user.email", "newcomer@example.org")
    if (trial.root / "saved.py").exists():
        trial.run(sys.executable, "saved.py")
    trial.commit("the project")


def measure(trial: Trial) -> None:
    """Sessions; of a ladder also floors, and two commits of which one is slower."""
    emulated = trial.device == "cpu"
    ladder = trial.name in SLOWER
    nothing_to_run = emulated and trial.name in ("package", "operations")
    for _ in range(SESSIONS if ladder else 1):
        trial.peakgate("bench", "--device", trial.device, expected=(2,) if nothing_to_run else (0,))
    trial.keep(".peakgate/out/bench.json", ".benchmarks/**/*.json")
    if not ladder:
        if (trial.root / "kernels").exists():
            trial.peakgate("sanitize", "--tool", "memcheck", expected=(3,) if emulated else (0,))
            trial.peakgate("sanitize", "--tool", "initcheck", expected=(3,) if emulated else (0,))
            trial.keep(".peakgate/out/sanitize.json")
        return
    if not emulated:
        runs = next(str(path) for path in (trial.root / ".benchmarks").iterdir() if path.is_dir())
        trial.peakgate("floors", runs, "--write")
        trial.keep("baselines/*/floors.toml")
        trial.commit("floors")
    name, before, after = SLOWER[trial.name]
    path = trial.root / name
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(before, after), encoding="utf-8")
    trial.commit("one kernel is slower")
    plan = ("--plan", "--capability", "9.0") if emulated else ()
    trial.peakgate("ab", *plan, "HEAD~1", "HEAD", expected=(0,) if emulated else (1,))
    trial.keep(".peakgate/out/ab.json", ".peakgate/out/ab.md")
    found = trial.root / ".peakgate" / "out" / "ab.json"
    if found.exists():
        rows = json.loads(found.read_text(encoding="utf-8"))["rows"]
        slower = [f"{row['case']} {row['change']}" for row in rows if row["verdict"] == "SLOWER"]
        trial.note("what ab flags", ", ".join(slower) or "nothing", right=len(slower) == 1 and path.stem in slower[0])


def main() -> int:
    """Try the projects in order of weight, as far as the time goes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("projects", nargs="*")
    parser.add_argument("--device", default="gpu", choices=("gpu", "cpu"))
    parser.add_argument("--seconds", type=float, default=350)
    chosen = parser.parse_intermixed_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    ends = time.monotonic() + chosen.seconds
    known = [*SLOWER, *sorted(PROJECTS.keys() - SLOWER)]
    steps = []
    with tempfile.TemporaryDirectory(prefix="newcomer-") as folder:
        os.environ["PEAKGATE_CACHE"] = str(Path(folder, "cache"))
        for name in chosen.projects or known:
            trial = Trial(name, Path(folder, name), chosen.out.resolve(), ends, chosen.device)
            begin(trial)
            measure(trial)
            steps += trial.steps
    if any(step.get("exit_code", 0) is None for step in steps):
        return 3
    return 0 if all(step["as_expected"] for step in steps) else 1


if __name__ == "__main__":
    sys.exit(main())
