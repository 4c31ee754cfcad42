"""Hostile input by the thousands: run files, floors and acknowledgements end in one line and exit code 2, or are read.

`nox -s fuzz` (PEAKGATE_FUZZ=200000) makes so many inputs and prints the count; the tests make a few hundred.
"""

from __future__ import annotations

import copy
import json
import os
import tomllib
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peakgate.common.errors import PeakgateError
from peakgate.judge.floors import load_floors
from peakgate.reports.comparison.judge import compare
from peakgate.reports.protect import acknowledged
from peakgate.reports.render import outputs
from peakgate.reports.runs.find import Side
from peakgate.reports.runs.index import Session, read_session, to_text
from peakgate.reports.runs.runfile import load_run
from synthetic_runs import document

INPUTS = int(os.environ.get("PEAKGATE_FUZZ", "180"))
"""Of all three kinds together; most are run files."""

BASE = document({"a.fast-1": 5.0, "a.slow-2": 400.0, "b.c": 40.0})
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(
        [1e308, 1e-300, -1.0, 10**400, "\ud800", "../../evil", "::add-mask::x", "=1+1", "x" * 30_000, [], {}]
    ),
    st.text(max_size=20),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
)
"""What takes the place of a value in a run file."""

COUNTS: Counter[str] = Counter()
fuzzing = settings(
    max_examples=INPUTS * 2 // 3,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value in a document."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [place for key, each in inside for place in places(each, (*path, key))]


PLACES = places(BASE)


@pytest.fixture(scope="module", autouse=True)
def _say_how_many() -> Any:
    yield
    print(f"\n{sum(COUNTS.values())} hostile inputs: {dict(COUNTS)}")  # noqa: T201  # shown by `nox -s fuzz`


def mutated(edits: list[tuple[tuple[Any, ...], Any, bool]]) -> Any:
    content = copy.deepcopy(BASE)
    for place, value, remove in edits:
        holder: Any = content
        try:
            for key in place[:-1]:
                holder = holder[key]
            if remove:
                del holder[place[-1]]
            else:
                holder[place[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier edit took this place away
    return content


@fuzzing
@given(st.lists(st.tuples(st.sampled_from(PLACES), VALUES, st.booleans()), min_size=1, max_size=3))
def test_a_mutated_run_file_is_refused_in_one_line_or_compared_without_a_false_pass(
    tmp_path: Path, edits: list[tuple[tuple[Any, ...], Any, bool]]
) -> None:
    COUNTS["run files"] += 1
    path, honest = tmp_path / "run.json", tmp_path / "honest.json"
    path.write_text(json.dumps(mutated(edits)), encoding="utf-8", errors="surrogatepass")
    if not honest.exists():
        honest.write_text(json.dumps(BASE))
    quick = read_session(path)
    if isinstance(quick, Session):
        to_text({"x": ((0, 0), quick)})
    try:
        run = load_run(path)
    except PeakgateError as error:
        assert len(str(error).splitlines()) == 1, str(error)[:300]  # noqa: PT017
        return
    base = load_run(honest)
    for sides in ((base, run), (run, base)):
        comparison = compare(Side("base", (sides[0],)), Side("new", (sides[1],)))
        outputs.texts(comparison, "compare", page=False)
        lost = set(sides[0].cases) - set(sides[1].cases)
        assert comparison.exit_code() != 0 or not lost - {"a", *_not_judged(sides)}, edits


def _not_judged(sides: Any) -> set[str]:
    """Cases beyond the gate tier, where the second side says it ran the gate alone."""
    return set(sides[0].cases) if sides[1].tier == "gate" else set()


TOML = st.one_of(
    st.text(max_size=60),
    st.builds(
        lambda schema, gpu, case, floor: f"schema = {schema}\ngpu = {gpu}\n[floors]\n{case} = {floor}\n",
        st.sampled_from(["1", "2", "true", "[]", "9" * 5000]),
        st.sampled_from(['"g"', "1", "[]", '"../.."', '"\\u0000"']),
        st.sampled_from(['"a.b"', "a.b", "'x'", '"' + "y" * 3000 + '"']),
        st.one_of(st.floats().map(repr), st.sampled_from(["[" * 3000, "{}", '"0.7"', "1e400", "0x10", "1979-05-27"])),
    ),
)


@settings(fuzzing, max_examples=max(1, INPUTS // 6))
@given(TOML)
def test_hostile_floors_are_refused_in_one_line_or_are_fractions(tmp_path: Path, text: str) -> None:
    COUNTS["floors"] += 1
    path = tmp_path / "floors.toml"
    path.write_bytes(text.encode("utf-8", errors="surrogatepass"))
    try:
        floors = load_floors(path)
    except PeakgateError as error:
        assert len(str(error).split("\n")) <= 2, str(error)[:300]  # noqa: PT017
        return
    assert all(0 < floor <= 1 for floor in floors.by_case.values())


ENTRY = st.builds(
    lambda what, before, after, reason, expires: (
        f"schema = 1\n[[acknowledged]]\n{what}\nfrom = {before}\nto = {after}\nreason = {reason}\nexpires = {expires}\n"
    ),
    st.sampled_from(['case = "a"', 'run = "r"', "case = []", 'case = "a"\nrun = "r"', 'case = "a"\nterm = 1', ""]),
    st.sampled_from(["0.7", '"none"', "true", "[]", "{}", "nan", "1e400"]),
    st.sampled_from(["0.6", '"none"', "2026-12-01"]),
    st.sampled_from(['"why"', '" "', "1", "[" * 2000]),
    st.one_of(st.dates().map(str), st.sampled_from(['"tomorrow"', "9999-12-31", "1", "2026-12-01T00:00:00"])),
)


@settings(fuzzing, max_examples=max(1, INPUTS // 6))
@given(st.one_of(ENTRY, st.text(max_size=60)))
def test_hostile_acknowledgements_are_refused_or_excuse_one_change_for_ninety_days(tmp_path: Path, text: str) -> None:
    COUNTS["acknowledgements"] += 1
    path, today = tmp_path / acknowledged.FILE, date(2026, 11, 20)
    path.write_bytes(text.encode("utf-8", errors="surrogatepass"))
    try:
        found = acknowledged.load(path, "g", today)
    except PeakgateError:
        return
    assert len(found) == len(tomllib.loads(text).get("acknowledged", []))
    assert all(today <= date.fromisoformat(each.expires) <= today + acknowledged.LONGEST for each in found)
