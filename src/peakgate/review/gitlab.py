"""``peakgate comment``: one note on each open merge request with what its newest gate found, kept up to date.

It runs in a pipeline of a protected branch, the only kind that has a protected token, and neither checks out nor runs
anything of a change. Which pipeline and which commit a merge request's gate ran for is what GitLab's interface says.
From the artifact of that job it takes the verdict files, which the change could have written (`render`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from peakgate.base.errors import Code, PeakgateError, described
from peakgate.base.text import one_line, say
from peakgate.base.verdict import ExitCode
from peakgate.review import comment
from peakgate.review.comment import Rest, RestError, notify
from peakgate.runfile.options import verb_parser

TOKEN = "PEAKGATE_TOKEN"
PREDEFINED = ("CI_API_V4_URL", "CI_PROJECT_ID", "CI_PROJECT_PATH")
ENDED = ("success", "failed", "canceled")
MOST_PAGES, PAGE = 100, 100
MOST_PIPELINES = 20


def main(verb: str, arguments: Sequence[str]) -> int:
    """Bring the notes up to date; 2 where one could not be written."""
    parser = verb_parser(
        verb,
        "Write what the gate found as one note on the merge request; for a GitLab job of a protected branch. The "
        f"variable {TOKEN} holds a project access token (role Reporter, scope api).",
    )
    parser.add_argument(
        "--merge-request",
        default=os.environ.get("CI_MERGE_REQUEST_IID"),
        metavar="NUMBER",
        help="only this one (default: $CI_MERGE_REQUEST_IID, or every open one where that is not set)",
    )
    parser.add_argument("--job", default="peakgate", help="name of the job that runs the gate (default: %(default)s)")
    parser.add_argument(
        "--folder",
        default=".peakgate/out",
        help="where its artifacts have bench.json and ab.json (default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    number = options.merge_request
    if number is not None and not comment.NUMBER.fullmatch(number):
        raise PeakgateError(
            f"--merge-request {one_line(number)}: expected its number, the one after the !", Code.OPTION
        )
    project = GitlabProject(os.environ, options.job, options.folder)
    try:
        numbers = [int(number)] if number else project.open_merge_requests()
    except RestError as error:
        raise PeakgateError(
            f"peakgate comment: the open merge requests cannot be listed: {error}", Code.UPSTREAM
        ) from None
    failed = False
    for wanted in numbers:
        try:
            said = project.bring_up_to_date(wanted)
        except RestError as error:
            failed, said = True, f"not written: {error}"
        except Exception as error:  # what one change left must not stop the notes of others
            failed, said = True, f"not written: {described(error)}"
        say(f"merge request {wanted}: {said}")
    return ExitCode.BAD_INPUT if failed else ExitCode.OK


class GitlabProject:
    """One project's merge requests, by GitLab's REST interface."""

    def __init__(self, environment: Mapping[str, str], job: str, folder: str) -> None:
        token, missing = environment.get(TOKEN, "").strip(), [name for name in PREDEFINED if name not in environment]
        if missing:
            raise PeakgateError(
                f"peakgate comment: is for a GitLab job; {', '.join(missing)} is not set", Code.UPSTREAM
            )
        if environment.get("CI_COMMIT_REF_PROTECTED") != "true" or not token:
            raise PeakgateError(
                "peakgate comment: needs a pipeline of a protected branch (CI_COMMIT_REF_PROTECTED is true) and, as a "
                f"protected variable of the project, the token {TOKEN}; see `peakgate help comments`",
                Code.UPSTREAM,
            )
        self._api = Rest(environment["CI_API_V4_URL"], ("PRIVATE-TOKEN", token))
        self._project = environment["CI_PROJECT_ID"]
        self._path = environment["CI_PROJECT_PATH"]
        self._hook = environment.get("PEAKGATE_WEBHOOK")
        self._job, self._folder = job, folder

    def open_merge_requests(self) -> list[int]:
        """Their numbers, the one that was changed last first."""
        listed = self._all("merge_requests?state=opened&order_by=updated_at")
        return [_field(each, "iid", int) for each in listed]

    def bring_up_to_date(self, number: int) -> str:
        """Write or rewrite the note of one merge request; what was done, in words."""
        found = self._newest_gate(number)
        if found is None:
            return f"no job {self._job} has ended"
        pipeline, jobs, newest = found
        # The note names the jobs it is of: as long as they are the newest, nothing is read or written again.
        stamp = f"<!-- peakgate: jobs {' '.join(str(_field(each, 'id', int)) for each in jobs)} -->"
        note = self._own_note(number)
        if note is not None and _field(note, "body", str).rstrip().endswith(stamp):
            return "up to date"
        commit, url = _field(pipeline, "sha", str), _field(pipeline, "web_url", str)
        if note is not None and commit != newest and f"\n\nCommit {newest}, " in _field(note, "body", str):
            return "the newest commit is judged again"  # what an earlier one ended with says nothing of it
        verdicts = {_field(each, "name", str): self._verdicts(each, commit) for each in jobs}
        if not comment.COMMIT.fullmatch(commit) or not re.fullmatch(r"https?://[^\s()<>\\]+", url):
            raise RestError("its pipeline has no commit or no address")
        body = {"body": f"{comment.render(verdicts, commit, url)}\n{stamp}\n"}
        notes = f"{self._of_project}/merge_requests/{number}/notes"
        if note is None:
            self._api("POST", notes, body)
        else:
            self._api("PUT", f"{notes}/{_field(note, 'id', int)}", body)
        code = comment.overall(verdicts)
        if self._hook:
            facts = {"repository": self._path, "merge_request": number, "commit": commit, "url": url}
            notify(self._hook, facts, code)
        return comment.MEANINGS[code]

    @property
    def _of_project(self) -> str:
        return f"projects/{self._project}"

    @cached_property
    def _user(self) -> int:
        number: int = _field(self._api("GET", "user"), "id", int)
        return number

    def _newest_gate(self, number: int) -> tuple[dict[str, Any], list[dict[str, Any]], str] | None:
        """The newest pipeline of the merge request in this project whose gate jobs have all ended, and those jobs.

        Last is the commit of the newest pipeline. The jobs of a fork's pipeline are the fork's, and are not looked at.
        """
        listed = self._api("GET", f"{self._of_project}/merge_requests/{number}/pipelines?per_page={MOST_PIPELINES}")
        newest = ""
        for pipeline in _listed(listed):
            if str(pipeline.get("project_id", self._project)) != self._project:
                continue
            newest = newest or _field(pipeline, "sha", str)
            jobs = self._all(f"pipelines/{_field(pipeline, 'id', int)}/jobs")
            # Of several runners: `gate: [nvidia-h200]`, `gate 1/2`.
            gate = [each for each in jobs if re.split(r"[: ]", _field(each, "name", str))[0] == self._job]
            if gate and all(each.get("status") in ENDED for each in gate):
                return pipeline, sorted(gate, key=lambda each: _field(each, "id", int)), newest
        return None

    def _verdicts(self, job: Mapping[str, Any], commit: str) -> Mapping[str, Any]:
        """The verdict files of one job, none where it left no artifact, or one that is too large or has expired."""
        file = job.get("artifacts_file")
        size = file.get("size") if isinstance(file, dict) else None
        if type(size) is not int or size > comment.LONGEST_FILE:
            return {}
        try:
            content = self._api.raw("GET", f"{self._of_project}/jobs/{_field(job, 'id', int)}/artifacts")
        except RestError as error:
            if error.status == 404:
                return {}
            raise
        succeeded = job.get("status") == "success"
        return comment.confirmed(comment.from_artifact(content, self._folder, commit), succeeded=succeeded)

    def _own_note(self, number: int) -> dict[str, Any] | None:
        """The note with the marker that the token's own user wrote: anybody can write the marker."""
        for note in self._all(f"merge_requests/{number}/notes?sort=asc"):
            author = note.get("author")
            if (
                isinstance(author, dict)
                and author.get("id") == self._user
                and _field(note, "body", str).startswith(comment.COMMENT_MARKER)
            ):
                return note
        return None

    def _all(self, path: str) -> list[dict[str, Any]]:
        """The entries of every page of a list."""
        found: list[dict[str, Any]] = []
        joined = "&" if "?" in path else "?"
        for page in range(1, MOST_PAGES + 1):
            entries = _listed(self._api("GET", f"{self._of_project}/{path}{joined}per_page={PAGE}&page={page}"))
            found += entries
            if len(entries) < PAGE:
                break
        return found


def _listed(answer: Any) -> list[dict[str, Any]]:
    if not isinstance(answer, list) or not all(isinstance(each, dict) for each in answer):
        raise RestError("the response is not a list of entries")
    return answer


def _field(entry: Any, name: str, kind: type[Any]) -> Any:
    value = entry.get(name) if isinstance(entry, dict) else None
    if type(value) is not kind:
        raise RestError(f"the response lacks {name}")
    return value
