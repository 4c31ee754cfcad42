"""Disassemble a cubin, and count its instructions by class and its loops."""

from __future__ import annotations

import difflib
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DISASSEMBLERS = (("nvdisasm", ("-c",)), ("cuobjdump", ("-sass",)))
"""Disassemblers with their options; the first that is installed is used. Both are part of the CUDA toolkit."""

DISASSEMBLY_LIMIT_S = 60.0

_INSTRUCTION = re.compile(r"^\s*/\*(?P<address>[0-9a-f]{4,})\*/\s+(?P<text>[^;]+);")
_LABEL = re.compile(r"^(?P<label>\.L_\w+):")
_SECTION = re.compile(r"^(?:\.text\.(?P<section>\S+):|\s*Function : (?P<function>\S+))$")
_TARGET = re.compile(r"(?P<label>\.L_\w+)|\b(?P<address>0x[0-9a-f]+)\s*$")

_CLASSES = (
    ("local load", ("LDL",)),
    ("local store", ("STL",)),
    ("copy to shared", ("LDGSTS", "UBLKCP", "UTMALDG")),
    ("global load", ("LDG", "LD")),
    ("global store", ("STG", "ST")),
    ("shared load", ("LDS", "LDSM")),
    ("shared store", ("STS", "STSM")),
    ("atomic", ("ATOM", "ATOMG", "ATOMS", "RED", "REDG")),
    ("constant load", ("LDC", "ULDC", "LDCU")),
    ("tensor", ("HMMA", "IMMA", "DMMA", "HGMMA", "IGMMA", "QGMMA", "BMMA")),
    ("barrier", ("BAR", "MEMBAR", "DEPBAR", "LDGDEPBAR", "SYNCS", "WARPSYNC")),
    ("branch", ("BRA", "BRX", "JMP", "CALL", "RET", "EXIT", "BSSY", "BSYNC", "BREAK")),
    ("special function", ("MUFU",)),
    ("conversion", ("I2F", "F2I", "F2F", "I2FP", "F2FP", "FRND", "I2I", "I2IP")),
    ("FP64", ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX")),
    ("FP16", ("HADD2", "HMUL2", "HFMA2", "HSETP2", "HMNMX2", "HSET2")),
    ("FP32", ("FADD", "FMUL", "FFMA", "FSETP", "FMNMX", "FSEL", "FCHK", "FSET", "FSWZADD")),
    ("move", ("MOV", "UMOV", "SEL", "USEL", "S2R", "S2UR", "CS2R", "PRMT", "SHFL", "R2UR", "R2P", "P2R", "VOTE")),
)
CLASS_OF = {opcode: name for name, opcodes in _CLASSES for opcode in opcodes}
OTHER = "integer and other"


@dataclass(frozen=True, slots=True)
class SassInstruction:
    """One instruction: its address, its text without predicate, and its branch target, None if unknown."""

    address: int
    text: str
    target: int | None = None

    @property
    def opcode(self) -> str:
        """The opcode with its modifiers, as ``LDG.E.128``."""
        return self.text.split()[0]

    @property
    def kind(self) -> str:
        return CLASS_OF.get(self.opcode.partition(".")[0], OTHER)


def tool() -> tuple[str, ...] | None:
    """The command that disassembles a file appended to it; None if no disassembler is installed."""
    found = ((_path(name), options) for name, options in DISASSEMBLERS)
    return next(((path, *options) for path, options in found if path), None)


def disassemble(cubin: Path, entry: str) -> tuple[SassInstruction, ...] | None:
    """The instructions of one kernel of a cubin; None if no disassembler is installed or it fails."""
    command = tool()
    if command is None:
        return None
    try:
        done = subprocess.run(
            [*command, str(cubin)], capture_output=True, text=True, check=False, timeout=DISASSEMBLY_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse(done.stdout, entry) or None if done.returncode == 0 else None


def parse(listing: str, entry: str) -> tuple[SassInstruction, ...]:
    """The instructions of ``entry`` in the output of nvdisasm or cuobjdump, without NOPs, which are only padding."""
    inside, labels, waiting = False, dict[str, int](), list[str]()
    found: list[tuple[int, str]] = []
    for line in listing.splitlines():
        if section := _SECTION.match(line):
            inside = (section["section"] or section["function"]) == entry
        elif inside and (label := _LABEL.match(line)):
            waiting.append(label["label"])
        elif inside and (match := _INSTRUCTION.match(line)):
            address = int(match["address"], 16)
            labels |= dict.fromkeys(waiting, address)
            waiting.clear()
            text = re.sub(r"^@!?U?P[T\d]+\s+", "", match["text"].strip())
            if text != "NOP":
                found.append((address, text))
    code = []
    for address, text in found:
        at = _TARGET.search(text) if text.startswith("BRA") else None
        target = None if at is None else labels.get(at["label"]) if at["label"] else int(at["address"], 16)
        code.append(SassInstruction(address, text, target))
    return tuple(code)


def mix(code: Sequence[SassInstruction]) -> dict[str, int]:
    """The number of instructions of each class."""
    return dict(Counter(instruction.kind for instruction in code))


def loops(code: Sequence[SassInstruction]) -> list[int]:
    """The number of instructions in each loop, from the target of a backward branch to the branch, longest first."""
    backward = [each for each in code if each.target is not None and each.target < each.address]
    sizes = [sum(each.target <= other.address <= each.address for other in code) for each in backward if each.target]
    return sorted(sizes, reverse=True)


def diff(ours: Sequence[str], theirs: Sequence[str], most: int = 16) -> list[str]:
    """The opcodes that differ, as ``-LDG.E`` and ``+LDG.E.128``, repeated ones as ``+8 FFMA``; at most ``most``."""
    lines: list[tuple[str, str, int]] = []
    for tag, first, last, start, end in difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        for sign, opcodes in (("-", ours[first:last]), ("+", theirs[start:end])):
            for opcode in opcodes:
                if lines and lines[-1][:2] == (sign, opcode):
                    lines[-1] = (sign, opcode, lines[-1][2] + 1)
                else:
                    lines.append((sign, opcode, 1))
    shown = [f"{sign}{count} {opcode}" if count > 1 else f"{sign}{opcode}" for sign, opcode, count in lines[:most]]
    return [*shown, f"and {len(lines) - most} more"] if len(lines) > most else shown


def _path(name: str) -> str | None:
    """The path of a CUDA toolkit program: on PATH, or in an installed package; None if not installed."""
    if path := shutil.which(name):
        return path
    try:
        from cuda.pathfinder import find_nvidia_binary_utility  # noqa: PLC0415  (an old one has no such function)
    except ImportError:
        return None
    found: str | None = find_nvidia_binary_utility(name)
    return found
