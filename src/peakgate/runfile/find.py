"""Find the saved runs of one side of a comparison.

A side is given as a file, a folder (every ``*.json`` and ``*.json.gz`` below it), a commit (as git names it, or 4 or
more hex digits), ``driver:VERSION``, ``latest`` or ``latest~N`` (the Nth run before it on its GPU model). An unreadable
file that is named, or is in a folder that is named, is an error. The other forms are searched for below the roots,
where unreadable files are skipped with a note.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from peakgate.base import progress
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import counted, first_of
from peakgate.runfile.frame import HISTORY_COLUMNS, to_frame
from peakgate.runfile.options import COMMIT_PREFIX, LATEST, READING, run_name
from peakgate.runfile.saved import ForeignFileError, Run, load_run, run_files

DEFAULT_ROOTS = (Path(".benchmarks"), Path("baselines"))
HISTORY_FILES = 40  # enough of the newest files to estimate the spread, and few enough for a quick report

MOST_SUGGESTIONS = 5


@dataclass(frozen=True)
class RunSide:
    """The sessions of one side, oldest first; ``label`` is the name that the user gave."""

    label: str
    runs: tuple[Run, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def frame(self) -> pd.DataFrame:
        """A row per case and session; columns are ``frame.FRAME_COLUMNS``."""
        return to_frame(self.runs)


class Archive:
    """The saved runs below some root folders, read when first needed."""

    def __init__(self, roots: Sequence[Path] | None = None) -> None:
        """Search below ``roots``; by default ``.benchmarks`` and ``baselines/*/runs`` of the current folder."""
        self.default = roots is None
        self.roots = tuple(DEFAULT_ROOTS if roots is None else roots)
        for root in roots or ():
            if not root.is_dir():
                raise PeakgateError(f"--runs {root}: no such folder; name one that holds saved runs", Code.UNREADABLE)
        self._newest: dict[Path, Run] = {}
        self.notes: tuple[str, ...] = ()  # one per file that was skipped

    @cached_property
    def files(self) -> list[Path]:
        """Every candidate file, newest first."""
        found = set()
        for root in self.roots:
            kept_alone = self.default and root.name == "baselines"
            for path in run_files(root):
                in_runs_folder = path.relative_to(root).parts[1:2] == ("runs",)
                if path.is_file() and (in_runs_folder or not kept_alone):
                    found.add(path)
        return sorted(found, key=lambda path: (_saved_s(path), str(path)), reverse=True)

    @cached_property
    def cases(self) -> pd.DataFrame:
        """The cases of every readable run, oldest run first; columns are ``frame.HISTORY_COLUMNS``."""
        return to_frame(self._readable(), HISTORY_COLUMNS).sort_values(["taken", "run"], kind="stable")

    @cached_property
    def sessions(self) -> pd.DataFrame:
        """One row per run, oldest first: the columns of ``cases`` that describe a run."""
        return self.cases.drop_duplicates("run").reset_index(drop=True)

    def _readable(self) -> Iterator[Run]:
        for file in progress.each(self.files, READING, len(self.files), "file"):
            try:
                yield self._run(file)
            except PeakgateError as error:
                self.notes += (f"skipped: {error}",)

    def newest(self, most: int = HISTORY_FILES) -> list[Run]:
        """The runs in the ``most`` newest files, sorted by measurement time, oldest first; other files are not read."""
        found = []
        for file in progress.each(self.files[:most], READING, min(most, len(self.files)), "file"):
            with suppress(PeakgateError):
                found.append(self._run(file))
        return sorted(found, key=lambda run: (run.taken, str(run.path)))

    def read(self, paths: Iterable[str]) -> list[Run]:
        """The complete runs at these paths."""
        return [self._run(Path(path)) for path in paths]

    def _run(self, file: Path) -> Run:
        """The run in a file; the first ``HISTORY_FILES`` that were read, the newest, are cached."""
        if (run := self._newest.get(file)) is None:
            run = load_run(file)
            if len(self._newest) < HISTORY_FILES:
                self._newest[file] = run
        return run

    def check_nothing_newer_is_broken(self, chosen: str) -> None:
        """Raise a PeakgateError if a run file newer than ``chosen`` cannot be read: ``latest`` would mean an older run.

        JSON files that are not run files are skipped.
        """
        read = set(self.sessions["run"])
        since = _saved_s(Path(chosen))
        for file in self.files:
            if str(file) in read or _saved_s(file) < since:
                continue
            try:
                load_run(file)
            except ForeignFileError:
                continue
            except PeakgateError as error:
                newer = f"a newer run than {chosen} cannot be read: {error.message}"
                raise PeakgateError(newer, error.code) from None

    def where(self) -> str:
        return " and ".join(str(root) for root in self.roots)


def _saved_s(path: Path) -> float:
    """The modification time of a file; 0 if it no longer exists."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def find_side(wanted: str, archive: Archive) -> RunSide:
    """The sessions that ``wanted`` names, all of one GPU model; a PeakgateError says what exists if none is found."""
    notes: tuple[str, ...] = ()
    name = run_name(wanted)
    path = Path(name)
    if path.is_file():
        runs = [load_run(path)]
    elif path.is_dir():
        paths = sorted(run_files(path))
        runs = sorted(map(load_run, progress.each(paths, READING, len(paths), "file")), key=lambda run: run.taken)
        if not runs:
            raise PeakgateError(f"{path}: no *.json or *.json.gz below it; name a folder of saved runs", Code.WHICH_RUN)
    else:
        runs = _search(name, archive)
        notes = archive.notes
    kept = without_copies(runs)
    if copies := len(runs) - len(kept):
        are = "is a copy" if copies == 1 else "are copies"
        notes += (f"{wanted}: {copies} of {len(runs)} files {are} of a session, counted once",)
    slugs = sorted({run.slug for run in kept})
    if len(slugs) > 1:
        raise PeakgateError(
            f"{wanted}: runs of {' and '.join(slugs)}; name the runs of one GPU model, by file or folder",
            Code.GPU_MODELS,
        )
    return RunSide(wanted, tuple(kept), notes)


def named_runs(options: argparse.Namespace) -> list[Run]:
    """The runs named by the options of ``runfile.options.add_run_names``, each session once."""
    archive = Archive(options.runs)
    with progress.shown(READING):
        return without_copies(run for wanted in options.run_names for run in find_side(wanted, archive).runs)


def apart(base: RunSide, new: RunSide) -> tuple[RunSide, RunSide]:
    """The two sides, with runs in both removed from ``base``, unless nothing would remain of it."""
    in_new = {_identity(run) for run in new.runs}
    kept = tuple(run for run in base.runs if _identity(run) not in in_new)
    if not kept or len(kept) == len(base.runs):
        return base, new
    note = f"{counted(len(base.runs) - len(kept), 'run')} of {base.label} also in {new.label}: left out of the base"
    return RunSide(base.label, kept, (*base.notes, note)), new


def find_history(archive: Archive, sides: Sequence[RunSide]) -> tuple[Run, ...]:
    """Other saved runs of the first side's GPU model, which show how times vary between sessions of unchanged code."""
    on_a_side = {(run.taken, run.uuid) for side in sides for run in side.runs}
    slug = sides[0].runs[0].slug
    others = {(each.taken, each.uuid): each for each in archive.newest() if each.slug == slug}
    return tuple(run for key, run in others.items() if key not in on_a_side)


def load(*wanted: str | Path, runs: Iterable[str | Path] | None = None) -> pd.DataFrame:
    """The saved runs that each of ``wanted`` names, as one tidy DataFrame, oldest run first within each.

    ``wanted`` are what ``peakgate compare`` takes: files, folders, commits, ``latest``, ``driver:VERSION``; ``runs``
    are the folders to search instead of the default ones. ``attrs["notes"]`` holds notes on the runs and on skipped
    files. A PeakgateError names what cannot be found or read.
    """
    archive = Archive(None if runs is None else [Path(folder) for folder in runs])
    sides = [find_side(str(each), archive) for each in wanted]
    found = to_frame({run.path: run for side in sides for run in side.runs}.values())
    found.attrs["notes"] = list(dict.fromkeys(note for side in sides for note in side.notes))
    return found


def _search(wanted: str, archive: Archive) -> list[Run]:
    """The runs that ``latest``, a driver or a commit names."""
    if latest := LATEST.fullmatch(wanted):
        back, sessions = int(latest[1] or 0), archive.sessions
        of_model = sessions[sessions["gpu_slug"].isin(sessions["gpu_slug"].tail(1))]
        paths = of_model["run"].to_list()
        if back >= len(paths):
            model = f" of {of_model['gpu_slug'].iloc[0]}" if paths else ""
            raise PeakgateError(
                f"{wanted}: {counted(len(paths), 'saved run')}{model} below {archive.where()}; measure, or give --runs",
                Code.WHICH_RUN,
            )
        archive.check_nothing_newer_is_broken(paths[-1 - back])
        return archive.read([paths[-1 - back]])
    if wanted.startswith("driver:"):
        version = wanted.removeprefix("driver:")
        drivers = archive.sessions["gpu_driver"].map(str, na_action="ignore").astype("string")
        matched = {version} & set(drivers) or set(drivers[drivers.str.startswith(f"{version}.", na=False)])
        return archive.read(_only(wanted, "driver", drivers, matched, archive)["run"])
    commits = archive.sessions["commit"]
    matched = set(commits[commits.str.lower().str.startswith(wanted.lower())])
    found = _only(wanted, "commit", commits, matched, archive)
    clean = found[~found["dirty"]]  # a run of uncommitted changes counts only if the commit has no clean run
    return archive.read((found if clean.empty else clean)["run"])


def _only(wanted: str, kind: str, values: pd.Series[str], matched: set[str], archive: Archive) -> pd.DataFrame:
    """The sessions with the one value that matched; a PeakgateError if none or several matched."""
    if len(matched) == 1:
        return archive.sessions[values.isin(matched)]
    known = set(values.dropna())
    if matched:
        raise PeakgateError(
            f"{wanted}: {len(matched)} {kind}s match: {_some(sorted(matched), wanted)}; give more of it", Code.WHICH_RUN
        )
    exists = f"there are {_some(sorted(known), wanted)}" if known else "there is no saved run"
    raise PeakgateError(f"{wanted}: no run of that {kind} below {archive.where()}; {exists}", Code.WHICH_RUN)


def _some(names: Sequence[str], wanted: str) -> str:
    nearest_first = difflib.get_close_matches(wanted.removeprefix("driver:"), names, len(names), 0.0)
    return first_of([name[:12] if COMMIT_PREFIX.fullmatch(name) else name for name in nearest_first], MOST_SUGGESTIONS)


def without_copies(runs: Iterable[Run]) -> list[Run]:
    """The runs, with copies of the same session removed."""
    return list({_identity(run): run for run in runs}.values())


def _identity(run: Run) -> tuple[object, ...]:
    times = tuple(sorted((case, result.time_us) for case, result in run.cases.items()))
    return run.taken, run.uuid, run.commit, hash(times)
