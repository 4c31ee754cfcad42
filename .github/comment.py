"""Post what a gate found: one comment on the pull request, a check with annotations, and a webhook where one is set.

Run by comment.yml, which alone may write, with the standard library alone. It runs no code of the change: from the
gate's run it takes the verdict files, which the change could have written, so everything in them is data to be checked,
cut and escaped. ``render`` and ``check_run`` are pure.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import urllib.error
import urllib.request
import zipfile
from collections.abc import Mapping
from typing import Any

MARKER = "<!-- peakgate: the gate's comment -->"
LONGEST = 65_536
"""What GitHub takes of a comment, and of a check's summary."""

MOST_ROWS, MOST_ANNOTATIONS, MOST_RUNNERS = 30, 50, 8
LONGEST_CELL, LONGEST_FILE = 300, 20 << 20
FILES = ("protect", "bench", "ab")
MEANINGS = {
    0: "pass",
    3: "could not decide",
    2: "bad input, or a command ended before its verdict",
    1: "regression",
}
"""By exit code, the mildest first."""

CONCLUSIONS = {0: "success", 3: "neutral", 2: "failure", 1: "failure"}
FAILING = (
    "CRASHED",
    "TIMEOUT",
    "WRONG",
    "IMPOSSIBLE",
    "SLOWER",
    "BELOW_FLOOR",
    "MISSING",
    "INCOMPARABLE",
    "INCONCLUSIVE",
)
BEGIN_CUT = f"\n\nThe rest is left out: a comment takes {LONGEST} characters. The whole report is the run's artifact.\n"

COMMIT = re.compile(r"[0-9a-f]{40}")
NUMBER = re.compile(r"[1-9]\d{0,8}")
ASKED_FOR = re.compile(r"gate of #([1-9]\d{0,8}) at ([0-9a-f]{40})")
SOURCE = re.compile(r"(?:[\w.+-]+/)*[\w.+-]+\.(?:cu|cuh|h|hpp|py)")

Verdicts = Mapping[str, Mapping[str, Any]]
"""By runner its verdict files: name without ending to what the file holds, unchecked."""


def render(verdicts: Verdicts, commit: str, url: str) -> str:
    """The comment, in Markdown, at most LONGEST characters; nothing in ``verdicts`` is trusted."""
    code = overall(verdicts)
    parts = [f"{MARKER}\n## Peakgate: {MEANINGS[code]}\n\nCommit {commit}, [run and whole report]({url}).\n"]
    for runner, files in sorted(verdicts.items())[:MOST_RUNNERS]:
        parts.append(f"\n### {escaped(runner)}\n\n")
        parts += [f"- {name}: {_said(files.get(name))}\n" for name in FILES]
        parts += _table(files)
        parts += _reasons(files)
    if not verdicts:
        parts.append("\nThe run left no verdict: its log says why.\n")
    return _cut(parts)


def overall(verdicts: Verdicts) -> int:
    """The exit code of the worst file of any runner; 2 where a file is missing."""
    codes = [_code(files.get(name)) for files in verdicts.values() for name in FILES]
    return max(codes or [2], key=list(MEANINGS).index)


def check_run(verdicts: Verdicts, commit: str, url: str) -> dict[str, Any]:
    """The check: conclusion, summary, and an annotation on the line of each kernel that got slower."""
    code = overall(verdicts)
    annotations = [
        {
            "path": each["file"],
            "start_line": each["line"],
            "end_line": each["line"],
            "annotation_level": "failure",
            "title": plain(f"{each['case']} is slower on {runner}")[:250],
            "message": plain(f"{rows.get(each['case'], 'slower')}. {' '.join(_sentences(each))}")[:5000],
        }
        for runner, files in sorted(verdicts.items())
        for rows in [{row["case"]: row["reason"] for row in _rows(files.get("ab"))}]
        for each in _explained(files.get("ab"))
        if each["file"] is not None
    ]
    return {
        "name": "peakgate",
        "head_sha": commit,
        "status": "completed",
        "conclusion": CONCLUSIONS[code],
        "details_url": url,
        "output": {
            "title": MEANINGS[code],
            "summary": render(verdicts, commit, url).removeprefix(f"{MARKER}\n"),
            "annotations": annotations[:MOST_ANNOTATIONS],
        },
    }


def plain(text: object) -> str:
    """One line of printable characters."""
    return " ".join("".join(each if each.isprintable() else " " for each in str(text)).split())


def escaped(text: object) -> str:
    """A text from a file as Markdown that shows as it is: no markup, HTML, link, mention or reference."""
    cell = plain(text)
    cell = cell if len(cell) <= LONGEST_CELL else f"{cell[: LONGEST_CELL - 1]}…"
    cell = cell.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    cell = re.sub(r"([\\`*_{}\[\]()|~!])", r"\\\1", cell)
    # What GitHub finds in the text as it is shown: mentions, references and addresses end at a zero-width space.
    return re.sub(r"(@|#|://|www\.|GH-)", lambda match: match[0] + "\u200b", cell, flags=re.IGNORECASE)


def pull_request(event: str, number: str, title: str, commit: str) -> tuple[str, str] | None:
    """The pull request's number and the commit that was judged, from the event; None where it names none.

    The title of a run that a person with write permission started by hand names both; that of a pull request is the
    author's, and is not read.
    """
    if event == "workflow_dispatch" and (asked := ASKED_FOR.fullmatch(title)):
        return asked[1], asked[2]
    if event == "pull_request" and NUMBER.fullmatch(number) and COMMIT.fullmatch(commit):
        return number, commit
    return None


def from_artifact(content: bytes) -> dict[str, Any]:
    """The verdict files in a gate's artifact, which is never unpacked; what is no JSON, or too large, is left out."""
    found: dict[str, Any] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for entry in archive.infolist():
                name = entry.filename.removeprefix(".judge/out/").removesuffix(".json")
                if name in FILES and entry.filename.endswith(".json") and entry.file_size <= LONGEST_FILE:
                    with archive.open(entry) as stream:
                        found[name] = json.loads(stream.read(LONGEST_FILE + 1))
    except (zipfile.BadZipFile, ValueError, RecursionError, OSError, EOFError, NotImplementedError, RuntimeError):
        return found
    return found


def _code(document: Any) -> int:
    code = document.get("exit_code") if isinstance(document, dict) else None
    return code if type(code) is int and code in MEANINGS else 2


def _said(document: Any) -> str:
    """One file in a few words: what it means, and how many cases have which verdict."""
    if not isinstance(document, dict):
        return "no verdict; the run's log says why"
    counts = document.get("counts") or document.get("verdicts")
    listed = list(counts.items())[:20] if isinstance(counts, dict) else []
    numbers = ", ".join(f"{count} {escaped(verdict)}" for verdict, count in listed if type(count) is int)
    return f"{MEANINGS[_code(document)]}{f' ({numbers})' if numbers else ''}"


def _rows(document: Any) -> list[dict[str, Any]]:
    """Case, verdict and reason of the rows that fail or leave it open, as they stand, worst first."""
    listed = document.get("rows") or document.get("cases") if isinstance(document, dict) else None
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    found = [
        {"case": row["case"], "verdict": row["verdict"], "reason": row.get("reason") or ""}
        for row in rows
        if isinstance(row.get("case"), str) and isinstance(row.get("verdict"), str) and row["verdict"] in FAILING
    ]
    return sorted(found, key=lambda row: FAILING.index(row["verdict"]))


def _table(files: Mapping[str, Any]) -> list[str]:
    rows = [row for name in ("ab", "bench") for row in _rows(files.get(name))]
    if not rows:
        return []
    lines = [
        f"| {' | '.join(escaped(row[key]) for key in ('case', 'verdict', 'reason'))} |\n" for row in rows[:MOST_ROWS]
    ]
    more = [f"\n{len(rows) - MOST_ROWS} more are in the report.\n"] if len(rows) > MOST_ROWS else []
    return ["\n| case | verdict | why |\n| --- | --- | --- |\n", *lines, *more]


def _explained(document: Any) -> list[dict[str, Any]]:
    """The explained cases; file and line are None unless they may name a source of the repository."""
    explained = document.get("explained") if isinstance(document, dict) else None
    cases = explained.get("cases") if isinstance(explained, dict) else None
    found = []
    for each in cases if isinstance(cases, list) else []:
        if not isinstance(each, dict) or not isinstance(each.get("case"), str):
            continue
        file, line = each.get("file"), each.get("line")
        known = isinstance(file, str) and SOURCE.fullmatch(file) and ".." not in file and len(file) < 500
        sound = known and type(line) is int and 1 <= line <= 1_000_000
        found.append(each | {"file": file if sound else None, "line": line if sound else None})
    return found


def _sentences(explained: Mapping[str, Any]) -> list[str]:
    listed = explained.get("findings")
    sentences = [each.get("sentence") for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    return [each for each in sentences if isinstance(each, str)][:3]


def _reasons(files: Mapping[str, Any]) -> list[str]:
    cases = [(each["case"], _sentences(each)) for each in _explained(files.get("ab"))][:MOST_ROWS]
    return [
        f"\n**{escaped(case)}**\n\n{''.join(f'- {escaped(each)}{chr(10)}' for each in said)}"
        for case, said in cases
        if said
    ]


def _cut(parts: list[str]) -> str:
    """The parts that fit, whole; a table or list is cut between its rows."""
    text = ""
    for part in parts:
        if len(text) + len(part) > LONGEST - len(BEGIN_CUT):
            return text + BEGIN_CUT
        text += part
    return text


class Api:
    """GitHub's REST interface for one repository; the token goes to it alone, never to where it redirects."""

    def __init__(self, address: str, repository: str, token: str) -> None:
        self._address, self._token = f"{address}/repos/{repository}", token

    def __call__(self, method: str, path: str, body: object = None) -> Any:
        content = self.raw(method, path, body)
        return json.loads(content) if content else None

    def raw(self, method: str, path: str, body: object = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._address}/{path}", data, method=method)  # noqa: S310
        request.add_header("Accept", "application/vnd.github+json")
        request.add_header("X-GitHub-Api-Version", "2022-11-28")
        request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310  (an address of the runner's own settings)
            content: bytes = answer.read()
        return content


def gathered(api: Api, run: str) -> dict[str, dict[str, Any]]:
    """By runner the verdict files that the run's artifacts hold."""
    found = {}
    for artifact in api("GET", f"actions/runs/{run}/artifacts?per_page=100")["artifacts"]:
        name = str(artifact["name"])
        if name.startswith("gate-") and not artifact["expired"] and artifact["size_in_bytes"] <= LONGEST_FILE:
            found[name.removeprefix("gate-")] = from_artifact(
                api.raw("GET", f"actions/artifacts/{int(artifact['id'])}/zip")
            )
    return found


def post(api: Api, number: str, text: str) -> None:
    """Write the comment, or rewrite the one with the marker that this job wrote before."""
    page = 1
    while comments := api("GET", f"issues/{number}/comments?per_page=100&page={page}"):
        for comment in comments:
            if comment["user"]["type"] == "Bot" and str(comment["body"]).startswith(MARKER):
                api("PATCH", f"issues/comments/{int(comment['id'])}", {"body": text})
                return
        page += 1
    api("POST", f"issues/{number}/comments", {"body": text})


def notify(address: str, document: Mapping[str, object]) -> None:
    """POST the document as JSON to an https address."""
    if not address.startswith("https://"):
        raise ValueError("PEAKGATE_WEBHOOK: expected an address that begins with https://")
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(address, json.dumps(document).encode(), headers, method="POST")  # noqa: S310
    with urllib.request.urlopen(request, timeout=30):  # noqa: S310
        pass


def main(environment: Mapping[str, str]) -> int:
    """Post the results of the run that the event names; 0 too where it belongs to no pull request."""
    names = ("EVENT", "NUMBER", "TITLE", "COMMIT")
    asked = pull_request(*(environment.get(name, "") for name in names))
    if asked is None:
        sys.stdout.write("the run belongs to no pull request: nothing to post\n")
        return 0
    number, commit = asked
    run, url = environment["RUN"], environment["URL"]
    if not NUMBER.fullmatch(run) and not re.fullmatch(r"\d{1,20}", run):
        sys.stdout.write(f"::error::RUN: expected a run's number, not {plain(run)[:50]}\n")
        return 2
    repository = environment["GITHUB_REPOSITORY"]
    api = Api(environment.get("GITHUB_API_URL", "https://api.github.com"), repository, environment["GITHUB_TOKEN"])
    try:
        verdicts = gathered(api, run)
        post(api, number, render(verdicts, commit, url))
        api("POST", "check-runs", check_run(verdicts, commit, url))
        if hook := environment.get("PEAKGATE_WEBHOOK"):
            code = overall(verdicts)
            facts = {"repository": repository, "pull_request": int(number), "commit": commit, "url": url}
            notify(hook, facts | {"exit_code": code, "verdict": MEANINGS[code]})
    except (urllib.error.URLError, ValueError, KeyError, TypeError) as error:
        sys.stdout.write(f"::error::the results could not be posted: {plain(error)[:300]}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(os.environ))
