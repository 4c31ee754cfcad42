"""GitHub's REST interface as far as the scripts of .github/ use it: a server on this machine, with one repository."""

from __future__ import annotations

import io
import json
import re
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REPOSITORY = "us/kernels"
TOKEN = "a token of the job"


def artifact(files: Mapping[str, Any]) -> bytes:
    """A zip of verdict files as upload-artifact makes it; bytes are taken as they are, all else becomes JSON."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, document in files.items():
            archive.writestr(name, document if isinstance(document, bytes) else json.dumps(document))
    return content.getvalue()


@dataclass
class GitHub:
    """The repository's state; ``refused`` are requests without the token."""

    address: str = ""
    artifacts: dict[str, bytes] = field(default_factory=dict)
    comments: list[dict[str, Any]] = field(default_factory=list)
    permissions: dict[str, str] = field(default_factory=dict)
    commits: list[str] = field(default_factory=list)
    base: str = "b" * 40
    checks: list[dict[str, Any]] = field(default_factory=list)
    started: list[dict[str, Any]] = field(default_factory=list)
    refused: int = 0

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Status and content of one request."""
        listed = list(self.artifacts)
        found: tuple[int, Any] = 404, {}
        match method, path.partition("?")[0].split("/"):
            case "GET", ["actions", "runs", _, "artifacts"]:
                entries = [
                    {"id": at, "name": name, "expired": False, "size_in_bytes": len(self.artifacts[name])}
                    for at, name in enumerate(listed)
                ]
                found = 200, {"artifacts": entries}
            case "GET", ["actions", "artifacts", number, "zip"]:
                found = 200, self.artifacts[listed[int(number)]]
            case "GET", ["issues", _, "comments"]:
                found = 200, self.comments if path.endswith("&page=1") else []
            case "POST", ["issues", number, "comments"]:
                self.comments.append(comment(len(self.comments), body["body"]) | {"issue": number})
                found = 201, {}
            case "PATCH", ["issues", "comments", number]:
                self.comments[int(number)]["body"] = body["body"]
                found = 200, {}
            case "POST", ["check-runs"]:
                self.checks.append(body)
                found = 201, {}
            case "GET", ["collaborators", author, "permission"]:
                found = 200, {"permission": self.permissions.get(author, "read")}
            case "GET", ["pulls", _, "commits"]:
                found = 200, [{"sha": each} for each in self.commits] if path.endswith("&page=1") else []
            case "GET", ["pulls", _]:
                found = 200, {"base": {"sha": self.base}}
            case "POST", ["actions", "workflows", "gate.yml", "dispatches"]:
                self.started.append(body)
                found = 204, None
        return found


def comment(number: int, body: str, kind: str = "Bot") -> dict[str, Any]:
    return {"id": number, "body": body, "user": {"type": kind}}


@contextmanager
def serving(github: GitHub) -> Iterator[GitHub]:
    """The repository at ``address`` for the length of the block."""

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            path = re.sub(rf"^/repos/{REPOSITORY}/", "", self.path)
            if self.headers.get("Authorization") != f"Bearer {TOKEN}" or path == self.path:
                github.refused += 1
                status, content = 403, b"{}"
            else:
                status, answer = github.answer(self.command, path, body)
                content = (
                    answer if isinstance(answer, bytes) else b"" if answer is None else json.dumps(answer).encode()
                )
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = _any  # noqa: N815

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    github.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield github
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
