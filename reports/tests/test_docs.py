"""The documents say what the code says."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [
    *(path for folder in ("suite", "reports") for path in (ROOT / folder).rglob("*.py") if "tests" not in path.parts),
    *(ROOT / "suite").rglob("*.cpp"),
    ROOT / ".github" / "verdict.py",
]
OTHERS = {"SyntaxError", "floors.toml", "invalid peer certificate", "UnknownIssuer"}
"""Words of Python, of a path and of uv."""


def troubleshooting() -> str:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return text.partition("## Troubleshooting\n")[2].partition("\n## ")[0]


@cache
def told() -> str:
    """Every source in small letters, texts over several lines in one piece; kinds of defects are enum members."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)
    return re.sub(r'"\s*\n\s*f?"', "", text).replace("_", " ").lower()


def messages() -> list[str]:
    rows = [line.split(" | ")[0] for line in troubleshooting().splitlines() if line.startswith("| `")]
    return [message for row in rows for message in re.findall(r"`([^`]+)`", row)]


@pytest.mark.parametrize("message", messages())
def test_a_message_that_the_docs_explain_is_one_the_code_gives(message: str) -> None:
    source = told()
    literal = re.split(r"…|: |, (?=[A-Z])|^[A-Z_]+,", message)
    for piece in (each.strip(" ,:;()") for each in literal):
        if piece and piece not in OTHERS:
            assert piece.replace("_", " ").lower() in source


def test_every_section_of_the_docs_fits_a_page() -> None:
    for name in ("README.md", "CONTRIBUTING.md"):
        sections = re.split(r"^##+ ", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
        for section in sections:
            assert len(section.splitlines()) <= 60, section.splitlines()[0]
