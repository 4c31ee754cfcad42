"""What the sessions of two sides say of each case, against plain loops over their rows."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from peakgate.base.verdict import FAULTY, Verdict
from peakgate.compare import evidence, judge, noise
from peakgate.compare.noise import Floats
from peakgate.runfile.frame import FRAME_COLUMNS, records, tidy
from peakgate.runfile.saved import UNUSABLE
from peakgate.spec.contract import named

ALL = pd.Index(["a.x", "a.y", "a.z"], name="case")
CASES = ALL[:2]
ROW = dict.fromkeys(FRAME_COLUMNS) | {
    "run": "run",
    "taken": datetime(2026, 11, 1, tzinfo=UTC),
    "dirty": False,
    "whole": True,
    "case": "a.x",
    "time_us": 100.0,
    "sampling_error": 0.001,
    "verdict": "PASS",
    "host_bound": False,
}


def frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    return tidy([ROW | dict(row) for row in rows], FRAME_COLUMNS)


def drawn(chance: random.Random, sessions: int, *, twice: bool = False) -> pd.DataFrame:
    """Sessions of which each has some of three cases; ``twice``, some of them again."""
    rows = []
    for session in range(sessions):
        of_run: dict[str, Any] = {"run": f"run {session}", "run_tier": chance.choice(["gate", "full", None])}
        of_run |= {"commit": chance.choice(["c1", "c1", "c2", "unknown", None]), "dirty": chance.random() < 0.2}
        of_run |= {name: chance.choice(["1", "1", "1", "2"]) for name in evidence.GROUPED_BY}
        for case in ["a.x", "a.y", "a.z"] + ["a.x"] * twice:
            if chance.random() < 0.8:
                verdict = chance.choice([*["PASS", "BELOW_FLOOR"] * 2, "INCONCLUSIVE", "WRONG", "CRASHED", None])
                rows.append(
                    {
                        **of_run,
                        "case": case,
                        "verdict": verdict,
                        "reason": chance.choice(["", None, f"why {session}"]),
                        "time_us": chance.choice([None, *[chance.uniform(50, 150)] * 4]),
                        "sampling_error": chance.choice([None, *[chance.uniform(0.001, 0.1)] * 8]),
                        "peak_fraction": chance.choice([None, chance.random(), chance.random()]),
                        "floor": chance.choice([None, chance.random(), chance.random()]),
                        "host_bound": chance.random() < 0.5,
                        "bound": chance.choice(["link", "memory", "memory"]),
                        "fingerprint": chance.choice([None, None, "f1", "f2"]),
                        "registers": chance.choice([None, 32.0]),
                        "probes": chance.choice([None, 0.0, 6.0]),
                    }
                )
    return frame(rows)


def is_timed(row: SimpleNamespace) -> bool:
    return row.time_us is not None and row.verdict not in UNUSABLE


def said(text: str | None, last: Sequence[SimpleNamespace]) -> bool:
    """Whether a text is why the last of these rows has no time; missing without one."""
    if not last:
        return text is None
    if not text:
        return False
    return bool(text == last[-1].reason if last[-1].reason else (last[-1].verdict or "").lower() in text)


@pytest.mark.parametrize("seed", range(12))
def test_a_side_is_summed_up_case_by_case(seed: int) -> None:
    rows = drawn(random.Random(seed), 4)
    for case, found in zip(ALL, records(evidence.summarize(rows, ALL)), strict=True):
        mine = [row for row in records(rows) if row.case == case]
        timed = [row for row in mine if is_timed(row)]
        wrong = [row for row in mine if row.verdict in FAULTY]
        below = [row for row in timed if row.verdict == Verdict.BELOW_FLOOR]
        library = [row for row in timed if row.registers is None]
        assert (found.known, found.in_gate) == (bool(mine), any(row.run_tier == "gate" for row in mine))
        assert (found.sessions, found.host_bound) == (len(timed), sum(row.host_bound for row in timed))
        assert (found.library, found.link) == (bool(library), any(row.bound == "link" for row in timed))
        assert said(found.wrong, wrong)
        assert found.wrong_as == (wrong[-1].verdict if wrong else None)
        assert said(found.open, [row for row in mine if not is_timed(row) and row.verdict not in FAULTY])
        assert found.floor == (timed[-1].floor if timed else None)
        if not below or 2 * len(below) < len(timed):
            assert found.below is None
        elif None in (figures := (below[-1].peak_fraction, below[-1].floor)):
            assert found.below == below[-1].reason or not below[-1].reason
            assert found.below
        else:
            assert re.findall(r"\d\.\d+", found.below) == [f"{each:.3f}" for each in figures]
        if timed:
            logs, errors = [math.log(row.time_us) for row in timed], [row.sampling_error for row in timed]
            error = None if None in errors else math.hypot(*errors) / len(errors)
            assert found.log_time == pytest.approx(sum(logs) / len(logs))
            assert found.sampling_error == (error if error is None else pytest.approx(error))
            assert found.mean_us == (timed[0].time_us if len(timed) == 1 else pytest.approx(np.exp(np.mean(logs))))


def code_of(row: SimpleNamespace) -> tuple[Any, ...] | None:
    """What makes two sessions of a history repeats of each other."""
    machine = row.gpu_uuid, row.gpu_driver
    if row.fingerprint:
        return "cubin", row.fingerprint, *machine
    if row.registers is None and row.probes:
        return "library", row.gpu_cublas, row.gpu_cupy, row.gpu_nvrtc, *machine
    return None if row.dirty or row.commit in {"unknown", None} else ("commit", row.commit, *machine)


@pytest.mark.parametrize("seed", range(8))
def test_sessions_of_a_side_or_of_the_same_code_repeat_each_other(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[Floats, Floats]] = []

    def remember(residuals: Floats, df: Floats, _: object) -> None:
        given.append((residuals, df))

    monkeypatch.setattr(noise, "session_noise", remember)
    chance = random.Random(seed)
    base, new, history = drawn(chance, 3), drawn(chance, 2), drawn(chance, 14, twice=True)
    groups: dict[Any, list[tuple[str, str, float]]] = defaultdict(list)
    for side, rows in (("base", records(base)), ("new", records(new)), ("history", records(history))):
        last = {(row.run, row.case): row for row in rows}
        for row in last.values():
            code = code_of(row) if side == "history" else side
            if row.case in CASES and is_timed(row) and code is not None:
                groups[code, row.case].append((side, row.run, math.log(row.time_us)))
    expected: list[list[tuple[Any, str, str, float]]] = []
    for (_, case), members in groups.items():
        if len(members) >= (3 if members[0][0] == "history" else 2):
            mean = sum(log for *_, log in members) / len(members)
            expected.append([(case, side, run, round(log - mean, 9)) for side, run, log in members])
    found = evidence.repeated_sessions(CASES, base, new, history)
    found = found.assign(case=CASES[found["case"]], residual=found["residual"].round(9) + 0.0)
    for by, place in (("group", None), ("session", 2)):
        alike = found.groupby([by])[["case", "side", "residual"]].agg(tuple)
        got = Counter(frozenset(zip(*row, strict=True)) for row in alike.itertuples(index=False))
        sets: dict[Any, set[Any]] = defaultdict(set)
        for number, repeats in enumerate(expected):
            for case, side, run, residual in repeats:
                sets[number if place is None else (side, run)].add((case, side, residual + 0.0))
        assert got == Counter(map(frozenset, sets.values()))
    sides = (pd.DataFrame({"log_time": [0.0, 0.0]}),) * 2
    judge._spread(*sides, evidence.repeated_sessions(CASES, base, new, history))
    residuals, df = given.pop()
    for case, row, free in zip(CASES, residuals, df, strict=True):
        own = [repeats for repeats in expected if repeats[0][0] == case]
        assert sorted(row[np.isfinite(row)].round(9) + 0.0) == sorted(each[-1] + 0.0 for of in own for each in of)
        assert free == sum(len(repeats) - 1 for repeats in own)


@pytest.mark.parametrize("gate_alone", [True, False])
def test_a_case_is_left_out_where_a_gate_was_not_asked_for_it_or_every_session_says_it_is_the_hosts(
    *, gate_alone: bool
) -> None:
    flags, counts = (True, False), [(0, 0), (1, 0), (0, 2), (2, 1)]
    base, new, asked, measured = [], [], [], []
    of_sides = itertools.product(counts, counts)
    for (known, full, in_gate, wrong), (sessions, of_the_host) in itertools.product(
        itertools.product(flags, repeat=4), of_sides
    ):
        tier = {"tier": "full" if full else "gate", "in_gate": in_gate}
        base.append(tier | {"sessions": sessions[0], "host_bound": of_the_host[0]})
        told = {"known": known, "wrong": "why" if wrong else None}
        new.append(told | {"sessions": sessions[1], "host_bound": of_the_host[1]})
        asked.append(known or not full or in_gate or not gate_alone)
        measured.append(wrong or sum(sessions) == 0 or sum(sessions) != sum(of_the_host))
    sides = pd.DataFrame(base), pd.DataFrame(new)
    judged, notes = evidence.in_scope(*sides, gate_alone=gate_alone)
    assert judged.tolist() == [one and other for one, other in zip(asked, measured, strict=True)]
    assert len(notes) == 1 + gate_alone
    kinds = list(zip(asked, measured, strict=True))
    for row in map(kinds.index, sorted(set(kinds))):
        judged, notes = evidence.in_scope(*(side.iloc[[row]] for side in sides), gate_alone=gate_alone)
        assert (judged.tolist(), len(notes)) == ([asked[row] and measured[row]], 1 - (asked[row] and measured[row]))


BEFORE: Mapping[str, Any] = {
    "bytes": 8.0,
    "flops": 0.5,
    "tolerance": 1e-6,
    "math": "fp32",
    "roof": "copy",
    "dtype": "float32",
    "tier": "gate",
    "host_bound": False,
    "sampling": "once",
}
AFTER: Mapping[str, Any] = {
    "bytes": 16.0,
    "flops": 1.5,
    "tolerance": 1e-5,
    "math": "bf16",
    "roof": "read",
    "dtype": "float16",
    "tier": "full",
    "host_bound": True,
    "sampling": "flush",
}


@pytest.mark.parametrize("term", BEFORE)
def test_a_term_that_both_sides_record_and_that_differs_is_named(term: str) -> None:
    def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
        rows = [{**BEFORE, "run": "older", term: None if term != "host_bound" else True}, {**BEFORE, **before}]
        return evidence.changed_terms(frame([{"case": "a.w", "bytes": 1.0}, *rows]), frame([{**BEFORE, **after}]))

    assert set(BEFORE) == set(evidence.RECORDED)
    assert changed({}, {}) == []
    (line,) = changed({}, {term: AFTER[term]})
    assert line.startswith(named(term))
    assert line.count("a.x") == 1
    figures = {"bytes": ["8", "16"], "flops": ["0.5", "1.5"]}
    assert term not in figures or re.findall(r"[\d.]+\b", line.partition("a.x")[2]) == figures[term]
    if term != "host_bound":
        assert changed({term: None}, {term: AFTER[term]}) == changed({}, {term: None}) == []


def test_a_case_below_its_floor_without_figures_has_the_sessions_own_reason() -> None:
    rows = frame([{"verdict": "BELOW_FLOOR", "reason": "0.6 twice", "floor": None}])
    assert records(evidence.summarize(rows, ALL))[0].below == "0.6 twice"


def test_whole_counts_are_named_as_such() -> None:
    values = np.full(len(evidence.RECORDED), None, dtype=object)
    values[:2] = 16.0, 1.5
    found = evidence._contract(values, np.arange(len(values)) < 2)
    whole, fraction = (getattr(found, term) for term in evidence.RECORDED[:2])
    assert (type(whole), fraction) == (int, 1.5)


def test_the_same_code_under_two_drivers_is_known_and_no_repeat() -> None:
    rows = frame({"run": run, "fingerprint": "f1", "gpu_driver": driver} for run, driver in (("a", "1"), ("b", "2")))
    one, other = evidence.repeat_group(rows, "driver").tolist()
    assert 0 <= one != other >= 0


def test_the_rows_of_a_side_are_the_last_of_each_run_in_the_order_they_were_taken() -> None:
    given = [("b", "a.x", 1.0), ("b", "a.y", 2.0), ("a", "a.x", 3.0), ("b", "a.x", 4.0)]
    taken = {run: datetime(2026, 11, day, tzinfo=UTC) for day, run in enumerate("ab", 1)}
    rows = frame({"run": run, "case": case, "time_us": us, "taken": taken[run]} for run, case, us in given)
    assert evidence.in_order("base", rows)["time_us"].to_list() == [3.0, 2.0, 4.0]
