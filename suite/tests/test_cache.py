import os
import subprocess
import sys
from pathlib import Path

import pytest
from peakgate.core.files import cache_folder
from peakgate.emulator.compiler import builds_folder


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


def test_cupy_compiles_into_the_cache_unless_its_own_variable_names_a_folder(tmp_path: Path) -> None:
    asked = "import os, peakgate.device.driver; print(os.environ['CUPY_CACHE_DIR'])"
    for own, folder in ((None, tmp_path / "kept" / "cupy"), ("elsewhere", Path("elsewhere"))):
        environment = {name: value for name, value in os.environ.items() if name != "CUPY_CACHE_DIR"}
        environment |= {"PEAKGATE_CACHE": "kept"} | ({} if own is None else {"CUPY_CACHE_DIR": own})
        done = subprocess.run(
            [sys.executable, "-c", asked], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        assert Path(done.stdout.strip()) == folder
