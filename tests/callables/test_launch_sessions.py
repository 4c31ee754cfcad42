"""How much the time of a call on the host differs between sessions of one commit, on a GPU's host."""

import itertools
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from lab.pages import ROOT, fill_page, filled, percent, table
from peakgate.compare import noise

LAUNCHES = Path(__file__).parents[1] / "data" / "launches"
RECORD = LAUNCHES / "h200.json"
PAGE = ROOT / "docs" / "how-to" / "callables.md"

WRITES = os.environ.get("PEAKGATE_GOLDEN") == "write"
SESSIONS = 8 if WRITES else 2


def session(folder, number):
    """The time of each case in microseconds."""
    command = [sys.executable, "-m", "peakgate", "bench", "--device", "gpu", "--out", f"out-{number}", "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {case["case"].rpartition(".")[2]: round(case["time_us"], 2) for case in json.loads(done.stdout)["cases"]}


def ratios(times_us):
    """The log ratio of every two sessions."""
    return [abs(math.log(one / other)) for one, other in itertools.combinations(times_us, 2)]


def page_table(record):
    """The table of the page: a row for each case of each host."""
    rows = []
    for number, host in enumerate(record["hosts"], 1):
        for case, times_us in host["times_us"].items():
            largest, sd = max(ratios(times_us)), statistics.stdev(map(math.log, times_us))
            shown = f"{statistics.median(times_us):.1f} µs", percent(sd), percent(math.expm1(largest))
            rows.append([f"`{case}`", f"{number}, {host['date']}", len(times_us), *shown])
    return table(["case", "host", "sessions", "median", "SD", "largest difference of two"], rows)


@pytest.mark.gpu
def test_sessions_of_launches_on_one_host_differ_by_no_more_than_compare_takes_for_noise(tmp_path):
    pytest.importorskip("triton")
    folder = tmp_path / "launches"
    shutil.copytree(LAUNCHES, folder)
    found = [session(folder, number) for number in range(SESSIONS)]
    times_us = {case: [each[case] for each in found] for case in found[0]}
    if WRITES:
        ask = ["git", "rev-parse", "HEAD"]
        commit = subprocess.run(ask, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
        hosts = json.loads(RECORD.read_text(encoding="utf-8"))["hosts"] if RECORD.exists() else []
        hosts.append({"commit": commit, "date": date.today().isoformat(), "times_us": times_us})
        RECORD.write_text(json.dumps({"hosts": hosts}, indent=1) + "\n", encoding="utf-8")
        fill_page(PAGE, {"launches": page_table({"hosts": hosts})})
    every = [ratio for times in times_us.values() for ratio in ratios(times)]
    assert statistics.median(every) < noise.HOST_RESOLVABLE


def test_the_page_shows_the_record_of_launches():
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert filled(PAGE, {"launches": page_table(record)}) == PAGE.read_text(encoding="utf-8")
