"""A fleet on loopback: real Dask workers, real gates on the emulator, and a worker that is killed."""

import os
import signal
import subprocess
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import distributed
import pytest

from peakgate.base import config
from peakgate.base.errors import CannotDecide, Code, PeakgateError
from peakgate.base.progress import Progress
from peakgate.base.verdict import ExitCode
from peakgate.fleet import archive, dataset, measure, shard
from peakgate.fleet.place import GpuPlace, Worker, emulator_places, gpu_places, thread_of
from peakgate.fleet.store import EVENTS, FleetPlan, Shares, Store
from peakgate.runfile.saved import load_run
from peakgate.spec.case import Scale

unpacks = pytest.mark.skipif(not hasattr(tarfile, "data_filter"), reason="a fleet needs Python 3.11.4")

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


def packed_of(project, out="ignored"):
    return archive.pack(config.find(project), project / out)


def test_a_fleet_that_writes_into_the_project_keeps_its_archive(project):
    packed = packed_of(project, "reported")
    (project / "reported" / "fleet").mkdir(parents=True)
    (project / "reported" / "fleet" / "plan.json").write_text("{}")
    again = packed_of(project, "reported")
    assert (again.digest, again.dirty) == (packed.digest, False)


@unpacks
def test_the_same_files_give_the_same_archive(project, tmp_path):
    packed = packed_of(project)
    (project / "ignored").mkdir()
    (project / "ignored" / "file").write_text("x")
    assert packed_of(project).digest == packed.digest
    (project / "benchmarks" / "bench_sum.py").write_text(BENCH + "\n")
    edited = packed_of(project)
    assert edited.digest != packed.digest
    assert (packed.dirty, edited.dirty) == (False, True)
    folder = archive.unpacked(tmp_path / "projects", edited.digest, edited.data)
    assert (folder / "benchmarks" / "bench_sum.py").read_text() == BENCH + "\n"
    with pytest.raises(PeakgateError, match="damaged"):
        archive.unpacked(tmp_path / "projects", packed.digest, edited.data)


def test_a_python_that_cannot_filter_archives_unpacks_none(project, tmp_path, monkeypatch):
    packed = packed_of(project)
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    with pytest.raises(PeakgateError) as refused:
        archive.unpacked(tmp_path / "projects", packed.digest, packed.data)
    assert refused.value.code is Code.INSTALLATION
    assert not (tmp_path / "projects").exists()


def test_a_worker_offers_each_gpu_it_sees_and_its_threads():
    gpus = ({"uuid": "GPU-a"}, {"uuid": "GPU-b"})
    one, two = Worker("n1", None, gpus, 1, None), Worker("n1", None, gpus[::-1], 1, None)
    other, broken = Worker("n2", None, (), 2, None), Worker("n1", None, gpus, 1, "it runs another Peakgate")
    workers = {"tcp://1": one, "tcp://2": two, "tcp://3": other}
    places = gpu_places(workers)
    assert [(uuid, each.node, each.resource) for uuid, each in places.items()] == [
        ("GPU-a", "n1", "GPU-a"),
        ("GPU-b", "n1", "GPU-b"),
    ]
    assert [each.resource for each in emulator_places(workers).values()] == [*[thread_of("n1")] * 2, thread_of("n2")]
    assert measure.offered({**workers, "tcp://4": broken}) == {
        "GPU-a": 2,
        "GPU-b": 2,
        thread_of("n1"): 2,
        thread_of("n2"): 2,
    }


@unpacks
@pytest.mark.filterwarnings("default")
def test_a_gate_whose_worker_dies_is_measured_again(project, tmp_path):
    cases = list(shard.listed(config.find(project), "full", Scale.SMALL)["case"])
    packed = packed_of(project)
    store = Store(tmp_path / "fleet")
    plan = FleetPlan("f", packed.digest, packed.inside, packed.commit, False, (), "cpu", True, "h")
    progress = Progress()
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, memory_limit=0
        ) as local,
        measure.engine(
            measure.Cluster(local.scheduler_address, 2, str(tmp_path / "work"), 120.0), store, packed, progress
        ) as engine,
    ):
        places = measure.places(engine, "cpu")
        store.begin(plan, places.values())
        store.add_shares(Shares((cases[0],), {uuid: (case,) for uuid, case in zip(places, cases[1:], strict=True)}))
        with ThreadPoolExecutor(1) as beside:
            killing = beside.submit(kill_a_worker, local.scheduler_address, tmp_path / "work" / "gates")
            measure.run_pass(
                found=engine, store=store, plan=plan, where=[*places.values()], mode="shard", progress=progress
            )
            killing.result()
    gates = store.gates()
    assert [gate["outcome"] for gate in gates] == ["measured", "measured"]
    assert sorted(gate["workers_lost"] for gate in gates) == [0, 1]
    assert "worker was lost" in (store.folder / EVENTS).read_text()
    runs = [load_run(store.run_file(gate["uuid"], "shard")) for gate in gates]
    assert [run.whole for run in runs] == [False, False]
    assert [[case.verdict for case in run.cases.values()] for run in runs] == [["NO_FLOOR"] * 2] * 2
    assert {case for run in runs for case in (*run.cases, *run.unmeasured)} == set(cases)
    found = shard.judge(dataset.gather(store), store.shares())
    assert (list(found.cases["verdict"]), found.problems, found.exit_code) == (["NO_FLOOR"] * 3, (), ExitCode.OK)


def kill_a_worker(address, gates):
    """Kill a worker once a gate of the fleet has begun."""
    poll = threading.Event()
    for _ in range(600):
        if list(gates.rglob("log.txt")):
            break
        poll.wait(0.1)
    with distributed.Client(address, set_as_default=False) as client:
        worker = next(worker for worker, tasks in client.processing().items() if tasks)
        os.kill(client.run(os.getpid, workers=[worker])[worker], signal.SIGKILL)


def test_a_worker_that_cannot_run_this_peakgate_offers_nothing():
    broken = measure._worker("tcp://1", ModuleNotFoundError("No module named 'peakgate'"))
    assert (broken.resources, emulator_places({"tcp://1": broken})) == ({}, {})
    with pytest.raises(PeakgateError):
        measure._worker("tcp://1", PeakgateError("archive: damaged"))


@unpacks
def test_a_gpu_that_no_worker_offers_is_lost(project, tmp_path):
    cluster = measure.Cluster(None, 1, str(tmp_path / "work"), 120.0)
    packed = packed_of(project)
    with measure.engine(cluster, Store(tmp_path), packed, Progress()) as engine:
        engine.workers()
        engine.cluster = replace(cluster, wait_s=0.0)
        gone = GpuPlace("GPU-gone", "n1", None, emulated=False)
        found = list(engine.measure([gone], lambda _: None, together=True))
        with pytest.raises(CannotDecide):
            measure.places(engine, "gpu")
    assert [(where.uuid, result["outcome"]) for batch in found for where, result in batch] == [("GPU-gone", "lost")]


class Restarted:
    """A client that has its scheduler back."""

    status = "running"

    def subscribe_topic(self, name, handler):
        self.handler = handler


def test_workers_that_went_with_their_scheduler_count_for_no_gpu(tmp_path):
    said = []
    engine = measure.Engine(Restarted(), None, measure.Cluster(None, 1, str(tmp_path), 1.0), said.append)
    gate = measure._Gate(GpuPlace("GPU-a", "n1", None, emulated=False), workers_lost=1)
    engine._listen()
    engine._client.handler((0, {"action": "remove-worker", "worker": "tcp://1", "processing-tasks": {"key": 1}}))
    engine._wait_for_scheduler([gate])
    engine._count_deaths([gate])
    assert gate.workers_lost == 0
    assert len(said) == 1


def test_without_a_scheduler_the_error_says_how_to_start_one(tmp_path):
    cluster = measure.Cluster("tcp://127.0.0.1:1", None, str(tmp_path), 0.1)
    with (
        pytest.raises(CannotDecide, match="--scheduler"),
        measure.engine(cluster, Store(tmp_path), None, Progress()),
    ):
        pass
