"""Post what a gate found: one comment on the pull request, a check with annotations, and a webhook where one is set.

Run by comment.yml, which alone may write, with the standard library alone. It runs no code of the change: from the
gate's run it takes the verdict files, which the change could have written; `src/peakgate/review/comment.py` of the same
checkout makes the comment of them.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from peakgate.review.comment import (
    COMMENT_MARKER,
    COMMIT,
    LONGEST_FILE,
    NUMBER,
    Rest,
    RestError,
    check_run,
    confirmed,
    from_artifact,
    notify,
    overall,
    plain,
    render,
)

ASKED_FOR = re.compile(r"gate of #([1-9]\d{0,8}) at ([0-9a-f]{40})")
JOB = re.compile(r".+ / judge \(([^()]+)\)")
LABELS = {"self-hosted", "gpu"}
"""Of the judge's job in judge.yml, beside its runner's own."""
ARTIFACT = "gate-"
MOST_PAGES = 10
DIGEST_TITLE = "Peakgate: SHA-256 of gate.json"
"""Of the annotation in which the last step of the judge's job, verdict.py, states it."""
AUTHOR = "github-actions[bot]"
"""Whose comments the job's token writes."""
SPEAKS_OF = re.compile(r"^Commit ([0-9a-f]{40})\b", re.MULTILINE)
"""Of a comment of ours, found in its third line."""
FOLDER = ""
"""Where a gate's artifact has its verdict files."""


def interface(environment: Mapping[str, str]) -> Rest:
    """GitHub's REST interface for this repository."""
    address = environment.get("GITHUB_API_URL", "https://api.github.com")
    headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
    secret = "Authorization", f"Bearer {environment['GITHUB_TOKEN']}"
    return Rest(f"{address}/repos/{environment['GITHUB_REPOSITORY']}", secret, headers)


def pull_request(environment: Mapping[str, str]) -> tuple[str, str] | None:
    """The pull request's number and the commit that was judged, from the event; None where it names none.

    The title of a run that a person with write permission started by hand names both, where the run was the default
    branch's: elsewhere the workflow that makes the title may be anybody's. That of a pull request is its author's, and
    is not read.
    """
    event, number, title, commit, branch, default_branch = (
        environment.get(name, "") for name in ("EVENT", "NUMBER", "TITLE", "COMMIT", "BRANCH", "DEFAULT_BRANCH")
    )
    if event == "workflow_dispatch" and branch == default_branch != "" and (asked := ASKED_FOR.fullmatch(title)):
        return asked[1], asked[2]
    if event == "pull_request" and NUMBER.fullmatch(number) and COMMIT.fullmatch(commit):
        return number, commit
    return None


def expected(text: str) -> list[str]:
    """The runners that judge.yml has a job for each of: the repository variable PEAKGATE_RUNNERS, as JSON."""
    runners = json.loads(text)
    if not isinstance(runners, list) or not all(isinstance(each, str) and each for each in runners):
        raise ValueError('PEAKGATE_RUNNERS: expected a JSON list of labels, like ["nvidia-h200"]')
    return runners


class Judge(NamedTuple):
    """What the interface says of the judge's job on one runner, which no other job of the run can write."""

    succeeded: bool
    """And so did all jobs of its name."""
    digest: str | None
    """SHA-256 of the gate.json that it left, as it states it; None where that is not one job's one statement."""


def gathered(api: Rest, run: str, commit: str, judge: str, runners: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """By runner the verdict files on this commit that the judge's job left; none unless the run called ``judge``.

    The change's own workflow can upload what it likes, also under the name of the judge's artifact, and have jobs of
    any name: a pass is one where the judge's job, and all that have its name, succeeded, and the artifact is the one
    whose gate.json that job states by its digest. Without a statement the runner has no verdict.
    """
    called = api("GET", f"actions/runs/{run}")["referenced_workflows"]
    if not any(each["path"] == judge for each in called):
        return {}
    listed = api("GET", f"actions/runs/{run}/artifacts?per_page=100")["artifacts"]
    # Each attempt of a run leaves its own, listed in no order that is promised: the newest is the latest attempt's.
    newest = {each["name"]: each for each in sorted(listed, key=lambda each: (each["created_at"], each["id"]))}
    found: dict[str, Mapping[str, Any]] = {}
    for runner, judge_job in judged(api, run, runners).items():
        found[runner] = {}
        artifact = newest.get(f"{ARTIFACT}{runner}")
        if artifact and judge_job.digest and not artifact["expired"] and artifact["size_in_bytes"] <= LONGEST_FILE:
            content = api.raw("GET", f"actions/artifacts/{int(artifact['id'])}/zip")
            files = from_artifact(content, FOLDER, commit, judge_job.digest)
            found[runner] = confirmed(files, succeeded=judge_job.succeeded)
    return found


def judged(api: Rest, run: str, runners: Sequence[str]) -> dict[str, Judge]:
    """By runner what the interface says of the judge's job there; none where the run has more jobs than can be read.

    The name of the judge's job ends as judge.yml has it, whoever calls it, and it asks for exactly the labels that
    judge.yml asks for: a job of the change's own on another machine is not the judge's, whatever stands in its name.
    """
    jobs: list[Any] = []
    for page in range(1, MOST_PAGES + 1):
        listed = api("GET", f"actions/runs/{run}/jobs?filter=latest&per_page=100&page={page}")["jobs"]
        jobs += listed
        if len(listed) < 100:
            break
    else:
        return {}
    named = [(match[1], job) for job in jobs if (match := JOB.fullmatch(str(job["name"])))]
    found = {}
    for runner in runners:
        same_name = [job for name, job in named if name == runner]
        own = [job for job in same_name if {*job["labels"]} == LABELS | {runner}]
        succeeded = bool(own) and all(job["conclusion"] == "success" for job in same_name)
        found[runner] = Judge(succeeded, digest=stated(api, own[0]) if len(own) == 1 else None)
    return found


def stated(api: Rest, job: Mapping[str, Any]) -> str | None:
    """The SHA-256 of gate.json in a job's annotations; None where there are two, of which another step wrote one."""
    check = int(str(job["check_run_url"]).rpartition("/")[2])
    annotations = api("GET", f"check-runs/{check}/annotations?per_page=100")
    digests = {str(each["message"]) for each in annotations if each["title"] == DIGEST_TITLE}
    return digests.pop() if len(digests) == 1 else None


def head_of(api: Rest, number: str) -> str:
    """The commit that the pull request's branch is at now."""
    return str(api("GET", f"pulls/{number}")["head"]["sha"])


def own_comments(api: Rest, number: str) -> list[Any]:
    """The comments that this job wrote before: one, unless two runs ended together."""
    found: list[Any] = []
    for page in count(1):
        comments = api("GET", f"issues/{number}/comments?per_page=100&page={page}")
        found += comments
        if len(comments) < 100:
            break
    return [each for each in found if each["user"]["login"] == AUTHOR and str(each["body"]).startswith(COMMENT_MARKER)]


def post(api: Rest, number: str, text: str) -> None:
    """Write the comment, or rewrite those of this job."""
    comments = own_comments(api, number)
    for each in comments:
        api("PATCH", f"issues/comments/{int(each['id'])}", {"body": text})
    if not comments:
        api("POST", f"issues/{number}/comments", {"body": text})


def withdraw(api: Rest, number: str) -> None:
    """Where there is a comment of another commit than the newest: say that this one has no verdict.

    Its gate may never post one: the workflow that starts it is the change's own.
    """
    commit = head_of(api, number)
    spoken_of = [SPEAKS_OF.search(str(each["body"])) for each in own_comments(api, number)]
    if any(found is None or found[1] != commit for found in spoken_of):
        post(api, number, f"{COMMENT_MARKER}\n## Peakgate: no verdict yet\n\nCommit {commit} is not judged.\n")


def main(environment: Mapping[str, str]) -> int:
    """Post the results of the run that the event names; 0 too where it belongs to no pull request.

    The check is its commit's; the comment is the pull request's, and that of its newest commit alone. A push has no
    results: the comment of an older commit goes.
    """
    pushed = environment["EVENT"] == "pull_request_target" and NUMBER.fullmatch(environment["NUMBER"])
    asked = pull_request(environment)
    if asked is None and not pushed:
        sys.stdout.write("the run belongs to no pull request: nothing to post\n")
        return 0
    try:
        api = interface(environment)
        if asked is None:
            withdraw(api, environment["NUMBER"])
        else:
            _post_results(api, *asked, environment)
    except (RestError, ValueError, KeyError, TypeError) as error:
        sys.stdout.write(f"::error::the results could not be posted: {plain(error)[:300]}\n")
        return 2
    return 0


def _post_results(api: Rest, number: str, commit: str, environment: Mapping[str, str]) -> None:
    run, url = environment["RUN"], environment["URL"]
    if not re.fullmatch(r"\d{1,20}", run):
        raise ValueError(f"RUN: expected a run's number, not {run[:50]}")
    verdicts = gathered(api, run, commit, environment["JUDGE"], expected(environment["PEAKGATE_RUNNERS"]))
    api("POST", "check-runs", check_run(verdicts, commit, url))
    if head_of(api, number) == commit:
        post(api, number, render(verdicts, commit, url))
    withdraw(api, number)  # of an older commit, whose gate this is, or after which a push came meanwhile
    if hook := environment.get("PEAKGATE_WEBHOOK"):
        facts = {
            "repository": environment["GITHUB_REPOSITORY"],
            "pull_request": int(number),
            "commit": commit,
            "url": url,
        }
        notify(hook, facts, overall(verdicts))


if __name__ == "__main__":
    sys.exit(main(os.environ))
