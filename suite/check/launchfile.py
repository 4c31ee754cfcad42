"""A launch described in TOML, for a kernel that is in no family: what it is given and how it is launched.

Strict: an unknown key, a missing one or a value of another kind is an error that names it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from suite.case import Argument, Array, Buffer, Case, Launch, Role, Scalar, Stage, Work
from suite.errors import PeakgateError

FAMILY = "external"

_KEYS = ("kernel", "grid", "block", "shared_bytes", "defines", "expected", "argument")
_BUFFER_KEYS, _SCALAR_KEYS = ("role", "shape", "dtype"), ("value", "dtype")
_EXPECTED = re.compile(r"copy of argument (\d+)")
_DTYPES = ("float16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


@dataclass(frozen=True, slots=True)
class Described:
    """A launch as a case; ``compared`` is False when the file does not say what must come out."""

    case: Case
    compared: bool


def read(path: Path, source: Path) -> Described:
    """The launch of ``source`` that a file describes; PeakgateError names the key that is wrong."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PeakgateError(f"{path}: expected a launch described in TOML ({error}); see CONTRIBUTING.md") from error
    if not source.is_file():
        raise PeakgateError(f"{source}: no such file; expected the .cu file of a kernel")
    return _Reader(str(path)).described(table, source)


def copy_of(xp: Any, inputs: Sequence[Array], *, position: int) -> Sequence[Array]:  # noqa: ARG001  (as any reference)
    """One of the inputs as it was."""
    return (inputs[position],)


def nothing_expected(xp: Any, inputs: Sequence[Array]) -> Sequence[Array]:  # noqa: ARG001
    """No result to compare with."""
    return ()


@dataclass(frozen=True, slots=True)
class _Reader:
    path: str

    def described(self, table: Mapping[str, Any], source: Path) -> Described:
        self._known(table, _KEYS, "")
        arguments = tuple(self._argument(at, entry) for at, entry in enumerate(self._entries(table)))
        copied = self._copied(table.get("expected", "none"), arguments)
        entry = self._text(table.get("kernel", source.stem), "kernel")
        name = re.sub(r"[^A-Za-z0-9_]+", "_", entry).strip("_")
        inputs = [at for at, argument in enumerate(arguments) if _role(argument) in (Role.IN, Role.INOUT)]
        case = Case(
            family=FAMILY,
            stage=Stage(name, "", source, entry=entry),
            launch=Launch(
                self._triple(table, "grid"), self._triple(table, "block"), self._number(table, "shared_bytes", 0)
            ),
            arguments=arguments,
            work=Work(0),
            reference=nothing_expected if copied is None else partial(copy_of, position=inputs.index(copied)),
            defines=self._defines(table.get("defines", {})),
        )
        return Described(case, compared=copied is not None)

    def _entries(self, table: Mapping[str, Any]) -> Sequence[Any]:
        entries = table.get("argument", [])
        if not isinstance(entries, list):
            raise self._wrong("argument", entries, "one [[argument]] for each parameter of the kernel")
        return entries

    def _argument(self, at: int, entry: Any) -> Argument:
        where = f"argument {at}: "
        if not isinstance(entry, dict):
            raise self._wrong(f"argument {at}", entry, "a table, [[argument]]")
        if "value" in entry:
            self._known(entry, _SCALAR_KEYS, where)
            value = entry["value"]
            dtype = self._dtype(entry.get("dtype", "int32"), where)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise self._wrong(f"{where}value", value, "a number")
            if not _holds(dtype, value):
                raise self._wrong(f"{where}value", value, f"a number that {dtype} holds")
            return Scalar(value, dtype)
        self._known(entry, _BUFFER_KEYS, where)
        roles = [role.value for role in Role]
        if entry.get("role") not in roles:
            raise self._wrong(f"{where}role", entry.get("role"), f"one of {', '.join(roles)}; or give a value")
        shape = entry.get("shape")
        if not (isinstance(shape, list) and shape and all(_is_count(size) for size in shape)):
            raise self._wrong(f"{where}shape", shape, "a list of whole numbers from 1 on")
        return Buffer(Role(entry["role"]), tuple(shape), self._dtype(entry.get("dtype", "float32"), where))

    def _copied(self, expected: Any, arguments: Sequence[Argument]) -> int | None:
        """The argument whose values the output must have."""
        if expected == "none":
            return None
        match = _EXPECTED.fullmatch(expected) if isinstance(expected, str) else None
        if match is None:
            raise self._wrong("expected", expected, '"none" or "copy of argument N", counted from 0')
        at = int(match[1])
        copied = arguments[at] if at < len(arguments) else None
        if _role(copied) not in (Role.IN, Role.INOUT):
            raise self._wrong("expected", expected, "the number of an argument with role in or inout, counted from 0")
        assert isinstance(copied, Buffer)
        outputs = [buffer for buffer in arguments if _role(buffer) in (Role.OUT, Role.INOUT)]
        shapes = [(buffer.shape, buffer.dtype) for buffer in outputs if isinstance(buffer, Buffer)]
        if shapes != [(copied.shape, copied.dtype)]:
            raise self._wrong("expected", expected, "one argument with role out or inout, of that shape and dtype")
        return at

    def _triple(self, table: Mapping[str, Any], key: str) -> tuple[int, int, int]:
        sizes = table.get(key)
        if not (isinstance(sizes, list) and 1 <= len(sizes) <= 3 and all(_is_count(size) for size in sizes)):
            raise self._wrong(key, sizes, "a list of one to three whole numbers from 1 on")
        x, y, z = (*sizes, 1, 1)[:3]
        return x, y, z

    def _number(self, table: Mapping[str, Any], key: str, default: int) -> int:
        number = table.get(key, default)
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise self._wrong(key, number, "a whole number from 0 on")
        return number

    def _defines(self, defines: Any) -> tuple[tuple[str, str], ...]:
        if not isinstance(defines, dict):
            raise self._wrong("defines", defines, "a table of macros, { TILE = 32 }")
        for name, value in defines.items():
            if isinstance(value, bool) or not isinstance(value, int | float | str):
                raise self._wrong(f"defines.{name}", value, "a number or a text")
        return tuple((name, str(value)) for name, value in defines.items())

    def _dtype(self, dtype: Any, where: str) -> str:
        if dtype not in _DTYPES:
            raise self._wrong(f"{where}dtype", dtype, f"one of {', '.join(_DTYPES)}")
        return str(dtype)

    def _text(self, value: Any, key: str) -> str:
        if not (isinstance(value, str) and re.fullmatch(r"(?:[A-Za-z_]\w*::)*[A-Za-z_]\w*(?:<[^;{}]*>)?", value)):
            raise self._wrong(key, value, "the name of a __global__ function, softmax<float, 256> say")
        return value

    def _known(self, table: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
        for key in table:
            if key not in keys:
                raise PeakgateError(f"{self.path}: {where}unknown key {key!r}; expected {', '.join(keys)}")

    def _wrong(self, key: str, given: Any, expected: str) -> PeakgateError:
        what = "is missing" if given is None else f"is {given!r}"
        return PeakgateError(f"{self.path}: {key} {what}; expected {expected}")


def _role(argument: Argument | None) -> Role | None:
    return argument.role if isinstance(argument, Buffer) else None


def _is_count(size: Any) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and size >= 1


def _holds(dtype: str, value: float) -> bool:
    if dtype.startswith("float"):
        return True
    limits = np.iinfo(dtype)
    return (isinstance(value, int) or value.is_integer()) and limits.min <= value <= limits.max
