"""``python -m kernels.ladder``: check that tables and pictures of kernels/ show the run they name, or write them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType

from kernels.ladder import tables
from kernels.ladder.markers import difference, fill, link
from peakgate.base import config
from peakgate.base.errors import PeakgateError, refused
from peakgate.base.files import read_text, write_whole
from peakgate.base.options import VerbParser
from peakgate.base.streams import say
from peakgate.base.verdict import ExitCode
from peakgate.runfile.find import Archive
from peakgate.runfile.options import FORMS, add_runs
from peakgate.runfile.saved import Run
from peakgate.spec.catalogue import families, module_at


def block(
    shown: tables.Shown,
    drawn: Mapping[Path, tables.LadderPicture],
    folder: Path,
    name: str,
    *,
    output: Run | None = None,
) -> str:
    """Content of the block of that name in a document of that folder: the run, a table, the family's pictures.

    ``drawn`` are the ``pictures`` of all blocks. ``output`` is the run whose terminal output is shown where that is
    asked for; None takes the shown one.
    """
    if name == tables.BENCH_BLOCK:
        run = output or shown.run
        return "\n".join([*tables.terminal(run), "", tables.naming(run, folder)])
    lines = [tables.naming(shown.run, folder), ""]
    images = {
        picture.title: f"![{picture.title}]({link(path, folder)})\n"
        for path, picture in drawn.items()
        if picture.block == name
    }
    if name.endswith(tables.FURTHER):
        lines += [f"{title}:\n\n{image}" for title, image in images.items()]
        lines += tables.further(shown, name.removesuffix(tables.FURTHER))
    else:
        own = own_tables().get(name)
        lines += [*(own(shown) if own else tables.stages(shown.entries[name], folder)), "", *images.values()]
    return "\n".join(lines).rstrip()


FILE, FOLDER = "pictures.py", tables.KERNELS_FOLDER / "pictures"
"""A project's own pictures and tables (``pictures``, ``TABLES``), beside its families; and where the pictures are."""


def pictures(shown: tables.Shown) -> dict[Path, tables.LadderPicture]:
    """Every picture by its path."""
    module = _module()
    drawn: Mapping[str, tables.LadderPicture] = module.pictures(shown) if module else {}
    return {FOLDER / f"{name}.svg": picture for name, picture in drawn.items()}


def own_tables() -> Mapping[str, Callable[[tables.Shown], Iterable[str]]]:
    """The lines of the project's own tables, by the block that holds each."""
    found: Mapping[str, Callable[[tables.Shown], Iterable[str]]] = getattr(_module(), "TABLES", {})
    return found


def _module() -> ModuleType | None:
    path = config.current().kernels / FILE
    return module_at(path) if path.is_file() else None


@dataclass(frozen=True, slots=True)
class LadderChange:
    """A file that does not show the run, and how, for people to read."""

    path: Path
    difference: str


def changes(wanted: str | None, archive: Archive, *, write: bool, bench: str | None = None) -> tuple[LadderChange, ...]:
    """Documents and pictures of the current folder that do not show the run; ``write`` updates them.

    ``wanted`` names one session as ``runfile.find`` finds it; None takes the run that the documents name. ``bench``
    names the session whose terminal output the block ``bench`` shows, which need not be a run of all sizes; None takes
    the one that block names, or the ladder's. A PeakgateError names a run that cannot be shown, and wrong or missing
    markers; then nothing is written.
    """
    documents = tables.read_documents()
    run = tables.ladder_run(documents) if wanted is None else tables.find_run(wanted, archive)
    listed = [family for family in families() if tables.on_the_page(family.name, run, documents)]
    tables.require_blocks(documents, [family.name for family in listed])
    shown = tables.show(run, listed)
    drawn = pictures(shown)
    output = tables.find_run(bench, archive) if bench is not None else tables.bench_run(documents) or shown.run
    texts: dict[Path, str] = {}
    found = []
    known = (*shown.entries, *(each + tables.FURTHER for each in shown.entries), *own_tables(), tables.BENCH_BLOCK)
    for path, old in documents.items():
        texts[path] = fill(old, path, partial(block, shown, drawn, path.parent, output=output), known)
        if texts[path] != old:
            found.append(LadderChange(path, difference(old, texts[path], path)))
    for path, picture in drawn.items():
        old = read_text(path) if path.is_file() else ""
        texts[path] = picture.svg() if write else old
        if texts[path] != old or picture.digest not in old:
            found.append(LadderChange(path, f"{path}: {'differs' if old else 'missing'}\n"))
    if write:
        for change in found:
            write_whole(change.path, texts[change.path])
    return tuple(found)


def main(arguments: Sequence[str]) -> int:
    """Check or write; 1 where something is out of date and was not written, 2 for bad input."""
    parser = VerbParser(
        prog="python -m kernels.ladder",
        description=f"Check the tables and pictures of kernels/ against RUN: {FORMS}. By default the run they name.",
        epilog="exit codes: 0 they show it, 1 they do not, 2 bad input",
    )
    parser.add_argument("wanted", metavar="RUN", nargs="?")
    add_runs(parser)
    parser.add_argument("--write", action="store_true", help="write them")
    parser.add_argument("--bench", metavar="RUN", help="the run whose terminal output README shows")
    try:
        options = parser.parse_args(arguments)
        found = changes(options.wanted, Archive(options.runs), write=options.write, bench=options.bench)
    except PeakgateError as error:
        return refused(error)
    if options.write:
        say("".join(f"written: {change.path}\n" for change in found))
    else:
        say("".join(change.difference for change in found))
    if not found:
        say("the ladder shows the run")
    return ExitCode.REGRESSION if found and not options.write else ExitCode.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
