"""Take each barrier, fence, wait, commit and toggle out of six pipelines: ``python -m lab.pipelines.edits``.

One at a time, in each stage that calls it, and the stage's small problems and edges run in the emulator until one of
them is wrong. Fills ``edits.json``, by stage: what was taken out, and what was noticed first.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

from peakgate.base import config
from peakgate.base.errors import BuildError, RefusedSize
from peakgate.base.files import a_line_each, write_whole
from peakgate.compile.cubin import source_files
from peakgate.inspect.emulate import builds, check_case
from peakgate.inspect.mutants import Mutant, mutants
from peakgate.spec.case import Case
from peakgate_emulator.sources import source_text

HERE = Path(__file__).resolve().parent
FAMILY = "hgemm"
STAGES = ("copy_stages", "wgmma", "tma", "specialised", "clusters", "split_k")
ORDERS = (0, 2)
ACCESSES = 500_000_000
"""Of a launch before an edit that makes it endless is noticed."""
NO_PROGRAM, NOT_BUILT = "does not compile", "not built"
_FUNCTION = re.compile(
    r"^(?:template\s*<[^;{}]*>\s*)?(?:__device__|extern \"C\")[^;{}]*?\b((?!__)\w+)\s*\(", re.MULTILINE
)


def problems_of(stage: str) -> list[Case]:
    """The small problems of a stage, each build's smallest first."""
    cases = [case for group in builds(f"{FAMILY}.{stage}-").values() for case in group]
    return sorted((case for case in cases if case.stage.name == stage), key=lambda case: case.buffer_bytes)


def edits_of(stage: str) -> list[Mutant]:
    """What orders something in the functions of the family's folder that a stage calls."""
    problem = problems_of(stage)[0]
    assert problem.stage.source is not None
    own = config.current().kernels / FAMILY
    files = [path for path in source_files(problem.stage.source, problem.stage.include) if path.parent == own]
    texts = {path: source_text(path) for path in files}
    bodies = {name: body for text in texts.values() for name, _, body in _functions(text) if name}
    called, waiting = {""}, [problem.stage.name]
    while waiting:
        name = waiting.pop()
        called.add(name)
        waiting += [
            other for other in bodies if other not in called and re.search(rf"\b{other}\b", bodies.get(name, ""))
        ]
    return [
        mutant
        for path, text in texts.items()
        for mutant in mutants(path.relative_to(own.parent).as_posix(), text)
        if mutant.change.startswith("without")
        and any(name in called and start <= mutant.start < start + len(body) for name, start, body in _functions(text))
    ]


def _functions(text: str) -> Iterator[tuple[str, int, str]]:
    """Name, beginning and text of each function of a file, up to the next one; first what is before all, of no name."""
    found = [*_FUNCTION.finditer(text)]
    yield "", 0, text[: found[0].start() if found else len(text)]
    for at, match in enumerate(found):
        end = found[at + 1].start() if at + 1 < len(found) else len(text)
        yield match[1], match.start(), text[match.start() : end]


def noticed(stage: str, mutant: Mutant) -> str | None:
    """The kind of the first finding without it and the problem that has it; None where nothing was noticed."""
    found = _found(stage, mutant)
    if found is None and _found(stage, replace(mutant, replacement="not_declared_anywhere")) != NO_PROGRAM:
        return NOT_BUILT
    return found


def _found(stage: str, mutant: Mutant) -> str | None:
    own = config.current().kernels
    with tempfile.TemporaryDirectory(prefix="edit-") as folder:
        kernels = Path(folder, own.name)
        shutil.copytree(own, kernels, ignore=shutil.ignore_patterns("*.md", "*.svg", "*.py", "__pycache__"))
        (kernels / mutant.file).write_text(mutant.applied(source_text(own / mutant.file)), encoding="utf-8")
        for problem in problems_of(stage):
            assert problem.stage.source is not None
            source = kernels / problem.stage.source.relative_to(own)
            edited = replace(problem, stage=replace(problem.stage, source=source))
            try:
                for findings in check_case(edited, ORDERS, access_budget=ACCESSES):
                    if findings:
                        return f"{findings[0].kind}, {problem.id}"
            except RefusedSize:
                continue
            except BuildError:
                return NO_PROGRAM
    return None


def main() -> None:
    """Fill the record."""
    wanted = [(stage, mutant) for stage in STAGES for mutant in edits_of(stage)]
    with ProcessPoolExecutor(2) as pool:
        found = pool.map(noticed, *zip(*wanted, strict=True))
        rows = [
            {"stage": stage, "file": each.file, "line": each.source, "change": each.change, "noticed": kind}
            for (stage, each), kind in zip(wanted, found, strict=True)
            if kind != NOT_BUILT  # a condition of the preprocessor leaves it out of this stage
        ]
    missed = sum(row["noticed"] is None for row in rows)
    write_whole(HERE / "edits.json", a_line_each({"edits": len(rows), "not_noticed": missed}, "rows", rows))
    print(f"{len(rows)} edits, {missed} not noticed")  # noqa: T201


if __name__ == "__main__":
    main()
