"""Kills `peakgate bench` at random times and checks the files it leaves: ``nox -s kill -- [--trials N] [FILE]``.

A small project is measured in the emulator. In each trial SIGKILL ends the supervisor, the measuring process or both,
after a random time, after a random number of finished cases, or as soon as a file is written (reported by inotify).
Then every run file and verdict has to be whole or absent, no process may be left, the folder's lock has to be free, and
``--resume`` has to keep the finished cases with their samples and end with the same cases as an uninterrupted run.
Another series kills a process that replaces a large file.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from lab.faults.small_project import LIMIT_S, SIZES, Broken, Project, cases, decided, left
from peakgate.base.files import write_whole
from peakgate.base.formatting import counted
from peakgate.run import journal

MOST_KILLS = 5
"""Largest number of times that a run is killed and resumed."""

LARGE_BYTES = 64 << 20
"""A file large enough to be killed while it is written."""

IN_MODIFY, IN_MOVED_TO, IN_CREATE = 0x2, 0x80, 0x100


@dataclass
class Record:
    """Counts of kills and of findings."""

    seed: int
    kills: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)

    def text(self) -> str:
        content = {"seed": self.seed, "kills": self.kills, "found": self.found, "broken": self.broken}
        return json.dumps(content, indent=1) + "\n"


class Watch:
    """Events of inotify(7) for files created, written or renamed in some folders."""

    def __init__(self, folders: list[Path]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor = libc.inotify_init1(os.O_CLOEXEC)
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            libc.inotify_add_watch(self.descriptor, os.fsencode(folder), IN_MODIFY | IN_MOVED_TO | IN_CREATE)

    def next(self, timeout_s: float) -> bool:
        """Whether something was written before the timeout."""
        ready = bool(select.select([self.descriptor], [], [], timeout_s)[0])
        if ready:
            os.read(self.descriptor, 1 << 16)
        return ready


def main() -> int:
    """Run the trials; exit code 1 if a check failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=200, help="kills at random moments (default: 200)")
    parser.add_argument("--writes", type=int, default=50, help="kills while a file is written, twice (default: 50)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("record", nargs="?", type=Path, metavar="FILE", help="also write the record there, as JSON")
    options = parser.parse_args()
    done = Record(options.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        project = Project(folder, folder / "cache")
        code, output = project.run(folder / "first")  # also builds what the others take from the cache
        started = time.monotonic()
        code, output = project.run(folder / "whole")
        run_s = time.monotonic() - started
        if code != 0:
            sys.exit(f"a run that nobody interrupts exits {code}: {output}")
        trials = Trials(project, folder, Random(options.seed), run_s, cases(folder / "whole"), done)  # noqa: S311
        for writing, wanted in ((False, options.trials), (True, options.writes)):
            left_to_do = wanted
            while left_to_do > 0:
                chain, kills = f"chain{done.found['chains']}", min(left_to_do, trials.random.randint(1, MOST_KILLS))
                done.found["chains"] += 1
                left_to_do -= attempt(done, trials.chain, chain, kills, writing) or kills
                shutil.rmtree(folder / chain, ignore_errors=True)
                if options.record:
                    write_whole(options.record, done.text())
        for number in range(options.writes):
            attempt(done, large_file, folder / f"large{number}", trials.random, done)
    sys.stdout.write(done.text())
    if options.record:
        write_whole(options.record, done.text())
    return 1 if done.broken else 0


def attempt(done: Record, trial: Callable[..., Any], *arguments: Any) -> Any:
    """Run a trial and return its result; record a failed check."""
    try:
        return trial(*arguments)
    except Broken as error:
        done.broken.append(str(error))
        sys.stderr.write(f"{error}\n")
        return None


@dataclass(frozen=True, slots=True)
class Trials:
    """What all kills share: the project, a folder for files, the duration of a run and the cases of a whole one."""

    project: Project
    folder: Path
    random: Random
    run_s: float
    whole: list[str]
    done: Record

    def chain(self, name: str, kills: int, writing: bool) -> int:
        """Kill a run, resume it, kill that, ... and let the last one end; returns the number of kills."""
        folder = self.folder / name
        finished: dict[str, str] = {}
        for number in range(kills):
            whom = self.random.choice(("supervisor", "measuring process", "both"))
            watch = Watch([folder / "out", folder / "saved"]) if writing else None
            process = self.project.start(folder, *(["--resume"] if number else []))
            when = _wait(process, folder, self.random, self.run_s, watch)
            _kill(process, whom)
            output, _ = process.communicate(timeout=LIMIT_S)
            self.done.kills[f"{whom}, {when}"] += 1
            left(folder, self.done.found)
            if process.returncode >= 0:
                self._went_on(folder, process.returncode, output)
                return number + 1
            now = decided(folder)
            if finished.items() - now.items() and (folder / "out" / journal.NAME).exists():
                raise Broken(f"{name}: {sorted(finished)} were finished before a kill, {sorted(now)} are after it")
            finished = now
        self._resume(folder, finished)
        return kills

    def _resume(self, folder: Path, finished: Mapping[str, str]) -> None:
        """Check that finished cases keep their samples, the others are measured, and nothing else remains."""
        code, output = self.project.run(folder, "--resume")
        if code != 0 or "Traceback" in output:
            raise Broken(f"{folder.name}: --resume exits {code}: {output[-2000:]}")
        if f"resumed: {counted(len(finished), 'finished case')} taken over" not in output:
            raise Broken(f"{folder.name}: {len(finished)} cases were finished: {output[:500]}")
        left(folder, self.done.found)
        if cases(folder) != self.whole:
            raise Broken(f"{folder.name}: the resumed run has the cases {cases(folder)}, expected {self.whole}")
        run = json.loads((folder / "out" / "run.json").read_text())
        samples = {each["extra_info"]["case"]: each["stats"]["data"] for each in run["benchmarks"]}
        for case, record in finished.items():
            times_us = json.loads(record)["times_us"]
            if [round(1e6 * time_s, 9) for time_s in samples[case]] != [round(each, 9) for each in times_us]:
                raise Broken(f"{folder.name}: {case} was measured again, although it was finished")
        names = sorted(path.name for path in (folder / "out").iterdir())
        if names != ["bench.json", "bench.prom", "run.json"]:
            raise Broken(f"{folder.name}: a finished run leaves {names}")
        self.done.found["runs resumed to their end"] += 1
        self.done.found["cases taken over"] += len(finished)

    def _went_on(self, folder: Path, code: int, output: str) -> None:
        """Check that a run whose measuring process was killed ended whole, with at most one undecided case."""
        verdicts = json.loads((folder / "out" / "bench.json").read_text())
        undecided = verdicts["verdicts"].get("INCONCLUSIVE", 0)
        if code not in (0, 3) or undecided > 1 or (code == 3) != (undecided == 1) or "Traceback" in output:
            raise Broken(f"{folder.name}: exit {code} with {undecided} undecided cases: {output[-2000:]}")
        if sorted(cases(folder)) != sorted(self.whole):
            raise Broken(f"{folder.name}: the run has the cases {cases(folder)}, expected {self.whole}")
        self.done.found["runs that went on by themselves"] += 1
        self.done.found["cases left undecided"] += undecided


def _wait(process: subprocess.Popen[str], folder: Path, random: Random, run_s: float, watch: Watch | None) -> str:
    """Wait for the moment of the kill; returns its description."""
    started = time.monotonic()
    if watch is not None:
        for _ in range(random.randrange(1, 16)):
            if not watch.next(run_s):
                break
        return "while a file is written"
    moment_s = random.uniform(0, run_s)
    if random.random() < 0.5:
        _until(process, started + moment_s)
        return "after a random time"
    count = random.randrange(len(SIZES) + 1)
    while process.poll() is None and len(decided(folder)) < count:
        _until(process, time.monotonic() + 0.01)
    _until(process, time.monotonic() + random.uniform(0, 0.1))
    return "after a random number of cases"


def _until(process: subprocess.Popen[str], moment: float) -> None:
    try:
        process.wait(max(0.0, moment - time.monotonic()))
    except subprocess.TimeoutExpired:
        return


def _kill(process: subprocess.Popen[str], whom: str) -> None:
    try:
        measuring = [int(word) for word in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    except OSError:
        measuring = []  # it has ended
    victims = {"supervisor": [process.pid], "measuring process": measuring, "both": [process.pid, *measuring]}[whom]
    for victim in victims:
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            continue


REPLACE = """
import sys
from pathlib import Path
from peakgate.base.files import write_whole
path, size = Path(sys.argv[1]), int(sys.argv[2])
data = b"[" + b"2," * (size // 2) + b"2]"
print("ready", flush=True)
write_whole(path, data)
"""


def large_file(folder: Path, random: Random, done: Record) -> None:
    """Kill a process while it replaces a large file, and check that the old or the new file is whole."""
    folder.mkdir()
    path = folder / "run.json"
    path.write_text("[1]")
    watch = Watch([folder])
    command = (sys.executable, "-c", REPLACE, str(path), str(LARGE_BYTES))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    watch.next(LIMIT_S)
    _until(process, time.monotonic() + random.uniform(0, 0.08))
    process.kill()
    process.communicate()
    size = path.stat().st_size
    if size not in (3, LARGE_BYTES + 3):
        raise Broken(f"{folder.name}: a replaced file has {size} bytes")
    scratch = [each.stat().st_size for each in folder.iterdir() if each != path]
    done.kills["while a large file is replaced"] += 1
    done.found["large files: the old one stays" if size == 3 else "large files: the new one is there"] += 1
    done.found["large files: scratch file was half written"] += sum(each < LARGE_BYTES for each in scratch)
    shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
