"""Renders the comment on a pull or merge request, and GitHub's check, from a gate's verdict files.

The change could have written those files, so all their content is checked, truncated and escaped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peakgate.base.report import Annotation, Tone, tone

COMMENT_MARKER = "<!-- peakgate: the gate's comment -->"
LONGEST_COMMENT = 65_536
"""Maximum length of GitHub's comments and check summaries; GitLab's is larger."""

LONGEST_ANNOTATION = 5000
MOST_ROWS, MOST_ANNOTATIONS, MOST_RUNNERS = 30, 50, 8
LONGEST_CELL = 300
GATE = "gate"
FILES = (GATE, "protect", "bench", "ab")
MEANINGS = {
    0: "pass",
    3: "could not decide",
    2: "bad input, or a command ended before its verdict",
    1: "regression",
}
"""Meanings of exit codes, the mildest first."""

CONCLUSIONS = {0: "success", 3: "failure", 2: "failure", 1: "failure"}
"""The check's conclusion by exit code; not "neutral", which GitHub allows to merge."""

FAILING = (
    *("CRASHED", "TIMEOUT", "WRONG", "IMPOSSIBLE", "SLOWER", "BELOW_FLOOR", "MISSING"),
    *("INCOMPARABLE", "INCONCLUSIVE"),
)
BEGIN_CUT = (
    f"\n\nThe rest is left out: a comment has at most {LONGEST_COMMENT} characters. "
    "The full report is the run's artifact.\n"
)

_REFERENCE = re.compile(r"([@#!$~%^]|&amp;|://|www\.|GH-)(?=\S)|(:)(?=[\w+-]+:)", re.IGNORECASE)
"""Markup that GitHub and GitLab interpret in rendered text: mentions, references, URLs, emoji names."""

SOURCE_PATH = re.compile(r"(?:[\w.+-]+/)*[\w.+-]+\.(?:cu|cuh|h|hpp|py)")

Verdicts = Mapping[str, Mapping[str, Any]]
"""Verdict files by runner: file name without suffix to content, unchecked."""


def render(verdicts: Verdicts, commit: str, url: str) -> str:
    """The comment, in Markdown, at most LONGEST_COMMENT characters; nothing in ``verdicts`` is trusted."""
    code = overall(verdicts)
    parts = [f"{COMMENT_MARKER}\n## Peakgate: {MEANINGS[code]}\n\nCommit {commit}, [run and full report]({url}).\n"]
    for runner, files in sorted(verdicts.items())[:MOST_RUNNERS]:
        parts.append(f"\n### {escaped(runner)}\n\n")
        parts += [f"- {name}: {_said(files.get(name))}\n" for name in FILES]
        rows = [*_rows(files.get("ab")), *_rows(files.get("bench"))]
        if rows:
            parts.append("\n| case | verdict | why |\n| --- | --- | --- |\n")
            lines = (map(escaped, (row["case"], row["verdict"], row["reason"])) for row in rows[:MOST_ROWS])
            parts += [f"| {' | '.join(line)} |\n" for line in lines]
            parts += [f"\n{len(rows) - MOST_ROWS} more are in the report.\n"] if len(rows) > MOST_ROWS else []
        for each in _explained(files.get("ab"))[:MOST_ROWS]:
            if reasons := "".join(f"- {escaped(sentence)}\n" for sentence in _sentences(each)):
                parts.append(f"\n**{escaped(each['case'])}**\n\n{reasons}")
    if not verdicts:
        parts.append("\nThe run has no verdict; see its log.\n")
    return _cut(parts)


def overall(verdicts: Verdicts) -> int:
    """The worst exit code over all runners and files; 2 if a gate's own file is missing."""
    codes = [_code(files.get(name)) for files in verdicts.values() for name in FILES if name in files or name == GATE]
    return max(codes or [2], key=list(MEANINGS).index)


def check_run(verdicts: Verdicts, commit: str, url: str) -> dict[str, Any]:
    """The check: conclusion, summary, and an annotation for each case at fault whose file is known."""
    code = overall(verdicts)
    annotations = [
        {
            "path": str(each.path),
            "start_line": each.line,
            "end_line": each.line,
            "annotation_level": "failure" if each.tone is Tone.BAD else "warning",
            "title": plain(f"{each.rule} on {runner}")[:250],
            "message": each.message,
        }
        for runner, files in sorted(verdicts.items())
        for each in placed(files)
        if each.path.name
    ]
    return {
        "name": "peakgate",
        "head_sha": commit,
        "status": "completed",
        "conclusion": CONCLUSIONS[code],
        "details_url": url,
        "output": {
            "title": MEANINGS[code],
            "summary": render(verdicts, commit, url).removeprefix(f"{COMMENT_MARKER}\n"),
            "annotations": annotations[:MOST_ANNOTATIONS],
        },
    }


def placed(files: Mapping[str, Any]) -> list[Annotation]:
    """The cases at fault in the verdict files of one runner, worst first, and the protected changes.

    Each at the line that ``ab`` explains, or else that defines the case; without a path if none is known.
    """
    places = {each["case"]: each for name in ("bench", "ab") for each in _explained(files.get(name)) if each["file"]}
    found: dict[tuple[str, str], Annotation] = {}
    for row in (*_rows(files.get("ab")), *_rows(files.get("bench"))):
        place = places.get(row["case"], {"file": "", "line": 1})
        said = plain(f"{row['case']}: {row['reason']}. {' '.join(_sentences(place))}")[:LONGEST_ANNOTATION]
        annotation = Annotation(row["verdict"], said, Path(place["file"]), place["line"], tone(row["verdict"]))
        found.setdefault((row["case"], row["verdict"]), annotation)
    return [*found.values(), *_protected(files.get("protect"))]


def _protected(document: Any) -> list[Annotation]:
    """The changes that fail, where each is a file at that file."""
    changes = document.get("changes") if isinstance(document, dict) else None
    failing = changes.get("failing") if isinstance(changes, dict) else None
    found = []
    for each in failing if isinstance(failing, list) else []:
        if isinstance(each, dict):
            kind, what, before, after = (str(each.get(name, "")) for name in ("kind", "what", "before", "after"))
            file = what if SOURCE_PATH.fullmatch(what) else ""
            said = plain(f"{kind}: {what}, {before} to {after}")[:LONGEST_ANNOTATION]
            found.append(Annotation("protected change", said, Path(file)))
    return found


def plain(text: object) -> str:
    """One line of printable characters."""
    return " ".join("".join(each if each.isprintable() else " " for each in str(text)).split())


def escaped(text: object) -> str:
    """Text as Markdown that renders literally: no markup, HTML, link, mention or reference."""
    cell = plain(text)
    cell = cell if len(cell) <= LONGEST_CELL else f"{cell[: LONGEST_CELL - 1]}…"
    cell = cell.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    cell = re.sub(r"([\\`*_{}\[\]()|~!$])", r"\\\1", cell)
    return _REFERENCE.sub("\\g<0>\u200b", cell)  # a zero-width space breaks each of them


def _code(document: Any) -> int:
    code = document.get("exit_code") if isinstance(document, dict) else None
    return code if type(code) is int and code in MEANINGS else 2


def _said(document: Any) -> str:
    """A verdict file in short: its meaning, and the number of cases by verdict."""
    if not isinstance(document, dict):
        return "no verdict; see the run's log"
    counts = document.get("counts") or document.get("verdicts")
    listed = list(counts.items())[:20] if isinstance(counts, dict) else []
    numbers = ", ".join(f"{count} {escaped(verdict)}" for verdict, count in listed if type(count) is int)
    return f"{MEANINGS[_code(document)]}{f' ({numbers})' if numbers else ''}"


def _rows(document: Any) -> list[dict[str, Any]]:
    """Case, verdict and reason of failing and undecided rows, worst first."""
    listed = document.get("rows") or document.get("cases") if isinstance(document, dict) else None
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    found = [
        {"case": row["case"], "verdict": row["verdict"], "reason": row.get("reason") or ""}
        for row in rows
        if isinstance(row.get("case"), str) and isinstance(row.get("verdict"), str) and row["verdict"] in FAILING
    ]
    return sorted(found, key=lambda row: FAILING.index(row["verdict"]))


def _explained(document: Any) -> list[dict[str, Any]]:
    """The cases of `bench`, or those that `ab` explains, with file and line.

    Both are None unless they look like a source file of the repository.
    """
    explained = document.get("explained", document) if isinstance(document, dict) else None
    cases = explained.get("cases") if isinstance(explained, dict) else None
    found = []
    for each in cases if isinstance(cases, list) else []:
        if not isinstance(each, dict) or not isinstance(each.get("case"), str):
            continue
        file, line = each.get("file"), each.get("line")
        known = isinstance(file, str) and SOURCE_PATH.fullmatch(file) and ".." not in file and len(file) < 500
        sound = known and type(line) is int and 1 <= line <= 1_000_000
        found.append(each | {"file": file if sound else None, "line": line if sound else None})
    return found


def _sentences(explained: Mapping[str, Any]) -> list[str]:
    listed = explained.get("findings")
    sentences = [each.get("sentence") for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    return [each for each in sentences if isinstance(each, str)][:3]


def _cut(parts: list[str]) -> str:
    """Join the parts that fit, and append BEGIN_CUT if some do not."""
    text = ""
    for part in parts:
        if len(text) + len(part) > LONGEST_COMMENT - len(BEGIN_CUT):
            return text + BEGIN_CUT
        text += part
    return text
