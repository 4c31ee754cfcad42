"""Digests of kernel outputs, recorded on one device and compared with another: the emulator must agree with the GPU.

``python tests/helpers/digests.py [-k TEXT] [--device cpu|gpu|gpu:N] FILE`` records those of the project's kernels; with
``-k`` the others in FILE are kept.

Where a case asks for equal bits, an output's digest is recorded. Where it allows rounding, some of its elements are,
and the sum of all their magnitudes. A record holds for the very problem it was made of: the kernel's text, its
launch and its data; comments, blanks and empty lines of the source do not count.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import Struct, to_builtins

from peakgate.base import records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import a_line_each, write_whole
from peakgate.compile.cubin import source_files
from peakgate.device.choose import open_device
from peakgate.device.expected import computed, expected
from peakgate.device.interface import Device, Launchable
from peakgate.judge.correctness import check
from peakgate.measure.data import input_array
from peakgate.spec import dtypes
from peakgate.spec.case import Buffer, Case, Role
from peakgate.spec.catalogue import problems
from peakgate_emulator.masking import without_comments

SAMPLES = 16
"""Elements recorded of an output that need not be equal bit by bit, evenly spread from the first to the last."""

_MACHINE = ("name", "slug", "compute_capability", "driver", "cuda_driver", "nvrtc", "compiler")


class SampledOutput(Struct, frozen=True):
    """An output that need not be equal bit by bit: the sum of its magnitudes, and some of its elements."""

    abs_sum: float
    samples: tuple[float, ...]


Output = str | SampledOutput
"""A digest, or samples."""


class ProblemDigests(Struct, frozen=True):
    """The outputs of one problem; ``problem`` is the key of what exactly was run."""

    problem: str
    outputs: tuple[Output, ...]


class Digests(Struct, frozen=True):
    """The outputs of many problems, by case id, and the device they were taken on.

    Tilings of one case may share an edge problem's id: the second one's is followed by ``#`` and its key.
    """

    device: dict[str, Any]
    problems: dict[str, ProblemDigests]
    peakgate_digests: Literal[3]
    """Before 2, comments and blanks of a kernel's source were part of a problem's key, before 3 its files' names."""


def record(device: Device, wanted: Sequence[Case], known: Digests | None = None) -> Digests:
    """Run every problem the device takes and write down what comes out; PeakgateError where that is wrong.

    Of ``known`` the other problems are kept; PeakgateError, before anything runs, where it is of another device.
    """
    described = device.describe()
    taken_on = {name: described[name] for name in _MACHINE if described.get(name)}
    if known is not None and known.device != taken_on:
        raise PeakgateError(
            f"the record is of {known.device}, this is {taken_on}; record all problems, without -k", Code.OPTION
        )
    runnable = [case for case in wanted if device.refusal(case) is None]
    device.prebuild(runnable)
    problems = {}
    for case in runnable:
        launchable = device.prepare(case)
        launchable.run()
        right = expected(device.xp, launchable, device.prepare)
        result = check(device.xp, case, computed(device.xp, launchable), right)
        if result.mismatch is not None:
            raise PeakgateError(
                f"{case.id} on {device.slug}: {result.mismatch}; only right results are recorded", Code.WRONG
            )
        key = problem_key(case)
        outputs = tuple(described_output(case, output) for output in output_values(launchable))
        problems[f"{case.id}#{key}" if case.id in problems else case.id] = ProblemDigests(key, outputs)
    return Digests(taken_on, {**known.problems, **problems} if known else problems, 3)


def problem_key(case: Case) -> str:
    """Equal where a kernel's code, its macros, its launch and its input data are."""
    assert case.stage.source is not None
    digest = hashlib.sha256()
    for path in source_files(case.stage.source, case.stage.include):
        digest.update(f"{_code(path.read_text(encoding='utf-8', errors='replace'))}\0".encode())
    digest.update(repr((case.defines, case.launch, case.arguments)).encode())
    if case.stage.entry or case.stage.options or case.stage.constants:
        digest.update(repr((case.stage.entry, case.stage.options, case.stage.constants)).encode())
    if case.sequence:
        digest.update(repr(case.sequence).encode())
    for position, argument in enumerate(case.arguments):
        if isinstance(argument, Buffer) and argument.role in (Role.IN, Role.INOUT):
            digest.update(input_array(np, argument, position).tobytes())
    return digest.hexdigest()[:16]


def _code(text: str) -> str:
    """The source without comments and empty lines, and with one blank for several."""
    lines = (" ".join(line.split()) for line in without_comments(text).splitlines())
    return "\n".join(line for line in lines if line)


def write(path: Path, taken: Digests) -> None:
    """Save a record, whole or not at all."""
    head = {"peakgate_digests": taken.peakgate_digests, "device": taken.device}
    problems = {case: to_builtins(found) for case, found in sorted(taken.problems.items())}
    write_whole(path, a_line_each(head, "problems", problems))


def read(path: Path) -> Digests:
    """A saved record; PeakgateError where the file is not one."""
    return records.read(path, Digests, "record it again")


def described_output(case: Case, output: np.ndarray[Any, Any]) -> Output:
    """The recorded values of one output."""
    if case.exact:
        named = f"{output.dtype.str}{output.shape}".encode()
        return hashlib.sha256(named + np.ascontiguousarray(output).tobytes()).hexdigest()
    wide = output.astype(np.float64)
    return SampledOutput(float(np.abs(wide).sum()), tuple(float(wide.flat[index]) for index in sampled_at(output)))


def sampled_at(output: np.ndarray[Any, Any]) -> list[int]:
    """The flat indices of the elements that are recorded."""
    count = min(SAMPLES, output.size)
    return [int(index) for index in np.linspace(0, output.size - 1, count).round()]


def output_values(launchable: Launchable) -> Iterable[np.ndarray[Any, Any]]:
    """The outputs' values as NumPy arrays; the outputs may be CuPy's."""
    for output, buffer in zip(launchable.outputs, launchable.case.outputs, strict=True):
        array = output if isinstance(output, np.ndarray) else np.asarray(output.get())
        yield dtypes.decoded(np, array, buffer.dtype)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("-k", dest="text", default="")
    parser.add_argument("--device", default="cpu")
    chosen = parser.parse_args(arguments)
    device, _ = open_device(chosen.device)
    known = read(chosen.file) if chosen.text and chosen.file.exists() else None
    taken = record(device, problems(chosen.text), known)
    write(chosen.file, taken)
    sys.stdout.write(f"wrote {chosen.file}: {len(taken.problems)} problems on {device.slug}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
