"""Fixtures of the tool's tests: a project of its own, and ``check`` in it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from peakgate.cli import main
from peakgate.core import config, sandbox, seccomp
from peakgate.core.sandbox import Isolation


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """An empty project, entered: called with a name, a family file and kernels it writes them to ``kernels/NAME``."""
    (tmp_path / "peakgate.toml").write_text("")
    monkeypatch.chdir(tmp_path)

    def write(name: str, family: str | None = None, **kernels: str) -> Path:
        folder = tmp_path / "kernels" / name
        folder.mkdir(parents=True, exist_ok=True)
        files = {f"{kernel}.cu": text for kernel, text in kernels.items()}
        for file, text in (files if family is None else {"family.py": family, **files}).items():
            (folder / file).write_text(text)
        return folder

    return write


@pytest.fixture
def benchmarks(tmp_path: Path) -> Callable[[str], Path]:
    """A project of benchmark tests alone, of which this is the text."""

    def write(text: str) -> Path:
        (tmp_path / "benchmarks").mkdir()
        (tmp_path / "peakgate.toml").write_text('benchmarks = ["benchmarks"]')
        (tmp_path / "benchmarks" / "bench_ops.py").write_text(text)
        return tmp_path

    return write


@pytest.fixture
def sandboxed(tmp_path: Path) -> Callable[..., subprocess.Popen[bytes]]:
    """Start a Python program in the sandbox, in ``folder`` beside ``scratch``; skip where it cannot be."""

    def start(way: Isolation, *program: str, landlock: int = 1, **options: Any) -> subprocess.Popen[bytes]:
        if way is Isolation.NAMESPACES and (why := sandbox.refusal_of_namespaces()):
            pytest.skip(why)
        if way is Isolation.LANDLOCK and sandbox._landlock_version() < landlock:
            pytest.skip(f"this machine's kernel has no Landlock of version {landlock}")
        if why := seccomp.refusal():
            pytest.skip(why)
        for name in ("folder", "scratch"):
            (tmp_path / name).mkdir(exist_ok=True)
        piped = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE} | options
        command = [sys.executable, "-P", "-c", *program]
        return sandbox.start(command, tmp_path / "folder", tmp_path / "scratch", way=way, **piped)

    return start


@pytest.fixture
def checked() -> Callable[..., tuple[int, dict[str, Any]]]:
    """``peakgate check`` in this process: its exit code and its verdict."""

    def run(*arguments: str) -> tuple[int, dict[str, Any]]:
        code = main(["check", "--jobs", "1", *arguments])
        return code, json.loads((config.current().out / "check.json").read_text())

    return run
