"""Two sides with a suite that measures nothing: it plays back times a test chose, with a little noise of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reports.tests.synthetic import LADDER, document

FAKE_FINGERPRINTS = """
import json, pathlib, sys
script = json.loads(pathlib.Path("script.json").read_text())
if script["fingerprints_fail"]:
    sys.exit(script["fingerprints_fail"])
print(json.dumps(script["fingerprints"]))
"""

FAKE_SUITE = """
import json, os, pathlib, random, signal, sys
script = json.loads(pathlib.Path("script.json").read_text())
log = pathlib.Path(script["log"])
options = dict(argument.split("=", 1) for argument in sys.argv[1:] if "=" in argument)
repeat = os.environ["PEAKGATE_AB"] == "pair"
document = json.loads(pathlib.Path("run.json").read_text())
wanted = [benchmark["extra_info"]["case"] for benchmark in document["benchmarks"]]
if "--cases" in options:
    wanted = pathlib.Path(options["--cases"]).read_text().split()
elif "-k" in sys.argv:
    wanted = sys.argv[sys.argv.index("-k") + 1].split(" or ")
with log.open("a") as lines:
    lines.write(f"{script['name']} {'repeat' if repeat else 'proof'} {' '.join(wanted)}\\n")
turn = len(log.read_text().splitlines())
if script["interrupt_at"] == turn:
    os.kill(os.getppid(), signal.SIGINT)
    signal.pause()
if script["fail_at"] and turn >= script["fail_at"]:
    sys.exit(f"cannot open the device\\nERROR: no GPU left for {script['name']}")
noise = random.Random(f"{script['name']} {turn}")
refused = {case: told for case, told in script["refused"].items() if case in wanted}
timed = set(wanted) - set(refused)
kept = [benchmark for benchmark in document["benchmarks"] if benchmark["extra_info"]["case"] in timed]
for benchmark in kept:
    factor = noise.gauss(1.0, script["noise"])
    stats = benchmark["stats"]
    benchmark["stats"] = stats | {name: stats[name] * factor for name in ("min", "max", "mean", "median", "iqr")}
    benchmark["extra_info"]["time_us"] *= factor
untimed = [{"case": case, "verdict": told[0], "reason": told[1]} for case, told in refused.items()]
document["benchmarks"] = kept
document["peakgate"]["not_measured"] = untimed
pathlib.Path(options["--benchmark-json"]).write_text(json.dumps(document) if kept else "")
out = pathlib.Path(options["--out"])
out.mkdir(parents=True)
(out / "bench.json").write_text(json.dumps({"cases": untimed}))
sys.exit(1 if untimed else 0)
"""


@dataclass(frozen=True)
class FakeSide:
    """What one side's suite says: fingerprints and times by case, what it refuses, and how it misbehaves."""

    fingerprints: Mapping[str, str | None] = field(default_factory=lambda: dict.fromkeys(LADDER, "same"))
    times_us: Mapping[str, float] = field(default_factory=lambda: dict(LADDER))
    refused: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    extra: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    noise: float = 0.001
    fail_at: int = 0
    interrupt_at: int = 0
    fingerprints_fail: str = ""
    tells_fingerprints: bool = True

    def write(self, folder: Path, name: str, log: Path) -> Path:
        """Put the side's tree below ``folder``; each of its runs adds a line to ``log``."""
        suite = folder / "suite"
        (suite / "families").mkdir(parents=True, exist_ok=True)
        (suite / "__init__.py").write_text("")
        (suite / "__main__.py").write_text(FAKE_SUITE)
        (suite / "families" / "transpose.py").write_text("FAMILY = None\n")
        (suite / "fingerprints.py").unlink(missing_ok=True)
        if self.tells_fingerprints:
            (suite / "fingerprints.py").write_text(FAKE_FINGERPRINTS)
        (folder / "run.json").write_text(json.dumps(document(self.times_us, extra=self.extra)))
        script: dict[str, Any] = {"name": name, "log": str(log)}
        script |= {"fingerprints": dict(self.fingerprints), "refused": dict(self.refused)}
        script |= {"noise": self.noise, "fail_at": self.fail_at, "interrupt_at": self.interrupt_at}
        script |= {"fingerprints_fail": self.fingerprints_fail}
        (folder / "script.json").write_text(json.dumps(script))
        return folder


def commit(repository: Path, message: str) -> str:
    """Commit all of a repository, made on first use, and return the commit."""
    if not (repository / ".git").exists():
        git(repository, "init", "--quiet")
    git(repository, "add", "--all")
    git(repository, "-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "--quiet", "-m", message)
    return git(repository, "rev-parse", "HEAD")


def git(repository: Path, *arguments: str) -> str:
    """Run git there and return what it says."""
    done = subprocess.run(["git", *arguments], cwd=repository, capture_output=True, text=True, check=True)
    return done.stdout.strip()
