"""Runs kernels and callables that cheat, each with an honest version (project/), through ``peakgate bench``.

    python -m lab.dodges.dodges OUT.json [--device cpu] [--only EXPRESSION] [--seconds 130] [--witness]

OUT.json has, for each pair, what the cheat does, where it was published, and verdict, reason and time of both;
``peakgate bench`` does not save the times of wrong cases. At the time limit the run ends with the pairs measured so
far; the same command, or one with another ``--only``, then adds the missing ones.

A cheat is ``caught`` if its case is WRONG, IMPOSSIBLE, CRASHED, TIMEOUT or INCONCLUSIVE; ``not judged`` if it waits for
the host, since such cases have no floor; ``not timed`` if it is correct in the emulator, which does not judge times;
``without effect`` if it passes and is not faster than the honest version; otherwise it ``passes``. One whose comment
says what it is wrong for ("Wrong for ...") passes also if it gains nothing, and in the emulator: an honest mistake that
nobody finds. ``--witness`` benches these alone, by the contract that shows the mistake. Exits 1 if a cheat passes that
is not outside the promise, or an honest version does not pass, 3 if a pair was not run.
"""

from __future__ import annotations

import argparse
import ast
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab.pages import ROOT, read_json, table
from lab.records import checked_out

HERE = Path(__file__).resolve().parent
PROJECT = HERE / "project"
NO_FASTER = 1.02
"""Ratio of the honest version's time to the cheat's below which the cheat gains nothing: above process noise."""

CAUGHT = frozenset({"WRONG", "IMPOSSIBLE", "CRASHED", "TIMEOUT", "INCONCLUSIVE", "REFUSED"})
PASSED = frozenset({"PASS", "NO_FLOOR", "NEW"})
_PUBLISHED = re.compile(r"\s*Published: (.*)")
_OUTSIDE = "Outside the promise"
_MISTAKE = re.compile(r"\bWrong (for|in) ")
_WITNESSED = "WITNESSED = False"


@dataclass(frozen=True, slots=True)
class Dodge:
    """A cheat as its source describes it; ``published`` is None if it is our own.

    ``promised``: it has to be caught. ``mistake``: it is wrong for something that its contract allows.
    """

    name: str
    kind: str
    does: str
    published: str | None
    promised: bool
    mistake: bool

    @classmethod
    def described(cls, name: str, kind: str, comment: str) -> Dodge:
        """From the comment or docstring of the cheat."""
        does, *published = _PUBLISHED.split(" ".join(comment.split()))
        wrong = _MISTAKE.search(does) is not None
        return cls(name, kind, does, published[0] if published else None, _OUTSIDE not in comment, wrong)


def kernels() -> Iterator[Dodge]:
    """The pairs of kernels, described by the first comment of the cheat."""
    for path in sorted(PROJECT.glob("kernels/*/cheat.cu")):
        comment = []
        for line in path.read_text(encoding="utf-8").splitlines():
            if not line.startswith("//"):
                break
            comment.append(line.removeprefix("//"))
        yield Dodge.described(path.parent.name, "kernel", "\n".join(comment))


def callables() -> Iterator[Dodge]:
    """The pairs of callables, described by the docstring of the cheat."""
    for path in sorted(PROJECT.glob("benchmarks/bench_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and (found := re.fullmatch(r"test_(\w+)_cheat", node.name)):
                yield Dodge.described(found[1], "callable", ast.get_docstring(node) or "")


def part(case: str) -> tuple[str, str] | None:
    """A case's pair and side, ``cheat`` or ``honest``; None if the case belongs to no pair."""
    kernel = re.fullmatch(r"(\w+)\.(cheat|honest)(?:-\w+)?", case)
    callable_ = re.fullmatch(r"[\w-]+\.test_(\w+)_(cheat|honest)(?:-\w+)?", case)
    found = callable_ or kernel
    return (found[1], found[2]) if found else None


def outcome(cheat: Mapping[str, Any], twin: Mapping[str, Any], *, judged: bool, mistake: bool = False) -> str:
    """Outcome of a cheat; ``judged``: times are a GPU's; ``mistake``: it need not gain anything to pass."""
    if cheat["verdict"] == "SKIPPED":
        return "not run"
    if cheat["verdict"] in CAUGHT:
        return "caught"
    if mistake:
        return "passes"
    if not judged:
        return "not timed"
    if "recorded, not judged" in cheat["reason"]:
        return "not judged"
    slow = cheat["time_us"] and twin["time_us"] and twin["time_us"] <= NO_FASTER * cheat["time_us"]
    return "without effect" if slow else "passes"


def bench(
    device: str, only: str | None, limit_s: float | None = None, witnessed: Collection[str] = ()
) -> dict[str, Any]:
    """Bench the project in a new repository; returns the verdicts and the run file.

    A run that takes longer than ``limit_s`` is interrupted, and its finished cases are returned. With ``witnessed`` the
    project has these pairs of kernels alone, with the contracts that show mistakes.
    """
    with tempfile.TemporaryDirectory(prefix="dodges-") as folder:
        root = Path(folder, "project")
        shutil.copytree(PROJECT, root, ignore=shutil.ignore_patterns("__pycache__"))
        (root / ".gitignore").write_text(".peakgate/\n.benchmarks/\n__pycache__/\n", encoding="utf-8")
        if witnessed:
            contracts = root / "common" / "contracts.py"
            contracts.write_text(contracts.read_text(encoding="utf-8").replace(_WITNESSED, "WITNESSED = True"))
            for path in root.glob("kernels/*"):
                if path.name not in witnessed:
                    shutil.rmtree(path)
            for path in root.glob("benchmarks/*.py"):
                path.unlink()
        author = ["-c", "user.name=Dodges", "-c", "user.email=dodges@example.org"]
        steps = [["init", "--quiet"], ["add", "--all"], [*author, "commit", "--quiet", "--message", "the project"]]
        for step in steps:
            subprocess.run(["git", *step], cwd=root, check=True)
        command = [sys.executable, "-m", "peakgate", "bench", "--device", device, "--benchmark-json", "run.json"]
        command += ["-k", only] if only else []
        cache = {"PEAKGATE_CACHE": os.environ.get("PEAKGATE_CACHE", str(Path(folder, "cache")))}
        with subprocess.Popen(
            command,
            cwd=root,
            env=os.environ | cache,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as running:
            try:
                said, _ = running.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                running.send_signal(signal.SIGINT)
                said, _ = running.communicate()
        sys.stderr.write(said)
        report, run = root / ".peakgate" / "out" / "bench.json", root / "run.json"
        if not report.exists() or not run.exists():
            sys.exit(f"peakgate bench wrote no verdicts, exit code {running.returncode}; see above")
        verdicts, measured = json.loads(report.read_text()), json.loads(run.read_text())
        skipped = re.findall(r"SKIPPED \[\d+\] ([^\n]+)", said)
        return {"verdicts": verdicts, "run": measured, "skipped": skipped}


def rows(found: Mapping[str, Any], dodges: list[Dodge], *, judged: bool) -> list[dict[str, Any]]:
    """One row of the record for each pair."""
    times = {entry["extra_info"]["case"]: entry["extra_info"]["time_us"] for entry in found["run"]["benchmarks"]}
    sides: dict[tuple[str, str], dict[str, Any]] = {}
    for case in found["verdicts"]["cases"]:
        if (key := part(case["case"])) is not None:
            sides[key] = {"verdict": case["verdict"], "reason": case["reason"], "time_us": times.get(case["case"])}
    reason = "; ".join(found["skipped"]) or "no case of that name was run"
    missing = {"verdict": "SKIPPED", "reason": reason, "time_us": None}
    made = []
    for dodge in dodges:
        cheat, twin = (sides.get((dodge.name, side), missing) for side in ("cheat", "honest"))
        found_as = outcome(cheat, twin, judged=judged, mistake=dodge.mistake)
        judgement = {"outcome": found_as, "twin_passes": twin["verdict"] in PASSED}
        made.append(asdict(dodge) | judgement | {"cheat": cheat, "twin": twin})
    return made


def completed(record: dict[str, Any], earlier: dict[str, Any]) -> dict[str, Any]:
    """The record, with missing pairs from an earlier record of the same commit, GPU and driver."""
    if earlier | record | {"rows": earlier["rows"]} != earlier:
        return record
    known = {row["name"]: row for row in earlier["rows"]}
    rows = [known.get(row["name"], row) if row["outcome"] == "not run" else row for row in record["rows"]]
    return record | {"rows": rows}


def blocks() -> dict[str, str]:
    """The page's block: counts of the outcomes, and a row for each pair."""
    (path,) = HERE.glob("dodges-*.json")
    record = read_json(path)
    rows = record["rows"]
    counted = Counter(row["outcome"] for row in rows)
    published = sum(row["published"] is not None for row in rows)
    passing = sum(row["twin_passes"] for row in rows)
    driver = f", driver {record['driver']}" if record["driver"] else ""
    summary = (
        f"On {record['device']}{driver}, of {len(rows)} cheats: "
        + ", ".join(f"{count} {outcome.replace('passes', 'pass')}" for outcome, count in counted.most_common())
        + f"; {passing} of {len(rows) - counted['not run']} twins pass. {published} were published."
    )
    head = [f"dodge ({record['device']})", "what it does", "from", "cheat", "twin"]
    gate = tomllib.loads((ROOT / "tests" / "review" / "dodges.toml").read_text(encoding="utf-8"))["dodge"]
    return {
        "dodges-of-the-gate": table(["a change that ...", "is"], [(each["change"], each["result"]) for each in gate]),
        "dodges": summary + "\n\n" + table(head, [_row(row) for row in rows]),
        "traps": table(["", "wrong ones reported", "honest ones reported"], _traps()),
    }


def _traps() -> Iterator[list[str]]:
    """How many of the wrong and of the honest kernels and callables of lab/traps each command reports as wrong."""
    with (HERE.parent / "traps" / "scores.csv").open(encoding="utf-8") as file:
        scores = list(csv.DictReader(file))
    for what, tool in (("kernels", "check"), ("kernels", "bench"), ("callables", "bench")):
        own = [row for row in scores if row[tool] and (row["project"] == "callables") == (what == "callables")]
        found = [[row[tool] == "WRONG" for row in own if row["truth"] == truth] for truth in ("wrong", "honest")]
        yield [f"{what}, `{tool}`", *(f"{sum(each)} of {len(each)}" for each in found)]


def _row(row: Mapping[str, Any]) -> list[str]:
    kind = "" if row["kind"] == "kernel" else " (callable)"
    source = (row["published"] or "").partition(",")[0].rstrip(".")
    twin = "" if row["twin"]["verdict"] == "SKIPPED" else row["twin"]["verdict"]
    return [f"{row['name']}{kind}", row["does"], source, _verdict(row), twin]


def _verdict(row: Mapping[str, Any]) -> str:
    cheat, twin, found = row["cheat"], row["twin"], row["outcome"]
    if found in ("not run", "caught"):
        return found if found == "not run" else str(cheat["verdict"])
    gain = ""
    if found != "not timed" and cheat["time_us"] and twin["time_us"]:
        gain = f", {twin['time_us'] / cheat['time_us']:.2f}x as fast as its twin"
    outside = "" if row["promised"] else ", outside the promise"
    return f"{cheat['verdict']}: {found}{gain}{outside}"


def main() -> int:
    """Bench all pairs and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="gpu", choices=("gpu", "cpu"))
    parser.add_argument("--only", metavar="EXPRESSION", help="pairs whose case ids contain this, as -k of bench")
    parser.add_argument("--commit", help="the commit measured, where git cannot know it")
    parser.add_argument("--seconds", type=float, help="how long the run may take")
    parser.add_argument("--witness", action="store_true", help="mistakes alone, by the contracts that show them")
    chosen = parser.parse_args()
    dodges = [*kernels(), *callables()]
    if chosen.witness:
        dodges = [each for each in dodges if each.mistake and each.kind == "kernel"]
    found = bench(chosen.device, chosen.only, chosen.seconds, [each.name for each in dodges] if chosen.witness else [])
    gpu = found["run"]["machine_info"].get("gpu", {})
    measured = {"commit": chosen.commit or checked_out(), "device": gpu.get("name"), "driver": gpu.get("driver")}
    record = measured | {"rows": rows(found, dodges, judged=chosen.device == "gpu")}
    if chosen.out.exists():
        record = completed(record, read_json(chosen.out))
    chosen.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for row in record["rows"]:
        twin = row["twin"]
        sys.stdout.write(f"{row['name']}: {row['outcome']}, {row['cheat']['verdict']}; twin {twin['verdict']}\n")
    ran = [row for row in record["rows"] if row["outcome"] != "not run"]
    if any((row["outcome"] == "passes" and row["promised"]) or not row["twin_passes"] for row in ran):
        return 1
    return 0 if ran == record["rows"] else 3


if __name__ == "__main__":
    sys.exit(main())
