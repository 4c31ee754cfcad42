"""The calculator gives the driver's own answers, as recorded on GPUs: every kernel of the suite, every block size."""

import json
from pathlib import Path

import pytest

from peakgate.case import Scale
from peakgate.judge.occupancy import max_potential_block_size, occupancy
from peakgate.spec.catalogue import cases

RECORDS = sorted((Path(__file__).parents[2] / "baselines").glob("*/occupancy.json"))


@pytest.fixture(params=RECORDS, ids=lambda path: path.parent.name)
def record(request):
    return json.loads(request.param.read_text())


def capability_of(record):
    major, minor = record["device"]["compute_capability"].split(".")
    return int(major), int(minor)


def block_of(kernel):
    return kernel["registers"], kernel["static_shared_bytes"], kernel["dynamic_shared_bytes"]


def test_every_block_size_of_every_kernel_has_the_drivers_blocks_per_sm(record):
    differing = []
    for kernel in record["kernels"]:
        sizes = [threads for threads in record["block_sizes"] if threads <= kernel["max_threads_per_block"]]
        for threads, blocks in zip(sizes, kernel["blocks_per_sm"], strict=True):
            ours = occupancy(capability_of(record), threads, *block_of(kernel)).blocks_per_sm
            if ours != blocks:
                differing.append((kernel["kernel"], threads, ours, blocks))
    assert differing == []


def test_the_best_block_size_is_the_drivers(record):
    ours = {
        index: max_potential_block_size(
            capability_of(record), *block_of(kernel), block_limit=kernel["max_threads_per_block"]
        ).threads_per_block
        for index, kernel in enumerate(record["kernels"])
    }
    assert ours == {index: kernel["best_block_size"] for index, kernel in enumerate(record["kernels"])}


def test_the_compilers_log_and_the_loaded_kernel_tell_the_same_resources(record):
    for kernel in record["kernels"]:
        assert kernel["compiled_for"] == {name: kernel[name] for name in kernel["compiled_for"]}, kernel["kernel"]


def test_a_gpu_was_asked_about_every_kernel_of_the_suite():
    assert RECORDS
    records = [json.loads(path.read_text()) for path in RECORDS]
    known = {kernel["kernel"] for record in records for kernel in record["kernels"]}
    gpus = {capability_of(record) for record in records}
    listed = {
        f"{case.family}.{case.stage.name}"
        for case in cases(Scale.BENCH)
        if case.stage.source and any(map(case.stage.runs_on, gpus))
    }
    assert len(known & listed) > 50
    if not listed <= known:
        again = "python tests/helpers/occupancy_on_gpu.py baselines/<gpu>/occupancy.json"
        pytest.skip(f"{', '.join(sorted(listed - known))} not recorded yet; on that GPU: {again}")
