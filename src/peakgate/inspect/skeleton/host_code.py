"""Expressions of a foreign file's host code, as Python expressions in the names of a family's sizes."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import prod

from peakgate.inspect.skeleton.types import Types, element
from peakgate_emulator.masking import closing
from peakgate_emulator.signatures import Signature, WrittenLaunch, listed

USUAL_BLOCK = 256
"""Threads of a block whose launch is not known."""
MOST_THREADS, MOST_SHARED_BYTES = 1024, 48 << 10

_BYTES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "int64": 8, "uint64": 8, "uint8": 1, "int8": 1}
_CEIL = re.compile(r"(?i)\w*(?:ceil|div_?up|up_?div|cdiv|get_?blocks|num_?blocks)\w*")
_CASTS = re.compile(
    r"\(\s*(?:const\s+)?(?:unsigned(?: int)?|int|float|double|size_t|u?int\d+_t|long(?: long)?|uint)\s*\)|"
    r"static_cast\s*<[^<>]*>|\b\w+\s*::\s*(?=\w)"
)
_WITH_REMAINDER = re.compile(
    r"\(?\s*(\w+)\s*/\s*(\w+)\s*\)?\s*\+\s*\(*\s*!?\s*\(?\s*\1\s*%\s*\2[^?:]*\?[^?:]*:\s*\w+\s*\)*"
)
"""``n / b + (n % b ? 1 : 0)``, a division that rounds up."""
_DECLARED = r"(?:\b(?:int|unsigned|auto|long|short|dim3|u?int\w*_t|size_t|constexpr|const|uint)\b|[*&,;{}])"
_NAME, _TYPE = r"[A-Za-z_]\w*", r"(?:[\w:]+\s*(?:<[^<>;]*>)?\s*)"
_ANY_SIZE = 64
_DEEPEST, _LONGEST, _LARGEST = 8, 300, 1 << 40
"""Limits of definitions by definitions, of the text of an expression, and of the numbers in it."""


class Unknown(Exception):
    """Something that the text does not say."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Something that is left to decide: where in the family, by a parameter of ``kernel`` or an argument's name."""

    at: str
    text: str


def python_name(name: str) -> str:
    """A C++ name as that of a size."""
    return f"{name}_" if keyword.iskeyword(name) or name in ("xp", "min", "max", "block") else name


def of_block(name: str) -> bool:
    """Whether a number of this name is one of the threads of a block."""
    usual = r"(?i)block_?(?:size|dim|width|len)|threads?|^blk|^tpb$|^bs$|^block(?:_?[xyz\d]\w*)?$"
    return re.search(usual, name) is not None


def without_casts(written: str) -> str:
    """The text without casts, and without brackets around a single name."""
    text = _CASTS.sub("", written).strip()
    return re.sub(r"\(\s*(\w+)\s*\)", r"\1", text) if re.fullmatch(r"\(\s*\w+\s*\)", text) else text


def evaluated(expression: str, sizes: Mapping[str, int]) -> int:
    """The value of an expression of this module at a size.

    Raises Unknown for a name that is no size, and for a division by zero.
    """
    try:
        found = eval(expression, {"__builtins__": {}, "min": min, "max": max}, dict(sizes))  # noqa: S307  (`_converted`)
    except (NameError, ArithmeticError, ValueError):
        raise Unknown from None
    return int(found)


def names_in(expression: str) -> set[str]:
    """The sizes that an expression names."""
    named = {node.id for node in ast.walk(ast.parse(expression, mode="eval")) if isinstance(node, ast.Name)}
    return named - {"min", "max"}


class HostCode:
    """The host code before a launch.

    ``sizes`` are the names of sizes so far, ``bound`` what the launch's own names are in them, ``known`` the
    numbers that it gives for them. ``rounds_up``: the grid has a thread for each of a size, whatever that is. ``open``
    says what the text leaves to decide, ``usual_block`` the threads of a block that it does not give.
    """

    def __init__(self, text: str, launch: WrittenLaunch | None) -> None:
        self.sizes: list[str] = []
        self.bound: dict[str, str] = {}
        self.known: dict[str, str] = {}
        self.open: list[Decision] = []
        self.types = Types(text, self.number)
        self.usual_block = USUAL_BLOCK
        self.rounds_up = False
        self._text, self._before = text, launch.before if launch else ""
        self._shape = launch.shape if launch else ()
        self._threads = 0  # of the block that is known once names without a definition become sizes

    def note(self, at: str, text: str) -> None:
        """Leave something to decide: an argument by its name, or another part of the launch."""
        self.open.append(Decision(at, text))

    def member(self, written: str, path: str, paths: Sequence[str]) -> str:
        """What the text gives for a member of the struct ``written``, such as ``inner.rows[1]``; empty if nothing.

        ``written`` itself without a path, ``written.path`` if the struct is the caller's. ``paths`` are those of all
        its members, in order.
        """
        if not path:
            return written
        if re.fullmatch(_NAME, written):
            place = re.escape(f"{written}.{path}")  # an index may be that of a loop
            place = re.sub(r"\\\[(\d+)\\\]", lambda index: rf"\[\s*(?:{index[1]}|{_NAME})\s*\]", place)
            if assigned := re.findall(rf"\b{place}\s*=(?!=)\s*([^;]+);", self._before):
                return without_casts(assigned[-1])
            if not re.search(rf"[\w>]\s+{written}\s*[;={{(]", self._before):
                return f"{written}.{path}"
            begun = re.match(rf"(?s:.*)\b{written}\s*=?\s*{_TYPE}?(?=\{{)", self._before)  # the last one
            text = self._before[begun.end() :] if begun else ""
        else:
            text = re.sub(rf"^{_TYPE}(?=\{{)", "", written)
        above: list[str] = []
        for step in re.findall(r"\w+", path):
            parts = listed(text[1 : closing(text, 0)]) if text.startswith("{") else ()
            inside = (re.findall(r"\w+", each) for each in paths)
            order = dict.fromkeys(each[len(above)] for each in inside if each[: len(above)] == above)
            designated = (re.match(r"\.\s*(\w+)\s*=?\s*(.*)", each) for each in parts)
            named = {each[1]: each[2] for each in designated if each}
            plain = dict(zip(order, parts, strict=False)) if len(parts) <= len(order) else {}
            text = (named or plain).get(step, "")
            above.append(step)
        return without_casts(text)

    def decimal(self, written: str) -> str | None:
        """A literal number, or the one that a local variable begins with; None for anything else."""
        literal = r"(-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)[fF]?"
        local = rf"\b{written}\s*=\s*{literal}\s*[;,]" if re.fullmatch(r"[A-Za-z_]\w*", written) else "(?!)"
        given = re.fullmatch(literal, written)
        found = [given[1]] if given else [match[1] for match in re.finditer(local, self._before)]
        return repr(float(found[-1])) if found else None

    def number(self, written: str) -> str | None:
        """A whole number that the text gives; None if it depends on something else."""
        try:
            found = self._expression(written)
            return str(evaluated(found, {}))
        except Unknown:
            return None

    def of_bound(self, written: str) -> str | None:
        """An expression in the names of sizes; None if it has another name."""
        try:
            return self._expression(written)
        except Unknown:
            return None

    def is_computed(self, written: str) -> bool:
        """Whether a local variable is the result that an unknown function has for another argument."""
        text = self._defined(written) if re.fullmatch(r"[A-Za-z_]\w*", written) else None
        of_others = text is not None and "(" in text and not self.bound.keys().isdisjoint(re.findall(r"\w+", text))
        return of_others and self.of_bound(text or "") is None

    def block(self, signature: Signature) -> tuple[int, ...]:
        """The block of the launch; else that of its launch bounds, else the usual one."""
        bound, self.bound = self.bound, {}  # a constant that is an argument too is a number here
        try:
            found = tuple(evaluated(each, {}) for each in self._extents(self._shape[1] if self._shape[1:] else ""))
        except Unknown:
            found = ()
        self.bound = bound
        if found and 0 < prod(found) <= MOST_THREADS:
            return found
        bounds = re.search(r"__launch_bounds__\s*\(([^,()]+)", signature.declared)
        most = self.number(bounds[1]) if bounds else None
        if most is not None:
            return (min(int(most), MOST_THREADS),)
        self.note("block", "the block: not known from this file")
        return (16, 16) if "threadIdx.y" in signature.body else (self.usual_block,)

    def grid(self, signature: Signature, block: tuple[int, ...]) -> tuple[str, ...]:
        """The grid of the launch; else one thread per element, or one block per row where no thread is counted."""
        self._threads = block[0]
        with suppress(Unknown):
            found = self._extents(self._shape[0] if self._shape else "")
            for extent in found:  # what begins with 0, such as a counter of a loop, may divide
                evaluated(extent, dict.fromkeys(self.sizes, _ANY_SIZE))
            each = {f"-(-{size} // {threads})" for size in self.sizes for threads in block}
            self.rounds_up = not each.isdisjoint(found)
            return found
        self.note("grid", "the grid: not known from this file")
        of_threads = re.search(r"blockDim|gridDim", signature.body) is not None
        if "blockIdx.y" in signature.body:
            # Which size is which axis is not known; threads that are too many are guarded.
            most = self.sizes[0] if len(self.sizes) == 1 else f"max({', '.join(self.sizes)})"
            return tuple(f"-(-{most} // {threads})" if threads > 1 else most for threads in (*block, 1)[:2])
        if of_threads:
            product = " * ".join(self.sizes)
            return (f"-(-{product} // {block[0]})",)
        return (self.sizes[0],)

    @property
    def is_one_block(self) -> bool:
        """Whether the launch is of one block."""
        return bool(self._shape) and self.number(self._shape[0]) == "1"

    def shared_bytes(self, signature: Signature) -> int:
        """Dynamic shared memory of the launch, the most that needs no attribute where that depends on a size."""
        if not re.search(r"\bextern\s+__shared__", signature.body):
            return 0
        self._threads = 0
        found = self.number(self._shape[2]) if len(self._shape) > 2 else None
        if found is not None:
            return int(found)
        self.note("shared_bytes", "shared_bytes: not known from this file, the most is given")
        return MOST_SHARED_BYTES

    def _extents(self, written: str) -> tuple[str, ...]:
        """Up to three extents of a grid or a block."""
        text = self._defined(written) if re.fullmatch(r"\w+", written) else None
        given = (written if text is None else text).strip().removeprefix("dim3").strip()
        braces = given.startswith("{") and given.endswith("}")
        whole = given.startswith("(") and closing(given, 0) == len(given) - 1  # not (a + b) / (c)
        parts = listed(given[1:-1]) if whole or braces else (written,)
        return tuple(self._expression(each) for each in parts)

    def _defined(self, name: str) -> str | None:
        """The text that a name is defined by before the launch, or by a macro; None without one.

        That of a dim3 is in parentheses.
        """
        typed = re.compile(rf"{_DECLARED}\s*\b{name}\b\s*([=({{])")
        found = (
            self._initial(code, match)
            for code in (self._before, self._text)
            for match in reversed([*typed.finditer(code)])
            if code is self._before or match[1] == "="
        )
        # A constant may have the name of that of another namespace, from which it is.
        known = next((text for text in found if _CASTS.sub("", text).strip("() ") != name), None)
        macro = re.search(rf"^[ \t]*#[ \t]*define[ \t]+{name}[ \t]+([^\n/]+)", self._text, re.MULTILINE)
        return known or (macro[1] if macro else None)

    def _initial(self, code: str, match: re.Match[str]) -> str:
        """The text of an initialiser that begins behind a match."""
        begin, opened, depth = match.end(), match[1], 0
        end = begin
        while end < len(code) and not (depth == 0 and code[end] in ";,)}"):
            depth += 1 if code[end] in "([{" else -1 if code[end] in ")]}" else 0
            end += 1
            if opened in "({" and depth == 0 and code[end : end + 1] == ",":
                end += 1
        inner = code[begin:end].strip()
        return inner if opened == "=" else f"({inner})"

    def _expression(self, written: str, depth: int = 0) -> str:
        if len(written) > _LONGEST:
            raise Unknown
        text = re.sub(r"\bsizeof\s*\(\s*([\w: ]+?)\s*\)", _size_of, written)
        text = _WITH_REMAINDER.sub(r"ceil(\1/\2)", _CASTS.sub("", text))
        text = re.sub(r"(?<=\d)(?:\.0*)?[uUlLfF]*\b(?!\w)", "", text.replace("/", "//"))
        try:
            tree = ast.parse(" ".join(text.split()), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise Unknown from None
        return ast.unparse(self._converted(tree, depth))

    def _converted(self, node: ast.expr, depth: int) -> ast.expr:
        match node:
            case ast.Constant(value=int()):
                return node
            case ast.Attribute(value=ast.Name(id=name), attr="x" | "y" | "z" as axis) if (
                depth < _DEEPEST and ast.unparse(node) not in self.bound
            ):
                parts = self._extents(name)
                at = "xyz".index(axis)
                return ast.parse(parts[at] if at < len(parts) else "1", mode="eval").body
            case ast.Name() | ast.Attribute():
                return self._of_name(ast.unparse(node), depth)
            case ast.BinOp(left, ast.LShift() | ast.RShift() as does, ast.Constant(value=int() as bits)) if bits < 32:
                return _folded(ast.BinOp(self._converted(left, depth), does, node.right))
            case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() | ast.Mod() as does, right):
                found = _folded(ast.BinOp(self._converted(left, depth), does, self._converted(right, depth)))
                return self._rounded_up(found)
            case ast.Call(func=ast.Name()):
                return self._of_call(node, depth)
        raise Unknown

    def _of_call(self, call: ast.Call, depth: int) -> ast.expr:
        """The least or greatest of some numbers, or a division that rounds up."""
        match call:
            case ast.Call(func=ast.Name(id="min" | "max"), args=args):
                return ast.Call(call.func, [self._converted(each, depth) for each in args], [])
            case ast.Call(func=ast.Name(id=name), args=[single]) if "ceil" in name.lower():
                inner = self._converted(single, depth)
                if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.FloorDiv):
                    return self._up(inner.left, inner.right)
                return inner
            case ast.Call(func=ast.Name(id=name), args=[extent, *tile]) if _CEIL.fullmatch(name):
                by = self._converted(tile[0], depth) if tile else ast.Constant(USUAL_BLOCK)
                return self._up(self._converted(extent, depth), by)
        raise Unknown

    def _of_name(self, name: str, depth: int) -> ast.expr:
        if name in self.bound:
            return ast.parse(self.bound[name], mode="eval").body
        if "." in name:
            raise Unknown
        text = self._defined(name) if depth < _DEEPEST else None
        if text is not None:
            try:
                return ast.parse(self._expression(text, depth + 1), mode="eval").body
            except Unknown:
                if not self._threads:
                    raise
        if of_block(name):
            if not self._threads:
                self.note(
                    "block", f"the block: {name} of the launch is not known, {self.usual_block} threads are a guess"
                )
            return ast.Constant(self._threads or self.usual_block)
        # A number of blocks is no extent, nor is a macro.
        if not self._threads or re.search(r"(?i:grid|block|^nb$|^bpg$)|^[A-Z][A-Z0-9_]{2,}$", name):
            raise Unknown
        self.bound[name] = python_name(name)
        if self.bound[name] not in self.sizes:
            self.sizes.append(self.bound[name])
        return ast.Name(self.bound[name])

    def _rounded_up(self, node: ast.expr) -> ast.expr:
        """``(a + b - 1) // b`` as ``-(-a // b)``."""
        match node:
            case ast.BinOp(ast.BinOp(extent, ast.Add(), ast.Constant(value=int() as more)), ast.FloorDiv(),
                           ast.Constant(value=int() as by)) if more == by - 1:  # fmt: skip
                return self._up(extent, ast.Constant(by))
        return node

    def _up(self, extent: ast.expr, by: ast.expr) -> ast.expr:
        return ast.UnaryOp(ast.USub(), ast.BinOp(ast.UnaryOp(ast.USub(), extent), ast.FloorDiv(), by))


def _size_of(match: re.Match[str]) -> str:
    """The bytes of a type, 4 of a template's; the text as it is for another type."""
    known = _BYTES.get(element(match[1]) or "")
    return str(known or 4) if known or re.fullmatch(r"[A-Z]|Dtype|\w+_t|int|float", match[1]) else match[0]


def _folded(node: ast.BinOp) -> ast.BinOp | ast.Constant:
    """The node with constants put together; raises Unknown for a division by zero."""
    if isinstance(node.op, ast.FloorDiv | ast.Mod) and isinstance(node.right, ast.Constant) and not node.right.value:
        raise Unknown
    if isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant):
        found = evaluated(ast.unparse(node), {})
        if abs(found) > _LARGEST:
            raise Unknown
        return ast.Constant(found)
    match node:
        case ast.BinOp(
            ast.BinOp(left, ast.Add(), ast.Constant(value=int() as more)), ast.Sub(), ast.Constant(value=int() as less)
        ) if more >= less:
            return ast.BinOp(left, ast.Add(), ast.Constant(more - less))
        case ast.BinOp(ast.Constant() as first, ast.Add() | ast.Mult() as does, right):
            return ast.BinOp(right, does, first)
    return node
