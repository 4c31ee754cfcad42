"""What reference pages have of the code, as Markdown: each function here fills a ``<!-- generated: NAME -->``."""

from __future__ import annotations

import inspect
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import redirect_stdout, suppress
from typing import Any
from unittest.mock import patch

import msgspec

import peakgate.case
import peakgate.family
from peakgate import cli, reports
from peakgate.base import config
from peakgate.inspect import SUBJECTS
from peakgate.runfile.schema import RunDocument
from peakgate.spec import arguments, case, groups, operands, sweep

HELP_INDENT = 24
"""Where argparse's ``--help`` begins an explanation that has a line of its own."""

FAMILY = {
    "Kernels": ("kernel", "family", "stage", "launch"),
    "Arguments": ("In", "Out", "InOut", "Temp", "Scratch", "Value", "Struct", "TensorMap", "Texture", "Surface"),
    "Check and compile": ("Check", "Compile", "TOLERANCES", "tolerance_of_sums"),
    "Sizes and axes": ("Size", "Sizes", "by_side", "AxisValues", "Extent", "EDGES"),
    "What they make": ("Family", "LaunchOf", "StageKernel", "Buffer", "Array"),
}
"""Names of ``peakgate.family`` by subject."""


def commands() -> str:
    """A section per verb, and per subject of ``inspect``: what it does, its usage, and a table of its options."""
    subjects = [f"inspect {subject}" for subject in SUBJECTS]
    return "\n\n".join(map(_command, [each for verb in cli.VERBS for each in (verb, *subjects * (verb == "inspect"))]))


def _command(verb: str) -> str:
    usage, *_ = _help(verb, columns=90).split("\n\n")
    _, *blocks = _help(verb, columns=100_000).strip().split("\n\n")
    lists = [block for block in blocks if block.startswith(("positional arguments:", "options:", "advanced options:"))]
    before, *after = [_prose(block) for block in blocks if block not in lists]
    options = [option for block in lists for option in _options(block.splitlines()[1:])]
    if not options:
        raise ValueError(f"peakgate {verb} --help: its options are not where argparse used to print them")
    table = _table(("option", "meaning"), ((f"`{name}`", _prose(text)) for name, text in options))
    return "\n\n".join([f"## {verb}", before, f"```text\n{usage}\n```", table, *after])


def _help(verb: str, columns: int) -> str:
    """What a verb prints for ``--help`` on a terminal of so many columns."""
    printed = io.StringIO()
    with patch.dict(os.environ, COLUMNS=str(columns)), redirect_stdout(printed), suppress(SystemExit):
        cli.main([*verb.split(), "--help"])
    return printed.getvalue()


def _options(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each option with its explanation, which stands behind it or on the next line."""
    waiting = ""
    for line in lines:
        if line.startswith(" " * HELP_INDENT):
            yield waiting, line.strip()
            waiting = ""
            continue
        if waiting:
            yield waiting, ""
        waiting, _, text = line.strip().partition("  ")
        if text:
            yield waiting, text.strip()
            waiting = ""
    if waiting:
        yield waiting, ""


def settings() -> str:
    """The settings with their defaults, and what their module says behind them."""
    _, _, text = (inspect.getdoc(config) or "").partition("::\n\n")
    example, after = re.split(r"\n\n(?=\S)", text, maxsplit=1)
    return f"```toml\n{inspect.cleandoc(example)}\n```\n\n{after.replace('``', '`')}"


def family() -> str:
    """``peakgate.family`` by subject, and what only the long form takes."""
    listed = {name for names in FAMILY.values() for name in names}
    if missing := {*peakgate.family.__all__} - {*peakgate.case.__all__} - listed:
        raise ValueError(f"docs/site/reference.py: FAMILY does not have {', '.join(sorted(missing))}")
    only_long = [name for name in peakgate.case.__all__ if name not in listed]
    sections = {**FAMILY, "The long form: `peakgate.case`": only_long}
    return "\n\n".join(f"## {title}\n\n{_documented(peakgate.family, names)}" for title, names in sections.items())


def frames() -> str:
    """The functions of ``peakgate.reports``."""
    return _documented(reports, ("load", "by_block", "by_size", "compare", "trend", "change_points"))


def _documented(module: Any, names: Iterable[str]) -> str:
    """Autodoc's directives for these names of a module."""
    return "```{eval-rst}\n" + "\n".join(_directive(module, name) for name in names) + "\n```"


def _directive(module: Any, name: str) -> str:
    """The docstring of a value stands where it is defined."""
    value = getattr(module, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        return f".. auto{'class' if inspect.isclass(value) else 'function'}:: {module.__name__}.{name}"
    defining = next(each for each in (arguments, case, groups, operands, sweep, peakgate.family) if hasattr(each, name))
    return f".. autodata:: {defining.__name__}.{name}"


def run_file() -> str:
    """A table per record of a run file, from the schema that the reader checks."""
    records = msgspec.json.schema(RunDocument)["$defs"]
    return "\n\n".join(_record(title, record) for title, record in records.items())


def _record(title: str, record: Mapping[str, Any]) -> str:
    about = _prose(record.get("description", "").replace("``", "`"))
    if "enum" in record:
        return f"## {title}\n\n{about}\n\nOne of {_type(record)}."
    required = record.get("required", ())
    rows = [
        (f"`{name}`", _type(kind), "required" if name in required else _default(kind), _prose(kind.get("title", "")))
        for name, kind in record.get("properties", {}).items()
    ]
    return f"## {title}\n\n{about}\n\n{_table(('field', 'type', 'absent', 'meaning'), rows)}"


def _type(kind: Mapping[str, Any]) -> str:
    """A JSON type in words; alternatives once each."""
    if "anyOf" in kind:
        words = dict.fromkeys(map(_type, kind["anyOf"]))
        return " or ".join(word for word in words if not (word == "integer" and "number" in words))
    if "$ref" in kind:
        name = kind["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in kind:
        return ", ".join(f"`{value}`" for value in kind["enum"])
    if "items" in kind:
        each = ", ".join(map(_type, kind.get("prefixItems") or [kind["items"]]))
        return f"a list of {'one or more ' if kind.get('minItems') == 1 else ''}{each}"
    if kind.get("type") == "string" and kind.keys() <= {"type", "title", "description", "maxLength"}:
        return "text"
    return _prose(kind.get("description") or kind.get("type", "anything"))


def _default(kind: Mapping[str, Any]) -> str:
    return f"`{json.dumps(kind['default'])}`" if "default" in kind else ""


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [[re.sub(r"(?<!\\)\|", r"\\|", cell) for cell in line] for line in (head, *rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _prose(text: str) -> str:
    """Plain text as Markdown: code stays, all else that Markdown would read is escaped."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(part if part.startswith("`") else re.sub(r"([\\<>*_\[\]|])", r"\\\1", part) for part in parts)


GENERATED = {
    "commands": commands,
    "settings": settings,
    "family": family,
    "reports": frames,
    "run-file": run_file,
}
