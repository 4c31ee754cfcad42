"""The grammar of inline PTX, which parses text to instructions, and its tokens in C++.

Every register is 64 bits wide and is read as the instruction's type (helpers in ``cuda_ptx.h``). It is imported only
for sources with ``asm``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import LarkError

GRAMMAR = r"""
block: item*
?item: "{" block "}" | declaration | label | instruction | directive | ";"

declaration: ".reg" TYPE declared ("," declared)* ";"
declared: NAME ["<" NUMBER ">"]
label: LABEL
directive: DIRECTIVE ";"
instruction: [guard] OPCODE [operand ("," operand)*] ";"
guard: "@" [NOT] word

?operand: word | address | vector | pair | negated
word: NAME | GIVEN | NUMBER
address: "[" word [OFFSET | "+" word] ("," operand)* "]"
vector: "{" operand ("," operand)* "}"
pair: word "|" word
negated: NOT word

NOT: "!"
TYPE: /\.[a-z]\w*/
LABEL.3: /[A-Za-z_$][\w$]*\s*:(?!:)/
DIRECTIVE.2: /\.(pragma|loc|file)\b[^;]*/
OPCODE.1: /[a-z]\w*(\.\w+(::(\w+|%\d+))*)*/
GIVEN: /%\d+(\.[bh][0-3])?/
NAME: /%?[A-Za-z_$][\w$]*(\.[xyzw]|\.[bh][0-3])?/
NUMBER: /[-~]?(0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+\.\d*([eE][-+]?\d+)?|\d+U?)/
OFFSET.2: /[-+]\s*(0[xX][0-9a-fA-F]+|\d+)/

%ignore /\s+/
%ignore /\/\/[^\n]*/
%ignore /\/\*(.|\n)*?\*\//
"""
"""Braces of blocks and of vectors occur in different positions, so that one token of look-ahead is enough."""

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


class NotUnderstood(Exception):
    """Text that the grammar does not accept."""


@dataclass(frozen=True, slots=True)
class Address:
    """``[word + offset]``; operands after a comma, such as the coordinates of a tensor, are in ``further``."""

    word: str
    offset: str
    further: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, ...}``."""

    members: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """``a|b``: two results."""

    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Negated:
    """``!a``."""

    word: str


Operand = str | Address | Vector | Pair | Negated
"""A word is a register, an operand of the statement (``%0``), a special register or a number."""


def members_of(operand: Operand) -> tuple[Operand, ...]:
    """The members of a vector; any other operand alone."""
    return operand.members if isinstance(operand, Vector) else (operand,)


def two_of(operand: Operand) -> tuple[Operand, Operand]:
    """The two results of a pair; any other operand, with ``_`` as the second."""
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, "_")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; ``guard`` is its predicate, if any, and ``negated`` whether that must be false."""

    name: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: str = ""
    negated: bool = False

    @property
    def opcode(self) -> str:
        """Name and modifiers, as written."""
        return ".".join((self.name, *self.modifiers))


def needs_features(instruction: Instruction, of_one: int = 0) -> str:
    """The C++ statement that refuses an instruction where its architecture-specific features are not available.

    ``of_one`` is ``__CUDA_ARCH__`` of the architecture that alone has it; 0: 10.0 and 10.3 have it.
    """
    return f'peakgate_ptx::needs_features(peakgate_specific, "PTX instruction {instruction.opcode}", {of_one});'


@dataclass(frozen=True, slots=True)
class Label:
    """A place to branch to."""

    name: str


@dataclass(slots=True)
class Program:
    """The instructions and labels of one ``asm`` statement in order, and its registers with their types."""

    body: list[Instruction | Label] = field(default_factory=list)
    registers: dict[str, str] = field(default_factory=dict)

    @property
    def labels(self) -> list[str]:
        """The names of its labels."""
        return [step.name for step in self.body if isinstance(step, Label)]


@v_args(inline=True)
class _Build(Transformer[Token, Program]):
    """Builds a Program bottom-up, which is the order of the text."""

    def __init__(self) -> None:
        super().__init__()
        self.program = Program()

    def declaration(self, type_: Token, *names: list[str]) -> None:
        for name in (name for several in names for name in several):
            if name in self.program.registers:
                raise NotUnderstood(f"register {name} declared twice")
            self.program.registers[name] = type_[1:]

    def declared(self, name: Token, count: Token | None) -> list[str]:
        return [str(name)] if count is None else [f"{name}{number}" for number in range(int(count))]

    def label(self, name: Token) -> None:
        self.program.body.append(Label(name[:-1].strip()))

    def guard(self, negation: Token | None, name: str) -> tuple[str, bool]:
        return name, negation is not None

    def instruction(self, guard: tuple[str, bool] | None, opcode: Token, *operands: Operand | None) -> None:
        name, *modifiers = opcode.split(".")
        condition, negated = guard or ("", False)
        given = tuple(operand for operand in operands if operand is not None)
        self.program.body.append(Instruction(name, tuple(modifiers), given, condition, negated))

    def word(self, token: Token) -> str:
        return str(token)

    def address(self, base: str, offset: Token | str | None, *further: Operand) -> Address:
        return Address(base, "".join((offset or "0").split()), further)

    def vector(self, *members: Operand) -> Vector:
        return Vector(members)

    def pair(self, first: str, second: str) -> Pair:
        return Pair(first, second)

    def negated(self, _not: Token, word: str) -> Negated:
        return Negated(word)


@lru_cache
def _parser() -> Lark:
    return Lark(GRAMMAR, start="block", parser="lalr", maybe_placeholders=True)


@lru_cache(maxsize=1024)
def parsed(template: str) -> Program:
    """The program of a statement's text. Raises NotUnderstood if it does not parse."""
    build = _Build()
    try:
        build.transform(_parser().parse(template))
    except LarkError as error:
        raise NotUnderstood(str(error)) from error
    return build.program


class Unknown(Exception):
    """An instruction that is not emulated."""


_DECIMAL = re.compile(r"-?\d+\.\d*(?:[eE][-+]?\d+)?")


def variable(name: str) -> str:
    """The C++ variable of a register."""
    return "peakgate_r_" + re.sub(r"\W", "_", name)


@dataclass(frozen=True, slots=True)
class Names:
    """Translates a statement's tokens; ``given`` are its operands by position, ``registers`` its registers' types.

    ``lasting`` are the positions of outputs that are written after the statement.
    """

    given: Sequence[str]
    registers: Mapping[str, str]
    lasting: set[int] = field(default_factory=set)

    def bits(self, operand: Operand) -> str:
        """A word as a 64-bit C++ expression."""
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

    def register_of(self, operand: Operand, type_: str) -> str:
        """A word as a 64-bit C++ expression, also a decimal number of a C++ type."""
        decimal = isinstance(operand, str) and _DECIMAL.fullmatch(operand)
        return f"peakgate_ptx::bits({self.value(operand, type_)})" if decimal else self.bits(operand)

    def place(self, operand: Operand) -> str:
        """A pointer to an output operand, which is written later than in this statement."""
        if not isinstance(operand, str) or not re.fullmatch(r"%\d+", operand):
            raise Unknown
        self.lasting.add(int(operand[1:]))
        return f"peakgate_p{operand[1:]}"

    def value(self, operand: Operand, type_: str) -> str:
        """An operand as an expression of a C++ type."""
        if isinstance(operand, Negated):
            return f"!{self.value(operand.word, type_)}"
        if isinstance(operand, str) and _DECIMAL.fullmatch(operand):
            return f"{type_}({operand})"
        return f"peakgate_ptx::get<{type_}>({self.bits(operand)})"

    def put(self, operand: Operand, expression: str, type_: str) -> str:
        """The statement that assigns a value of a C++ type to a register; for ``_`` the value is discarded."""
        if operand == "_":
            return f"(void)({expression});"
        return f"{self.bits(operand)} = peakgate_ptx::bits(({type_})({expression}));"

    def address(self, operand: Operand, space: str) -> str:
        """A memory operand as a C++ pointer."""
        if not isinstance(operand, Address) or operand.further:
            raise Unknown
        helper = "shared" if space == "shared" else "generic"
        offset = self.bits(operand.offset) if operand.offset in self.registers else operand.offset.lstrip("+")
        return f"peakgate_ptx::{helper}({self.bits(operand.word)} + {offset})"
