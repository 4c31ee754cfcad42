"""The report of `peakgate history`; ``trend`` and ``change_points`` return it as frames, for ``peakgate.reports``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from peakgate.base import config, progress
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import write_whole
from peakgate.base.formatting import counted, first_of, nearest
from peakgate.base.verdict import Verdict
from peakgate.compare.history.causes import Cause
from peakgate.compare.history.report import remarks, report, series_csv
from peakgate.compare.history.series import WHOLE_SESSIONS_TO_RETIRE, first_parents, history
from peakgate.compare.history.trend import Trend, find_trend
from peakgate.judge.acknowledged import ACKNOWLEDGED_FILE, load_regressions
from peakgate.render import files, findings, terminal
from peakgate.runfile.find import Archive
from peakgate.runfile.frame import tidy, to_frame
from peakgate.runfile.openmetrics import PROM, CaseMetrics, openmetrics
from peakgate.runfile.options import READING, commit_url
from peakgate.runfile.schema import NUMBER, TEXT

# The columns of a frame of change points, in order, with their dtypes; docs/reference/reports.md explains them.
CHANGE_COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("case", "gpu_uuid", "cause"), TEXT),
    **dict.fromkeys(("change_percent", "low_percent", "high_percent", "older_time_us"), NUMBER),
    **dict.fromkeys(("good", "bad", "sessions_since"), "int64"),
    **dict.fromkeys(("good_commit", "bad_commit", "where", "facts", "command"), TEXT),
    "open_percent": NUMBER,
    "accepted": TEXT,
}


def write(options: argparse.Namespace) -> int:
    """Report the history that the command's options select, write its files, and return its exit code."""
    archive = Archive(options.runs)
    places = first_parents(config.current().root)
    with progress.shown(READING):
        every = archive.cases
    if every.empty and archive.notes:
        first = archive.notes[0].removeprefix("skipped: ")
        raise PeakgateError.repeated(
            f"none of {counted(len(archive.notes), 'file')} can be read: {first}", Code.UNREADABLE
        )
    found = history(every, options.gpu, options.text, places)
    # The newest session must have the cases of the few before it.
    missed = _untimed(every, [each.path for each in found.sessions[-WHOLE_SESSIONS_TO_RETIRE:]])
    archive.check_nothing_newer_is_broken(max(found.sessions, key=lambda each: each.taken).path)
    accepted = load_regressions(
        config.near(config.current().baselines) / found.slug / ACKNOWLEDGED_FILE, datetime.now(UTC).date()
    )
    notes = []
    if missed:
        named = [f"{len(cases)} {verdict} ({first_of(cases)})" for verdict, cases in missed.items()]
        advice = f"; without it in {WHOLE_SESSIONS_TO_RETIRE} whole runs, a case counts as no longer measured"
        measure = f"measure again{advice if Verdict.MISSING in missed else ''}"
        notes.append(f"newest session: {', '.join(named)}: {measure}")
    known = sorted({*found.cases, *found.retired})
    unknown = [] if options.text else sorted({each.case for each in accepted} - {*known})
    if unknown:
        named = [f"{case}{nearest(case, known)}" for case in unknown]
        notes.append(f"{ACKNOWLEDGED_FILE} accepts regressions of cases not in this history: {', '.join(named)}")
    url = commit_url()
    with progress.shown("searching the history for changes"):
        judged = find_trend(found, (*notes, *archive.notes), missed, accepted, fail_on_open=options.fail_on_open)
        record = report(
            judged, origin=(lambda each: url(each.name) if each.cause is Cause.COMMITS else "") if url else None
        )
    terminal.show(record, everything=options.all)
    table = options.out / "history.csv"
    write_whole(table, series_csv(found))
    metrics = options.out / f"history{PROM}"
    session = found.sessions[-1]
    timed = to_frame(archive.read([session.path]))[["case", "time_us", "gbs", "peak_fraction"]]
    figures = {str(case): known for case, *known in timed.itertuples(index=False)}
    of_cases = [
        CaseMetrics(each.case, found.slug, session.commit, each.verdict, *figures.get(each.case, ()))._replace(
            metric="launch" if each.case in found.of_host else None
        )
        for each in judged.findings
    ]
    write_whole(metrics, openmetrics(of_cases))
    terminal.last_line(record, written=[*files.write(record, options.out, ("md", "json", "html")), table, metrics])
    if needed := judged.sessions_needed:
        title = "Peakgate: nothing is judged yet"
        findings.order(findings.command("notice", f"{counted(needed, 'more session')} needed", title=title))
    return record.exit_code


def _untimed(cases: pd.DataFrame, paths: Sequence[str]) -> dict[Verdict, tuple[str, ...]]:
    """The newest session's WRONG, MISSING and INCONCLUSIVE cases, sorted.

    MISSING are the cases of an earlier complete run of the same tier in ``paths``; a case that has been absent for
    longer is retired.
    """
    tiers = cases["run_tier"].fillna("")
    newest, earlier = cases["run"] == paths[-1], cases["run"].isin(paths[:-1]) & cases["whole"]
    found = dict(zip(cases.loc[newest, "case"], cases.loc[newest, "verdict"].fillna(""), strict=True))
    if cases.loc[newest, "whole"].all():
        before = cases.loc[earlier & tiers.isin(tiers[newest]), "case"]
        found |= dict.fromkeys(set(before) - found.keys(), Verdict.MISSING)
    bad = (Verdict.WRONG, Verdict.MISSING, Verdict.INCONCLUSIVE)
    listed = {verdict: tuple(sorted(case for case, each in found.items() if each == verdict)) for verdict in bad}
    return {verdict: named for verdict, named in listed.items() if named}


def trend(runs: pd.DataFrame, gpu: str | None = None, *, baselines: str | Path | None = None) -> pd.DataFrame:
    """Regressions over the runs as ``peakgate history`` reports them, one row per case, worst first.

    Columns are ``compare.history.trend.TREND_COLUMNS``; ``attrs`` has ``verdict``, ``exit_code`` and ``notes``. ``gpu``
    selects a GPU model; ``good`` and ``bad`` are indices of its runs in order, without copies. ``baselines`` is the
    folder with accepted regressions; without it, none is accepted.
    """
    found = _judged(runs, gpu, baselines)
    found.frame.attrs |= {"notes": remarks(found)}
    return found.frame


def change_points(runs: pd.DataFrame, gpu: str | None = None, *, baselines: str | Path | None = None) -> pd.DataFrame:
    """Every change point of every case over the runs, newest first; arguments and ``attrs`` as of ``trend``.

    Columns are ``CHANGE_COLUMNS``. A row with ``open_percent``, what remains of it, and without ``accepted`` is an open
    regression.
    """
    judged = _judged(runs, gpu, baselines)
    regressions = {id(each.change): each for each in judged.regressions}
    sessions = judged.history.sessions
    rows = []
    for change in judged.changes:
        low, high = change.interval_percent
        left = regressions.get(id(change))
        rows.append(
            {
                "case": change.case,
                "gpu_uuid": change.uuid,
                "cause": change.cause.value,
                "change_percent": change.change_percent,
                "low_percent": low,
                "high_percent": high,
                "older_time_us": change.older_us,
                "good": change.place.good,
                "bad": change.place.bad,
                "sessions_since": change.since,
                "good_commit": sessions[change.place.good].commit,
                "bad_commit": sessions[change.place.bad].commit,
                "where": change.place.where,
                "facts": "; ".join(change.place.facts),
                "command": change.place.command,
                "open_percent": None if left is None else left.remaining_percent,
                "accepted": left.accepted.reason if left and left.accepted else None,
            }
        )
    found = tidy(rows, CHANGE_COLUMNS)
    found.attrs = {**judged.frame.attrs, "notes": remarks(judged)}
    return found


def _judged(runs: pd.DataFrame, gpu: str | None, baselines: str | Path | None) -> Trend:
    found = history(runs, gpu, places=first_parents(config.current().root))
    if baselines is None:
        return find_trend(found)
    file = Path(baselines) / found.slug / ACKNOWLEDGED_FILE
    return find_trend(found, accepted=load_regressions(file, datetime.now(UTC).date()))
