"""Every example of the pages whose files a user copies."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from peakgate.cli import main
from peakgate.help import page
from peakgate.spec.case import Scale
from peakgate.spec.catalogue import described

FILE = re.compile(r"^```\w+\n(?://|#) (?P<path>kernels/\S+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = {
    found["path"]: found["text"]
    for topic in ("existing-code", "kernels", "launches")
    for found in FILE.finditer(page(topic))
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


def test_the_pages_have_a_family_for_each_of_their_examples():
    assert FAMILIES == ["affine", "blend", "clamp", "relu", "saxpy", "silu", "sum"]


@pytest.mark.parametrize("family", FAMILIES)
def test_an_example_is_checked_as_it_stands(family, project):
    code, launched = checked(family)
    assert (code, launched and all(launched)) == (0, True)


def test_a_defect_in_a_file_with_host_code_is_found(project):
    source = project / "kernels" / "saxpy" / "saxpy.cu"
    source.write_text(source.read_text().replace("i < n", "i <= n"))
    assert checked("saxpy")[0] == 1


def test_a_family_has_the_cases_that_its_page_says(project):
    ids = [case.id for case in described(Scale.BENCH, file=project / "kernels" / "relu" / "family.py").cases]
    assert [f"`{each}`" in page("kernels") for each in ids] == [True, True]


def test_a_familys_stages_have_the_ids_that_their_page_says(project):
    folder = project / "kernels" / "scale"
    folder.mkdir()
    (example,) = re.findall(r"```python\n(.*?)```", page("stages"), re.DOTALL)
    (folder / "family.py").write_text(example)
    for name in ("plain", "strided"):
        (folder / f"{name}.cu").write_text(f"__global__ void {name}(float* out, const float* in, int n) {{}}\n")
    ids = [case.id for case in described(Scale.BENCH, file=folder / "family.py").cases]
    first, last = re.search(r"`(scale\.\S+)` to `(scale\.\S+)`", page("stages")).groups()
    assert (ids[0], ids[-1], len(ids)) == (first, last, 7)
    assert "scale.strided-64MiB-256-f4" in page("stages")  # the hole
