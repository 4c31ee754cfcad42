"""The grammar of inline PTX: text to instructions. Only builds of sources with ``asm`` import it."""

from __future__ import annotations

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
OPCODE.1: /[a-z]\w*(\.\w+(::\w+)*)*/
GIVEN: /%\d+/
NAME: /%?[A-Za-z_$][\w$]*(\.[xyzw])?/
NUMBER: /[-~]?(0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+\.\d*([eE][-+]?\d+)?|\d+U?)/
OFFSET.2: /[-+]\s*(0[xX][0-9a-fA-F]+|\d+)/

%ignore /\s+/
%ignore /\/\/[^\n]*/
%ignore /\/\*(.|\n)*?\*\//
"""
"""A block's braces and a vector's are in different places, so that one token of look-ahead is enough."""


class NotUnderstood(Exception):
    """Text that is no PTX by the grammar."""


@dataclass(frozen=True, slots=True)
class Address:
    """``[word + offset]``; what stands behind a comma, as the coordinates of a tensor, is in ``further``."""

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
    """The two results of a pair; any other operand, and nowhere for the second."""
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, "_")


@dataclass(frozen=True, slots=True)
class Instruction:
    """``guard`` is the predicate it depends on, if any, ``negated`` whether it must be false."""

    name: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: str = ""
    negated: bool = False

    @property
    def opcode(self) -> str:
        """As it is written."""
        return ".".join((self.name, *self.modifiers))


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
    """Collects a program, from the leaves of the tree upwards, which is the order of the text."""

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
    """The program of a statement's text. Raises NotUnderstood where the grammar does not have it."""
    build = _Build()
    try:
        build.transform(_parser().parse(template))
    except LarkError as error:
        raise NotUnderstood(str(error)) from error
    return build.program
