"""Whole runs of hostile kernels in the emulator: what each costs, and what is left when a run is ended from outside."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from runs import ENVIRONMENT, HOSTILE, by, command, run, verdicts

from peakgate.base.errors import Code
from peakgate.run import journal
from peakgate.runfile.saved import load_run
from peakgate.spec.recorded import EMULATOR_SLUG


def of_hostile(tmp_path, text, settings="", **given):
    """A project beside the run's files, whose family is made of the hostile one."""
    folder = tmp_path / "project" / "kernels" / "mine"
    folder.mkdir(parents=True, exist_ok=True)
    (tmp_path / "project" / "peakgate.toml").write_text(settings)
    (folder / "family.py").write_text(text.format(hostile=str(HOSTILE / "kernels" / "hostile"), **given))
    return tmp_path / "project"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """One run of every hostile kernel; the limit is for the one that sleeps."""
    folder = tmp_path_factory.mktemp("hostile")
    return run(folder, f"--benchmark-json={folder / 'run.json'}", settings="launch_timeout_s = 2"), folder


def test_each_hostile_kernel_costs_its_own_case_and_no_other(hostile):
    done, folder = hostile
    assert done.returncode == 1, done.stdout + done.stderr
    assert verdicts(folder) == {
        "a_copy": "NO_FLOOR",
        "aborts": "CRASHED",
        "counts": "WRONG",
        "exits": "CRASHED",
        "keeps": "WRONG",
        "recurses": "CRASHED",
        "sleeps": "INCONCLUSIVE",
        "spoils": "WRONG",
        "traps": "CRASHED",
        "z_copy": "NO_FLOOR",
    }
    assert "Traceback" not in done.stdout + done.stderr
    assert "Fatal Python error" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "line",
    [
        "CRASHED hostile.aborts-1024: its process was ended by SIGABRT during a launch",
        "CRASHED hostile.recurses-1024: recurses.cu:2: fault: stack overflow",
        "CRASHED hostile.traps-1024: traps.cu:3: assertion: assertion failed: __trap()",
        "CRASHED hostile.exits-1024: its process exited with code 0 during a launch",
        "INCONCLUSIVE hostile.sleeps-1024: a launch did not end within 2 s",
        "WRONG hostile.counts-1024: edge-size problem 33 with equal data: unwritten output: no thread wrote",
        "WRONG hostile.keeps-1024: edge-size problem 33 with equal data: output 0",
        "WRONG hostile.spoils-1024: edge-size problem 33: changed argument 2, an input, near element 32",
    ],
)
def test_the_reason_says_what_happened_and_when(hostile, line):
    assert line in hostile[0].stdout


def test_the_run_file_is_one_whole_run_that_reports_its_restarts(hostile):
    saved = json.loads((hostile[1] / "run.json").read_text())
    about = saved["peakgate"]
    assert about["partial"] is None
    assert about["whole"] is True
    assert len(about["restarts"]) == 3
    assert {entry["case"] for entry in about["not_measured"]} == {
        f"hostile.{name}-1024"
        for name in ("aborts", "counts", "exits", "keeps", "recurses", "sleeps", "spoils", "traps")
    }
    assert [benchmark["extra_info"]["case"] for benchmark in saved["benchmarks"]] == [
        "hostile.a_copy-1024",
        "hostile.z_copy-1024",
    ]
    assert all(len(benchmark["stats"]["data"]) >= 3 for benchmark in saved["benchmarks"])


def test_a_run_leaves_its_verdict_and_its_run_files_and_nothing_else(hostile):
    assert sorted(path.name for path in hostile[1].iterdir()) == ["bench.json", "bench.prom", "run.json", "saved"]
    assert [path.name[:5] for path in hostile[1].rglob("0*.json")] == ["0001_"]


def test_the_verdict_names_its_inputs_its_command_and_its_commit(hostile):
    verdict = json.loads((hostile[1] / "bench.json").read_text())
    assert verdict["command"][-1].startswith("--benchmark-json=")
    assert len(verdict["commit"]) == 40
    assert len(verdict["harness"]) == 64
    assert verdict["device"] == "cpu-emulator"
    assert any(name.endswith("cpu-emulator/floors.toml") for name in verdict["files"])
    digests = {Path(name).name: digest for name, digest in verdict["files"].items()}
    assert len(digests["run.json"]) == 64
    assert digests["floors.toml"] is None


def interrupted(folder, signals, *arguments):
    """A run that is sent these signals while its kernel sleeps."""
    process = subprocess.Popen(
        command(folder, "-k", "a_copy or sleeps or z_copy", *arguments),
        cwd=HOSTILE,
        env=by("launch_timeout_s = 600", folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    journaled = folder / "bench.journal"
    while process.poll() is None and not (journaled.is_file() and "a_copy" in journaled.read_text()):
        os.sched_yield()
    for number in signals:
        process.send_signal(number)
    output, _ = process.communicate(timeout=120)
    return process.returncode, output


def test_what_kill_9_leaves_is_resumed_and_measured_once(tmp_path):
    code, _ = interrupted(tmp_path, [signal.SIGKILL])
    assert code == -signal.SIGKILL
    assert not (tmp_path / "bench.json").exists()
    before = json.loads((tmp_path / "bench.journal").read_text().splitlines()[2])
    done = run(tmp_path, "-k", "a_copy or z_copy", "--resume", f"--benchmark-json={tmp_path / 'run.json'}")
    assert done.returncode == 0, done.stdout + done.stderr
    saved = json.loads((tmp_path / "run.json").read_text())
    assert len(saved["peakgate"]["restarts"]) == 1
    first = saved["benchmarks"][0]
    assert before["case"] == first["extra_info"]["case"] == "hostile.a_copy-1024"
    assert [time_s * 1e6 for time_s in first["stats"]["data"]] == pytest.approx(before["times_us"], rel=1e-12)
    assert not (tmp_path / "bench.journal").exists()


def test_a_run_ended_twice_while_a_kernel_runs_exits_130_and_can_be_resumed(tmp_path):
    code, output = interrupted(tmp_path, [signal.SIGINT, signal.SIGTERM])
    assert code == 130
    assert "Traceback" not in output
    assert not (tmp_path / "bench.json").exists()
    assert "a_copy" in (tmp_path / "bench.journal").read_text()


SLOW_REFERENCE = """
import sys
from pathlib import Path
sys.path.insert(0, {hostile!r})
from family import FAMILY, case, probes
from peakgate.case import Family
import signal, os, dataclasses
def stop(xp, inputs):
    os.kill(os.getppid(), signal.SIGINT)
    signal.pause()
def cases(scale):
    yield case("a_copy", 1024)
    yield dataclasses.replace(case("z_copy", 1024), reference=stop)
FAMILY = Family("hostile", "", FAMILY.stages, cases, probes)
"""


def test_after_ctrl_c_what_was_measured_is_saved_and_marked_partial(tmp_path):
    done = run(tmp_path, f"--benchmark-json={tmp_path / 'run.json'}", project=of_hostile(tmp_path, SLOW_REFERENCE))
    assert done.returncode == 130, done.stdout + done.stderr
    about = json.loads((tmp_path / "run.json").read_text())["peakgate"]
    assert about["whole"] is False
    assert about["partial"].startswith("1 of 2 ")
    verdict = json.loads((tmp_path / "bench.json").read_text())
    assert verdict["exit_code"] == 130
    assert verdict["partial"] == about["partial"]
    assert "Traceback" not in done.stdout + done.stderr


LOST_CONTEXT = """
import dataclasses, sys
sys.path.insert(0, {hostile!r})
from family import FAMILY, case, probes
from peakgate.device.cpu import CpuDevice
from peakgate.device.interface import KernelCrash
def lose(xp, inputs):
    CpuDevice.lost = "the context is gone"
    raise KernelCrash("cudaErrorIllegalAddress: an illegal memory access was encountered")
def cases(scale):
    yield dataclasses.replace(case("a_copy", 1024), reference=lose)
    yield case("z_copy", 1024)
FAMILY = dataclasses.replace(FAMILY, cases=cases, probes=lambda of: iter(()))
"""


@pytest.mark.parametrize("ab", [None, "proof"])
def test_after_a_lost_context_the_verdict_is_written_and_a_supervised_run_goes_on(tmp_path, monkeypatch, ab):
    """A stand-in for a GPU: the device says that its context is lost, as after an illegal address."""
    if ab:
        monkeypatch.setitem(ENVIRONMENT, "PEAKGATE_AB", ab)
    done = run(tmp_path, project=of_hostile(tmp_path, LOST_CONTEXT))
    assert done.returncode == 1, done.stdout + done.stderr
    assert verdicts(tmp_path) == {"a_copy": "CRASHED", "z_copy": "NO_FLOOR"}
    restarts = json.loads((tmp_path / "bench.json").read_text())["restarts"]
    assert [each.partition(":")[0] for each in restarts] == ([] if ab else ["hostile.a_copy-1024"])


BELOW_ITS_FLOOR = """
import dataclasses, sys
from pathlib import Path
sys.path.insert(0, {hostile!r})
from family import FAMILY, case
import peakgate.session.session as session
real, taken = session.metrics, Path({taken!r})
def metrics(case, samples, peaks, roofs):
    with taken.open("a") as file:
        file.write(case.stage.name + "\\n")
    count = taken.read_text().split().count(case.stage.name)
    fraction = {fractions!r}.get(case.stage.name, [0.9] * count)[count - 1]
    {then}
    return dataclasses.replace(real(case, samples, peaks, roofs), peak_fraction=fraction, bound="memory")
session.metrics = metrics
def cases(scale):
    yield case("a_copy", 1024)
    yield case("z_copy", 1024)
FAMILY = dataclasses.replace(FAMILY, cases=cases, probes=lambda of: iter(()))
"""


LAST_TESTS = """
import numpy
import pytest

def test_wrong(gpu_benchmark):
    gpu_benchmark.expect(lambda x: x + 2)(lambda x: x + 1, numpy.ones(4))

def test_skipped(gpu_benchmark):
    pytest.skip("nothing to run")
"""


def below_its_floor(tmp_path, fractions, *arguments, then="pass", settings=""):
    """A run whose kernels have these fractions of a pretended peak, process by process, at a floor of 0.7."""
    floors = tmp_path / "baselines" / EMULATOR_SLUG / "floors.toml"
    floors.parent.mkdir(parents=True, exist_ok=True)
    cases = "".join(f'"hostile.{name}-1024" = 0.7\n' for name in ("a_copy", "z_copy"))
    floors.write_text(f'schema = 1\ngpu = "{EMULATOR_SLUG}"\n[floors]\n{cases}')
    settings += f'\nbaselines = "{tmp_path / "baselines"}"\n'
    project = of_hostile(
        tmp_path, BELOW_ITS_FLOOR, settings, taken=str(tmp_path / "taken"), fractions=fractions, then=then
    )
    return run(tmp_path, f"--benchmark-json={tmp_path / 'run.json'}", *arguments, project=project)


def test_the_median_of_three_processes_judges_a_case_below_its_floor(tmp_path):
    done = below_its_floor(tmp_path, {"a_copy": [0.6, 0.9, 0.8], "z_copy": [0.6, 0.9, 0.5]})
    assert done.returncode == 1, done.stdout + done.stderr
    assert (tmp_path / "taken").read_text().split() == ["a_copy", "z_copy"] * 3
    reported = json.loads((tmp_path / "bench.json").read_text())
    assert [(case["verdict"], case["reason"].rpartition(": ")[2]) for case in reported["cases"]] == [
        ("PASS", "0.6, 0.9, 0.8)"),
        ("BELOW_FLOOR", "0.6, 0.9, 0.5)"),
    ]
    assert reported["restarts"][0].startswith("2 of 2 ")
    saved = load_run(tmp_path / "run.json").cases
    assert [saved[f"hostile.{name}-1024"].peak_fraction for name in ("a_copy", "z_copy")] == [0.8, 0.6]
    assert done.stdout.count("2 cases on ") == 1  # one table, of the last process
    assert not (tmp_path / "bench.journal").exists()


def test_a_case_that_crashes_its_process_when_measured_again_is_at_fault(tmp_path):
    done = below_its_floor(tmp_path, {"a_copy": [0.6, 0.9, 0.9]}, then="import os; count == 2 and os.abort()")
    assert done.returncode == 1, done.stdout + done.stderr
    assert verdicts(tmp_path) == {"a_copy": "CRASHED", "z_copy": "PASS"}


def test_what_is_finished_or_skipped_after_a_case_below_its_floor_is_not_blamed_for_the_end_of_its_process(tmp_path):
    benchmarks = tmp_path / "project" / "benchmarks"
    benchmarks.mkdir(parents=True)
    (benchmarks / "test_last.py").write_text(LAST_TESTS)
    done = below_its_floor(tmp_path, {"a_copy": [0.6, 0.9, 0.9]}, settings='benchmarks = ["benchmarks"]')
    assert done.returncode == 1, done.stdout + done.stderr
    found = {case["case"]: case["verdict"] for case in json.loads((tmp_path / "bench.json").read_text())["cases"]}
    assert found == {
        "hostile.a_copy-1024": "PASS",
        "hostile.z_copy-1024": "PASS",
        "benchmarks-test_last.test_wrong": "WRONG",
    }, done.stdout + done.stderr


def test_what_is_interrupted_while_cases_are_measured_again_passes_nothing_and_can_be_resumed(tmp_path):
    fractions = {name: [0.6, 0.9, 0.8, 0.85] for name in ("a_copy", "z_copy")}
    stop = (
        "import os, signal; count == 2 and case.stage.name == 'z_copy' and "
        "(os.kill(os.getppid(), signal.SIGINT), signal.pause())"
    )
    (tmp_path / "project").mkdir()
    for words in ("init -q", "-c user.name=a -c user.email=a@b commit -q --allow-empty -m empty"):
        subprocess.run(["git", *words.split()], cwd=tmp_path / "project", check=True)
    done = below_its_floor(tmp_path, fractions, then=stop)
    assert done.returncode == 130, done.stdout + done.stderr
    assert list(tmp_path.glob("*.json")) == []  # a_copy is above its floor in one process of two
    done = below_its_floor(tmp_path, fractions, "--resume", then=stop)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "resumed: 0 finished" in done.stderr
    judged = json.loads((tmp_path / "bench.json").read_text())["cases"]
    assert [case["reason"].rpartition(": ")[2] for case in judged] == ["0.6, 0.9, 0.8)", "0.6, 0.8, 0.85)"]


def test_a_gate_never_resumes(tmp_path):
    done = run(tmp_path, "--resume", "--strict-gate")
    assert done.returncode == 2
    assert f"[{Code.OPTION}]" in done.stderr


def test_a_run_of_other_code_is_not_resumed(tmp_path):
    about, digest = journal.line({"measures": {"commit": "0" * 40, "harness": "of another version"}})
    case, _ = journal.line({"case": "hostile.a_copy-1024"}, digest)
    (tmp_path / "bench.journal").write_bytes(about + case)
    done = run(tmp_path, "-k", "a_copy", "--resume")
    assert done.returncode == 2
    assert f"[{Code.CHANGED}]" in done.stderr
    assert "commit, " in done.stderr
