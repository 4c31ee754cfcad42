"""Every reader of a file that a change may have made: what has no end is one line and exit code 2, at once."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from synthetic_runs import document

from peakgate.base.errors import Code
from peakgate.base.files import LARGEST_FILE_BYTES
from peakgate.cli import main
from peakgate.review.believed import from_artifact
from peakgate.review.comment import FILES, GATE, overall

Captured = pytest.CaptureFixture[str]


def endless_link(path: Path) -> None:
    path.symlink_to("/dev/zero")


def fifo(path: Path) -> None:
    os.mkfifo(path)


def large(path: Path) -> None:
    """A GiB, which takes no room on the disk."""
    with path.open("wb") as file:
        file.truncate(1 << 30)


def deep(path: Path) -> None:
    path.write_bytes(b"[" * 1_000_000)


def bomb(path: Path) -> None:
    """Zeros that gzip makes a thousandth of, more of them than a reader unpacks."""
    path.write_bytes(gzip.compress(bytes(LARGEST_FILE_BYTES + 1), 1) if path.suffix == ".gz" else b"\x1f\x8b")


MADE = (endless_link, fifo, large, deep, bomb)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "peakgate.toml").write_text("")
    (tmp_path / "good.json").write_text(json.dumps(document()))
    return tmp_path


@pytest.mark.parametrize("make", MADE)
@pytest.mark.parametrize(
    ("file", "arguments"),
    [
        ("bad.json.gz", ["compare", "bad.json.gz", "good.json"]),
        ("runs/bad.json", ["show", "runs"]),
        ("bad.json", ["import", "--gpu", "NVIDIA H200", "bad.json"]),
        ("ab/manifest.json", ["ab", "--from", "."]),
        ("baselines/nvidia-h200/floors.toml", ["floors", "good.json"]),
        ("baselines/nvidia-h200/acknowledged.toml", ["history", "--runs", "."]),
        ("bad.json.gz", ["floors", "--keep", "bad.json.gz"]),
        ("fleet/plan.json", ["fleet", "--report", "fleet"]),
        ("baselines/resources.json", ["inspect", "resources"]),
        ("baselines/waivers.toml", ["check"]),
        ("baselines/waivers.toml", ["inspect", "mutants"]),
    ],
)
def test_a_file_without_end_or_sense_is_one_line(
    folder: Path, capsys: Captured, make: Callable[[Path], None], file: str, arguments: list[str]
) -> None:
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    make(folder / file)
    code = main(arguments)
    written = capsys.readouterr().err
    assert (code, len(written.splitlines())) == (2, 1), written


@pytest.mark.parametrize(
    "text",
    [
        ".".join(["a"] * 100_000) + " = 1",
        "[" + ".".join(["a"] * 100_000) + "]",
        " . ".join(['"a\\""', "'a'"] * 1000) + " = 1",
        "kernels = {" + ".".join(["a"] * 20_000) + " = 1}",
        "kernels = " + "[" * 100_000,
        "kernels = " + "9" * 100_000,
    ],
    ids=["key", "table", "quoted key", "nested tables", "nested lists", "number"],
)
def test_settings_that_take_a_parser_all_memory_are_one_line(folder: Path, capsys: Captured, text: str) -> None:
    (folder / "peakgate.toml").write_text(text)
    assert main(["compare", "good.json", "good.json"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_dots_and_long_lists_of_versions_are_settings_as_any(folder: Path) -> None:
    versions = ", ".join(f'"1.2.{number}"' for number in range(1000))
    (folder / "peakgate.toml").write_text(f"# {'.' * 1000}\nplugins = [\n{versions},\n]\n")
    assert main(["compare", "good.json", "good.json"]) == 0


def test_a_kernel_given_in_place_of_its_family_is_bad_input(folder: Path, capsys: Captured) -> None:
    (folder / "kernel.cu").write_text("")
    assert main(["check", "kernel.cu"]) == 2
    assert f"[{Code.OPTION}]" in capsys.readouterr().err


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_a_damaged_artifact_is_read_as_far_as_it_goes(method: int) -> None:
    packed, verdict = BytesIO(), json.dumps({"exit_code": 0})
    digest = hashlib.sha256(verdict.encode()).hexdigest()
    names = {f"{name}.json": digest for name in FILES if name != GATE}
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name in names:
            archive.writestr(f"out/{name}", verdict)
        archive.writestr(f"out/{GATE}.json", json.dumps({"exit_code": 0, "head": "c" * 40, "files": names}))
    whole = packed.getvalue()
    assert overall({"runner": from_artifact(BytesIO(whole), "out", "c" * 40)}) == 0
    for at in range(len(whole)):
        for value in (0xFF, whole[at] ^ 1):
            found = from_artifact(BytesIO(whole[:at] + bytes([value]) + whole[at + 1 :]), "out", "c" * 40)
            assert set(found) <= set(FILES)
