"""Meaning in C++ of the tokens of a PTX statement: registers, operands, addresses.

Every register is 64 bits wide and is read as the type that an instruction names (``cuda_ptx.h`` has the helpers).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from peakgate.emulator.ptx_grammar import Address, Negated, Operand

_SPECIAL = {
    "laneid": "peakgate_ptx::rank() % 32u",
    "warpid": "peakgate_ptx::rank() / 32u",
    "nwarpid": "32u",
    "smid": "0u",
    "nsmid": "1u",
    "clock": "peakgate_clock()",
    "clock64": "peakgate_clock()",
    "globaltimer": "peakgate_clock()",
    "globaltimer_lo": "peakgate_clock()",
    "lanemask_lt": "((1u << peakgate_ptx::rank() % 32u) - 1u)",
    "lanemask_le": "((2u << peakgate_ptx::rank() % 32u) - 1u)",
    "lanemask_eq": "(1u << peakgate_ptx::rank() % 32u)",
    "lanemask_ge": "(~0u << peakgate_ptx::rank() % 32u)",
    "lanemask_gt": "~((2u << peakgate_ptx::rank() % 32u) - 1u)",
    **{
        f"{name}.{axis}": f"{variable}.{axis}"
        for name, variable in (("tid", "threadIdx"), ("ctaid", "blockIdx"), ("ntid", "blockDim"), ("nctaid", "gridDim"))
        for axis in "xyz"
    },
    "cluster_ctarank": "peakgate_cluster_rank()",
    "cluster_nctarank": f"({' * '.join(f'peakgate_cluster_size_{axis}' for axis in 'xyz')})",
    **{f"cluster_ctaid.{axis}": f"(blockIdx.{axis} % peakgate_cluster_size_{axis})" for axis in "xyz"},
    **{f"cluster_nctaid.{axis}": f"peakgate_cluster_size_{axis}" for axis in "xyz"},
    **{f"clusterid.{axis}": f"(blockIdx.{axis} / peakgate_cluster_size_{axis})" for axis in "xyz"},
    **{f"nclusterid.{axis}": f"(gridDim.{axis} / peakgate_cluster_size_{axis})" for axis in "xyz"},
    "is_explicit_cluster": f"({' * '.join(f'peakgate_cluster_size_{axis}' for axis in 'xyz')} > 1u)",
}


class Unknown(Exception):
    """An instruction that is not known."""


def variable(name: str) -> str:
    """The C++ variable that stands for a register."""
    return "peakgate_r_" + re.sub(r"\W", "_", name)


@dataclass(frozen=True, slots=True)
class Names:
    """Meaning of a statement's tokens: its operands by position, and the types of its registers.

    ``lasting`` are the positions of outputs that are written after the statement.
    """

    given: Sequence[str]
    registers: Mapping[str, str]
    lasting: set[int] = field(default_factory=set)

    def bits(self, operand: Operand) -> str:
        """A word as 64 bits."""
        if not isinstance(operand, str):
            raise Unknown
        if re.fullmatch(r"%\d+", operand) and int(operand[1:]) < len(self.given):
            return self.given[int(operand[1:])]
        if operand in self.registers:
            return variable(operand)
        if operand.startswith("%") and operand[1:] in _SPECIAL:
            return f"uint64_t({_SPECIAL[operand[1:]]})"
        if re.fullmatch(r"0[fFdD][0-9a-fA-F]+", operand):
            return f"0x{operand[2:]}ull"
        if re.fullmatch(r"[-~]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?", operand):
            return f"uint64_t({operand.rstrip('U')}ll)"
        if operand == "WARP_SZ":
            return "32ull"
        raise Unknown

    def place(self, operand: Operand) -> str:
        """A pointer to an operand that is an output: the statement leaves it alone until it is written."""
        if not isinstance(operand, str) or not re.fullmatch(r"%\d+", operand):
            raise Unknown
        self.lasting.add(int(operand[1:]))
        return f"peakgate_p{operand[1:]}"

    def value(self, operand: Operand, type_: str) -> str:
        """An operand as a value of a C++ type."""
        if isinstance(operand, Negated):
            return f"!{self.value(operand.word, type_)}"
        if isinstance(operand, str) and re.fullmatch(r"-?\d+\.\d*(?:[eE][-+]?\d+)?", operand):
            return f"{type_}({operand})"
        return f"peakgate_ptx::get<{type_}>({self.bits(operand)})"

    def put(self, operand: Operand, expression: str, type_: str) -> str:
        """The statement that gives a register a value of a C++ type; none for the register ``_``."""
        if operand == "_":
            return f"(void)({expression});"
        return f"{self.bits(operand)} = peakgate_ptx::bits(({type_})({expression}));"

    def address(self, operand: Operand, space: str) -> str:
        """A place in memory."""
        if not isinstance(operand, Address) or operand.further:
            raise Unknown
        helper = "shared" if space == "shared" else "generic"
        offset = self.bits(operand.offset) if operand.offset in self.registers else operand.offset.lstrip("+")
        return f"peakgate_ptx::{helper}({self.bits(operand.word)} + {offset})"
