"""Fixtures of the tool's tests: a project of its own, and ``check`` in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from peakgate.cli import main
from peakgate.core import config


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
def checked() -> Callable[..., tuple[int, dict[str, Any]]]:
    """``peakgate check`` in this process: its exit code and its verdict."""

    def run(*arguments: str) -> tuple[int, dict[str, Any]]:
        code = main(["check", "--jobs", "1", *arguments])
        return code, json.loads((config.current().out / "check.json").read_text())

    return run
