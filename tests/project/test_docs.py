"""The documents say what the code says."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from peakgate.base.report import SCHEMA
from peakgate.base.verdict import ExitCode
from peakgate.spec.case import CASE_SCHEMA

ROOT = Path(__file__).parents[2]
SOURCES = [
    *(ROOT / "src").rglob("*.py"),
    *(ROOT / "src").rglob("*.cpp"),
    ROOT / ".github" / "verdict.py",
]
OTHERS = {"SyntaxError", "floors.toml", "invalid peer certificate", "UnknownIssuer"}
"""Words of Python, of a path and of uv."""


PAGE = ROOT / "docs" / "reference" / "errors.md"


@cache
def sources() -> str:
    """Every source in small letters, texts over several lines in one piece; kinds of defects are enum members."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)
    return re.sub(r'"\s*\n\s*f?"', "", text).replace("_", " ").lower()


def messages() -> list[str]:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [line.split(" | ")[0] for line in lines if line.startswith("| `")]
    return [message for row in rows for message in re.findall(r"`([^`]+)`", row)]


def test_every_row_of_the_page_quotes_a_message() -> None:
    tables = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    rows = [line for line in tables if not line.startswith(("| message |", "| --- |", "| code |", "| PG"))]
    assert len(rows) > 40
    assert all(line.startswith("| `") for line in rows)


@pytest.mark.parametrize("message", messages())
def test_a_message_that_the_docs_explain_is_one_the_code_gives(message: str) -> None:
    source = sources()
    literal = re.split(r"…|: |, (?=[A-Z])|^[A-Z_]+,", message)
    for piece in (each.strip(" ,:;()") for each in literal):
        if piece and piece not in OTHERS:
            assert piece.replace("_", " ").lower() in source


def test_compatibility_names_the_schemas_and_every_exit_code() -> None:
    text = (ROOT / "docs" / "reference" / "compatibility.md").read_text(encoding="utf-8")
    assert f"`peakgate_schema` {CASE_SCHEMA}" in text
    assert f"`schema` {SCHEMA}" in text
    for code in ExitCode:
        assert f"| {int(code)} |" in text


def test_every_section_of_the_docs_fits_a_page() -> None:
    """Its text: a table may list more."""
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        sections = re.split(r"^##+ ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for section in sections:
            lines = [line for line in section.splitlines() if not line.startswith("|")]
            assert len(lines) <= 60, lines[0]


def test_the_page_on_installing_has_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "how-to" / "install.md").read_text("utf-8"), re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} >= set(extras)


def test_the_rules_for_contributors_stay_short() -> None:
    assert (ROOT / "CONTRIBUTING.md").stat().st_size <= 4000


LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("", "docs", "src", "suite", "reports", "baselines", "kernels", "lab", ".github")
    for path in (ROOT / folder).glob("**/*.md" if folder else "*.md")
)


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    for target, section in LINK.findall((ROOT / page).read_text(encoding="utf-8")):
        found = (ROOT / page).parent / target if target else ROOT / page
        assert found.exists(), f"{page}: {target}"
        if section:
            titles = re.findall(r"^#+ (.*)$", found.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert section in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_readme_leads_to_every_page_that_describes_a_folder() -> None:
    """The site's navigation leads to every page of docs/, or it does not build."""
    linked = {target for target, _ in LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))}
    folders = {page for page in PAGES if re.fullmatch(r"(?!docs/)[^/]+/README\.md", page)}
    assert folders | {"docs/index.md", "CONTRIBUTING.md"} <= linked
