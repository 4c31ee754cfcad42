"""``peakgate protect``: fail a change that lowers a floor or edits a saved run without a reason."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from peakgate.common.errors import PeakgateError
from peakgate.judge.floors import load_floors
from peakgate.reports.options import add_baselines, verb_parser
from peakgate.reports.protect import acknowledged, changes, git
from peakgate.reports.render.console import say
from peakgate.reports.render.words import one_line
from peakgate.verdict import ExitCode

FLOORS = "floors.toml"


def main(verb: str, arguments: Sequence[str]) -> int:
    """List the changes and return 1 if one of them is not acknowledged."""
    parser = verb_parser(
        verb,
        "List what the working tree, against the commit REF, does to floors and saved runs. Lowering or "
        "dropping a floor and editing or deleting a saved run fail, unless baselines/<gpu>/acknowledged.toml says why.",
        "exit codes: 0 nothing, or all of it acknowledged, 1 something is not, 2 bad input",
    )
    parser.add_argument("--base", required=True, metavar="REF", help="the commit to merge into, as origin/main")
    add_baselines(parser)
    options = parser.parse_args(arguments)

    folder = options.baselines.absolute()
    if not folder.parent.is_dir():
        raise PeakgateError(
            f"--baselines {options.baselines}: no such place; name the working tree's folder of baselines"
        )
    commit = git.commit_of(options.base, folder.parent)
    found = _floor_changes(options.base, commit, folder) + changes.run_changes(git.changed(commit, folder))
    today = datetime.now(UTC).date()
    gpus = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    ruling = changes.rule(found, [each for gpu in gpus for each in acknowledged.load(gpu, today)])
    say("".join(f"{one_line(line)}\n" for line in _lines(ruling, options.base)))
    return ExitCode.REGRESSION if ruling.failing else ExitCode.OK


def _floor_changes(ref: str, commit: str, folder: Path) -> list[changes.Change]:
    found = []
    for name in git.files(commit, folder):
        gpu, _, file = name.partition("/")
        if file == FLOORS:
            before = _floors_then(f"{ref}:{folder.name}/{name}", git.text(commit, folder, name))
            found += changes.floor_changes(gpu, before, load_floors(folder / name).by_case)
    return found


def _floors_then(name: str, text: str) -> Mapping[str, float]:
    """The floors in a file of another commit, read by the same strict rules; errors call it by ``name``."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / FLOORS
        path.write_text(text, encoding="utf-8", errors="surrogateescape", newline="")
        try:
            return load_floors(path).by_case
        except PeakgateError as error:
            raise PeakgateError(str(error).replace(str(path), name)) from None


def _lines(ruling: changes.Ruling, base: str) -> list[str]:
    lines = [str(change) for change in ruling.failing]
    lines += [f"{change}; acknowledged until {word.expires}: {word.reason}" for change, word in ruling.acknowledged]
    lines += [f"{word.gpu}: the acknowledgement of {word.what} excuses nothing here; delete it" for word in ruling.idle]
    if ruling.failing:
        files = " and ".join(sorted({f"baselines/{change.gpu}/{acknowledged.FILE}" for change in ruling.failing}))
        lines.append(f"{len(ruling.failing)} changes against {base} to undo, or to give a reason for in {files}")
    else:
        lines.append(f"no unacknowledged change of floors or saved runs against {base}")
    return lines
