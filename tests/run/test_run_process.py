"""What the supervisor's child starts before pytest is imported."""

import pytest

from peakgate.base import config
from peakgate.device import driver, modules, nvml, references
from peakgate.device.interface import Load, Preflight
from peakgate.run import process

STATE = Preflight(0, (), None, None, None, None, mig=None)


@pytest.mark.parametrize(
    ("given", "gpus", "begun"),
    [
        (["--peakgate-device=gpu:1", "-k", "smem"], 2, [1, "kernels", "read 1", "modules 1", "context 1", "contexts"]),
        (["-k", "smem"], 1, [0, "kernels", "read 0", "modules 0", "context 0", "contexts"]),
        (["-k", "smem"], 0, []),
        ([], None, []),
        (["--peakgate-device=cpu"], 1, []),
        (["--peakgate-device=gpu:1"], 1, []),
        (["--peakgate-device=gpu:x"], 1, []),
    ],
)
def test_a_gpu_that_is_there_is_read_first_and_then_gets_our_context_and_those_of_compilers(
    monkeypatch, given, gpus, begun
):
    warmup = pytest.importorskip("peakgate.device.warmup", reason="NVRTC is not installed")
    found = []
    monkeypatch.setattr(driver, "cuda_driver_version", lambda: None if gpus is None else 13000)
    monkeypatch.setattr(driver, "gpu_count", lambda: gpus)
    monkeypatch.setattr(driver, "retain_context", lambda index: found.append(f"context {index}"))
    monkeypatch.setattr(references, "begin", found.append)
    monkeypatch.setattr(references, "make_contexts", lambda: found.append("contexts"))
    monkeypatch.setattr(warmup.nvrtc, "begin", lambda: found.append("kernels"))
    monkeypatch.setattr(modules, "follow", lambda index: found.append(f"modules {index}"))
    monkeypatch.setattr(nvml, "handle", lambda index: found.append(f"read {index}"))
    monkeypatch.setattr(nvml, "state", lambda _handle: STATE)
    monkeypatch.setattr(nvml, "load", lambda index: Load(frozenset({index})))
    process.begin_on_gpu(given)
    if begun:
        assert warmup.before(begun[0], follows=True) == warmup.Before(STATE, Load(frozenset({begun[0]})))
    else:
        for waiting in warmup._begun.values():
            waiting.result()
        warmup._begun.clear()
    assert found == begun


@pytest.mark.parametrize("follows", [True, False])
def test_where_nothing_was_begun_the_gpu_is_read_when_it_is_asked_for(monkeypatch, follows):
    found = []
    monkeypatch.setattr(modules, "follow", found.append)
    warmup = pytest.importorskip("peakgate.device.warmup", reason="NVRTC is not installed")
    monkeypatch.setattr(nvml, "handle", lambda index: index)
    monkeypatch.setattr(nvml, "state", lambda _handle: STATE)
    monkeypatch.setattr(nvml, "load", lambda _index: Load())
    assert warmup.before(3, follows=follows) == warmup.Before(STATE, Load())
    assert found == [3] * follows


@pytest.mark.parametrize(
    ("settings", "given", "left_out"),
    [("", [], True), ('benchmarks = ["benchmarks"]', [], False), ("", ["benchmarks"], False)],
)
def test_a_run_of_families_alone_loads_no_conftest(tmp_path, monkeypatch, settings, given, left_out):
    (tmp_path / "peakgate.toml").write_text(settings)
    (tmp_path / "benchmarks").mkdir()
    monkeypatch.chdir(tmp_path)
    assert ("--noconftest" in process.fixed_arguments(tmp_path, given)) is left_out
    monkeypatch.setenv(config.BASE_VARIABLE, str(tmp_path))
    assert ("--noconftest" in process.fixed_arguments(tmp_path, given)) is (not settings)
