"""``peakgate protect``: compare a tree with a commit: changed files, and the contracts of its cases.

Contracts are read in a separate process: a project's Python never runs in this one.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, date, datetime
from pathlib import Path

from peakgate.base import config, git, progress, records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import LARGEST_FILE_BYTES, opened, read_limited, scratch_folder
from peakgate.base.formatting import counted
from peakgate.base.processes import Asked, own_module
from peakgate.base.report import Report, clear_verdict, write_json
from peakgate.base.verdict import ExitCode
from peakgate.judge import acknowledged
from peakgate.judge.floors import load_floors
from peakgate.render import terminal
from peakgate.review import changes
from peakgate.review.changes import NONE, FileChange, ProtectedChange
from peakgate.review.sides import Side, project_changes, side_at
from peakgate.runfile.options import verb_parser
from peakgate.runfile.saved import load_run
from peakgate.spec.contract import Contract, advice_on

FLOORS_FILE = "floors.toml"
KEPT = (f"*/{FLOORS_FILE}", "*/runs")
"""What a folder of baselines has of each GPU, one of both at least."""

LINK_MODE, REPOSITORY_MODE = "120000", "160000"
_CHUNK_BYTES = 1 << 20
IDENTITY_TIMEOUT_S = 300.0


def main(verb: str, arguments: Sequence[str]) -> int:
    """List the changes and return 1 if a protected one is not acknowledged."""
    options = _parser(verb).parse_args(arguments)
    given = options.baselines or config.near(config.current().baselines)
    folder = given.absolute()
    if not folder.parent.is_dir():
        raise PeakgateError(
            f"--baselines {given}: no such folder; name the working tree's folder of baselines", Code.UNREADABLE
        )
    if options.out is not None:
        clear_verdict(options.out / "protect.json")
    commit = git.commit_of(options.base, folder.parent, "--base")
    root = git.top_of(folder.parent)
    name = _inside(root, folder)
    files = changed_files(commit, root)
    below = [
        replace(file, path=file.path.removeprefix(f"{name}/"))
        for file in files
        if file.path.startswith(f"{name}/") or file.path == name
    ]
    today = datetime.now(UTC).date()
    with scratch_folder("protect") as scratch:
        git.export(commit, root, scratch / "base")
        place = scratch / "base" / folder.parent.resolve().relative_to(root.resolve())
        then = place / folder.name
        if options.baselines and not any(any(side.glob(kept)) for side in (then, folder) for kept in KEPT):
            raise PeakgateError(
                f"--baselines {given}: there are no floors or runs of any GPU, neither in the working tree nor in "
                f"{options.base}; name the folder that contains nvidia-h200/{FLOORS_FILE}, for instance",
                Code.UNREADABLE,
            )
        inside = _without_repacked(below, then, folder)
        _read_new_floors(folder, inside)
        found = _floor_changes(options.base, then, folder) + changes.run_changes(inside) + _forged(folder, inside)
        words = _acknowledged(then if options.acknowledged_from_base else folder, folder, today)
        base, tree = side_at(scratch / "base", place), side_at(root, folder.parent)
        found += project_changes(files, name, base, tree)
        if not options.no_contracts:
            so_far = counted(len(changes.rule(found, words, today).failing), "failing change")
            with progress.shown(f"{so_far} of floors, runs and files; comparing the contracts of cases"):
                found += _contract_changes(options.base, base, tree)
    ruling = changes.rule(found, words, today)
    record = report(
        ruling, options.base, commit, strict=options.strict, acknowledged_from_base=options.acknowledged_from_base
    )
    terminal.show(record)
    if options.out is not None:
        write_json(record, options.out / "protect.json")
    return record.exit_code


def _parser(verb: str) -> argparse.ArgumentParser:
    parser = verb_parser(
        verb,
        "List how the working tree, compared with the commit REF, changes what it is judged by. Floors lowered or "
        "removed, saved runs edited, deleted or forged, links, nested repositories among baselines and Python, code "
        "that is not source, and changed contracts of cases fail, unless an acknowledgement names the exact old and "
        "new value. Files of the judge itself are listed for review.",
        "exit codes: 0 nothing, or all of it acknowledged, 1 something is not, 2 bad input",
    )
    parser.add_argument(
        "--base", required=True, metavar="REF", help="the commit to merge into, for instance origin/main"
    )
    parser.add_argument(
        "--baselines",
        type=Path,
        metavar="DIR",
        help="the folder with <gpu>/floors.toml, where the tree's settings are not to choose it",
    )
    parser.add_argument(
        "--acknowledged-from-base",
        action="store_true",
        help="read acknowledgements from REF, so that a change cannot acknowledge itself",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for the verdict, protect.json (default: none is written)"
    )
    parser.add_argument("--strict", action="store_true", help="fail on what is listed for review too")
    parser.add_argument(
        "--no-contracts",
        action="store_true",
        help="do not compare the contracts of cases, for which the project's Python runs",
    )
    return parser


def _inside(root: Path, folder: Path) -> str:
    """The folder's path in the repository; only the folder itself may be a link, which the change may have created."""
    for above in folder.parents:
        if above.resolve() == root.resolve():
            return folder.relative_to(above).as_posix()
        if above.is_symlink():
            raise PeakgateError(f"--baselines {folder}: {above} is a link; name the folder itself", Code.PROTECTED)
    raise PeakgateError(f"--baselines {folder}: outside the repository {root}; name a folder inside", Code.OPTION)


def changed_files(commit: str, root: Path) -> list[FileChange]:
    """Files that differ between ``commit`` and the working tree at ``root``, including untracked ones.

    Paths are relative to ``root``. A renamed file counts as deleted and added. Contents are identified by git's blob
    hash, a submodule by its commit or "repository" if that is not committed.
    """
    how = ("--raw", "--no-renames", "--no-ext-diff", "--ignore-submodules=none", "--abbrev=40", "-z")
    fields = _text(root, "diff", *how, commit, "--").split("\0")[:-1]
    found = []
    for about, path in zip(fields[::2], fields[1::2], strict=True):
        old_mode, mode, before, after, state = about.removeprefix(":").split(" ")
        repository = REPOSITORY_MODE in (old_mode, mode)
        found.append(FileChange(state[0], path, mode == LINK_MODE, before, after, repository))
    untracked = _text(root, "ls-files", "--others", "--exclude-standard", "-z").split("\0")[:-1]
    for path in untracked:  # a nested repository is listed as its folder with a slash
        link, repository = (root / path).is_symlink(), path.endswith("/")
        found.append(FileChange("A", path.removesuffix("/"), link, "", "", repository))
    return [_named(root, file) for file in found]


def _named(root: Path, file: FileChange) -> FileChange:
    """The file with its ids in the form of reports, from git's, which are zeros or empty for none."""
    if file.state == "D":
        after = NONE
    elif file.repository and (root / file.path).is_dir():
        after = _id(file.after) or "repository"
    else:
        after = "link" if file.link else _blob_id(root / file.path)
    return replace(file, before=_id(file.before) or NONE, after=after)


def _id(name: str) -> str:
    """Git's object id; empty for the null id of zeros."""
    return name if name.strip("0") else ""


def _blob_id(path: Path) -> str:
    """Git's blob id of a file's content."""
    with opened(path) as stream:
        header = f"blob {os.fstat(stream.fileno()).st_size}\0".encode()
        digest = hashlib.sha1(header, usedforsecurity=False)
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _without_repacked(files: Sequence[FileChange], then: Path, folder: Path) -> list[FileChange]:
    """The files without saved runs that were only packed or unpacked; ``then`` is the base's folder of baselines."""
    added = {file.path for file in files if file.state == "A" and not file.link}
    same: set[str] = set()
    for path in (file.path for file in files if file.state == "D" and "/runs/" in file.path):
        other = path.removesuffix(".gz") if path.endswith(".gz") else f"{path}.gz"
        if other in added:
            before, after = (read_limited(each, LARGEST_FILE_BYTES) for each in (then / path, folder / other))
            with suppress(PeakgateError):
                if records.unpacked(before, Path(path), "") == records.unpacked(after, Path(other), ""):
                    same |= {path, other}
    return [file for file in files if file.path not in same]


def _read_new_floors(folder: Path, files: Sequence[FileChange]) -> None:
    """PeakgateError if a new floors file is invalid, since the next change would be judged by it."""
    for file in files:
        gpu, _, name = file.path.partition("/")
        if name == FLOORS_FILE and file.state == "A" and not (file.link or file.repository):
            load_floors(folder / file.path, gpu=gpu)


def _floor_changes(ref: str, then: Path, folder: Path) -> list[ProtectedChange]:
    """Changes to the base's floors; the files of both sides are read by the same strict rules."""
    found = []
    for file in sorted(then.glob(f"*/{FLOORS_FILE}")):
        gpu = file.parent.name
        try:
            before = load_floors(file).by_case
        except PeakgateError as error:
            message = error.message.replace(str(file), f"{ref}:{folder.name}/{gpu}/{FLOORS_FILE}")
            raise PeakgateError(message, error.code) from None
        found += changes.floor_changes(gpu, before, load_floors(folder / gpu / FLOORS_FILE, gpu=gpu).by_case)
    return found


def _forged(folder: Path, files: Sequence[FileChange]) -> list[ProtectedChange]:
    """Added runs that the strict reader refuses, for example future-dated, of another GPU, or contradictory ones."""
    found = []
    for file in files:
        gpu, _, inside = file.path.partition("/")
        if file.state != "A" or file.link or file.repository or not inside.startswith("runs/"):
            continue
        try:
            load_run(folder / file.path)
        except PeakgateError as error:
            why = error.message.removeprefix(f"{folder / file.path}: ")
            name = inside.removeprefix("runs/")
            found.append(ProtectedChange(gpu, changes.ChangeKind.FORGED, acknowledged.RUN, name, NONE, why))
    return found


def _contract_changes(ref: str, base: Side, tree: Side) -> list[ProtectedChange]:
    """Changes of the settings' folders, and of the contracts of the base's cases.

    A tree without kernels removes all of them.
    """
    moved = changes.setting_changes(base.settings, tree.settings)
    if base.project is None or not base.project.kernels.is_dir():
        return moved
    project = tree.project
    with ThreadPoolExecutor() as pool:
        before = pool.submit(contracts, base.project.root, ref)
        after = contracts(project.root, "the working tree") if project and project.kernels.is_dir() else {}
    return moved + changes.contract_changes(before.result(), after)


def contracts(tree: Path, name: str) -> dict[str, Contract]:
    """Contracts of the project at ``tree`` by case id (``peakgate.run.identity --terms``); errors call it ``name``."""
    command = own_module("peakgate.run.identity", "--terms")
    with Asked(command, IDENTITY_TIMEOUT_S, cwd=tree) as asked:
        done = asked.finish()
    if done.problem:
        advice = advice_on(done.problem) or "see its family files"
        raise PeakgateError(f"{name}: its cases cannot be listed: {done.problem}; {advice}", Code.FAMILY)
    return records.decode(done.output, dict[str, Contract], Path(name), "see whether a family file prints")


def _acknowledged(baselines: Path, folder: Path, today: date) -> list[acknowledged.Acknowledgement]:
    """The acknowledgements in a folder of baselines, of all GPUs first; those of the base's may be expired."""
    name, found = acknowledged.ACKNOWLEDGED_FILE, []
    for file in (baselines / name, *sorted(baselines.glob(f"*/{name}"))):
        gpu = file.parent.name if file.parent != baselines else ""
        found += acknowledged.load(file, gpu, today, may_be_expired=baselines != folder)
    return found


def report(
    ruling: changes.Ruling, base: str, commit: str, *, strict: bool = False, acknowledged_from_base: bool = False
) -> Report:
    """Report failing, acknowledged and reviewable changes; ``base`` is the requested name, ``commit`` its hash."""
    rows = [change.row() for change in ruling.failing]
    rows += [change.row(f"; acknowledged until {word.expires}: {word.reason}") for change, word in ruling.acknowledged]
    rows += [change.row() for change in ruling.review]
    sentences = [
        f"{word.gpu or 'all GPUs'}: the acknowledgement of {word.what} ({word.before} to {word.after}), until "
        f"{word.expires}, is not needed; delete it"
        for word in ruling.idle
    ]
    if ruling.failing:
        files = sorted(
            {"/".join(filter(None, ("baselines", each.gpu, acknowledged.ACKNOWLEDGED_FILE))) for each in ruling.failing}
        )
        count = counted(len(ruling.failing), "change")
        first = "have an acknowledgement merged first, " if acknowledged_from_base else "acknowledge "
        sentences.append(f"undo {count} against {base}, or {first}with a reason in {' and '.join(files)}")
    elif strict and ruling.review:
        sentences.append(f"--strict: {counted(len(ruling.review), 'change')} for review against {base}")
    else:
        sentences.append(f"no unacknowledged change of floors, saved runs or contracts against {base}")
    listed = {
        "failing": list(ruling.failing),
        "acknowledged": [change for change, _ in ruling.acknowledged],
        "review": list(ruling.review),
    }
    return Report(
        command="protect",
        exit_code=ExitCode.REGRESSION if ruling.failing or (strict and ruling.review) else ExitCode.OK,
        rows=rows,
        sentences=sentences,
        fields={
            "base": commit,
            "counts": {name: len(found) for name, found in listed.items()},
            "changes": {name: [asdict(change) for change in found] for name, found in listed.items()},
        },
        unit="change",
    )


def _text(folder: Path, *arguments: str) -> str:
    return git.ask(folder, *arguments).decode("utf-8", errors="surrogateescape")
