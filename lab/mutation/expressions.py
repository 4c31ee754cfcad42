"""Generates mutants of a module: its syntax tree with one condition, boundary, constant, order, term or step changed.

Strings, annotations, the arguments of ``raise`` and the options of a command are not changed: such mutants change words
but no decision.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

BOUNDARY = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPPOSITE = {ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt}
OPERATOR = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
FUNCTION = {"min": "max", "max": "min", "any": "all", "all": "any"}
TYPES = {"bool", "bytes", "float", "int", "str"}
SYMMETRIC = {"fmin", "fmax", "minimum", "maximum", "hypot", "isclose", "gcd", "betaln"}
"""Functions of two arguments whose order does not matter."""

DECLARED = {"strict", "check", "frozen", "slots"}
UNCHANGED = {"annotation", "returns", "decorator_list", "bases"}


@dataclass(frozen=True)
class Mutant:
    """One change: the dotted name of its function, its line, and the expression before and after."""

    within: str
    line: int
    was: str
    becomes: str


def mutants(tree: ast.Module) -> Iterator[Mutant]:
    """Yields each mutant; ``tree`` is mutated until the next one is requested, and is restored at the end."""
    for within, node in list(_places(tree, "")):
        if isinstance(node, ast.ClassDef):
            continue
        for field, value in ast.iter_fields(node):
            entries = value if isinstance(value, list) else [value]
            for position, child in enumerate(entries):
                for other in _changed(node, field, child):
                    was, becomes = _text(child), _text(other)
                    if isinstance(value, list):
                        value[position] = other
                    else:
                        setattr(node, field, other)
                    ast.fix_missing_locations(tree)
                    yield Mutant(within, getattr(child, "lineno", 0), was, becomes)
                    if isinstance(value, list):
                        value[position] = child
                    else:
                        setattr(node, field, child)


def _places(node: ast.AST, within: str) -> Iterator[tuple[str, ast.AST]]:
    """The nodes whose children may change, each with its function or class."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        within = f"{within}.{node.name}".lstrip(".")
    yield within, node
    for field, value in ast.iter_fields(node):
        if field in UNCHANGED:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.ClassDef) and not isinstance(child, ast.FunctionDef):
                continue  # fields
            if not isinstance(child, ast.AST) or _is_open_extent(node, child):
                continue
            if not _is_wording(child) and not _of_a_command(child):
                yield from _places(child, within)


def _is_wording(node: ast.AST) -> bool:
    """Whether a node only selects or builds a string."""
    if isinstance(node, ast.IfExp):
        return _is_wording(node.body) and _is_wording(node.orelse)
    return isinstance(node, ast.JoinedStr | ast.Raise) or (isinstance(node, ast.Constant) and _is_text(node))


def _of_a_command(node: ast.AST) -> bool:
    """Whether a node only declares a command's options or a type, or starts the module as a command."""
    if isinstance(node, ast.FunctionDef):
        return node.name.startswith("_parser") or node.name == "add_arguments"
    if isinstance(node, ast.If):
        return ast.unparse(node.test) in {"TYPE_CHECKING", "__name__ == '__main__'"}
    if isinstance(node, ast.Assign):
        return isinstance(node.value, ast.BinOp) and _is_type(node.value)
    name = node.func if isinstance(node, ast.Call) else None
    return isinstance(name, ast.Attribute) and name.attr in {"add_argument", "debug"}


def _is_type(node: ast.AST) -> bool:
    """Whether an expression looks like a type or a union of types."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _is_type(node.left) and _is_type(node.right)
    name = node.id if isinstance(node, ast.Name) else ""
    none = isinstance(node, ast.Constant) and node.value is None
    return none or isinstance(node, ast.Subscript) or name in TYPES or (name[:1].isupper() and not name.isupper())


def _changed(parent: ast.AST, field: str, node: object) -> Iterator[ast.AST]:
    """The replacements of a node."""
    if field in UNCHANGED:
        return
    if field == "test" or (field == "ifs" and isinstance(parent, ast.comprehension)):
        if not isinstance(parent, ast.While):
            yield ast.Constant(True)
        yield ast.Constant(False)
    if isinstance(node, ast.Compare | ast.BoolOp):
        yield from _conditions(node)
    elif isinstance(node, ast.BinOp | ast.UnaryOp):
        yield from _arithmetic(node, ordered=not _is_abs(parent))
    elif isinstance(node, ast.Constant) and not (isinstance(parent, ast.keyword) and parent.arg in DECLARED):
        yield from _constants(node.value)
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    elif isinstance(node, ast.AugAssign) or _is_call_for_its_effect(node):
        yield ast.Pass()


def _is_call_for_its_effect(node: object) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and not _of_a_command(node.value)


def _conditions(node: ast.Compare | ast.BoolOp) -> Iterator[ast.AST]:
    """A comparison with another boundary or the opposite; ``and`` and ``or`` exchanged, or without one condition."""
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            for table in (BOUNDARY, OPPOSITE):
                if type(operator) in table:
                    operators = [*node.ops[:place], table[type(operator)](), *node.ops[place + 1 :]]
                    yield ast.Compare(node.left, operators, node.comparators)
        return
    yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    for place in range(len(node.values)):
        rest = node.values[:place] + node.values[place + 1 :]
        yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def _is_open_extent(node: ast.AST, child: ast.AST) -> bool:
    """Whether the child is the -1 of a reshape, for which NumPy accepts -2 too."""
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".reshape") and ast.unparse(child) == "-1"


def _is_abs(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "abs"


def _arithmetic(node: ast.BinOp | ast.UnaryOp, *, ordered: bool) -> Iterator[ast.AST]:
    """Another operator, without one term, a difference or quotient with exchanged operands, or without the negation.

    If not ``ordered``, the sign of a difference does not matter.
    """
    if isinstance(node, ast.UnaryOp):
        if isinstance(node.op, ast.Not | ast.USub):
            yield node.operand
    elif type(node.op) in OPERATOR and not _is_text(node.left, node.right):
        yield ast.BinOp(node.left, OPERATOR[type(node.op)](), node.right)
        yield node.left
        if isinstance(node.op, ast.Sub) and not ordered:
            return
        if isinstance(node.op, ast.Sub | ast.Div):
            yield ast.BinOp(node.right, node.op, node.left)
        else:
            yield node.right


def _constants(value: object) -> Iterator[ast.AST]:
    """The opposite truth value, the next integer, 1.5 times a float."""
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield ast.Constant(value + 1)
    elif isinstance(value, float):
        yield ast.Constant(value * 1.5 + (value == 0))


def _calls(node: ast.Call) -> Iterator[ast.AST]:
    """The opposite function, the first two arguments exchanged, or the argument in place of ``abs``."""
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name in FUNCTION:
        yield ast.Call(ast.Name(FUNCTION[name], ast.Load()), node.args, node.keywords)
    if name == "abs":
        yield node.args[0]
    kept = {*FUNCTION, "isinstance", "getattr", "zip"} | SYMMETRIC
    if len(node.args) < 2 or (name or getattr(node.func, "attr", "")) in kept:
        return
    first, second, *others = node.args
    if not _is_text(first, second) and ast.dump(first) != ast.dump(second):
        yield ast.Call(node.func, [second, first, *others], node.keywords)


def _is_text(*nodes: ast.AST) -> bool:
    """Whether one of them is a string, None or a starred expression."""
    return any(
        isinstance(each, ast.JoinedStr | ast.Starred)
        or (isinstance(each, ast.Constant) and (isinstance(each.value, str) or each.value is None))
        for each in nodes
    )


def _text(node: object) -> str:
    """A node's source in one line."""
    return " ".join(ast.unparse(ast.fix_missing_locations(node)).split()) if isinstance(node, ast.AST) else str(node)
