"""Explains why cases of two sides differ: machine code by NVRTC, and hardware counters if ncu is installed."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from msgspec import Struct

from peakgate.base import records
from peakgate.base.errors import PeakgateError
from peakgate.base.files import read_text, scratch_folder, write_whole
from peakgate.base.formatting import counted
from peakgate.base.git import ask
from peakgate.base.processes import Asked, own_module
from peakgate.base.report import Table
from peakgate.compare.ab.causes import ExplainedSide, MachineCode, SideDifference, findings
from peakgate.compare.ab.folders import SideFolder
from peakgate.compare.ab.plan import CODES_LIMIT_S
from peakgate.compare.ab.process import side_environment
from peakgate.compile import sass
from peakgate.judge.occupancy import Resources
from peakgate.run import ncu

MOST_EXPLAINED = 12
SIDE_NAMES = ("base", "head")
SHOWN = 3
SIDES_FILE = "sides.json"  # data of both sides of each case, enough to rank the findings again

NO_DISASSEMBLER = (
    "neither nvdisasm nor cuobjdump is installed: registers and spills are compared, instructions are not; "
    "pip install nvidia-cuda-nvdisasm"
)

_COMMENT = re.compile(r"\s*(//|/\*|\*|$)")
_FACTS = (
    ("registers", "registers"),
    ("spill_bytes", "spilled bytes"),
    ("stack_bytes", "stack bytes"),
    ("static_shared_bytes", "static shared bytes"),
)


class BuiltCase(Struct):
    """A case in the output of ``peakgate.run.identity --built``: its machine code, or why there is none."""

    problem: str | None = None
    cubin: str = ""
    entry: str = ""
    source: str | None = None
    fingerprint: str = ""
    resources: Resources = Resources(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class KnownSide:
    """One side of a case: ``side`` is None if there is a ``problem``, ``opcodes`` empty without a disassembler."""

    side: ExplainedSide | None
    fingerprint: str = ""
    opcodes: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one case changed: the findings in order, changes in its machine code, and opcodes that differ.

    ``file``, relative to the repository, and ``line`` are where head's source differs; None if unknown.
    """

    case: str
    code: tuple[str, ...]
    findings: tuple[SideDifference, ...]
    diff: tuple[str, ...] = ()
    problem: str | None = None
    file: str | None = None
    line: int | None = None

    @property
    def lines(self) -> list[str]:
        """The first findings, then the changes of the machine code."""
        if self.problem is not None:
            return [self.problem]
        return [*(finding.sentence for finding in self.findings[:SHOWN]), *self.code]


@dataclass(frozen=True, slots=True)
class Explained:
    """The explained cases, and notes on tools or cases that are missing."""

    cases: tuple[Explanation, ...]
    notes: tuple[str, ...] = ()

    def table(self) -> Table:
        """One row per line of each case."""
        rows = [(each.case, line) for each in self.cases for line in each.lines]
        return Table("Why slower", ("case", "finding"), rows)

    def document(self) -> dict[str, Any]:
        return {
            "notes": list(self.notes),
            "cases": [
                {
                    "case": each.case,
                    "problem": each.problem,
                    "findings": [{"cause": found.cause, "sentence": found.sentence} for found in each.findings],
                    "code": list(each.code),
                    "diff": list(each.diff),
                    "file": each.file,
                    "line": each.line,
                }
                for each in self.cases
            ],
        }


def explain(folders: tuple[SideFolder, SideFolder], cases: Sequence[str], out: Path, device: str) -> Explained:
    """Explain the first MOST_EXPLAINED of the cases; the output of ncu and SIDES_FILE are written to ``out``."""
    chosen, out = list(cases[:MOST_EXPLAINED]), out.resolve()
    notes = [f"not explained: {counted(len(cases) - len(chosen), 'more case')}"] if len(cases) > len(chosen) else []
    program = ncu.find()
    if program is None:
        notes.append(ncu.NO_NCU)
    if sass.tool() is None:
        notes.append(NO_DISASSEMBLER)
    sides = []
    for which, folder in zip(SIDE_NAMES, folders, strict=True):
        environment = side_environment(folder.path)
        facts = _described(folder.path, environment, chosen)
        counters: dict[str, ncu.Counters] = {}
        if program is not None and chosen:
            profiled = ncu.profile(
                program, chosen, folder.path, environment, out / which, asked=ncu.EXPLAINING, device=device
            )
            if profiled.problem == ncu.STOPPED:
                raise KeyboardInterrupt
            counters = {case: ncu.of_launch(kernels) for case, kernels in profiled.kernels.items()}
            notes += [f"{which}: {profiled.problem}"] if profiled.problem else []
            notes += [f"{which}: {case}: not profiled: {reason}" for case, reason in profiled.failed.items()]
        sides.append((facts, counters))
    known = {case: [_known(facts.get(case), counters.get(case, {})) for facts, counters in sides] for case in chosen}
    write_whole(
        out / SIDES_FILE, json.dumps({case: [asdict(each) for each in both] for case, both in known.items()}) + "\n"
    )
    sources = {case: [facts[case].source if case in facts else None for facts, _ in sides] for case in chosen}
    explained = []
    for case, both in known.items():
        file, line = place(folders[1].path, *sources[case])
        explained.append(replace(compared(case, *both), file=file, line=line))
    return Explained(tuple(explained), tuple(notes))


def compared(case: str, base: KnownSide, head: KnownSide) -> Explanation:
    """Explain one case from both sides; pure."""
    for which, known in zip(SIDE_NAMES, (base, head), strict=True):
        if known.side is None:
            return Explanation(case, (), (), problem=f"{which}: {known.problem}")
    assert base.side is not None
    assert head.side is not None
    diff = tuple(sass.diff(base.opcodes, head.opcodes)) if base.opcodes and head.opcodes else ()
    why = tuple(findings(base.side, head.side))
    if base.fingerprint == head.fingerprint:
        return Explanation(case, ("Same machine code on both sides.",), why, diff)
    facts = [(name, *(getattr(side.resources, field) for side in (base.side, head.side))) for field, name in _FACTS]
    changed = [f"{name} {before} to {after}" for name, before, after in facts if before != after]
    lines = [f"Compiler: {', '.join(changed) or 'same registers, spills and shared memory'}."]
    old, new = base.side.code, head.side.code
    if old and new:
        counts = [
            (name, old.classes.get(name, 0), new.classes.get(name, 0))
            for name in sorted(old.classes.keys() | new.classes.keys())
        ]
        moved = [f"{name} {before} to {after}" for name, before, after in counts if before != after]
        total = f"{old.instructions} to {new.instructions}"
        lines.append(f"Instructions: {total}: {', '.join(moved) or 'the same number of each class, in another order'}.")
        if old.loops != new.loops:
            sizes = [", ".join(map(str, code.loops[:4])) or "none" for code in (old, new)]
            lines.append(f"Loop bodies in instructions: {sizes[0]}; now {sizes[1]}.")
    return Explanation(case, tuple(lines), why, diff)


def _known(built: BuiltCase | None, counters: ncu.Counters) -> KnownSide:
    if built is None or built.problem is not None:
        return KnownSide(None, problem="no such kernel case" if built is None else str(built.problem))
    code = sass.disassemble(Path(built.cubin), built.entry)
    side = ExplainedSide(built.resources, MachineCode.of(code) if code else None, counters)
    return KnownSide(side, built.fingerprint, tuple(each.opcode for each in code or ()))


def _described(folder: Path, environment: Mapping[str, str], cases: Sequence[str]) -> dict[str, BuiltCase]:
    """The cases as built in the folder; if the build process fails, every case gets its problem."""
    with scratch_folder("explain") as scratch:
        listed = scratch / "cases.txt"
        listed.write_text("\n".join(cases) + "\n", encoding="utf-8")
        command = own_module("peakgate.run.identity", "--built", str(listed))
        with Asked(command, CODES_LIMIT_S, cwd=folder, env=environment) as asked:
            done = asked.finish()
    try:
        return records.decode(done.output, dict[str, BuiltCase], Path("its answer"), "see its families")
    except PeakgateError as error:
        return dict.fromkeys(cases, BuiltCase(f"its machine code cannot be built: {done.problem or error.message}"))


def place(folder: Path, base: str | None, head: str | None) -> tuple[str, int] | tuple[None, None]:
    """File and line where head's source differs from base's; None if head has no source in its project ``folder``."""
    if head is None or not Path(head).is_relative_to(folder):
        return None, None
    inside = Path(head).relative_to(folder)
    prefix = ""
    with suppress(PeakgateError):  # outside git
        prefix = ask(folder, "rev-parse", "--show-prefix").decode().strip()
    texts = ["", ""]
    for at, name in enumerate((base, head)):
        with suppress(PeakgateError):
            texts[at] = read_text(Path(name)) if name else ""
    return f"{prefix}{inside.as_posix()}", changed_line(*texts)


def changed_line(before: str, after: str) -> int:
    """The first changed line of code in ``after``, ignoring comments; if none changed, the line of the first kernel."""
    old, new = before.splitlines(), after.splitlines()
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, first, last, start, end in matcher.get_opcodes():
        if tag != "equal" and not all(_COMMENT.match(line) for line in (*old[first:last], *new[start:end])):
            code = next((at for at in range(start, end) if not _COMMENT.match(new[at])), start)
            return max(1, min(code + 1, len(new)))
    return next((number for number, line in enumerate(new, 1) if "__global__" in line), 1)
