"""Decides which verdict files of a gate's run are trusted, and prepares what is posted.

``python3 -m peakgate.review.believed HOST FOLDER ...`` runs between the calls of ``gh`` or ``glab`` in the jobs that
post: it reads what they fetched into FOLDER and writes there what they send. The change could have written any artifact
of its run, so none is unpacked, and a pass counts only if the host reports that the judge's own job succeeded. This
module imports only the standard library and Peakgate's modules that do the same: GitHub's job runs it from a checkout
without installing anything.
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
"""Name of the judge's job in judge.yml, a reusable workflow."""
LABELS = {"self-hosted", "gpu"}
"""Labels of that job, in addition to its runner's own."""
DIGEST_TITLE = "Peakgate: SHA-256 of gate.json"
"""Title of the annotation with the digest, which `gate` prints in the judge's job, where no other job can."""
LONGEST_FILE = 20 << 20
"""Size limit in bytes of a file in an artifact."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write body.json (the comment), check.json (GitHub's check) and verdict.json (for a webhook); 2 on bad input."""
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
        return refused(PeakgateError(f"{folder}: not the files of a run: {described(error)}", Code.UPSTREAM))
    code = overall(verdicts)
    for name, document in {
        "body": {"body": render(verdicts, commit, url).rstrip()},
        "check": check_run(verdicts, commit, url),
        "verdict": {"commit": commit, "url": url, "exit_code": code, "verdict": MEANINGS[code]},
    }.items():
        write_whole(folder / f"{name}.json", json.dumps(document))
    return ExitCode.OK


def on_github(folder: Path, commit: str, judge: str, runners: Sequence[str]) -> Verdicts:
    """The verdict files on this commit from the judge's jobs, by runner; empty unless the run called ``judge``.

    The change's own workflow can upload any artifact, also under the name of the judge's, and have jobs of any name. So
    the judge's job must have exactly the labels of judge.yml, its annotation must hold the digest of the artifact's
    gate.json, and a pass counts only if all jobs of its name succeeded.
    """
    if not isinstance(runners, list) or not all(isinstance(each, str) and each for each in runners):
        raise ValueError('--runners: expected a JSON list of labels, like ["nvidia-h200"]')
    if not any(each["path"] == judge for each in _read(folder / "run.json")["referenced_workflows"]):
        return {}
    jobs = [job for page in _read(folder / "jobs.json") for job in page["jobs"]]
    artifacts = [each for page in _read(folder / "artifacts.json") for each in page["artifacts"]]
    # Each attempt of a run uploads its own, and their order is not specified: take the newest.
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
        if len(stated) == 1:  # if there are two, another step wrote one
            files = from_artifact(folder / f"{artifact['id']}.zip", "", commit, *stated)
            succeeded = all(job["conclusion"] == "success" for job in same_name)
            found[runner] = confirmed(files, succeeded=succeeded)
    return found


def on_gitlab(folder: Path, commit: str, inside: str) -> Verdicts:
    """The verdict files on this commit by job; empty for a job without an artifact."""
    return {
        job["name"]: confirmed(
            from_artifact(folder / f"{job['id']}.zip", inside, commit), succeeded=job["status"] == "success"
        )
        for job in _read(folder / "jobs.json")
    }


def from_artifact(artifact: Path | BinaryIO, inside: str, commit: str, stated: str | None = None) -> dict[str, Any]:
    """The verdict files in a folder of a gate's artifact, a zip file, without those that are too large or not JSON.

    Empty if the gate's verdict is of another commit, if the digests in it do not match the other files, or if its own
    SHA-256 is not ``stated``. Nothing is unpacked.
    """
    found: dict[str, Any] = {}
    digests: dict[str, str] = {}
    wanted = {f"{folder}{name}.json": name for folder in ("", f"{inside}/") for name in FILES}
    try:
        archive = zipfile.ZipFile(artifact)
    except Exception:  # missing, or damaged: zipfile may raise zlib.error, struct.error, ...
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
    """The verdict files of a job; empty if they say pass but the job failed: another job could have written them."""
    return files if succeeded or overall({"": files}) != 0 else {}


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main())
