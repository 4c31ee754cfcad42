"""Fill the tables of newcomers in README.md: ``python -m lab.newcomer.page``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from lab.pages import fill_page, read_json, table

HERE = Path(__file__).resolve().parent
PAGE = HERE / "README.md"
LATER = {"sgemm": "29b73ac"}
"""Projects that were tried again, and at which commit."""


def newcomers() -> str:
    """The six projects: lines written, and the commands of Peakgate with their seconds."""
    projects = read_json(HERE / "newcomer-5b392c5.json")["projects"]
    for name, commit in LATER.items():
        projects |= read_json(HERE / f"newcomer-{name}-{commit}.json")["projects"]
    rows = []
    for name, steps in projects.items():
        ours = [step for step in steps if step["command"].startswith("peakgate ")]
        verbs = Counter(step["command"].split()[1] for step in ours)
        lines = next(step["lines"] for step in steps if "lines" in step)
        flagged = ""
        if "ab" in verbs:
            judged = read_json(HERE / f"newcomer-{name}-ab-{LATER.get(name, '5b392c5')}.json")["rows"]
            flagged = ", ".join(f"`{row['case']}` {row['change']}" for row in judged if row["verdict"] == "SLOWER")
        rows.append([name, lines, _counted(verbs), f"{sum(step['seconds'] for step in ours):.1f}", flagged])
    return table(["project", "lines written", "commands", "seconds in all", "flagged by `ab`"], rows)


def from_pages() -> str:
    """The six projects written from the pages, without a GPU: lines, minutes, commands, what was found and mended."""
    content = read_json(HERE / "cpu-trial.json")
    rows = []
    for name, project in content["projects"].items():
        commands = _counted(project["commands"])
        rows.append(
            [f"{name}: {project['holds']}", project["lines"], project["minutes"], commands, project["findings"]]
        )
    return table(["project", "lines written", "minutes", "commands", "found"], rows)


def _counted(verbs: Mapping[str, int]) -> str:
    """The verbs, each with how often it was called where that is more than once."""
    return ", ".join(f"{count} x `{verb}`" if count > 1 else f"`{verb}`" for verb, count in verbs.items())


def blocks() -> dict[str, str]:
    """The blocks of the page."""
    return {"newcomers": newcomers(), "from-pages": from_pages()}


if __name__ == "__main__":
    fill_page(PAGE, blocks())
