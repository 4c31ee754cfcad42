"""Every example of the page on existing code, as a user copies it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from peakgate.cli import main
from peakgate.core.help import page

FILES = {
    found["path"]: found["text"]
    for found in re.finditer(
        r"^```\w+\n(?://|#) (?P<path>kernels/\S+)\n(?P<text>.*?)^```$", page("existing-code"), re.MULTILINE | re.DOTALL
    )
}
FAMILIES = sorted({Path(path).parts[1] for path in FILES})


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text("[tool.peakgate]\n")
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def checked(family):
    code = main(["check", f"kernels/{family}/family.py", "--jobs", "1"])
    kernels = json.loads(Path(".peakgate/out/check.json").read_text())["kernels"]
    return code, [each["launches"] > 0 for each in kernels]


def test_the_page_has_a_family_for_each_of_its_sections():
    assert FAMILIES == ["affine", "clamp", "saxpy", "silu"]


@pytest.mark.parametrize("family", FAMILIES)
def test_an_example_is_checked_as_it_stands(family, project):
    code, launched = checked(family)
    assert (code, launched and all(launched)) == (0, True)


def test_a_defect_in_a_file_with_host_code_is_found(project):
    source = project / "kernels" / "saxpy" / "saxpy.cu"
    source.write_text(source.read_text().replace("i < n", "i <= n"))
    assert checked("saxpy")[0] == 1
