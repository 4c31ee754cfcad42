"""The REST interfaces of GitHub and GitLab as far as `peakgate.review` uses them: a server on this machine."""

from __future__ import annotations

import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

REPOSITORY = "us/kernels"
TOKEN = "a-token-of-the-job"
JUDGE = f"{REPOSITORY}/.github/workflows/judge.yml@refs/heads/main"
AUTHOR = "github-actions[bot]"
"""Whose comments the token writes, and may rewrite."""
PROJECT, BOT = 42, 7
"""GitLab's numbers of the project and of the user whose token it is."""


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
    """The repository's state; ``refused`` are requests without the token."""

    address: str = ""
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
    expired: bool = False
    """Of its artifacts."""
    called: tuple[str, ...] = (JUDGE,)
    jobs: list[dict[str, Any]] | None = None
    """The run's jobs; None: the judge's, which ended as its verdict says."""
    checks: list[dict[str, Any]] = field(default_factory=list)
    started: list[dict[str, Any]] = field(default_factory=list)
    refused: int = 0

    def permits(self, path: str, headers: Message) -> str | None:
        """What is asked of the repository; None of a request that is refused."""
        own = path.removeprefix(f"/repos/{REPOSITORY}/")
        return own if own != path and headers.get("Authorization") == f"Bearer {TOKEN}" else None

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Status and content of one request."""
        kept = [*self.earlier.items(), *self.artifacts.items()]
        found: tuple[int, Any] = 404, {}
        match method, path.partition("?")[0].split("/"):
            case "GET", ["actions", "runs", _]:
                found = 200, {"referenced_workflows": [{"path": each} for each in self.called]}
            case "GET", ["actions", "runs", _, "artifacts"]:
                entries = [
                    {"id": at, "name": name, "expired": self.expired, "size_in_bytes": len(content)}
                    | {"created_at": f"2026-11-28T20:{at:02d}:00Z"}
                    for at, (name, content) in enumerate(kept)
                ]
                found = 200, {"artifacts": entries[:: -1 if self.newest_first else 1]}
            case "GET", ["actions", "runs", _, "jobs"]:
                first = 100 * (int(path.rpartition("=")[2]) - 1)
                checks = f"https://api.github.com/repos/{REPOSITORY}/check-runs"
                jobs = [{"check_run_url": f"{checks}/{at}", **each} for at, each in enumerate(self._jobs())]
                found = 200, {"jobs": jobs[first : first + 100]}
            case "GET", ["actions", "artifacts", number, "zip"]:
                found = 200, kept[int(number)][1]
            case "GET", ["issues", _, "comments"]:
                first = 100 * (int(path.rpartition("=")[2]) - 1)
                found = 200, self.comments[first : first + 100]
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
                commits = [{"sha": each} for each in self.commits] if path.endswith("&page=1") else []
                found = 200, commits if part else {"head": {"sha": self.head}}
            case "POST", ["actions", "workflows", "gate.yml", "dispatches"]:
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
    """One project: merge requests' pipelines and notes by number, a pipeline's jobs, a job's artifact."""

    address: str = ""
    pipelines: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    jobs: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    artifacts: dict[int, bytes] = field(default_factory=dict)
    elsewhere: str = ""
    """Where artifacts are, if not here."""
    notes: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    """What the requests of a method end with, in place of what they asked for."""
    asked: list[str] = field(default_factory=list)
    refused: int = 0

    def permits(self, path: str, headers: Message) -> str | None:
        """What is asked of the interface; None of a request that is refused."""
        return path.removeprefix("/") if headers.get("PRIVATE-TOKEN") == TOKEN else None

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Status and content of one request."""
        self.asked.append(f"{method} {path}")
        if method in self.statuses:
            return self.statuses[method], {}
        parts = path.partition("?")[0].removeprefix(f"projects/{PROJECT}/").split("/")
        found: tuple[int, Any] = 404, {}
        match method, parts:
            case "GET", ["user"]:
                found = 200, {"id": BOT}
            case "GET", ["merge_requests"]:
                found = 200, [{"iid": number} for number in self.pipelines]
            case "GET", ["merge_requests", number, "pipelines"]:
                found = 200, self.pipelines[int(number)]
            case "GET", ["pipelines", number, "jobs"]:
                found = 200, self.jobs[int(number)]
            case "GET", ["jobs", _, "artifacts"] if self.elsewhere:
                found = 302, self.elsewhere.encode()
            case "GET", ["jobs", number, "artifacts"] if int(number) in self.artifacts:
                found = 200, self.artifacts[int(number)]
            case "GET", ["merge_requests", number, "notes"]:
                first = 100 * (int(path.rpartition("=")[2]) - 1)
                found = 200, self.notes.get(int(number), [])[first : first + 100]
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


Hub = TypeVar("Hub", GitHub, GitLab)


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """The interface at ``address`` for the length of the block."""

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            path = hub.permits(self.path, self.headers)
            if path is None:
                hub.refused += 1
                status, content = 403, b"{}"
            else:
                status, answer = hub.answer(self.command, path, body)
                content = (
                    answer if isinstance(answer, bytes) else b"" if answer is None else json.dumps(answer).encode()
                )
            self.send_response(status)
            if status == 302:
                self.send_header("Location", content.decode())
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_PUT = _any  # noqa: N815

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
