"""Which verdict files of a gate's run are believed, and what is posted of them.

``python3 -m peakgate.review.believed HOST FOLDER ...`` stands between the calls of ``gh`` and ``glab`` in the jobs that
post: FOLDER has what they fetched, and gets what they send. The change could have written every artifact of its run:
none is unpacked, and it passes only where the host says that the judge's own job succeeded. This module imports the
standard library alone: GitHub's job runs it from a checkout without installing anything.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from peakgate.base.errors import Code, PeakgateError, described, refused
from peakgate.base.files import write_whole
from peakgate.base.verdict import ExitCode
from peakgate.review.comment import FILES, GATE, MEANINGS, Verdicts, check_run, overall, render

JOB = re.compile(r".+ / judge \(([^()]+)\)")
"""Name of the judge's job in judge.yml, which other workflows call."""
LABELS = {"self-hosted", "gpu"}
"""Of that job, beside its runner's own."""
DIGEST_TITLE = "Peakgate: SHA-256 of gate.json"
"""Of the annotation in which the last step of the judge's job, verdict.py, states it."""
LONGEST_FILE = 20 << 20
"""Of an artifact, and of one file in it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write body.json, the comment, check.json, GitHub's check, and verdict.json, for a webhook; 2 on bad input."""
    parser = argparse.ArgumentParser(prog="python3 -m peakgate.review.believed", description=__doc__.split("\n")[0])
    parser.add_argument("host", choices=("github", "gitlab"))
    parser.add_argument("folder", type=Path, help="what was fetched: jobs.json, ID.zip of each artifact, ...")
    parser.add_argument("--commit", required=True, help="the one that was judged: its 40 digits")
    parser.add_argument("--url", required=True, help="of the run")
    parser.add_argument("--judge", help="GitHub: path@ref of the workflow that judges")
    parser.add_argument("--runners", help="GitHub: JSON list of the labels of the judge's runners")
    parser.add_argument("--inside", default="", help="GitLab: where the artifact has its verdict files")
    options = parser.parse_args(arguments)
    folder, commit, url = options.folder, options.commit, options.url
    if not re.fullmatch(r"[0-9a-f]{40}", commit) or not re.fullmatch(r"https?://[^\s()<>\\]+", url):
        return refused(PeakgateError(f"{commit}, {url}: expected a commit's 40 digits and a URL", Code.OPTION))
    try:
        if options.host == "github":
            verdicts = on_github(folder, commit, options.judge, json.loads(options.runners))
        else:
            verdicts = on_gitlab(folder, commit, options.inside)
    except (OSError, ValueError, KeyError, TypeError) as error:
        return refused(PeakgateError(f"{folder}: what was fetched is not a run's: {described(error)}", Code.UPSTREAM))
    code = overall(verdicts)
    for name, document in {
        "body": {"body": render(verdicts, commit, url).rstrip()},
        "check": check_run(verdicts, commit, url),
        "verdict": {"commit": commit, "url": url, "exit_code": code, "verdict": MEANINGS[code]},
    }.items():
        write_whole(folder / f"{name}.json", json.dumps(document))
    return ExitCode.OK


def on_github(folder: Path, commit: str, judge: str, runners: Sequence[str]) -> Verdicts:
    """By runner the verdict files on this commit that the judge's job left; none unless the run called ``judge``.

    The change's own workflow can upload what it likes, also under the name of the judge's artifact, and have jobs of
    any name. The judge's job asks for exactly the labels that judge.yml asks for, and a pass is one where it, and all
    that have its name, succeeded, and the artifact is the one whose gate.json that job states by its digest.
    """
    if not isinstance(runners, list) or not all(isinstance(each, str) and each for each in runners):
        raise ValueError('--runners: expected a JSON list of labels, like ["nvidia-h200"]')
    if not any(each["path"] == judge for each in _read(folder / "run.json")["referenced_workflows"]):
        return {}
    jobs = [job for page in _read(folder / "jobs.json") for job in page["jobs"]]
    artifacts = [each for page in _read(folder / "artifacts.json") for each in page["artifacts"]]
    # Each attempt of a run leaves its own, listed in no order that is promised: the newest is the latest attempt's.
    newest = {each["name"]: each for each in sorted(artifacts, key=lambda each: (each["created_at"], each["id"]))}
    found: dict[str, Mapping[str, Any]] = {}
    for runner in runners:
        found[runner] = {}
        same_name = [job for job in jobs if (name := JOB.fullmatch(job["name"])) and name[1] == runner]
        own = [job for job in same_name if {*job["labels"]} == LABELS | {runner}]
        artifact = newest.get(f"gate-{runner}")
        if len(own) != 1 or artifact is None:
            continue
        annotations = _read(folder / f"check-{own[0]['check_run_url'].rpartition('/')[2]}.json")
        stated = {each["message"] for each in annotations if each["title"] == DIGEST_TITLE}
        if len(stated) == 1:  # of two, another step of the job wrote one
            files = from_artifact(folder / f"{artifact['id']}.zip", "", commit, *stated)
            succeeded = all(job["conclusion"] == "success" for job in same_name)
            found[runner] = confirmed(files, succeeded=succeeded)
    return found


def on_gitlab(folder: Path, commit: str, inside: str) -> Verdicts:
    """By job the verdict files on this commit that it left; none of one that left no artifact that was fetched."""
    return {
        job["name"]: confirmed(
            from_artifact(folder / f"{job['id']}.zip", inside, commit), succeeded=job["status"] == "success"
        )
        for job in _read(folder / "jobs.json")
    }


def from_artifact(artifact: Path | BinaryIO, inside: str, commit: str, stated: str | None = None) -> dict[str, Any]:
    """The verdict files that a gate's artifact, a zip, has in a folder; what is no JSON, or too large, is left out.

    None at all where the gate's verdict is of another commit, or the others are not the ones that it names by their
    digests; nor where its own SHA-256 is not the ``stated`` one, where another job could have left the artifact.
    Nothing is unpacked.
    """
    found: dict[str, Any] = {}
    digests: dict[str, str] = {}
    wanted = {f"{folder}{name}.json": name for folder in ("", f"{inside}/") for name in FILES}
    try:
        archive = zipfile.ZipFile(artifact)
    except Exception:  # none was fetched, or whatever a parser of damaged bytes raises: zlib.error, struct.error, ...
        return found
    with archive:
        for entry in archive.infolist():
            if entry.filename in wanted and entry.file_size <= LONGEST_FILE:
                with suppress(Exception), archive.open(entry) as stream:
                    text = stream.read(LONGEST_FILE + 1)
                    found[wanted[entry.filename]] = json.loads(text)
                    digests[f"{wanted[entry.filename]}.json"] = hashlib.sha256(text).hexdigest()
    gate = found.get(GATE)
    if not isinstance(gate, dict) or gate.get("head") != commit or not isinstance(gate.get("files"), dict):
        return {}
    digest = digests.pop(f"{GATE}.json")
    if stated is not None and digest != stated:
        return {}
    named = {f"{name}.json": gate["files"][f"{name}.json"] for name in FILES if f"{name}.json" in gate["files"]}
    return found if digests == named else {}


def confirmed(files: Mapping[str, Any], *, succeeded: bool) -> Mapping[str, Any]:
    """The verdict files of a job, none where they say pass and the job did not: another job can write its artifact."""
    return files if succeeded or overall({"": files}) != 0 else {}


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main())
