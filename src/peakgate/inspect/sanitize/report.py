"""Reads the outputs of a sanitizer run (XML records, text log, journal of launches) and reports them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from msgspec import Struct

from peakgate.base import records
from peakgate.base.errors import PeakgateError
from peakgate.base.formatting import counted
from peakgate.base.report import NOT_CHECKED, Annotation, Report, Tone
from peakgate.base.verdict import ExitCode
from peakgate.judge.waivers import Defect, DefectKey, DefectRuling

NO_KERNEL = "no kernel"  # for a record of a copy or another call of the host
MACHINE_FIELDS = ("name", "slug", "uuid", "compute_capability", "driver", "cuda_driver", "nvrtc", "cupy")

_UNPRINTED = re.compile(r"(\d+) (?:errors?|hazards?) (?:was|were) not (?:printed|displayed)")
_PREFIX = re.compile(r"^=+ ?")


class LaunchLogEntry(Struct):
    """A line of the journal."""

    machine: dict[str, Any] | None = None
    fault: str | None = None
    case: str = ""
    kernel: str = ""
    functions: list[str] = []
    done: Any = None


@dataclass(frozen=True, slots=True)
class LaunchLog:
    """The journal: machine, (case id, kernel) of every launch, (case id, kernel, message) of every fault.

    ``functions`` maps a function's name to the kernels, ``family.stage``, that launch it.
    """

    machine: dict[str, Any]
    launched: tuple[tuple[str, str], ...]
    faults: tuple[tuple[str, str, str], ...]
    done: bool
    functions: Mapping[str, Collection[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolReport:
    """The result of one tool over the problems in the journal.

    ``unlisted`` counts errors beyond the tool's limit of recorded ones. ``unfinished`` says why not everything was
    checked, None if it was.
    """

    tool: str
    journal: LaunchLog
    defects: tuple[Defect, ...]
    unlisted: int
    unfinished: str | None

    @property
    def kernels(self) -> int:
        """Number of kernels that were launched."""
        return len({kernel for _, kernel in self.journal.launched})


def errors(tool: ToolReport, left: Iterable[Defect]) -> int:
    """Number of a tool's errors that no waiver accepts; warnings do not count."""
    return sum(each.count for each in left if each.key.command == tool.tool and not each.warning) + tool.unlisted


def report(tools: Sequence[ToolReport], ruling: DefectRuling) -> Report:
    """One row per defect, and a summary per tool.

    The exit code is 1 for an error of any tool or a waiver that matches none, else 3 if a tool did not finish.
    """
    failed = ruling.failing or any(tool.unlisted for tool in tools)
    unfinished = [f"{tool.tool}: not finished: {tool.unfinished}" for tool in tools if tool.unfinished]
    machine = next((tool.journal.machine for tool in tools if tool.journal.machine), {})
    cases = dict.fromkeys(case for tool in tools for case, _ in tool.journal.launched)
    summaries, described = [], []
    for tool in tools:
        count, launched = errors(tool, ruling.left), len(tool.journal.launched)
        launches = f"{counted(launched, 'launch')} of {counted(tool.kernels, 'kernel')}"
        unlisted = f", {tool.unlisted} of them not listed" if tool.unlisted else ""
        summaries.append(f"{tool.tool}: {launches}, {counted(count, 'error') if count else 'no error'}{unlisted}")
        described.append(
            {
                "tool": tool.tool,
                "launches": launched,
                "kernels": tool.kernels,
                "errors": count,
                "unlisted": tool.unlisted,
                "unfinished": tool.unfinished,
                **ruling.fields(command=tool.tool),
            }
        )
    return Report(
        command="inspect sanitize",
        exit_code=ExitCode.REGRESSION if failed else ExitCode.UNDECIDED if unfinished else ExitCode.OK,
        rows=ruling.rows(),
        sentences=[*ruling.complaints, *summaries, *unfinished],
        fields={
            "machine": {key: machine.get(key) for key in MACHINE_FIELDS},
            "tools": described,
            "cases": list(cases),
            "complaints": list(ruling.complaints),
        },
        unit="defect",
        annotations=[Annotation(NOT_CHECKED, text, Path(), tone=Tone.OPEN) for text in unfinished],
    )


def read_report(tool: str, xml: Path, log: Path, journal: Path) -> ToolReport:
    """Combine the files of one tool's run; missing or invalid files make the report unfinished, never clean."""
    reported = read_journal(journal)
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    unfinished = None
    if not reported.done and reported.launched:
        case, _ = reported.launched[-1]
        unfinished = f"stopped at {case}, the launch number {len(reported.launched)}: {_last_words(text)}"
    elif not reported.done:
        unfinished = f"nothing was launched: {_last_words(text)}"
    defects: list[Defect] = []
    try:
        defects += read_records(tool, xml.read_bytes(), reported.functions)
    except FileNotFoundError:
        unfinished = unfinished or f"{tool} wrote no records: {_last_words(text)}"
    except ET.ParseError as error:
        unfinished = unfinished or f"{tool} wrote records that cannot be read: {error}"
    defects += [found(tool, kernel, f"launch failed: {fault}", case) for case, kernel, fault in reported.faults]
    return ToolReport(
        tool=tool,
        journal=reported,
        defects=tuple(defects),
        unlisted=sum(int(count) for count in _UNPRINTED.findall(text)),
        unfinished=unfinished,
    )


def read_journal(path: Path) -> LaunchLog:
    """Read a journal up to its end or to a line that a crash truncated."""
    machine: dict[str, Any] = {}
    launched: list[tuple[str, str]] = []
    faults: list[tuple[str, str, str]] = []
    functions: dict[str, set[str]] = {}
    done = False
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            entry = records.decode(line.encode(), LaunchLogEntry, path, "run the tool again")
        except PeakgateError:
            break
        if entry.machine is not None:
            machine = entry.machine
        elif entry.fault is not None:
            faults.append((entry.case, entry.kernel, " ".join(entry.fault.split())))
        elif entry.case:
            launched.append((entry.case, entry.kernel))
            for name in entry.functions:
                functions.setdefault(name, set()).add(entry.kernel)
        done = done or entry.done is not None
    return LaunchLog(machine, tuple(launched), tuple(faults), done, functions)


def found(tool: str, kernel: str, what: str, where: str, count: int = 1, *, warning: bool = False) -> Defect:
    """A defect that a tool reports in ``count`` records at the same instruction, to which a waiver is bound."""
    place, times = f" at {where}" if where else "", f", {count} times" if count > 1 else ""
    return Defect(
        key=DefectKey(tool, kernel, what, "", where.partition(", ")[0]),
        where=f"{tool}: {kernel}",
        what=f"{'warning, ' if warning else ''}{what}{place}{times}",
        facts={"kernel": kernel, "what": what, "where": where, "count": count, "warning": warning},
        count=count,
        warning=warning,
    )


def read_records(tool: str, xml: bytes, functions: Mapping[str, Collection[str]]) -> list[Defect]:
    """The defects in a tool's XML; ``functions`` maps functions to the kernels, ``family.stage``, that launch them.

    Records with equal instruction and message become one defect with their count, at the first record's thread and
    block. Raises xml.etree.ElementTree.ParseError for invalid XML.
    """
    first: dict[tuple[str, str, str, bool], str] = {}
    counts: Counter[tuple[str, str, str, bool]] = Counter()
    # The file is the output of a tool this process started, so the standard library's parser is safe for it.
    for record in ET.fromstring(xml).iter("record"):  # noqa: S314
        function = record.findtext("where/func") or record.findtext("what/source/where/func") or ""
        what = record.findtext("what/text") or record.findtext("kind") or "error without a description"
        if record.find("what/source") is not None:  # a race: both accesses, such as `write at tiled+0xe0`
            ends = (*record.findall("what/source"), *record.findall("what/destination"))
            accesses = (
                f"{(end.findtext('direction') or 'access').lower()} at {_instruction(end.find('where'))}"
                for end in ends
            )
            what = f"{what}: {', '.join(accesses)}"
        instruction = _instruction(record.find("where"))
        thread, block = _index(record.find("who/threadIdx")), _index(record.find("who/blockIdx"))
        where = [instruction, f"thread {thread}" if thread else "", f"block {block}" if block else ""]
        # The kernels that launch the function, whose name may be plain, mangled or have template arguments.
        plain = re.split(r"[<(]", function, maxsplit=1)[0].split()
        name = plain[-1].rpartition("::")[2] if plain else ""
        mangled = (known for known in functions if function.startswith("_Z") and f"{len(known)}{known}" in function)
        launching = functions.get(name) or functions.get(next(mangled, ""), ())
        kernel = " or ".join(sorted(launching)) or function or NO_KERNEL
        warning = (record.findtext("level") or "Error").lower() in {"warning", "warn", "info"}
        key = (kernel, what, instruction, warning)
        first.setdefault(key, ", ".join(filter(None, where)))
        counts[key] += 1
    return [
        found(tool, kernel, what, where, counts[kernel, what, instruction, warning], warning=warning)
        for (kernel, what, instruction, warning), where in first.items()
    ]


def _instruction(where: ET.Element | None) -> str:
    """``file:line`` if the code has line information, else ``kernel+0xb0``."""
    if where is None:
        return ""
    path, line = where.findtext("path"), where.findtext("line")
    return f"{path}:{line}" if path and line else f"{where.findtext('func')}+{where.findtext('pc')}"


def _index(element: ET.Element | None) -> str:
    return "" if element is None else f"({','.join(part.text or '?' for part in element)})"


def _last_words(log: str) -> str:
    """The last line that mentions an error, else the last line."""
    lines = [line for line in (_PREFIX.sub("", line).strip() for line in log.splitlines()) if line]
    errors = [line for line in lines if "error" in line.lower() and "SUMMARY" not in line]
    return next(iter((errors or lines)[-1:]), "it left no message")
