"""``peakgate help``: the pages that the wheel brings, whole, by section, or the remedy behind an error's code."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

from peakgate.core.errors import Code, PeakgateError
from peakgate.core.text import nearest, say
from peakgate.core.verdict import ExitCode

PAGES = {
    "own-repository": ("docs/own-repository.md", "your own kernels and benchmark tests, floors, CI"),
    "existing-code": ("docs/existing-code.md", "a .cu with main(), a PyTorch extension, missing headers, structs"),
    "frameworks": ("docs/frameworks.md", "JAX, Triton and others; states, tuners, environments, energy"),
    "programs": ("docs/programs.md", "for programs that write kernels: check, bench and ab with --json"),
    "troubleshooting": ("docs/reference/errors.md", "what an error message means, and what to do"),
    "check": ("docs/explanation/checks.md", "what check, mutants and resources look at"),
    "emulator": ("docs/reference/emulator.md", "what the emulator finds, and how far"),
    "reports": ("docs/reference/reports.md", "pandas frames of saved runs"),
    "history": ("reports/history/README.md", "what got slower over the saved runs"),
    "bisect": ("reports/bisect/README.md", "which commit changed a case's time"),
    "fleet": ("reports/fleet/README.md", "all GPUs of a machine or cluster"),
    "baselines": ("baselines/README.md", "floors, acknowledgements, a driver upgrade, a new GPU model"),
    "promises": ("docs/explanation/promises.md", "what a pass promises, and what it does not"),
}
"""Topic to its page, as the wheel has it below the package, and what it is about."""
SETTINGS_TOPIC = "settings"
"""Topic of the settings of a project, whose page is the module that reads them."""


def main(verb: str, arguments: Sequence[str]) -> int:
    """Print the page, section or code that is named; without one the list of topics."""
    parser = argparse.ArgumentParser(
        prog=f"peakgate {verb}",
        description="Print a page, a section of one by the words of its heading, or what an error's code means.",
    )
    parser.add_argument("topic", nargs="*", help="a topic of the list, words of a heading, or a code such as PG203")
    words = " ".join(parser.parse_args(arguments).topic)
    if words:
        _show(text_of(words))
    else:
        width = max(map(len, PAGES))
        topics = {**{name: about for name, (_, about) in PAGES.items()}, SETTINGS_TOPIC: "the keys of [tool.peakgate]"}
        say("\n".join(f"{name:<{width}}  {about}" for name, about in topics.items()))
    return ExitCode.OK


def text_of(words: str) -> str:
    """The Markdown of a topic, of a code, or of the first section whose heading has these words in this order."""
    if code := next((each for each in Code if each == words.strip("[]").upper()), None):
        rows = (line for line in page("troubleshooting").splitlines() if line.startswith(f"| {code} |"))
        problem, remedy = next(rows).strip("| ").split(" | ")[1:]
        return f"{code}: {problem}\n\nNext: {remedy}. Messages of all kinds: `peakgate help troubleshooting`.\n"
    if words == SETTINGS_TOPIC:
        return f"{import_module('peakgate.core.config').__doc__}\n"
    if words in PAGES:
        return page(words)
    wanted = words.lower().replace("-", " ")
    sections = [section for name in PAGES for section in _sections(page(name))]
    for alike in (str.__eq__, str.__contains__):
        for heading, text in sections:
            if alike(heading, wanted):
                return text
    known = [*PAGES, SETTINGS_TOPIC, *(heading for heading, _ in sections)]
    raise PeakgateError(
        f"peakgate help {words}: no such topic{nearest(words, known)}; `peakgate help` lists them", Code.OPTION
    )


def page(topic: str) -> str:
    """A page's Markdown: a wheel has it in the package, a checkout may have it beside that."""
    package = Path(__file__).parents[1]
    paths = [folder / PAGES[topic][0] for folder in (package, package.parent)]
    return next(path for path in paths if path.is_file()).read_text(encoding="utf-8")


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Each heading in small letters, with its text up to the next one of its level or above."""
    lines, code = text.splitlines(), False
    levels: list[int] = []
    for line in lines:
        code ^= line.startswith("```")
        found = None if code else re.match(r"(#+) ", line)
        levels.append(len(found[1]) if found else 0)
    for start, level in enumerate(levels):
        if level:
            end = next((at for at in range(start + 1, len(lines)) if 0 < levels[at] <= level), len(lines))
            yield re.sub(r"[^\w ]", "", lines[start].lower().replace("-", " ")).strip(), "\n".join(lines[start:end])


def _show(text: str) -> None:
    if not sys.stdout.isatty():
        say(text)
        return
    from rich.console import Console  # noqa: PLC0415  (slow, and for terminals alone)
    from rich.markdown import Markdown  # noqa: PLC0415

    Console().print(Markdown(text))
