"""``python -m peakgate_emulator FILE.cu ARGUMENT...``: checks one launch of a kernel on declared arguments.

::

    python -m peakgate_emulator scale.cu out:float32:1000 in:float32:1000 int32=1000 --grid 4 --block 256

An argument is an array, ``ROLE:TYPE:SHAPE``, or a value, ``TYPE=NUMBER``. The role is ``in`` (random numbers), ``out``
(which the kernel must write in full) or ``inout`` (zeros at first); the shape is ``1000`` or ``64x48``; types are
NumPy's. Exits 0 if nothing was found, 1 if the kernel has a defect, 2 if it cannot be run.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from peakgate_emulator.defects import KernelDefect
from peakgate_emulator.errors import ArgumentsError, EmulatorError, SourceError
from peakgate_emulator.launch import load
from peakgate_emulator.sources import kernels, source_text

_ARRAY = re.compile(r"(?P<role>in|out|inout):(?P<type>\w+):(?P<shape>\d+(?:x\d+)*)")
_VALUE = re.compile(r"(?P<type>\w+)=(?P<number>[^=]+)")
_SHOWN = 8
"""Elements of each output that are printed."""


def main(arguments: Sequence[str]) -> int:
    """Launch in each order of threads, print the outputs or the defects, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m peakgate_emulator", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, metavar="FILE.cu")
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="one per parameter of the kernel, in order")
    parser.add_argument("--kernel", help="its name, with any template arguments (default: the only kernel)")
    parser.add_argument("--grid", default="1", metavar="X[,Y[,Z]]", help="blocks (default: 1)")
    parser.add_argument("--block", default="32", metavar="X[,Y[,Z]]", help="threads per block (default: 32)")
    parser.add_argument("--shared-bytes", type=int, default=0, help="dynamic shared memory per block (default: 0)")
    parser.add_argument("--orders", type=int, default=3, help="thread orders to try, ascending first (default: 3)")
    parser.add_argument("-D", dest="defines", action="append", default=[], metavar="NAME[=VALUE]", help="a macro")
    given = parser.parse_intermixed_args(arguments)
    try:
        return _run(given)
    except KernelDefect as found:
        for defect in found.defects:
            sys.stdout.write(f"{defect}\n")
        return 1
    except EmulatorError as error:
        sys.stderr.write(f"{error.message}\n")
        return 2


def _run(given: argparse.Namespace) -> int:
    defines = tuple((name, value or "1") for name, _, value in (each.partition("=") for each in given.defines))
    name = given.kernel or _only_kernel(given.file)
    kernel = load(given.file, name, defines)
    values: list[Any] = []
    for order in range(given.orders):
        values = [_argument(text, seed) for seed, text in enumerate(given.arguments)]
        outputs = [at for at, text in enumerate(given.arguments) if text.startswith("out:")]
        grid, block = _extents("--grid", given.grid), _extents("--block", given.block)
        kernel.launch(grid, block, values, shared_bytes=given.shared_bytes, schedule=order, outputs=outputs)
    for text, value in zip(given.arguments, values, strict=True):
        if text.startswith(("out:", "inout:")):
            more = " ..." if value.size > _SHOWN else ""
            sys.stdout.write(f"{text}: {' '.join(map(str, value.flat[:_SHOWN]))}{more}\n")
    sys.stdout.write(f"{name}: nothing found in {given.orders} orders of threads\n")
    return 0


def _only_kernel(file: Path) -> str:
    names = kernels(source_text(file))
    if len(names) != 1 or "<" in names[0]:
        raise SourceError(f"{file}: it has {', '.join(names) or 'no kernel'}; name one with --kernel")
    return names[0]


def _argument(text: str, seed: int) -> Any:
    """The launch argument for the text of a command-line argument."""
    array, value = _ARRAY.fullmatch(text), _VALUE.fullmatch(text)
    try:
        if array is not None:
            shape = tuple(map(int, array["shape"].split("x")))
            if array["role"] != "in":
                return np.zeros(shape, array["type"])
            drawn = np.random.default_rng(seed).uniform(-1, 1, shape)
            kind = np.dtype(array["type"])
            return drawn.astype(kind) if kind.kind == "f" else (100 * drawn).astype(kind)
        if value is not None:
            kind = np.dtype(value["type"])
            return kind.type(float(value["number"]) if kind.kind == "f" else int(value["number"], 0))
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentsError(f"{text}: {error}; types are NumPy's, such as float32 or int32") from None
    raise ArgumentsError(
        f"{text}: expected ROLE:TYPE:SHAPE, such as out:float32:64x48, or TYPE=NUMBER, such as int32=64"
    )


def _extents(option: str, text: str) -> tuple[int, int, int]:
    parts = text.split(",")
    if not 1 <= len(parts) <= 3 or not all(part.isdecimal() for part in parts):
        raise ArgumentsError(f"{option} {text}: expected one to three numbers, such as 4 or 4,2,1")
    x, y, z = (*map(int, parts), *(1,) * (3 - len(parts)))
    return x, y, z


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
