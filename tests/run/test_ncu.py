"""What is read from ncu, and what a fault, a hang or an interrupt while it profiles costs."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from peakgate.run import ncu

RANGE = "thread Domain:Push/Pop_Range:PL_Type:Msg"
HEAD = [["ID", RANGE, "Kernel Name", "sm__cycles_active.sum", "launch__cluster"], ["", "", "", "cycle", ""]]
ASKED: Sequence[tuple[Sequence[str], Sequence[str]]] = ((("Occupancy",), ("a.sum",)), ((), ("a.sum",)))

PROGRAM = """#!{python}
import csv, json, os, signal, sys
from pathlib import Path
at = sys.argv.index("peakgate.run.ncu")
journal, cases = Path(sys.argv[at + 1]), Path(sys.argv[at + 2]).read_text().split()
Path({calls!r}).open("a").write(json.dumps([cases, sys.argv[1:at]]) + chr(10))
def write(**record):
    with journal.open("a") as lines:
        lines.write(json.dumps(record) + chr(10))
table = csv.writer(sys.stdout, quoting=csv.QUOTE_ALL)
table.writerows({head!r})
number = 0
def launched(case, kernels=1):
    global number
    write(begun=case)
    for _ in range(kernels):
        table.writerow([number, "5  <default domain>:" + case + ":none", "axpy", number + 1, "n/a"])
        number += 1
    write(case=case, problem=None)
{body}
"""


def program(folder: Path, body: str) -> str:
    """An ncu whose target does what ``body`` says with ``cases``; what it was asked for is in ``calls.jsonl``."""
    path = folder / "ncu"
    text = PROGRAM.format(python=sys.executable, calls=str(folder / "calls.jsonl"), head=HEAD, body=body)
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def profile(folder: Path, body: str, *cases: str, **options: Any) -> ncu.Profiled:
    made = program(folder, body)
    environment = dict(os.environ)
    return ncu.profile(made, cases, folder, environment, folder / "out", asked=ASKED, device="gpu:0", **options)


def calls(folder: Path) -> list[Any]:
    return [json.loads(line) for line in (folder / "calls.jsonl").read_text().splitlines()]


ALL = "for case in cases: launched(case)\nwrite(end=True)"


def test_kernels_are_read_case_by_case() -> None:
    printed = io.StringIO("==PROF== Connected to process 5\n")
    printed.seek(0, io.SEEK_END)
    of_case = '5  "<default domain>:a.b-1:none" '
    first, second = [0, of_case, "axpy", "1,234,567", "CachePreferNone"], [1, of_case, "scale", 8, "n/a"]
    csv.writer(printed, quoting=csv.QUOTE_ALL).writerows([*HEAD, first, second, [2, "", "x", 9]])
    printed.write("==WARNING== something\n")
    kernels = [{"sm__cycles_active.sum": 1234567.0}, {"sm__cycles_active.sum": 8.0}]
    assert ncu.parse(printed.getvalue(), ["a.b-1", "a.b"]) == {"a.b-1": kernels}
    assert ncu.parse("==ERROR== no permission", ["a.b"]) == {}


def test_kernels_of_a_launch_add_up_and_shares_are_weighed_by_time() -> None:
    one = {"gpu__time_duration.sum": 3.0, "a.sum": 5.0, "b.pct": 10.0, "c.sum": 1.0}
    other = {"gpu__time_duration.sum": 1.0, "a.sum": 7.0, "b.pct": 30.0}
    assert ncu.of_launch([one]) == one
    assert ncu.of_launch([one, other]) == {"gpu__time_duration.sum": 4.0, "a.sum": 12.0, "b.pct": 15.0}
    assert ncu.of_launch([{"b.pct": 10.0}, {"b.pct": 30.0}]) == {"b.pct": 20.0}


def test_each_case_has_its_kernels(tmp_path: Path) -> None:
    body = "launched('a', 2)\nlaunched('b', 0)\nlaunched('c')\nwrite(end=True)"
    found = profile(tmp_path, body, "a", "b", "c", "test")
    assert {case: len(kernels) for case, kernels in found.kernels.items()} == {"a": 2, "c": 1}
    assert (found.failed, found.problem) == ({"b": ncu.WITHOUT_KERNEL}, None)


@pytest.mark.parametrize(("flush", "control"), [(True, "all"), (False, "none")])
def test_the_caches_are_flushed_where_that_is_asked(tmp_path: Path, flush: bool, control: str) -> None:
    profile(tmp_path, ALL, "a", flush=flush)
    ((_, line),) = calls(tmp_path)
    assert line[line.index("--cache-control") + 1] == control


def test_an_ncu_that_does_not_know_a_section_is_asked_for_less(tmp_path: Path) -> None:
    unknown = "if '--section' in sys.argv: sys.exit('unknown section')\n"
    found = profile(tmp_path, unknown + ALL, "a", "b")
    assert list(found.kernels) == ["a", "b"]
    assert found.problem is None
    assert len(calls(tmp_path)) == 2


def test_an_ncu_that_knows_nothing_of_it_says_so(tmp_path: Path) -> None:
    found = profile(tmp_path, "sys.exit('unknown metric')", "a")
    assert found.kernels == {}
    assert "unknown metric" in str(found.problem)


def test_who_may_read_no_counters_is_asked_once(tmp_path: Path) -> None:
    refused = "def launched(case):\n    write(begun=case)\n    write(case=case, problem=None)\n"
    refused += f"print('==ERROR== {ncu.NO_PERMISSION} - no permission')\n"
    found = profile(tmp_path, refused + ALL, "a")
    assert found.kernels == {}
    assert ncu.NO_PERMISSION in str(found.problem)
    assert len(calls(tmp_path)) == 1


def test_a_fault_costs_its_own_case(tmp_path: Path) -> None:
    fault = "for case in cases:\n    if case == 'b': write(begun=case); write(case=case, problem='fault'); sys.exit()\n"
    found = profile(tmp_path, f"{fault}    launched(case)\nwrite(end=True)", "a", "b", "c")
    assert (list(found.kernels), found.failed, found.problem) == (["a", "c"], {"b": "fault"}, None)
    assert [cases for cases, _ in calls(tmp_path)] == [["a", "b", "c"], ["c"]]


def test_a_crash_costs_its_own_case_and_what_was_not_printed_is_profiled_again(tmp_path: Path) -> None:
    unprinted = "if 'b' in cases: table = csv.writer(Path(os.devnull).open('w'))\n"
    crash = "for case in cases:\n    if case == 'b': write(begun=case); os._exit(139)\n    launched(case)\n"
    found = profile(tmp_path, f"{unprinted}{crash}write(end=True)", "a", "b", "c")
    assert (list(found.kernels), list(found.failed), found.problem) == (["a", "c"], ["b"], None)
    assert [cases for cases, _ in calls(tmp_path)] == [["a", "b", "c"], ["a", "c"]]


def test_faults_of_every_case_end_the_profile(tmp_path: Path) -> None:
    found = profile(tmp_path, "write(begun=cases[0])\nos._exit(1)", *"abcdef")
    assert list(found.failed) == ["a", "b", "c"]
    assert found.problem is not None


def test_what_was_counted_before_an_interrupt_is_kept(tmp_path: Path) -> None:
    body = "launched('a')\nwrite(begun='b')\nsys.stdout.flush()\nos.kill(os.getppid(), signal.SIGINT)\nsignal.pause()"
    found = profile(tmp_path, body, "a", "b", "c")
    assert (list(found.kernels), found.failed, found.problem) == (["a"], {}, ncu.STOPPED)


def test_an_ncu_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ncu, "START_LIMIT_S", 0.0)
    monkeypatch.setattr(ncu, "MEAN_LIMIT_S", 0.0)
    found = profile(tmp_path, "signal.pause()", "a")
    assert found.kernels == {}
    assert "did not end" in str(found.problem)
