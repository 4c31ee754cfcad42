"""What a command found at lines of files: SARIF 2.1.0 beside its verdict, and annotations in a job of GitHub Actions.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html, as far as GitHub's code scanning reads it, and
https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from peakgate.base import config, git
from peakgate.base.files import write_whole
from peakgate.base.formatting import as_json, one_line
from peakgate.base.report import ENTRIES, SARIF, Annotation, Report, Tone, write_verdict
from peakgate.base.streams import say, say_as_is
from peakgate.base.verdict import ExitCode
from peakgate.help import text_of

SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "%SRCROOT%"
"""The name by which code hosts know the top of the repository."""
LEVELS = {Tone.BAD: "error", Tone.OPEN: "warning"}
"""The level of an annotation, in SARIF and at GitHub."""
MOST_ANNOTATIONS = 10
"""GitHub shows as many errors, and as many warnings, of one step."""


def leave_verdict(report: Report, path: Path) -> ExitCode:
    """Write the report of the project at hand, print the paths and what helps next; returns the exit code."""
    project = config.current()
    settings = project.file or project.root / config.PYPROJECT  # code scanning refuses a result without a file
    top = git.tree_of(project.root)
    placed = []
    for each in report.annotations:  # by the path from the top of the repository, absolute if the file is elsewhere
        found = (top / (each.path if each.path.name else settings)).resolve()
        placed.append(replace(each, path=found.relative_to(top) if found.is_relative_to(top) else found))
    write(replace(report, annotations=placed), path)
    say(f"verdict: {path}")
    if report.entries:
        from peakgate.judge.waivers import WAIVERS_FILE  # noqa: PLC0415  (imports NumPy)

        entries = path.with_suffix(ENTRIES)
        write_whole(entries, "\n\n".join(report.entries) + "\n")
        accepted = config.near(project.baselines / WAIVERS_FILE)
        say(f"to accept a finding: fill in its entry of {entries} and add it to {accepted}")
    if report.next:
        say(f"next: {report.next}")
    return report.exit_code


def write(report: Report, path: Path) -> None:
    """Write the document to ``path``, with the date, and beside it as SARIF the annotations, whose paths are as there.

    In a job of GitHub Actions the first annotations are printed too, as its commands.
    """
    write_whole(path.with_suffix(SARIF), as_json(sarif(report)))
    write_verdict(report, path)
    order(*commands(report.annotations))


def order(*lines: str) -> None:
    """Print commands if this runs in a job of GitHub Actions."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        say_as_is("".join(f"{line}\n" for line in lines))


def sarif(report: Report) -> dict[str, Any]:
    """The report's annotations as a SARIF log with one run; its rules have the text of ``peakgate help RULE``.

    Paths are relative to the top of the repository.
    """
    names = list(dict.fromkeys(each.rule for each in report.annotations))
    rules: list[dict[str, Any]] = []
    for name in names:  # as code scanning wants them: every text is there
        text = text_of(name)
        rules.append(
            {
                "id": name.replace(" ", "-"),
                "shortDescription": {"text": name},
                "fullDescription": {"text": text.partition("\n")[0].removeprefix(f"{name}: ")},
                "help": {"text": text, "markdown": text},
            }
        )
    results: list[dict[str, Any]] = []
    for each in report.annotations:
        inside = {"uri": quote(each.path.as_posix()), "uriBaseId": ROOT}
        file = {"uri": each.path.as_uri()} if each.path.is_absolute() else inside
        place = {"artifactLocation": file, "region": {"startLine": each.line}}
        results.append(
            {
                "ruleId": each.rule.replace(" ", "-"),
                "ruleIndex": names.index(each.rule),
                "level": LEVELS.get(each.tone, "note"),
                "message": {"text": one_line(each.message)},
                "locations": [{"physicalLocation": place}],
            }
        )
    return {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "Peakgate", "version": config.version(), "rules": rules}},
                "automationDetails": {"id": f"peakgate/{report.command}/"},  # one of several uploads for a commit
                "invocations": [
                    {
                        # What could not be decided is no pass, although it may be no result either.
                        "executionSuccessful": report.exit_code in {ExitCode.OK, ExitCode.REGRESSION},
                        "exitCode": int(report.exit_code),
                    }
                ],
                "results": results,
            }
        ],
    }


def commands(annotations: Sequence[Annotation]) -> Iterator[str]:
    """The commands of GitHub Actions for the first annotations of each level."""
    left = dict.fromkeys(Tone, MOST_ANNOTATIONS)
    for each in annotations:
        left[each.tone] -= 1
        if left[each.tone] >= 0:
            place = {"file": each.path, "line": each.line, "title": f"Peakgate: {each.rule}"}
            yield command(LEVELS.get(each.tone, "notice"), each.message, **place)


def command(name: str, message: str, **properties: object) -> str:
    """One workflow command, in which no text can end the command, add a property, or be another command."""
    given = ",".join(f"{key}={_escaped(value, '%:,')}" for key, value in properties.items())
    return f"::{name} {given}::{_escaped(message, '%')}"


def _escaped(value: object, special: str) -> str:
    """Text in which the special characters and line breaks are ``%XX``, as the runner reads them back."""
    plain = "".join(each if each.isprintable() or each in "\r\n" else " " for each in str(value)).replace("##", "# #")
    return "".join(f"%{ord(each):02X}" if each in f"{special}\r\n" else each for each in plain)
