"""Whole runs as a user starts them."""

import errno
import json
import os
import signal

import pytest
from runs import DEFECTS, HOSTILE, ROOT, places
from runs import run as started

from peakgate.base.errors import Code


@pytest.fixture
def run(bench):
    """A run in the emulator whose files are in a folder."""
    return lambda folder, *arguments, project=HOSTILE: bench(project, *places(folder), *arguments)


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    """One small healthy run: its process and its saved file."""
    folder = tmp_path_factory.mktemp("healthy")
    json_file = folder / "run.json"
    done = started(folder, "-k", "naive_row or memcpy", f"--benchmark-json={json_file}", project=ROOT)
    return done, json_file, folder


def test_a_healthy_run_exits_0_and_says_how_many_cases_ran(healthy):
    done, _, _ = healthy
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cases on cpu-emulator" in done.stdout


def test_the_run_file_is_pytest_benchmarks_own_with_our_sections(healthy):
    _, json_file, _ = healthy
    saved = json.loads(json_file.read_text())
    assert saved["peakgate_schema"] == 1
    assert saved["machine_info"]["gpu"]["slug"] == "cpu-emulator"
    assert "cpu" not in saved["machine_info"]  # which a process would ask for
    assert saved["peakgate"]["tier"] == "gate"
    for benchmark in saved["benchmarks"]:
        info = benchmark["extra_info"]
        assert benchmark["name"] == f"test_kernel[{info['case']}]"
        assert info["verdict"] == "NO_FLOOR"
        assert info["host_bound"] is False
        assert info["peak_fraction"] is None
        assert info["probes"] > 0
        assert benchmark["stats"]["median"] * 1e6 == pytest.approx(info["time_us"], abs=1e-3)


def test_a_run_is_saved_in_pytest_benchmarks_storage(healthy):
    _, _, folder = healthy
    assert len(list((folder / "saved").rglob("0001_*.json"))) == 1


def test_the_verdict_is_left_in_a_small_file(healthy):
    _, _, folder = healthy
    verdict = json.loads((folder / "bench.json").read_text())
    assert verdict["exit_code"] == 0
    assert set(verdict["verdicts"]) == {"NO_FLOOR"}


def test_wrong_kernels_fail_are_named_and_are_not_saved(tmp_path, run):
    json_file = tmp_path / "run.json"
    done = run(tmp_path, f"--benchmark-json={json_file}", project=DEFECTS)
    assert done.returncode == 1
    assert "unguarded.cu:4" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert ": :error::printed" in done.stdout
    assert "\x1b" not in done.stdout
    saved = json.loads(json_file.read_text())
    wrong = {entry["case"]: entry for entry in saved["peakgate"]["not_measured"]}
    assert sorted(wrong) == ["defects.shifted-1024", "defects.unguarded-1024"]
    assert {entry["verdict"] for entry in wrong.values()} == {"WRONG"}
    assert wrong["defects.shifted-1024"]["reason"].startswith("edge-size problem 1000: ")
    names = [benchmark["extra_info"]["case"] for benchmark in saved["benchmarks"]]
    assert names
    assert not any("shifted" in name or "unguarded" in name for name in names)


def test_strict_leaves_a_run_without_floors_undecided(tmp_path, run):
    assert run(tmp_path, "-k", "a_copy", "--strict-gate").returncode == 3


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--device", "tpu"], Code.OPTION),
        (["--devise", "cpu"], Code.OPTION),
        (["--tier", "none"], Code.OPTION),
        (["-k", "no_such_case"], Code.SELECTION),
        (["--peakgate-cases", "no/such/file"], Code.UNREADABLE),
    ],
)
def test_a_mistake_in_the_arguments_is_one_line_and_exit_2(tmp_path, arguments, code, run):
    done = run(tmp_path, *arguments)
    assert done.returncode == 2
    assert f"[{code}]" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "usage:" not in done.stderr


def test_floors_that_name_an_unknown_case_stop_the_run_with_exit_2(tmp_path):
    folder = tmp_path / "baselines" / "cpu-emulator"
    folder.mkdir(parents=True)
    (folder / "floors.toml").write_text('schema = 1\ngpu = "cpu-emulator"\n\n[floors]\n"hostile.gone-1" = 0.5\n')
    done = started(tmp_path, "-k", "a_copy", settings=f'baselines = "{tmp_path / "baselines"}"')
    assert done.returncode == 2
    assert "hostile.gone-1" in done.stdout + done.stderr


def test_an_unknown_id_in_a_file_of_cases_is_named_with_the_nearest(tmp_path, run):
    (tmp_path / "cases").write_text("hostile.a_copi-1024\n")
    done = run(tmp_path, f"--peakgate-cases={tmp_path / 'cases'}")
    assert done.returncode == 2
    assert "'hostile.a_copy-1024'?" in done.stdout + done.stderr


FULL = """
from pathlib import Path
from peakgate.case import Buffer, Case, Family, Launch, Role, Stage, Tier, Work
from peakgate.device.cpu import CpuDevice
STAGE = Stage("full", "asks for more than there is", Path(__file__).with_name("full.cu"))
def full(*arguments):
    raise MemoryError("Out of memory allocating 4,294,967,296 bytes")
def cases(scale):
    buffer = Buffer(Role.OUT, (1,))
    launch = Launch((1, 1, 1), (1, 1, 1))
    yield Case("full", STAGE, launch, (buffer,), Work(4), full, tier=Tier.GATE)
    small = Stage("small", "a copy", operation="memcpy")
    buffers = (Buffer(Role.OUT, (8,)), Buffer(Role.IN, (8,)))
    yield Case("full", small, launch, buffers, Work(64), lambda xp, inputs: inputs, tier=Tier.GATE)
FAMILY = Family("full", "synthetic", (STAGE,), cases, lambda case: iter(()))
"""


@pytest.mark.parametrize(
    ("at_the_start", "reported"),
    [
        ("", "INCONCLUSIVE full.full: not run: no room in memory (Out of memory"),
        ("CpuDevice.warm_up = full", "not measured: no room in memory (Out of memory allocating"),
    ],
)
def test_a_device_without_room_leaves_the_case_or_the_run_undecided(tmp_path, project, at_the_start, reported, run):
    kernel = 'extern "C" __global__ void full(float *out) { out[0] = 0.0f; }'
    done = run(tmp_path, project=project("mine", FULL + at_the_start, full=kernel))
    assert done.returncode == 3
    assert reported in done.stdout + done.stderr
    assert ("2 cases on" in done.stdout) is not bool(at_the_start)  # what has room is measured
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.gpu
def test_a_write_past_the_end_of_a_buffer_is_seen_on_the_gpu_where_memory_is_free_there(tmp_path):
    done = started(tmp_path, "-k", "unguarded", project=DEFECTS, device="gpu")
    assert done.returncode == 1
    assert "WRONG defects.unguarded-1024: " in done.stdout
    assert "past the end" in done.stdout


@pytest.mark.gpu
def test_a_transpose_without_its_padding_is_below_the_floor_of_the_padded_one(tmp_path):
    from peakgate.device import driver  # noqa: PLC0415

    folder = tmp_path / "baselines" / driver.slug(driver.gpu_name(0))
    folder.mkdir(parents=True)
    floor = '"defects.smem_pad-8192-32x8-unpadded" = 0.6'
    (folder / "floors.toml").write_text(f'schema = 1\ngpu = "{folder.name}"\n\n[floors]\n{floor}\n')
    settings = f'baselines = "{tmp_path / "baselines"}"'
    done = started(tmp_path, "-k", "unpadded", project=DEFECTS, device="gpu", settings=settings)
    assert done.returncode == 1
    assert "BELOW_FLOOR defects.smem_pad-8192-32x8-unpadded" in done.stdout


def test_an_old_verdict_and_run_file_do_not_outlive_the_start_of_a_run(tmp_path, run):
    for name in ("bench.json", "run.json"):
        (tmp_path / name).write_text("{}")
    done = run(tmp_path, "-k", "no_such_case", f"--benchmark-json={tmp_path / 'run.json'}")
    assert done.returncode == 2
    assert list(tmp_path.glob("*.json")) == []


def limited_files(most_bytes):
    """What a full disk does to a writer: the write that exceeds this size fails."""

    def limit():
        import resource  # noqa: PLC0415  (in the child)

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    return limit


@pytest.mark.parametrize("most_bytes", [100, 3000])
def test_a_full_disk_is_one_line_and_exit_2(tmp_path, most_bytes):
    done = started(tmp_path, "-k", "a_copy", preexec_fn=limited_files(most_bytes))
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"[{Code.UNWRITABLE}]" in done.stderr
    assert os.strerror(errno.EFBIG) in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert list(tmp_path.glob("*.json")) == []


@pytest.mark.parametrize("option", ["--out={}/file/below", "--benchmark-storage={}/file/below"])
def test_a_place_that_takes_no_files_is_one_line_and_exit_2(tmp_path, option, run):
    (tmp_path / "file").write_text("")
    done = run(tmp_path, "-k", "a_copy", option.format(tmp_path))
    assert done.returncode == 2
    assert f"[{Code.UNWRITABLE}]" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


ABORTS = """
import os
from peakgate.case import Family
FAMILY = Family("mine", "synthetic", (), lambda scale: os.abort(), lambda case: iter(()))
"""


def test_a_family_that_takes_the_process_with_it_is_one_line_and_never_passes(project, run, tmp_path):
    done = run(tmp_path, project=project("mine", ABORTS))
    assert done.returncode == 3, done.stdout + done.stderr
    assert f"[{Code.BUSY}]" in done.stdout + done.stderr
    assert "SIGABRT" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
