"""Counts what a kernel's main loop costs one scheduler: instructions, and multiply-adds whose operands share a bank.

    banks.py CUBIN ENTRY      (needs nvdisasm or cuobjdump)

The register file has two banks, even and odd registers, and each bank delivers one register per cycle. A multiply-add
that reads two registers of one bank, not counting operands that `.reuse` keeps from the multiply-add before, takes up
to one cycle more. With enough warps to hide latency a scheduler issues one instruction per cycle, so one would expect
multiply-adds / (instructions + such conflicts) of the peak.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from peakgate.compile.sass import SassInstruction, disassemble

OPERAND = re.compile(r"^-?\|?R(\d+)")


def main_loop(code: Sequence[SassInstruction]) -> list[SassInstruction]:
    """The loop with the largest share of multiply-adds among those with at least 100."""
    bodies = [
        [each for each in code if branch.target <= each.address <= branch.address]
        for branch in code
        if branch.target is not None and branch.target < branch.address
    ]
    loops = [body for body in bodies if _multiply_adds(body) >= 100]
    return max(loops, key=lambda body: _multiply_adds(body) / len(body))


def conflicts(body: Sequence[SassInstruction]) -> int:
    """Multiply-adds that read two or more registers of one bank."""
    kept: dict[int, int] = {}
    found = 0
    for each in body:
        if not each.opcode.startswith("FFMA"):
            continue
        operands = [operand.strip() for operand in each.text.split(maxsplit=1)[1].split(",")][1:]
        registers = {slot: int(match[1]) for slot, text in enumerate(operands) if (match := OPERAND.match(text))}
        read = [register for slot, register in registers.items() if kept.get(slot) != register]
        kept = {slot: register for slot, register in registers.items() if ".reuse" in operands[slot]}
        even = sum(register % 2 == 0 for register in read)
        found += max(even, len(read) - even) > 1
    return found


def _multiply_adds(body: Sequence[SassInstruction]) -> int:
    return sum(each.opcode.startswith("FFMA") for each in body)


if __name__ == "__main__":
    listing = disassemble(Path(sys.argv[1]), sys.argv[2])
    if listing is None:
        sys.exit(f"{sys.argv[1]}: no kernel {sys.argv[2]} that nvdisasm or cuobjdump can read")
    loop = main_loop(listing)
    useful, stalls = _multiply_adds(loop), conflicts(loop)
    sys.stdout.write(
        f"{len(loop)} instructions, {useful} multiply-adds, {stalls} conflicts: "
        f"{100 * useful / (len(loop) + stalls):.1f} % of the peak\n"
    )
