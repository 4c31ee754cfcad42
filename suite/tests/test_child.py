"""What the supervisor's child starts before pytest is imported."""

import pytest
from peakgate.device import driver, references
from peakgate.run import child


@pytest.mark.parametrize(
    ("given", "gpus", "begun"),
    [
        (["--peakgate-device=gpu:1", "-k", "smem"], 2, [1, "kernels"]),
        (["-k", "smem"], 1, [0, "kernels"]),
        ([], 0, []),
        (["--peakgate-device=cpu"], 1, []),
        (["--peakgate-device=gpu:1"], 1, []),
        (["--peakgate-device=gpu:x"], 1, []),
    ],
)
def test_compilers_begin_only_for_a_gpu_that_is_there(monkeypatch, given, gpus, begun):
    nvrtc_process = pytest.importorskip("peakgate.build.nvrtc_process", reason="NVRTC is not installed")
    found = []
    monkeypatch.setattr(driver, "gpu_count", lambda: gpus)
    monkeypatch.setattr(references, "begin", found.append)
    monkeypatch.setattr(nvrtc_process, "begin", lambda: found.append("kernels"))
    child.begin_compilers(given)
    assert found == begun
