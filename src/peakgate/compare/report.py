"""The report of a comparison of two sides, saved runs or the sides of an A/B: rows, tables, pictures and fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from peakgate.base.formatting import counted, percent
from peakgate.base.report import Picture, Report, Row, Section, Table, tone
from peakgate.base.verdict import REGRESSIONS, ExitCode, Verdict
from peakgate.compare.parts import explained
from peakgate.compare.result import ROW_COLUMNS, Comparison, SpreadFinding, change_text, probability
from peakgate.render import cases
from peakgate.runfile.find import RunSide
from peakgate.runfile.saved import UNUSABLE, Run
from peakgate.spec.recorded import ID_PATTERN

CHANGED = ("change_percent", "smallest_detectable_change_percent")
OF_A_CASE = ("p_value", "low_percent", "high_percent")
"""What the change of a case has besides, and that of the suite has not."""


def report(found: Comparison, history: Iterable[Run] = (), *, command: str = "compare", strict: bool = False) -> Report:
    """NEW against BASE, worst first, with pictures and what stood in ``history``, other runs of the GPU."""
    run = max(found.new.runs, key=lambda run: (len(run.cases), run.taken))
    past = cases.past((*history, *found.base.runs), found.new.runs)
    overall = [Row("suite-wide", suite.verdict, suite.reason)] if (suite := found.suite) else []
    parts = explained(found.records, {each.case: each.parts or () for each in run.cases.values()})
    sentences = [each.text for each in parts]
    sentences += [spread_sentence(found.spread)] if found.spread else []
    if found.detectable_percent is not None:
        typical, worst = map(percent, found.detectable_percent)
        sentences.append(f"smallest detectable change {typical} in the median case, {worst} in the worst")
    if found.without_floor and run.device != "cpu":
        count = counted(found.without_floor, "case")
        floors = f"{count} had no floor when they were measured; undecided under --strict-gate"
        if strict:
            overall.append(Row("floors", Verdict.NO_FLOOR, floors))
        else:
            sentences.append(floors)
    regressed = [row.case for row in found.records if row.verdict in REGRESSIONS - {Verdict.MISSING}]
    named = [case for case in regressed if ID_PATTERN.fullmatch(case)][:5]
    following = f'peakgate bench --tier full -k "{" or ".join(named)}"' if named and not run.imported else ""
    commits = [each.runs[-1].commit for each in (found.base, found.new)]
    if found.exit_code(strict=strict) is ExitCode.UNDECIDED and None not in commits and commits[0] != commits[1]:
        following = f"peakgate ab {commits[0][:12]} {commits[1][:12]}"  # alternately, which decides more
    drawn, sections = _drawn(found, run)
    differences = [(each.name, each.base, each.new) for each in found.differences]
    rows = [_row(record, past.get(record.case)) for record in found.records]
    tiers = [f"base ran the tier {base}, new {new}" for name, base, new in differences if name == "tier"]
    return Report(
        command=command,
        exit_code=found.exit_code(strict=strict),
        verdict=found.verdict(strict=strict),
        about=(("base", cases.side(found.base)), ("new", cases.side(found.new))),
        notes=(*tiers, *found.notes),
        overall=overall,
        rows=rows,
        columns=(*cases.of_metric(rows), *cases.COMPARED_COLUMNS),
        sentences=sentences,
        tables=[
            *([spread_table(found.spread)] if found.spread else []),
            *([Table("What else differs", ("fact", "base", "new"), differences)] if differences else []),
            cases.machine(run),
        ],
        pictures=drawn,
        fields={**_fields(found, strict=strict), "parts": [asdict(each) for each in parts]},
        taken=found.new.runs[-1].taken,
        sections=sections,
        next=following if command == "compare" else "",
    )


def _row(record: Any, past: str | None) -> Row:
    change = ""
    if record.change_percent is not None:  # of SAME in percent alone: 1.01x slower would read as a finding
        same = record.verdict == Verdict.SAME
        change = f"{record.change_percent:+.2f} %" if same else change_text(record.change_percent)
    return Row(
        name=record.case,
        verdict=record.verdict,
        reason=record.reason,
        change=change,
        details=() if past is None else (past,),
        cells={name: getattr(record, name) for name in ROW_COLUMNS},
        group=record.family or record.case.partition(".")[0],
    )


def _drawn(found: Comparison, run: Run) -> tuple[Sequence[Picture], Sequence[Section]]:
    """All changes and all families; a section per family with its base, and one of the roofline."""
    from peakgate.render import families, pictures  # noqa: PLC0415  # matplotlib

    changes = pictures.changes(
        [
            pictures.Move(each.case, each.change_percent, each.low_percent, each.high_percent, tone(each.verdict))
            for each in found.records
            if each.change_percent is not None
        ]
    )
    timed = [each for each in run.cases.values() if each.verdict not in UNUSABLE]
    roofline = pictures.roofline(timed, run.gpu, run.memory_roof_gbs)
    reached, sections = families.sections(run, {each.case: each.base_peak_fraction for each in found.records})
    rooflines = [Section(roofline.title, [roofline])] if roofline else []
    return [each for each in (changes, pictures.families(reached)) if each], [*sections, *rooflines]


def spread_sentence(found: Sequence[SpreadFinding]) -> str:
    """How many cases have a wider spread, and the surest of them."""
    grown = counted(len({each.case for each in found}), "case")
    return f"spread grew in {grown}, whatever the mean did: {found[0].case} {found[0].text}"


def spread_table(found: Sequence[SpreadFinding]) -> Table:
    """The cases whose spread grew, the surest first."""
    headings = ("case", "spread", "before (%)", "now (%)", "times as wide", "p")
    rows = []
    for each in found:
        before, now, growth = (float(f"{value:.3g}") for value in (each.base_percent, each.new_percent, each.growth))
        rows.append((each.case, each.kind, before, now, growth, probability(each.p_value)))
    return Table("Spread that grew", headings, rows)


def spread_fields(found: Sequence[SpreadFinding]) -> list[dict[str, Any]]:
    """The findings as fields of the JSON."""
    return [asdict(each) | {"growth": each.growth} for each in found]


def _fields(found: Comparison, *, strict: bool) -> Mapping[str, Any]:
    """Counts, sides, differences and every row, worst first."""
    detectable, suite = found.detectable_percent, found.suite
    names = ("case", "verdict", "reason", "base_time_us", "new_time_us", "base_sessions", "new_sessions")
    return {
        "strict": strict,
        "counts": dict(found.counts),
        "without_floor": found.without_floor,
        "smallest_detectable_change_percent": {"median": detectable[0], "worst": detectable[1]} if detectable else None,
        "suite_wide": suite
        and {"verdict": suite.verdict, "reason": suite.reason, "cases": suite.cases, **_changed(suite)},
        "base": _side(found.base),
        "new": _side(found.new),
        "spread": spread_fields(found.spread),
        "differences": [asdict(difference) for difference in found.differences],
        "notes": list(found.notes),
        "rows": [{name: getattr(row, name) for name in names} | _changed(row, *OF_A_CASE) for row in found.records],
    }


def _side(side: RunSide) -> dict[str, Any]:
    names = ("commit", "dirty", "slug", "uuid", "driver", "tier")
    runs = [
        {"path": str(run.path), "datetime": run.taken.isoformat()} | {name: getattr(run, name) for name in names}
        for run in side.runs
    ]
    return {"label": side.label, "runs": runs}


def _changed(row: Any, *more: str) -> dict[str, Any]:
    if row.change_percent is None:
        return {}
    return {"change": change_text(row.change_percent)} | {name: getattr(row, name) for name in (*CHANGED, *more)}
