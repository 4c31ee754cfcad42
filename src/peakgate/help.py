"""``peakgate help``: the pages that the wheel brings, whole, by section, or the remedy behind an error's code."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from textwrap import dedent

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import nearest
from peakgate.base.options import VerbParser
from peakgate.base.streams import say
from peakgate.base.verdict import ExitCode

FOLDERS = ("", "how-to", "reference", "explanation")
"""Folders of the documentation, in the order in which topics are listed and sections looked for."""

PAGES_OF_VERBS = {
    "ab": "compare-commits",
    "bench": "kernels",
    "compare": "compare-runs",
    "gate": "gate-a-pull-request",
    "import": "import-results",
    "init": "tutorial",
    "inspect": "without-a-gpu",
    "protect": "acknowledge",
    "selftest": "runners",
    "show": "compare-runs",
}
"""The page about a verb, where it has another name."""


def main(verb: str, arguments: Sequence[str]) -> int:
    """Print the page, section or code that is named; without one the list of topics."""
    parser = VerbParser(
        prog=f"peakgate {verb}",
        description="Print a page, a section of one by the words of its heading, or what an error's code means.",
        epilog="exit codes: 0 printed, 2 no such topic",
    )
    topic = parser.add_argument(
        "topic", nargs="*", help="a topic of the list, words of a heading, or a code such as PG203 (default: the list)"
    )
    vars(topic)["completer"] = lambda **_: [*topics(), *map(str, Code)]  # of argcomplete
    words = " ".join(parser.parse_args(arguments).topic)
    if words and sys.stdout.isatty():
        from rich.console import Console  # noqa: PLC0415  (slow, and for terminals alone)
        from rich.markdown import Markdown  # noqa: PLC0415

        Console().print(Markdown(text_of(words)))
    elif words:
        say(text_of(words))
    else:
        titles = {name: page(name).partition("\n")[0].removeprefix("# ") for name in topics()}
        width = max(map(len, titles))
        say("\n".join(f"{name:<{width}}  {title}" for name, title in titles.items()))
    return ExitCode.OK


def text_of(words: str) -> str:
    """The Markdown of a topic, a code, a finding, or the first section whose heading has these words in this order.

    A topic is found by its verb and in the singular too, before a section of that name.
    """
    if code := next((each for each in Code if each == words.strip("[]").upper()), None):
        problem, remedy = _row("errors", code)
        return f"{code}: {problem}\n\nNext: {remedy}. Messages of all kinds: `peakgate help troubleshooting`.\n"
    if found := next((each for each in ("findings", "verdicts") if _row(each, words)), None):
        meaning, *_, remedy = _row(found, words)
        return f"{words}: {meaning}\n\nNext: {remedy}. All of them: `peakgate help {found}`.\n"
    if topic := next((each for each in (PAGES_OF_VERBS.get(words), words, f"{words}s") if each in topics()), None):
        return page(topic)
    wanted = words.lower().replace("-", " ")
    sections = [section for name in topics() for section in _sections(page(name))]
    for alike in (str.__eq__, lambda heading, words: f" {words} " in f" {heading} ", str.__contains__):
        for heading, text in sections:
            if alike(heading, wanted):
                return text
    known = [*topics(), *(heading for heading, _ in sections)]
    raise PeakgateError(
        f"peakgate help {words}: no such topic{nearest(words, known)}; `peakgate help` lists them", Code.OPTION
    )


def _row(topic: str, name: str) -> Sequence[str]:
    """The other cells of the row of a page's tables that begins with a name; empty if there is none."""
    rows = (line for line in page(topic).splitlines() if line.startswith(f"| {name} |"))
    return next(rows, "").strip("| ").split(" | ")[1:]


@cache
def topics() -> dict[str, Path]:
    """Each topic with its page, by the file's name; no two pages have one."""
    package = Path(__file__).parent  # a wheel has the pages in the package, a checkout beside src
    docs = next(folder / "docs" for folder in (package, package.parents[1]) if (folder / "docs").is_dir())
    found: dict[str, Path] = {}
    for folder in FOLDERS:
        found |= {path.stem: path for path in sorted((docs / folder).glob("*.md"))}
    found.pop("index")  # of the site
    return found


def page(topic: str) -> str:
    """A page's Markdown; that of settings has the docstring of the module that reads them."""
    text = topics()[topic].read_text(encoding="utf-8")
    settings = re.sub(r"``([^`]+)``", r"`\1`", import_module("peakgate.base.config").__doc__ or "")
    settings = re.sub(r"\n::\n\n((?: {4}.*\n)+)", lambda found: f"\n```toml\n{dedent(found[1])}```\n", settings)
    return re.sub(r"<!-- generated: (\S+) -->", lambda found: settings if found[1] == "settings" else "", text)


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
