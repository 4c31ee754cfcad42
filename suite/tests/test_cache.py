from pathlib import Path

import pytest
from peakgate.build.cubin import cache_folder
from peakgate.device.emulator.toolchain import builds_folder


@pytest.mark.parametrize("named", [None, ""])
def test_the_cache_is_in_the_working_directory_unless_the_variable_names_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str | None
) -> None:
    monkeypatch.delenv("PEAKGATE_CACHE", raising=False)
    if named is not None:
        monkeypatch.setenv("PEAKGATE_CACHE", named)
    monkeypatch.chdir(tmp_path)
    assert cache_folder() == tmp_path / ".cache"
    assert builds_folder() == tmp_path / ".cache" / "emulator"


def test_a_folder_named_from_the_working_directory_is_the_same_folder_from_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PEAKGATE_CACHE", "kept")
    assert cache_folder() == tmp_path / "kept"
    assert builds_folder().is_relative_to(cache_folder())
