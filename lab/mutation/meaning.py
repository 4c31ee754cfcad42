"""Make mistakes of meaning in the modules that judge, and see whether tests notice: ``python -m lab.mutation.meaning``.

``meaning.toml`` lists them, one edit each, with the tests that have to notice. Each is made in a copy of the package
that is found before the tree's own; its tests run until one fails. The record, ``meaning.json``, has which were caught
and which survived, each with the commit that was tried; ``--again`` tries survivors and new ones alone. Exit code 1
where less than 95 % were caught, or a survivor is not explained in the list.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from lab.records import checked_out
from peakgate.base.files import write_whole

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
LIST, RECORD = HERE / "meaning.toml", HERE / "meaning.json"
LEAST_CAUGHT = 0.95
LIMIT_S = 500.0


def listed() -> list[dict[str, Any]]:
    """The mistakes of the list."""
    entries: list[dict[str, Any]] = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]
    return entries


def mutated(mutant: dict[str, Any]) -> str:
    """The text of the mutant's file with its edit; ValueError where ``old`` is not in it exactly once."""
    text = (ROOT / str(mutant["file"])).read_text(encoding="utf-8")
    if text.count(mutant["old"]) != 1:
        raise ValueError(f"{mutant['name']}: its `old` is {text.count(mutant['old'])} times in {mutant['file']}")
    return text.replace(str(mutant["old"]), str(mutant["new"]))


def main() -> int:
    """Try the mutants, or those whose name or file contains a text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--again", action="store_true", help="only those that the record has not as caught")
    options = parser.parse_args()
    record = json.loads(RECORD.read_text(encoding="utf-8")) if options.again else {"caught": {}}
    known = {each["name"]: record["caught"][each["name"]] for each in listed() if each["name"] in record["caught"]}
    chosen = [each for each in listed() if each["name"] not in known]
    commit = checked_out()
    for mutant in chosen:
        mutated(mutant)
    tests = sorted({test for each in chosen for test in each["tests"]})
    unchanged = {"name": "nothing", "file": LIST.relative_to(ROOT).as_posix(), "old": "", "tests": tests}
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(options.jobs) as pool:
        control, *codes = pool.map(partial(_try, Path(scratch)), range(len(chosen) + 1), [unchanged, *chosen])
    if control != 0:
        raise RuntimeError("the tests fail without a mutant")
    survived = [each for each, code in zip(chosen, codes, strict=True) if code != 1]
    for mutant in survived:
        sys.stdout.write(f"survives: {mutant['name']} ({mutant['file']}): {mutant.get('survives', 'not explained')}\n")
    caught = known | {each["name"]: commit for each in chosen if each not in survived}
    found = {"caught": caught, "survived": {each["name"]: commit for each in survived}}
    write_whole(RECORD, json.dumps(found, indent=1) + "\n")
    sys.stdout.write(f"{len(caught)} of {len(listed())} caught\n")
    unexplained = [each for each in survived if "survives" not in each]
    return int(len(caught) < LEAST_CAUGHT * len(listed()) or bool(unexplained))


def _try(scratch: Path, number: int, mutant: dict[str, Any]) -> int:
    """The exit code of pytest with the mutant: 1 where a test fails."""
    copy = scratch / str(number) / "src"
    shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    if mutant["old"]:
        (copy.parent / mutant["file"]).write_text(mutated(mutant), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--basetemp"]
    command += [str(copy.parent / "temporary"), *mutant["tests"]]
    environment = os.environ | {"PYTHONPATH": str(copy)}
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return 1
    finally:
        shutil.rmtree(copy.parent)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{mutant['name']}: {done.stdout.decode(errors='replace')[-1000:]}")
    return done.returncode


if __name__ == "__main__":
    raise SystemExit(main())
