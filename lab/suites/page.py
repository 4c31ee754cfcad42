"""Fill the tables of README.md: ``python -m lab.suites.page``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from lab.pages import fill_page, read_json, table
from lab.suites.labels import corrected, explained

HERE = Path(__file__).resolve().parent
SUITES = {"scor": "ScoR's applications", "indigo": "Indigo3", "gpuverify": "GPUVerify"}


def outcomes() -> str:
    """How each suite's programs were judged, by their own labels and by corrected ones."""
    rows: list[list[str | int]] = [
        [name, labels, *_counts(suite, _programs(suite), by_rule=labels == "corrected")]
        for suite, name in SUITES.items()
        for labels in ("its own", "corrected")
    ]
    head = ["suite", "labels", "sound", "reported", "defective", "found", "refused", "precision", "recall"]
    return table(head, rows)


def changes() -> str:
    """The labels that changed, by rule."""
    rules = Counter(
        (SUITES[suite], "defective" if changed[0] else "sound", changed[1])
        for suite in SUITES
        for name, entry in _programs(suite).items()
        if not entry.get("refused") and (changed := corrected(suite, name, defective=_is_defective(entry)))[1]
    )
    return table(["suite", "is", "rule", "programs"], [[*key, count] for key, count in rules.most_common()])


def differences() -> str:
    """Programs that are judged otherwise than by their corrected labels, by reason."""
    reasons: Counter[tuple[str, str, str]] = Counter()
    for suite, title in SUITES.items():
        for name, entry in _programs(suite).items():
            label = corrected(suite, name, defective=_is_defective(entry))[0]
            if not entry.get("refused") and label != bool(entry["reported"]):
                missed = "missed" if label else "reported"
                reasons[title, missed, explained(suite, name) or f"not explained: {name}"] += 1
    return table(["suite", "what", "why", "programs"], [[*key, count] for key, count in reasons.most_common()])


def refusals() -> str:
    """Why programs were refused."""
    reasons = Counter(
        (SUITES[suite], _short(entry["refused"]))
        for suite in SUITES
        for entry in _programs(suite).values()
        if entry.get("refused")
    )
    return table(["suite", "refused", "programs"], [[*key, count] for key, count in reasons.most_common()])


def blocks() -> dict[str, str]:
    """The blocks of the page."""
    return {
        "suites-outcomes": outcomes(),
        "suites-labels": changes(),
        "suites-differences": differences(),
        "suites-refused": refusals(),
    }


def _counts(suite: str, programs: dict[str, Any], *, by_rule: bool) -> list[str | int]:
    counts: Counter[tuple[bool, bool]] = Counter()
    for name, entry in programs.items():
        defective = _is_defective(entry)
        label = corrected(suite, name, defective=defective)[0] if by_rule else defective
        if not entry.get("refused"):
            counts[label, bool(entry["reported"])] += 1
    flagged, found = counts[False, True], counts[True, True]
    refused = sum(bool(entry.get("refused")) for entry in programs.values())
    sound, defective_ones = counts[False, False] + flagged, counts[True, False] + found
    precision, recall = 100 * found / max(1, found + flagged), 100 * found / max(1, defective_ones)
    return [sound, flagged, defective_ones, found, refused, f"{precision:.1f} %", f"{recall:.1f} %"]


def _is_defective(entry: dict[str, Any]) -> bool:
    return bool(entry["label"] == "defective")


def _short(reason: str) -> str:
    for words, short in (
        ("host code", "its host code, or a header that it needs, is not known"),
        ("did not end", "did not end in 300 s"),
        ("undefined symbol", "calls a function that is nowhere defined"),
        ("1024", "more threads in a block than CUDA takes"),
        ("static shared memory", "more static shared memory than CUDA allows"),
    ):
        if words in reason:
            return short
    return "does not compile: GPUVerify's own words, or what the emulator lacks"


def _programs(suite: str) -> dict[str, Any]:
    programs: dict[str, Any] = read_json(HERE / f"{suite}.json")["programs"]
    return programs


if __name__ == "__main__":
    fill_page(HERE / "README.md", blocks())
