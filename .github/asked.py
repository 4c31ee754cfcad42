"""Start the gate for a commit that a ``/peakgate FULL_HASH`` comment asks for; standard library alone.

Run by asked.yml for every comment on a pull request. Whether its author may ask, and whether the commit is one of the
pull request's, is what GitHub's own interface says. The comment's text is used for the hash alone.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

from comment import NUMBER, Rest, RestError, interface, plain

COMMAND = re.compile(r"/peakgate ([0-9a-f]{40})\s*")
LOGIN = re.compile(r"[A-Za-z0-9_-]{1,39}")
"""GitHub's names; one of an enterprise with managed users ends in ``_`` and the enterprise's short code."""
MAY_ASK = ("admin", "write")
"""Permissions as the interface names them; it gives ``write`` for the role maintain too."""

MOST_PAGES = 3
"""GitHub lists at most 250 commits of a pull request."""


def asked(body: str) -> str | None:
    """The commit that a comment asks for: the command and the whole hash, and nothing besides; else None."""
    match = COMMAND.fullmatch(body)
    return match[1] if match else None


def refusal(api: Rest, number: str, author: str, commit: str) -> str | None:
    """Why the commit is not measured; None where it is."""
    permission = api("GET", f"collaborators/{author}/permission")["permission"]
    if permission not in MAY_ASK:
        return f"{author} has the permission {plain(permission)}, and asking for a run needs write"
    for page in range(1, MOST_PAGES + 1):
        listed = api("GET", f"pulls/{number}/commits?per_page=100&page={page}")
        if any(each["sha"] == commit for each in listed):
            return None
    return f"{commit} is no commit of pull request {number}"


def main(environment: Mapping[str, str]) -> int:
    """Start the gate; 1 where the comment's author may not ask or the commit is another's."""
    number, author = environment["NUMBER"], environment["AUTHOR"]
    commit = asked(environment["BODY"])
    if commit is None or not NUMBER.fullmatch(number) or not LOGIN.fullmatch(author):
        sys.stdout.write("::error::expected `/peakgate ` and a commit's 40 digits, nothing else\n")
        return 2
    api = interface(environment)
    try:
        if (why := refusal(api, number, author, commit)) is not None:
            sys.stdout.write(f"::error::{why}\n")
            return 1
        inputs = {"head": commit, "pull_request": number}
        api("POST", "actions/workflows/gate.yml/dispatches", {"ref": environment["BRANCH"], "inputs": inputs})
    except (RestError, ValueError, KeyError, TypeError) as error:
        sys.stdout.write(f"::error::the run could not be started: {plain(error)[:300]}\n")
        return 2
    sys.stdout.write(f"asked for a run of {commit}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(os.environ))
