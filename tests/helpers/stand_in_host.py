"""What stands in for `gh` and `glab` in the jobs of a workflow, and the host that they ask: an object of the test.

The programs send their arguments and their token to the test's process. There they are taken as far as the workflows
use them, by their documented names alone, and what the host says is given as the real programs give it, in pages.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, field
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any, NoReturn
from urllib.parse import parse_qs

import pytest

REPOSITORY = "us/kernels"
TOKEN = "a-token-of-the-job"
JUDGE = f"{REPOSITORY}/.github/workflows/judge.yml@refs/heads/main"
AUTHOR = "github-actions[bot]"
"""Whose comments the token writes, and may rewrite."""
PROJECT, BOT = 42, 7
"""GitLab's numbers of the project and of the user whose token it is."""
PORT = "STAND_IN_HOST"
"""Variable that has the port of the test's process."""
needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq")
TOKENS = {"gh": "GH_TOKEN", "glab": "GITLAB_TOKEN"}
PROGRAM = r"""#!/usr/bin/env bash
exec 3<> "/dev/tcp/127.0.0.1/${port}"
printf '%s\0' "$#" "{name}" "${token}" "$GH_REPO" "$@" >&3
read -r code error <&3
cat <&3
[ -z "$error" ] || echo "$error" >&2
exit "$code"
"""
"""In the shell: a job asks ten times, and Python would start for longer than all else takes."""


def artifact(files: Mapping[str, Any]) -> bytes:
    """A zip of verdict files as upload-artifact makes it; bytes are taken as they are, all else becomes JSON."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, document in files.items():
            archive.writestr(name, document if isinstance(document, bytes) else json.dumps(document))
    return content.getvalue()


def judged(files: Mapping[str, Any], folder: str, commit: str) -> dict[str, bytes]:
    """Verdict files as a gate leaves them in a folder: with its own, which has the digests of the others."""
    texts = {name: json.dumps(document).encode() for name, document in files.items()}
    digests = {f"{name}.json": hashlib.sha256(text).hexdigest() for name, text in texts.items()}
    worst = max((document["exit_code"] for document in files.values()), key=[0, 3, 2, 1].index)
    texts["gate"] = json.dumps({"exit_code": worst, "head": commit, "files": digests}).encode()
    return {f"{folder}{name}.json": text for name, text in texts.items()}


@dataclass
class GitHub:
    """The repository's state, and what was asked of it."""

    asked: list[str] = field(default_factory=list)
    """Method and path of each request, in order."""
    refuses: str = ""
    """The HTTP method that it refuses, from every client."""
    artifacts: dict[str, bytes] = field(default_factory=dict)
    earlier: dict[str, bytes] = field(default_factory=dict)
    """Artifacts of an attempt before."""
    stated: dict[str, list[str]] | None = None
    """By artifact the digests of gate.json that the judge's job states; None: that of the artifact itself."""
    newest_first: bool = True
    """The order in which artifacts are listed."""
    comments: list[dict[str, Any]] = field(default_factory=list)
    permissions: dict[str, str] = field(default_factory=dict)
    commits: list[str] = field(default_factory=list)
    head: str = "c" * 40
    """The commit that each pull request is at."""
    comes_from: str = REPOSITORY
    """The repository of each pull request's branch."""
    expired: bool = False
    """Of its artifacts."""
    size: int = 0
    """Of each artifact as it is listed; 0: its own."""
    called: tuple[str, ...] = (JUDGE,)
    jobs: list[dict[str, Any]] | None = None
    """The run's jobs; None: the judge's, which ended as its verdict says."""
    checks: list[dict[str, Any]] = field(default_factory=list)
    started: list[dict[str, Any]] = field(default_factory=list)

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Status and content of one request, a list as a whole."""
        kept = [*self.earlier.items(), *self.artifacts.items()]
        found: tuple[int, Any] = 404, {}
        match method, path.removeprefix(f"repos/{REPOSITORY}/").split("/"):
            case "GET", ["actions", "runs", _]:
                found = 200, {"referenced_workflows": [{"path": each} for each in self.called]}
            case "GET", ["actions", "runs", _, "artifacts"]:
                entries = [
                    {"id": at, "name": name, "expired": self.expired, "size_in_bytes": self.size or len(content)}
                    | {"created_at": f"2026-11-28T20:{at:02d}:00Z"}
                    for at, (name, content) in enumerate(kept)
                ]
                found = 200, {"artifacts": entries[:: -1 if self.newest_first else 1]}
            case "GET", ["actions", "runs", _, "jobs"]:
                checks = f"https://api.github.com/repos/{REPOSITORY}/check-runs"
                jobs = [{"check_run_url": f"{checks}/{at}", **each} for at, each in enumerate(self._jobs())]
                found = 200, {"jobs": jobs}
            case "GET", ["actions", "artifacts", number, "zip"]:
                found = 200, kept[int(number)][1]
            case "GET", ["issues", _, "comments"]:
                found = 200, self.comments
            case "POST", ["issues", number, "comments"]:
                self.comments.append(comment(len(self.comments), body["body"]) | {"issue": number})
                found = 201, {}
            case "PATCH", ["issues", "comments", number]:
                found = self._rewritten(self.comments[int(number)], body["body"]), {}
            case "POST", ["check-runs"]:
                self.checks.append(body)
                found = 201, {}
            case "GET", ["collaborators", author, "permission"]:
                found = 200, {"permission": self.permissions.get(author, "read")}
            case "GET", ["check-runs", number, "annotations"]:
                found = 200, self._annotations(int(number))
            case "GET", ["pulls", _, *part]:
                commits = [{"sha": each} for each in self.commits]
                found = 200, commits if part else {"head": {"sha": self.head, "repo": {"full_name": self.comes_from}}}
            case "POST", ["actions", "workflows", ("gate.yml" | "peakgate.yml"), "dispatches"]:
                self.started.append(body)
                found = 204, None
        return found

    @staticmethod
    def _rewritten(written: dict[str, Any], text: str) -> int:
        if written["user"]["login"] != AUTHOR:
            return 403
        written["body"] = text
        return 200

    def _jobs(self) -> list[dict[str, Any]]:
        return [job(name) for name in self.artifacts] if self.jobs is None else self.jobs

    def _annotations(self, number: int) -> list[dict[str, Any]]:
        """Of one job: what verdict.py writes."""
        name = str(self._jobs()[number]["name"]).rpartition(" / judge (")[2]
        artifact = f"gate-{name.removesuffix(')')}"
        if self.stated is not None:
            digests = self.stated.get(artifact, [])
        else:
            digests = [_digest(self.artifacts[artifact])] if artifact in self.artifacts else []
        said = [
            ("Peakgate: pass", "gate: exit code 0"),
            *(("Peakgate: SHA-256 of gate.json", each) for each in digests),
        ]
        return [{"title": title, "message": message, "annotation_level": "notice"} for title, message in said]


def _digest(artifact: bytes) -> str:
    """SHA-256 of the gate.json in it."""
    with zipfile.ZipFile(io.BytesIO(artifact)) as archive:
        return hashlib.sha256(archive.read("gate.json")).hexdigest()


def job(artifact: str, conclusion: str = "success", caller: str = "gate", **more: Any) -> dict[str, Any]:
    """The judge's job that uploads an artifact, as the interface lists it."""
    runner = artifact.removeprefix("gate-")
    labels = ["self-hosted", "gpu", runner]
    return {"name": f"{caller} / judge ({runner})", "conclusion": conclusion, "labels": labels, **more}


def comment(number: int, body: str, author: str = AUTHOR) -> dict[str, Any]:
    return {"id": number, "body": body, "user": {"login": author}}


@dataclass
class GitLab:
    """One project: merge requests' newest pipelines and notes by number, a pipeline's jobs, a job's artifact."""

    asked: list[str] = field(default_factory=list)
    refuses: str = ""
    """The HTTP method that it refuses, from every client."""
    pipelines: dict[int, dict[str, Any] | None] = field(default_factory=dict)
    jobs: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    artifacts: dict[int, bytes] = field(default_factory=dict)
    notes: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    locked: set[int] = field(default_factory=set)
    """Merge requests that take no notes."""

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Status and content of one request, a list as a whole."""
        found: tuple[int, Any] = 404, {}
        match method, path.removeprefix(f"projects/{PROJECT}/").split("/"):
            case "GET", ["user"]:
                found = 200, {"id": BOT}
            case "GET", ["merge_requests"]:
                found = 200, [{"iid": number} for number in self.pipelines]
            case "GET", ["merge_requests", number]:
                found = 200, {"iid": int(number), "head_pipeline": self.pipelines[int(number)]}
            case "GET", ["pipelines", number, "jobs"]:
                found = 200, self.jobs[int(number)]
            case "GET", ["jobs", number, "artifacts"] if int(number) in self.artifacts:
                found = 200, self.artifacts[int(number)]
            case "GET", ["merge_requests", number, "notes"]:
                found = 200, self.notes.get(int(number), [])
            case (("POST" | "PUT"), ["merge_requests", number, *_]) if int(number) in self.locked:
                found = 403, {}
            case "POST", ["merge_requests", number, "notes"]:
                notes = self.notes.setdefault(int(number), [])
                notes.append(note(len(notes), body["body"]))
                found = 201, {}
            case "PUT", ["merge_requests", number, "notes", which]:
                self.notes[int(number)][int(which)]["body"] = body["body"]
                found = 200, {}
        return found


def note(number: int, body: str, author: int = BOT) -> dict[str, Any]:
    return {"id": number, "body": body, "author": {"id": author}}


def install(name: str, folder: Path) -> None:
    """Put a program of this name, `gh` or `glab`, into a folder."""
    (folder / name).write_text(PROGRAM.format(port=PORT, name=name, token=TOKENS[name]))
    (folder / name).chmod(0o755)


@contextmanager
def answering(hub: GitHub | GitLab) -> Iterator[dict[str, str]]:
    """The variables by which the programs find the host while the block runs."""

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            name, token, repository, *arguments = (self._text() for _ in range(int(self._text()) + 3))
            error = io.StringIO()
            with redirect_stderr(error):
                code, output = called(hub, name, repository, arguments) if token == TOKEN else (4, b"")
            self.wfile.write(f"{code} {' '.join(error.getvalue().split())}\n".encode() + output)

        def _text(self) -> str:
            """The next that the program sends, up to a zero byte."""
            return b"".join(iter(lambda: self.rfile.read(1), b"\0")).decode()

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield {PORT: str(server.server_address[1])}
        finally:
            server.shutdown()
            thread.join()


class Parser(argparse.ArgumentParser):
    """Of one program's options, none of them abbreviated."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def called(hub: GitHub | GitLab, name: str, repository: str, arguments: list[str]) -> tuple[int, bytes]:
    """Exit code and output of `gh api`, `gh workflow run` or `glab api`."""
    parser = Parser(allow_abbrev=False)
    verb, *given = arguments
    if [verb, *given[:1]] == ["workflow", "run"] and name == "gh":
        parser.add_argument("workflow")
        parser.add_argument("--ref", required=True)
        parser.add_argument("--raw-field", action="append", default=[])
        options = parser.parse_args(given[1:])
        path = f"repos/{repository}/actions/workflows/{options.workflow}/dispatches"
        inputs = dict(each.split("=", 1) for each in options.raw_field)
        return asked(hub, "POST", path, {"ref": options.ref, "inputs": inputs})[0], b""
    assert verb == "api"
    parser.add_argument("endpoint")
    parser.add_argument("--method")
    parser.add_argument("--paginate", action="store_true")
    parser.add_argument("--input", type=Path)
    if name == "gh":
        for option in ("--slurp", "--silent"):
            parser.add_argument(option, action="store_true")
        parser.add_argument("--jq")
        parser.add_argument("--raw-field", action="append", default=[])
    else:
        parser.add_argument("--header", choices=["Content-Type: application/json"])
    options = argparse.Namespace(slurp=False, silent=False, jq=None, raw_field=[])
    parser.parse_args(given, options)
    body: Any = dict(each.split("=", 1) for each in options.raw_field) or None
    if options.input:
        body = json.loads(options.input.read_bytes())
        assert name == "gh" or options.header, "GitLab reads a body by its type alone"
    assert not (options.slurp and options.jq), "gh refuses the two together"
    path, _, query = options.endpoint.partition("?")
    code, content = asked(hub, options.method or ("POST" if body else "GET"), path, body)
    if code or options.silent:
        return code, b""
    if isinstance(content, bytes):
        return code, content
    listed = pages(content, parse_qs(query).get("per_page"))[: None if options.paginate else 1]
    texts = [json.dumps(each).encode() for each in ([listed] if options.slurp else listed)]
    if options.jq:  # which gh has built in; texts are printed as they are
        command = ["jq", "--raw-output", options.jq]
        texts = [subprocess.run(command, input=text, stdout=subprocess.PIPE, check=True).stdout for text in texts]
    return code, b"".join(texts)


def asked(hub: GitHub | GitLab, method: str, path: str, body: Any) -> tuple[int, Any]:
    """Exit code and content of one request."""
    hub.asked.append(f"{method} {path}")
    status, content = hub.answer(method, path, body) if method != hub.refuses else (403, {})
    if status >= 400:
        sys.stderr.write(f"{method} {path} (HTTP {status})\n")
    return int(status >= 400), content


def pages(content: Any, size: list[str] | None) -> list[Any]:
    """A list, or the only list of an object, in pages of the size that is asked for."""
    if size is None:
        return [content]
    if isinstance(content, dict):
        ((key, entries),) = content.items()
        return [{key: each} for each in pages(entries, size)]
    step = int(size[0])
    return [content[at : at + step] for at in range(0, len(content), step)] or [[]]
