"""Names that were never meant to be names: every command survives them, in every output format."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from ab_fake import HARNESS, FakeSide
from metrics_text import exposition
from report_record import Document
from synthetic_runs import LADDER, document, save

from peakgate.cli import main
from peakgate.compare import resample
from peakgate.compare.ab import command, process

NAMES = ("<script>alert(1)</script>", "转置.共享内存-八千", "x" * 3000, "a|b`c`*d*_e_[f](http://g.example)", '=1+1,"q"')
BROKEN = "line\nbreak\x1b[31mred\r\x00"
"""A name no argument of a process can carry: not for `ab`."""

GPU: dict[str, Any] = {
    "name": "<s>显卡</s>|`x`\x1b[31m" + "长" * 300,
    "driver": "<u>580</u>\n1",
    "vbios": "</script><script>",
}
COMMIT = "<img src=x>" + "c" * 200
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PEAKGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "out" / "summary.md"))
    (tmp_path / "out").mkdir()


def runs(sessions: int, factor: float = 1.0, since: int = 99) -> list[str]:
    """So many sessions of one commit, slower by a factor from one of them on."""
    saved = []
    for day in range(1, sessions + 1):
        times = {**LADDER, **dict.fromkeys((*NAMES, BROKEN), 100.0 * (factor if day >= since else 1.0))}
        jitter = {
            case: time_us * (1 + 0.0005 * ((day * 7 + index) % 5))
            for index, (case, time_us) in enumerate(times.items())
        }
        saved.append(str(save(Path("runs"), f"run{day:02d}", document(jitter, day=day, commit=COMMIT, **GPU))))
    return saved


def check(captured: str, names: tuple[str, ...], formats: dict[str, int]) -> None:
    """Every written file is whole and nothing in it is obeyed; ``formats``: how many files of each kind there are."""
    assert "\x1b" not in captured
    assert "\x00" not in captured
    found = sorted(path for path in Path("out").iterdir() if path.is_file())
    assert {kind: sum(path.name.endswith(kind) for path in found) for kind in formats} == formats
    for path in found:
        text = path.read_bytes().decode("utf-8")
        if path.suffix == ".md":
            assert Document(text).met <= {"details", "summary", "code"}, path
        elif path.suffix == ".html":
            page = Document(text)
            assert not page.met & {"s", "u", "img"}, path
            assert not [script for script in page.scripts if script.startswith("alert(1)")], path
        elif path.suffix == ".prom":
            assert not {*text} & {"\x1b", "\x00", "\r"}
            exposition(text)
        elif path.suffix == ".xml":
            ElementTree.fromstring(text)
        elif path.suffix == ".csv":
            assert list(csv.reader(io.StringIO(text, newline=""))), path
        elif path.suffix == ".json":
            json.loads(text)
        if path.suffix in {".csv", ".json"}:
            assert all(_holds(text, name) for name in names), path


def _holds(text: str, name: str) -> bool:
    """Whether a CSV or JSON text has the name in it, as either writes it."""
    return any(form in text for form in (name, name.replace('"', '""'), json.dumps(name, ensure_ascii=False)[1:-1]))


def test_compare(capsys: Captured) -> None:
    first, *_, last = runs(6, 1.3, since=6)
    assert main(["compare", first, last, "--runs", "runs", "--out", "out"]) == 1
    captured = capsys.readouterr().out
    assert all(name in captured for name in NAMES)
    check(captured, NAMES, {".md": 2, ".csv": 1, ".json": 1, ".xml": 1, ".html": 1})


def test_show(capsys: Captured) -> None:
    assert main(["show", runs(1)[0], "--out", "out"]) == 0
    check(capsys.readouterr().out, (), {".html": 1})
    assert "显卡" in Path("out/show.html").read_text(encoding="utf-8")


def test_history(capsys: Captured) -> None:
    runs(20, 1.3, since=15)
    assert main(["history", "--runs", "runs", "--out", "out", "--all"]) == 1
    check(capsys.readouterr().out, NAMES, {".md": 1, ".csv": 1, ".json": 1})


def test_selftest(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resample, "MOST_RESAMPLES", 2)
    assert main(["selftest", *runs(5), "--out", "out"]) in {0, 3}
    check(capsys.readouterr().out, (), {".json": 1})


def test_floors(capsys: Captured) -> None:
    assert main(["floors", *runs(5), "--all", "--write"]) == 0
    assert "\x1b" not in capsys.readouterr().out
    assert main(["floors", *runs(5), "--all"]) == 0
    assert "0 new floors" in capsys.readouterr().out


def test_keep(capsys: Captured) -> None:
    assert main(["floors", "--keep", *runs(1)]) == 0
    (kept,) = Path("baselines/nvidia-h200/runs").iterdir()
    before = json.loads(Path(runs(1)[0]).read_text(encoding="utf-8"))
    after = json.loads(gzip.decompress(kept.read_bytes()))
    assert [each["name"] for each in before["benchmarks"]] == [each["name"] for each in after["benchmarks"]]
    assert "\x1b" not in capsys.readouterr().out


def test_ab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(process, "PRELOAD", ())
    monkeypatch.setattr(command, "device_uuid", lambda _device: "GPU-0")
    monkeypatch.setattr(process, "HARNESS", HARNESS)
    names = tuple(name for name in NAMES if " " not in name)
    times = {**LADDER, **dict.fromkeys(names, 100.0)}
    sides = {
        "<u>base": FakeSide(dict.fromkeys(times, "same"), times),
        "头|`head`": FakeSide(
            dict.fromkeys(times, "changed"),
            {case: time_us * (1.3 if case in names else 1.0) for case, time_us in times.items()},
        ),
    }
    written = {f"side{at}": (name, side) for at, (name, side) in enumerate(sides.items())}
    folders = [side.write(tmp_path / name, known, tmp_path / "log") for known, (name, side) in written.items()]
    for folder, known in zip(folders, written, strict=True):
        content = json.loads((folder / "run.json").read_text())
        content["machine_info"]["gpu"] |= GPU
        (folder / "run.json").write_text(json.dumps(content))
        described = tmp_path / f"{known}.side"
        described.write_text(json.dumps(json.loads(described.read_text()) | {"run": content}))
    arguments = [str(folders[0]), str(folders[1]), "--out", "out"]
    assert main(["ab", *arguments, "--pairs", "4,4"]) == 1
    captured = capsys.readouterr()
    check(captured.out + captured.err, names, {".md": 2, ".csv": 1, ".json": 1, ".xml": 1, ".html": 1})
