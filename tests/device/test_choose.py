import pytest

from peakgate.base.errors import CannotDecide, PeakgateError
from peakgate.device import choose, driver
from peakgate.device.choose import groups


@pytest.fixture
def machine(monkeypatch):
    """Pretend a machine with this many GPUs under a driver of this CUDA version."""

    def pretend(gpus, cuda=None):
        monkeypatch.setattr(driver, "gpu_count", lambda: gpus)
        monkeypatch.setattr(driver, "cuda_driver_version", lambda: cuda)

    return pretend


def test_a_gpus_name_becomes_a_folder_name():
    assert driver.slug("NVIDIA H200") == "nvidia-h200"
    assert driver.slug("NVIDIA RTX (Laptop)") == "nvidia-rtx-laptop"
    assert driver.slug("/../") == "unknown-gpu"


def test_without_a_gpu_auto_means_the_emulator(machine):
    machine(gpus=0)
    device, note = choose.open_device("auto")
    assert device.kind == "cpu"
    assert "emulator" in note


def test_asking_for_the_emulator_needs_no_note(machine):
    machine(gpus=0)
    assert choose.open_device("cpu")[1] is None


@pytest.mark.parametrize("choice", ["tpu", "gpu:", "gpu:one", "GPU", ""])
def test_a_choice_that_is_none_is_refused(choice):
    with pytest.raises(PeakgateError, match="expected auto, cpu, gpu or gpu:N"):
        choose.open_device(choice)


def test_a_gpu_that_is_not_there_is_refused(machine):
    machine(gpus=0)
    with pytest.raises(PeakgateError, match="no usable GPU"):
        choose.open_device("gpu")
    machine(gpus=2)
    with pytest.raises(CannotDecide, match="--device gpu:2: this machine has 2 GPUs"):
        choose.open_device("gpu:2")


@pytest.mark.parametrize(
    ("gpus", "cuda", "group"),
    [
        (1, 13000, "cuda13"),
        (1, 13020, "cuda13"),
        (1, 12080, "cuda12"),
        (1, 11080, None),
        (0, 13000, None),
        (0, None, None),
    ],
)
def test_the_driver_decides_which_cuda_packages_are_installed(machine, gpus, cuda, group):
    machine(gpus, cuda)
    assert driver.cuda_extra() == group


def test_a_gpu_machine_gets_no_cuda_packages_for_the_emulator(machine):
    machine(gpus=1, cuda=13000)
    assert groups([]) == ["cuda13"]
    assert "cuda13" not in groups(["--device", "cpu"])
    assert "cuda13" not in groups(["--device=cpu"])


def test_nvrtc_is_asked_for_only_where_no_cuda_group_brings_it(machine):
    machine(gpus=1, cuda=13000)
    assert groups(["--nvrtc"]) == ["cuda13"]
    machine(gpus=0)
    assert groups(["--nvrtc"])[0] == "nvrtc"


def test_without_a_compiler_one_is_asked_for(machine, monkeypatch, tmp_path):
    machine(gpus=0)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("peakgate_emulator.compiler._zig_version", lambda: None)
    assert groups([]) == ["compiler"]
