"""A fleet on loopback: real Dask workers, real gates on the emulator, and a worker that is killed."""

import os
import signal
import subprocess
import sys

import distributed
import pytest
from peakgate.case import Scale
from peakgate.common.errors import PeakgateError
from peakgate.common.progress import Progress
from peakgate.project import config
from peakgate.reports.fleet import archive, dataset, measure
from peakgate.reports.fleet.place import GpuPlace, Worker, emulator_places, gpu_places, preferred, reaches
from peakgate.reports.fleet.shard import tier
from peakgate.reports.fleet.shard.judge import judge
from peakgate.reports.fleet.shard.tier import Shares
from peakgate.reports.fleet.store import EVENTS, FleetPlan, Store
from peakgate.reports.runs.runfile import load_run
from peakgate.verdict import ExitCode

BENCH = """\
import pytest

@pytest.mark.parametrize("size", [1024, 2048, 4096])
def bench_sum(gpu_benchmark, size):
    x = gpu_benchmark.xp.ones(size, "float32")
    gpu_benchmark(lambda x: x + x, x)
"""


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    (folder / "benchmarks").mkdir(parents=True)
    (folder / "benchmarks" / "bench_sum.py").write_text(BENCH)
    (folder / "peakgate.toml").write_text('benchmarks = ["benchmarks"]\n')
    (folder / ".gitignore").write_text("ignored/\n")
    for command in (["init", "-q"], ["add", "-A"], ["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x"]):
        subprocess.run(["git", "-C", folder, *command], check=True)
    return folder


def test_the_same_files_give_the_same_archive_and_an_edit_another(project, tmp_path):
    packed = archive.pack(config.find(project))
    (project / "ignored").mkdir()
    (project / "ignored" / "file").write_text("x")
    assert archive.pack(config.find(project)).digest == packed.digest
    (project / "benchmarks" / "bench_sum.py").write_text(BENCH + "\n")
    edited = archive.pack(config.find(project))
    assert edited.digest != packed.digest
    assert (packed.dirty, edited.dirty) == (False, True)
    folder = archive.unpacked(tmp_path / "projects", edited.digest, edited.data)
    assert (folder / "benchmarks" / "bench_sum.py").read_text() == BENCH + "\n"
    with pytest.raises(PeakgateError, match="damaged"):
        archive.unpacked(tmp_path / "projects", packed.digest, edited.data)


def test_a_gpu_goes_to_the_worker_whose_first_it_is_and_to_its_node_only():
    gpus = ({"uuid": "GPU-a"}, {"uuid": "GPU-b"})
    one, two = Worker("tcp://1", "n1", None, gpus, None), Worker("tcp://2", "n1", None, gpus[::-1], None)
    other = Worker("tcp://3", "n2", None, (), None)
    places = gpu_places([one, two, other])
    assert list(places) == ["GPU-a", "GPU-b"]
    assert [each.address for each in preferred([one, two, other], places["GPU-b"])] == ["tcp://2", "tcp://1"]
    assert len(emulator_places([one, two, other])) == 3
    broken = Worker("tcp://4", "n1", None, gpus, "it runs another Peakgate")
    assert not reaches(broken, GpuPlace("GPU-a", "n1", None, emulated=False))


@pytest.mark.filterwarnings("default")
def test_a_gate_whose_worker_dies_is_measured_again_and_a_sharded_tier_is_whole(project, tmp_path):
    cases = [each["case"] for each in tier.listed(config.find(project), "full", Scale.SMALL)]
    packed = archive.pack(config.find(project))
    store = Store(tmp_path / "fleet")
    plan = FleetPlan("f", packed.digest, packed.inside, packed.commit, False, (), "cpu", True, "h")
    progress = Progress(sys.stderr, every_s=1e9)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, memory_limit=0
        ) as local,
        measure.engine(
            cluster := measure.Cluster(local.scheduler_address, 2, "cpu", str(tmp_path / "work"), 120.0),
            store,
            progress,
        ) as engine,
    ):
        places = measure.places(engine, "cpu")
        store.begin(plan, places.values())
        store.add_shares(Shares((cases[0],), {uuid: (case,) for uuid, case in zip(places, cases[1:], strict=True)}))
        address = engine.workers()[0].address
        victim = _Killer(engine, address)
        places_and_kill = [*places.values()]
        measure.run_pass(
            found=victim,
            store=store,
            plan=plan,
            where=places_and_kill,
            mode="shard",
            packed=packed,
            cluster=cluster,
            progress=progress,
        )
    gates = store.gates()
    assert [gate["outcome"] for gate in gates] == ["measured", "measured"]
    assert sorted(gate["workers_lost"] for gate in gates) == [0, 1]
    assert [gate["verdicts"] for gate in gates] == [{"NO_FLOOR": 2}] * 2
    assert "its worker was lost" in (store.folder / EVENTS).read_text()
    runs = [load_run(store.run_file(gate["uuid"], "shard")) for gate in gates]
    assert [run.whole for run in runs] == [False, False]
    assert {case for run in runs for case in (*run.cases, *run.unmeasured)} == set(cases)
    found = judge(dataset.of_store(store), store.shares())
    assert (list(found.cases["verdict"]), found.problems, found.exit_code) == (["NO_FLOOR"] * 3, (), ExitCode.OK)


class _Killer:
    """An engine of which one worker is killed as soon as it measures."""

    def __init__(self, engine, address):
        self._engine, self._address = engine, address

    def measure(self, places, job, data, **options):
        pid = self._engine._client.run(os.getpid, workers=[self._address])[self._address]
        submit = self._engine._client.submit

        def submit_and_kill(*arguments, **named):
            future = submit(*arguments, **named)
            if named["workers"] == [self._address]:
                os.kill(pid, signal.SIGKILL)
            return future

        self._engine._client.submit = submit_and_kill
        self._engine.measure(places, job, data, **options)


def test_without_a_scheduler_there_the_error_says_how_to_start_one(tmp_path):
    cluster = measure.Cluster("tcp://127.0.0.1:1", None, "cpu", str(tmp_path), 0.1)
    with (
        pytest.raises(PeakgateError, match="no Dask scheduler answers"),
        measure.engine(cluster, Store(tmp_path), Progress(sys.stderr)),
    ):
        pass
