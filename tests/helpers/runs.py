"""Runs of ``peakgate bench`` in processes of their own, and what they leave."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
HOSTILE = Path(__file__).parents[1] / "data" / "hostile"
DEFECTS = Path(__file__).parents[1] / "data" / "defects" / "project"
ENVIRONMENT = os.environ | {"PEAKGATE_CACHE": str(ROOT / ".cache"), "NO_COLOR": "1"}


def places(folder: Path) -> tuple[str, str]:
    """Options that put a run's files into a folder."""
    return f"--out={folder}", f"--benchmark-storage={folder / 'saved'}"


def command(folder: Path, *arguments: str, device: str = "cpu") -> list[str]:
    """The command of a run whose files are in a folder."""
    return [sys.executable, "-m", "peakgate", "bench", "--device", device, *places(folder), *arguments]


def run(
    folder: Path, *arguments: str, project: Path = HOSTILE, device: str = "cpu", settings: str = "", **options: Any
) -> subprocess.CompletedProcess[str]:
    """A run of a project to its end, by other ``settings`` than the project's where they are given."""
    line = command(folder, *arguments, device=device)
    return subprocess.run(  # noqa: PLW1510
        line, cwd=project, env=by(settings, folder), capture_output=True, text=True, timeout=600, **options
    )


def by(settings: str, folder: Path) -> dict[str, str]:
    """The environment of a run by these settings, whose file is beside a folder."""
    if not settings:
        return ENVIRONMENT
    file = folder.with_name(f"{folder.name}-settings.toml")
    file.write_text(settings, encoding="utf-8")
    return ENVIRONMENT | {"PEAKGATE_SETTINGS": str(file)}


def judged(folder: Path) -> dict[str, tuple[str, str]]:
    """Verdict and reason by the name of the kernel."""
    cases = json.loads((folder / "bench.json").read_text())["cases"]
    return {each["case"].split(".")[1].split("-")[0]: (each["verdict"], each["reason"]) for each in cases}


def verdicts(folder: Path) -> dict[str, str]:
    """Verdict by the name of the kernel."""
    return {name: verdict for name, (verdict, _) in judged(folder).items()}


def plain_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """pytest as a stranger starts it, in a folder."""
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(line, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)
