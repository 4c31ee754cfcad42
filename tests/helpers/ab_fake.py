"""Two sides with a harness that measures nothing: it plays back times a test chose, with a little noise of its own."""

from __future__ import annotations

import json
import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from synthetic_runs import LADDER, document

FAKE_IDENTITY = """
import json, pathlib, sys
script = json.loads(pathlib.Path("script.json").read_text())
if script["fingerprints_fail"]:
    sys.exit(script["fingerprints_fail"])
print(json.dumps(script["identities"]))
"""

# It takes turns as peakgate.run.ab_process does, and names commits as peakgate.base.git does, but imports neither: that
# would take longer than all else that an experiment does.
FAKE_BENCH = """
import json, os, pathlib, random, signal, subprocess, sys
grant, released = (int(number) for number in os.environ["PEAKGATE_AB_TURN"].split(","))


def granted():
    return os.read(grant, 1) or os._exit(69)


def further():
    os.write(released, b"look")
    return granted() == b"."


def commit_info(folder):
    about = {"id": "unversioned", "time": None, "author_time": None, "dirty": False, "branch": "(unknown)"}
    about["project"] = folder.resolve().name
    if any((each / ".git").exists() for each in (folder.resolve(), *folder.resolve().parents)):
        def git(*asked):
            return subprocess.run(["git", *asked], cwd=folder, capture_output=True, text=True, check=True).stdout
        about["id"] = git("rev-parse", "HEAD").strip()
        about["dirty"] = bool(git("status", "--porcelain", "--untracked-files=no"))
    return about


granted()
script = json.loads(pathlib.Path("script.json").read_text())
log = pathlib.Path(script["log"])
options = dict(argument.split("=", 1) for argument in sys.argv[1:] if "=" in argument)
repeat = os.environ["PEAKGATE_AB"] == "pair"
document = json.loads(pathlib.Path("run.json").read_text())
wanted = [benchmark["extra_info"]["case"] for benchmark in document["benchmarks"]]
if "--peakgate-cases" in options:
    wanted = pathlib.Path(options["--peakgate-cases"]).read_text().split()


def asked_for(wanted):
    with log.open("a") as lines:
        lines.write(f"{script['name']} {'repeat' if repeat else 'proof'} {' '.join(wanted)}\\n")
    turn = len(log.read_text().splitlines())
    if script["interrupt_at"] == turn:
        os.kill(os.getppid(), signal.SIGINT)
        signal.pause()
    if script["fail_at"] and turn >= script["fail_at"]:
        sys.exit(f"cannot open the device\\nERROR: no GPU left for {script['name']}")
    return turn


turn = asked_for(wanted)


def measured(side, document):
    noise = random.Random(f"{side['name']} {turn}")
    refused = {case: reported for case, reported in side["refused"].items() if case in wanted}
    timed = set(wanted) - set(refused)
    kept = [benchmark for benchmark in document["benchmarks"] if benchmark["extra_info"]["case"] in timed]
    for benchmark in kept:
        factor = noise.gauss(1.0, side["noise"])
        stats = benchmark["stats"]
        benchmark["stats"] = stats | {name: stats[name] * factor for name in ("min", "max", "mean", "median", "iqr")}
        benchmark["extra_info"]["time_us"] *= factor
        for name in ("gbs", "tflops", "peak_fraction"):
            if benchmark["extra_info"][name] is not None:
                benchmark["extra_info"][name] /= factor
    untimed = [{"case": case, "verdict": reported[0], "reason": reported[1]} for case, reported in refused.items()]
    document["benchmarks"] = kept
    document["peakgate"]["not_measured"] = untimed
    return document, untimed


def times_us(document):
    return {each["extra_info"]["case"]: each["extra_info"]["time_us"] for each in document["benchmarks"]}


own_us = times_us(document)
document["commit_info"] = commit_info(pathlib.Path())
document, untimed = measured(script, document)
kept = document["benchmarks"]
out = pathlib.Path(options["--out"])
out.mkdir(parents=True)
saved = pathlib.Path(options["--benchmark-storage"].removeprefix("file://"))
saved.mkdir(parents=True, exist_ok=True)
(saved / "0001_run.json").touch(exist_ok=False)  # as pytest-benchmark, which numbers files
verdict = {"cases": untimed}
if "--peakgate-other-builds" in options:
    others = pathlib.Path(options["--peakgate-other-builds"])
    asked = json.loads(others.read_text())
    codes = asked["fingerprints"]
    sides = [json.loads(path.read_text()) for path in sorted(log.parent.glob("*.side"))]
    other = next(
        side for side in sides
        if side["name"] != script["name"]
        and all((side["identities"].get(case) or {}).get("code") == (code or None) for case, code in codes.items())
    )
    other_us = times_us(other["run"])
    other["run"]["commit_info"] = commit_info(pathlib.Path(asked["folder"]))
    beside, untimed_beside = measured(other, other["run"])
    verdict["other_builds"] = untimed_beside
    while kept and beside["benchmarks"]:
        noise = random.Random(f"pairs {turn}")
        for benchmark in beside["benchmarks"]:
            found, case = benchmark["extra_info"], benchmark["extra_info"]["case"]
            if case in asked["fingerprints"]:
                ratio = other_us[case] / own_us[case]
                ratios = [ratio * noise.gauss(1.0, script["noise"]) for _ in range(asked["pairs"])]
                found["pair_ratios"] = [*found.get("pair_ratios", []), *ratios]
        for name, run in (("look_own.json", document), ("look_other.json", beside)):
            (out / name).write_text(json.dumps(run))
        if script["leaves"] or not further():
            break
        asked = json.loads(others.read_text())
        turn = asked_for(asked["fingerprints"])
    (out / "other_builds.json").write_text(json.dumps(beside))
pathlib.Path(options["--benchmark-json"]).write_text(json.dumps(document) if kept else "")
(out / "bench.json").write_text(json.dumps(verdict))
sys.exit(1 if untimed else 0)
"""


HARNESS = "fake_peakgate"
"""The package that stands in for the harness; each side brings its own, through its ``pythonpath``."""


@dataclass(frozen=True)
class FakeSide:
    """What one side says: machine code and times by case, what it refuses, and how it misbehaves.

    Cases in ``launches`` are launched otherwise than the same case of another side, None: not described. One that
    ``leaves`` cannot go on after a look.
    """

    fingerprints: Mapping[str, str | None] = field(default_factory=lambda: dict.fromkeys(LADDER, "same"))
    times_us: Mapping[str, float] = field(default_factory=lambda: dict(LADDER))
    refused: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    extra: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    noise: float = 0.001
    leaves: bool = False
    fail_at: int = 0
    interrupt_at: int = 0
    fingerprints_fail: str = ""
    launches: Mapping[str, str | None] = field(default_factory=dict)
    operations: tuple[str, ...] = ()
    slug: str = "nvidia-h200"

    def write(self, folder: Path, name: str, log: Path) -> Path:
        """Put the side's tree below ``folder``; each of its runs adds a line to ``log``. It is described beside."""
        harness = folder / HARNESS
        (harness / "run").mkdir(parents=True, exist_ok=True)
        (folder / "peakgate.toml").write_text('pythonpath = ["."]')
        for package in (harness, harness / "run"):
            (package / "__init__.py").write_text("")
        (harness / "__main__.py").write_text(FAKE_BENCH)
        (harness / "run" / "identity.py").write_text(FAKE_IDENTITY)
        (folder / "run.json").write_text(json.dumps(document(self.times_us, extra=self.extra, slug=self.slug)))
        script: dict[str, Any] = {"name": name, "log": str(log)}
        identities = {
            case: ({"code": None, "operation": case} if case in self.operations else {"code": code})
            | {"launch": self.launches.get(case, "as usual")}
            for case, code in self.fingerprints.items()
        }
        script |= {"identities": identities, "refused": dict(self.refused)}
        script |= {"noise": self.noise, "leaves": self.leaves}
        script |= {"fail_at": self.fail_at, "interrupt_at": self.interrupt_at}
        script |= {"fingerprints_fail": self.fingerprints_fail}
        (folder / "script.json").write_text(json.dumps(script))
        run = json.loads((folder / "run.json").read_text())
        log.with_name(f"{name}.side").write_text(json.dumps(script | {"run": run}))
        return folder


def wheels(folder: Path, version: str) -> Path:
    """A folder with a wheel of the package ``tiny``, whose ``VALUE`` is its version."""
    folder.mkdir(parents=True)
    about = f"tiny-{version}.dist-info"
    with zipfile.ZipFile(folder / f"tiny-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny.py", f"VALUE = {version!r}\n")
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", f"tiny.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n")
    return folder


def commit(repository: Path, message: str) -> str:
    """Commit all of a repository, made on first use, and return the commit."""
    if not (repository / ".git").exists():
        git(repository, "init", "--quiet")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--allow-empty", "-m", message)
    return git(repository, "rev-parse", "HEAD")


def git(repository: Path, *arguments: str) -> str:
    """Run git there, as somebody, and return what it says."""
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *identity, *arguments], cwd=repository, capture_output=True, text=True, check=True)
    return done.stdout.strip()
