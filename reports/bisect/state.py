"""What a bisect has found out so far, in a file: with the pairs in the folders beside it, enough to go on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from peakgate.common.errors import PeakgateError
from peakgate.common.files import write_whole
from peakgate.reports.ab.code import Identity
from peakgate.reports.bisect.groups import Commit

SCHEMA = 1
FILE = "state.json"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and of what: an answer to one is none to another. ``gpu`` is the GPU's uuid."""

    good: str
    bad: str
    wanted_case: str
    tier: str
    device: str
    gpu: str | None
    nvrtc: str
    error: float


@dataclass
class State:
    """The question, the case that is looked into once it is chosen, and the commits built so far."""

    question: Question
    case: str = ""
    commits: dict[str, Commit] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Write the file, whole or not at all."""
        document = {
            "schema": SCHEMA,
            "question": asdict(self.question),
            "case": self.case,
            "commits": [asdict(commit) for commit in self.commits.values()],
        }
        write_whole(folder / FILE, json.dumps(document, indent=1) + "\n")


def resumed(folder: Path, question: Question) -> State:
    """The state saved in the folder; a PeakgateError where there is none, or it is of another question."""
    path = folder / FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["schema"] != SCHEMA:
            raise PeakgateError(f"{path}: schema {document['schema']!r}, this version reads {SCHEMA}; start anew")
        saved = Question(**document["question"])
        state = State(saved, str(document["case"]), {each["commit"]: _commit(each) for each in document["commits"]})
    except FileNotFoundError:
        raise PeakgateError(f"{path}: no bisect to resume there; run it without --resume") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PeakgateError(f"{path}: no whole state ({type(error).__name__}: {error}); run without --resume") from None
    for each in fields(Question):
        before, now = getattr(saved, each.name), getattr(question, each.name)
        if before != now:
            raise PeakgateError(
                f"{path}: is of {each.name.replace('_', ' ')} {before!r}, not {now!r}; run without --resume"
            )
    return state


def _commit(entry: Mapping[str, Any]) -> Commit:
    cases = {str(case): Identity(**identity) for case, identity in entry["cases"].items()}
    return Commit(str(entry["commit"]), str(entry["subject"]), cases, entry["problem"])
