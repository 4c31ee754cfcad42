"""Hostile kernels on a GPU: what each costs, how long that takes, and whether the GPU is free again.

Run on a machine with an NVIDIA GPU: ``pytest -m gpu -s tests/device/test_faults_gpu.py``; with -s each run is printed.
"""

import json
import subprocess
import sys
import time

import pytest
import runs
from runs import judged, verdicts

from peakgate.base.errors import Code

pytestmark = pytest.mark.gpu

LONGEST_S = 120.0
"""Of the whole hostile run: a process per fault, and the limit of one endless kernel."""

FOREIGN = "import cupy; held = cupy.zeros(1 << 20); held.sum().item(); print('up', flush=True); input()"
HOLDS_THE_LOCK = (
    "from peakgate.run.lock import device_uuid, locked\n"
    "with locked(device_uuid('gpu'), 0.0):\n    print('up', flush=True)\n    input()"
)


def run(folder, *arguments, settings=""):
    start = time.monotonic()
    done = runs.run(folder, *arguments, device="gpu", settings=settings)
    sys.stdout.write(f"\n$ peakgate bench {' '.join(arguments)}\n{done.stdout}{done.stderr}")
    sys.stdout.write(f"exit code {done.returncode} after {time.monotonic() - start:.1f} s\n")
    return done, time.monotonic() - start


def beside(program):
    """A process that does this until its input ends, once it is up."""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    done, seconds = run(folder, f"--benchmark-json={folder / 'run.json'}")
    return done, folder, seconds


def test_each_hostile_kernel_costs_its_own_case_and_no_other(hostile):
    done, folder, _ = hostile
    assert done.returncode == 1
    assert verdicts(folder) == {
        "a_copy": "NO_FLOOR",
        "claims": "IMPOSSIBLE",
        "counts": "WRONG",
        "endless": "TIMEOUT",
        "huge": "INCONCLUSIVE",
        "illegal": "CRASHED",
        "keeps": "WRONG",
        "spoils": "WRONG",
        "traps": "CRASHED",
        "z_copy": "NO_FLOOR",
    }
    assert "Traceback" not in done.stdout + done.stderr
    assert "Error in sys.excepthook" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("case", "part"),
    [
        ("illegal", "cudaErrorIllegalAddress"),
        ("traps", "cudaErrorLaunchFailure"),
        ("endless", "did not end within 5 s"),
        ("claims", "of peak, and nothing exceeds the peak"),
        ("counts", "output 0"),
        ("keeps", "output 0"),
        ("spoils", "changed argument 2"),
        ("huge", "GB are free"),
    ],
)
def test_the_reason_says_what_happened(hostile, case, part):
    assert part in judged(hostile[1])[case][1]


def test_the_run_file_is_whole_and_the_run_takes_seconds(hostile):
    _, folder, seconds = hostile
    about = json.loads((folder / "run.json").read_text())["peakgate"]
    assert about["partial"] is None
    assert len(about["restarts"]) == 3
    assert seconds < LONGEST_S


def test_the_gpu_is_free_again_after_the_hostile_run(hostile, tmp_path):
    done, _ = run(tmp_path, "-k", "a_copy or z_copy", "--wait", "0")
    assert done.returncode == 0


def test_a_second_run_on_the_gpu_exits_3_and_says_who_has_it(tmp_path):
    holder = beside(HOLDS_THE_LOCK)
    try:
        done, _ = run(tmp_path, "-k", "a_copy", "--wait", "0")
    finally:
        holder.communicate("\n")
    assert done.returncode == 3
    assert f"[{Code.BUSY}]" in done.stderr
    assert f"pid {holder.pid} " in done.stderr
    assert run(tmp_path, "-k", "a_copy", "--wait", "0")[0].returncode == 0


def test_a_foreign_process_on_the_gpu_leaves_cases_undecided(tmp_path):
    foreign = beside(FOREIGN)
    try:
        done, _ = run(tmp_path, "-k", "a_copy or z_copy")
    finally:
        foreign.communicate("\n")
    assert done.returncode == 3
    assert {verdict for verdict, _ in judged(tmp_path).values()} == {"INCONCLUSIVE"}
    assert all(reason.startswith("foreign process ") for _, reason in judged(tmp_path).values())


def test_a_case_below_its_floor_is_judged_by_three_processes(tmp_path):
    run(tmp_path / "first", "-k", "a_copy or z_copy", f"--benchmark-json={tmp_path / 'first.json'}")
    slug = json.loads((tmp_path / "first" / "bench.json").read_text())["device"]
    copy = json.loads((tmp_path / "first.json").read_text())["benchmarks"][0]["extra_info"]
    floors = tmp_path / "baselines" / slug / "floors.toml"
    floors.parent.mkdir(parents=True)
    floor = min(1.1 * copy["peak_fraction"], 1.0)
    floors.write_text(f'schema = 1\ngpu = "{slug}"\n[floors]\n"{copy["case"]}" = {floor}\n')
    settings = f'baselines = "{tmp_path / "baselines"}"'
    given = ("-k", "a_copy or z_copy", f"--benchmark-json={tmp_path / 'run.json'}")
    done, _ = run(tmp_path / "again", *given, settings=settings)
    assert done.returncode == 1
    verdicts = judged(tmp_path / "again")
    assert verdicts["a_copy"][0] == "BELOW_FLOOR"
    assert "3 processes: " in verdicts["a_copy"][1]
    assert verdicts["z_copy"][0] == "NO_FLOOR"
    fractions = [float(word) for word in verdicts["a_copy"][1].rstrip(")").rpartition(": ")[2].split(", ")]
    saved = json.loads((tmp_path / "run.json").read_text())["benchmarks"][0]["extra_info"]
    assert saved["peak_fraction"] == pytest.approx(sorted(fractions)[1], rel=0.01)
