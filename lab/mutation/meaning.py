"""Tests whether the tests detect semantic mistakes in the judging modules: ``python -m lab.mutation.meaning``.

``meaning.toml`` lists them, one edit each, with the tests that should detect them. The record, ``meaning.json``, lists
the caught ones and the survivors, each with the tested commit; ``--again`` only tries survivors and new ones. Exit code
1 if less than 95 % were caught, or a survivor is not explained in the list.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

from lab.mutation.trial import Change, caught
from lab.pages import ROOT
from lab.records import checked_out
from peakgate.base.files import write_whole

HERE = Path(__file__).resolve().parent
LIST, RECORD = HERE / "meaning.toml", HERE / "meaning.json"
LEAST_CAUGHT = 0.95


def listed() -> list[dict[str, Any]]:
    """The mistakes of the list."""
    entries: list[dict[str, Any]] = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]
    return entries


def mutated(mutant: dict[str, Any]) -> str:
    """The text of the mutant's file with its edit; ValueError if ``old`` does not occur exactly once."""
    text = (ROOT / str(mutant["file"])).read_text(encoding="utf-8")
    if text.count(mutant["old"]) != 1:
        raise ValueError(f"{mutant['name']}: its `old` is {text.count(mutant['old'])} times in {mutant['file']}")
    return text.replace(str(mutant["old"]), str(mutant["new"]))


def main() -> int:
    """Try the mutants and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--again", action="store_true", help="only those that the record has not as caught")
    options = parser.parse_args()
    record = json.loads(RECORD.read_text(encoding="utf-8")) if options.again else {"caught": {}}
    known = {each["name"]: record["caught"][each["name"]] for each in listed() if each["name"] in record["caught"]}
    chosen = [each for each in listed() if each["name"] not in known]
    commit = checked_out()
    changes = [Change(each["name"], each["file"], mutated(each), each["tests"]) for each in chosen]
    every_test = sorted({test for each in chosen for test in each["tests"]})
    unchanged = (ROOT / changes[0].file).read_text(encoding="utf-8")
    control, *found = caught([Change("nothing", changes[0].file, unchanged, every_test), *changes], options.jobs)
    if control:
        raise RuntimeError("the tests fail without a mutant")
    survived = [mutant for mutant, fails in zip(chosen, found, strict=True) if not fails]
    for mutant in survived:
        sys.stdout.write(f"survives: {mutant['name']} ({mutant['file']}): {mutant.get('survives', 'not explained')}\n")
    known |= {each["name"]: commit for each in chosen if each not in survived}
    content = {"caught": known, "survived": {each["name"]: commit for each in survived}}
    write_whole(RECORD, json.dumps(content, indent=1) + "\n")
    sys.stdout.write(f"{len(known)} of {len(listed())} caught\n")
    unexplained = [each for each in survived if "survives" not in each]
    return int(len(known) < LEAST_CAUGHT * len(listed()) or bool(unexplained))


if __name__ == "__main__":
    raise SystemExit(main())
