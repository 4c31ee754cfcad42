"""Every reader of a file that others may have written, given a hostile one: what it must do, and what it must not."""

from __future__ import annotations

import json
import os
import traceback
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import fuzz_gate
import fuzz_runs
import fuzz_settings
from fuzz_calls import Finding, Reader, text

from peakgate.runfile import saved as runfile

NOW = datetime(2027, 1, 1, tzinfo=UTC)

READERS: dict[str, Reader] = {
    "run file: compare": Reader(fuzz_runs.a_run, fuzz_runs.compared, inputs=3_000),
    "run file: history": Reader(fuzz_runs.a_run, fuzz_runs.in_history, inputs=250),
    "run file: floors": Reader(fuzz_runs.a_run, fuzz_runs.floors_proposed, inputs=4_000),
    "run file: keep": Reader(fuzz_runs.a_run, fuzz_runs.kept, inputs=5_000),
    "run file: show": Reader(fuzz_runs.a_run, fuzz_runs.shown, inputs=200),
    "manifest of ab: decide": Reader(fuzz_runs.manifest, fuzz_runs.decided, inputs=1_500),
    "run of a process: decide": Reader(fuzz_runs.process_run, fuzz_runs.process_decided, inputs=1_500),
    "packages of an environment: ab": Reader(fuzz_runs.packages, fuzz_runs.packages_compared, inputs=3_000),
    "words: help": Reader(fuzz_settings.words, fuzz_settings.help_read, inputs=1_500),
    "arrays of a family: bench": Reader(fuzz_gate.message, fuzz_gate.message_read, inputs=16_000),
    "journal: bench --resume": Reader(fuzz_runs.journal_made, fuzz_runs.journal_read, inputs=15_000),
    "floors.toml: load": Reader(text(fuzz_settings.FLOORS), fuzz_settings.floors_read, inputs=20_000),
    "floors.toml: floors --write": Reader(text(fuzz_settings.FLOORS), fuzz_settings.floors_revised, inputs=3_000),
    "acknowledged.toml: protect": Reader(
        text(fuzz_settings.ACKNOWLEDGED), fuzz_settings.acknowledgements_read, inputs=25_000
    ),
    "waivers.toml: check, mutants and sanitize": Reader(
        text(fuzz_settings.WAIVERS), fuzz_settings.waivers_read, inputs=22_000
    ),
    "slowdown-mutants.toml: campaign": Reader(
        text(fuzz_settings.SLOWDOWNS), fuzz_settings.slowdowns_read, inputs=16_000
    ),
    "pyproject.toml: settings": Reader(text(fuzz_settings.PYPROJECT), fuzz_settings.settings_read, inputs=16_000),
    "family.py: cases": Reader(text(fuzz_settings.FAMILY), fuzz_settings.family_read, inputs=14_000),
    "nvbench: import": Reader(fuzz_runs.nvbench, fuzz_runs.imported, inputs=14_000),
    "Google Benchmark: import": Reader(fuzz_runs.google, fuzz_runs.imported, inputs=14_000),
    "selftest.json: compare": Reader(fuzz_runs.selftest, fuzz_runs.selftest_read, inputs=16_000),
    "digests.json: check": Reader(fuzz_settings.digest_file, fuzz_settings.digests_read, inputs=20_000),
    "artifact: comment": Reader(fuzz_gate.artifact, fuzz_gate.artifact_read, inputs=16_000),
    "lists of cases: ab": Reader(fuzz_gate.identities, fuzz_gate.identities_read, inputs=16_000),
    "launches of cases: bench": Reader(fuzz_gate.launches, fuzz_gate.launches_read, inputs=16_000),
    "git tree: protect": Reader(fuzz_gate.tree, fuzz_gate.protected, inputs=400),
    "gate of a fleet: fleet --report": Reader(fuzz_gate.gate, fuzz_gate.gate_reported, inputs=400),
    "plan of a fleet: fleet --report": Reader(fuzz_gate.fleet_plan, fuzz_gate.plan_reported, inputs=400),
    "resources.json: resources": Reader(fuzz_settings.resources_file, fuzz_settings.resources_read, inputs=20_000),
}
"""By file and by what reads it."""


def prepare(folder: Path) -> None:
    """Make what every input of a folder shares: a project and an experiment.

    The folder becomes the working directory, its ``.cache`` the cache, and 2027 begins: synthetic runs are of 2026.
    """
    (folder / "peakgate.toml").write_text("")
    os.chdir(folder)
    os.environ["PEAKGATE_CACHE"] = str(folder / ".cache")
    runfile.now = lambda: NOW
    fuzz_runs.MANIFEST.update(json.loads((fuzz_runs.manifest_folder(folder) / "manifest.json").read_text()))


def attempt(name: str, number: int, folder: Path, seed: str = "") -> tuple[int | None, str]:
    """Input ``number`` of a reader: its exit code and "", or None and in a few words what went wrong and where."""
    random = Random(f"{seed}{name} {number}")  # inputs that can be made again
    reader = READERS[name]
    data = reader.make(random)
    try:
        return reader.read(folder, data), ""
    except Finding as error:
        return None, str(error)
    except (Exception, SystemExit) as error:
        ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "/tests/" not in frame.filename]
        last = ours[-1] if ours else traceback.extract_tb(error.__traceback__)[-1]
        here = [frame for frame in ours if "/suite/" in frame.filename or "/reports/" in frame.filename]
        place = here[-1] if here else last
        return None, f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {str(error)[:150]}"
