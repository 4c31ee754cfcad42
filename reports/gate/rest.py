"""Requests to the REST interface of GitHub or GitLab, and to a webhook."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

LARGEST_ANSWER_BYTES = 64 << 20
ANSWER_TIMEOUT_S = 60.0


class RestError(Exception):
    """A request that was refused, not answered, or answered with something else; ``status`` is HTTP's, 0 without."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Rest:
    """An interface below one address. Its secret header goes to that address alone, never to where it redirects."""

    def __init__(self, address: str, secret: tuple[str, str], headers: Mapping[str, str] | None = None) -> None:
        self._address, self._secret, self._headers = address, secret, dict(headers or {})

    def __call__(self, method: str, path: str, body: object = None) -> Any:
        """Decoded JSON of the response, None if it is empty."""
        content = self.raw(method, path, body)
        try:
            return json.loads(content) if content else None
        except ValueError:
            raise RestError(f"{method} {path}: the response is not JSON") from None

    def raw(self, method: str, path: str, body: object = None) -> bytes:
        """The answer as it came, at most LARGEST_ANSWER_BYTES bytes."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._address}/{path}", data, self._headers, method=method)  # noqa: S310
        request.add_header("Content-Type", "application/json")
        request.add_unredirected_header(*self._secret)
        return _answer(request, f"{method} {path}")


def notify(address: str, document: Mapping[str, object]) -> None:
    """POST the document as JSON to an https address."""
    if not address.startswith("https://"):
        raise RestError("PEAKGATE_WEBHOOK: expected an address that begins with https://")
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(address, json.dumps(document).encode(), headers, method="POST")  # noqa: S310
    _answer(request, "PEAKGATE_WEBHOOK")  # which may be a secret: errors do not quote it


def _answer(request: urllib.request.Request, what: str) -> bytes:
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_TIMEOUT_S) as answer:  # noqa: S310  (an address of the job's settings)
            content: bytes = answer.read(LARGEST_ANSWER_BYTES + 1)
    except urllib.error.HTTPError as error:
        with error:
            raise RestError(f"{what}: HTTP error {error.code} {error.reason}", error.code) from None
    except ValueError:  # whose message quotes the secret
        raise RestError(f"{what}: the URL or the secret has invalid characters") from None
    except (OSError, http.client.HTTPException) as error:
        raise RestError(f"{what}: {getattr(error, 'reason', '') or error or type(error).__name__}") from None
    if len(content) > LARGEST_ANSWER_BYTES:
        raise RestError(f"{what}: the response is larger than {LARGEST_ANSWER_BYTES >> 20} MiB")
    return content
