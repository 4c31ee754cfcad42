"""Run a CUDA program whose kernels the emulator runs: ``outcome`` judges it in processes of its own.

Its host code is compiled with host.h, in which device memory is the host's; each launch comes back to Python, which
runs the kernel on that memory. The first launch with a defect ends the program.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import peakgate_emulator as emulator
from peakgate.base.errors import PeakgateError
from peakgate.base.files import write_whole
from peakgate.inspect.emulate import schedules
from peakgate_emulator import GivenArgument, KernelDefect, Pointing
from peakgate_emulator.sources import masked, read_sources

HERE = Path(__file__).resolve().parent
LIMIT_S = 300
ANSWER = "answer.json"
STUBS = ("cuda.h", "cuda_runtime.h", "cuda_runtime_api.h", "device_launch_parameters.h", "cuda/atomic", "curand.h")
_LAUNCH = re.compile(r"(?P<kernel>\w+(?:\s*<[^<>;]*>)?)\s*<<<(?P<shape>.*?)>>>", re.DOTALL)
_DEVICE_ONLY = re.compile(r"\b__(?:global|device)__\b")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The kinds of defects that were reported, with the first one's line, or why the program is refused."""

    kinds: tuple[str, ...] = ()
    first: str = ""
    refused: str = ""


def host_text(text: str) -> str:
    """A source for the host's compiler: device functions become declarations, launches become calls."""
    code, parts, done = masked(text, literals=True), [], 0
    for match in _DEVICE_ONLY.finditer(code):
        if match.start() < done:
            continue
        begin = max(code.rfind(each, 0, match.start()) for each in ";}{") + 1
        brace, end = code.find("{", match.end()), code.find(";", match.end())
        head = code[begin : brace if brace >= 0 else len(code)]
        if brace < 0 or 0 <= end < brace or "(" not in head or "__host__" in head:
            continue
        closing = _closing(code, brace)
        parts += [text[done:brace], ";", "\n" * text.count("\n", brace, closing + 1)]
        done = closing + 1
    return _LAUNCH.sub(lambda found: launch_of(found["kernel"], found["shape"]), "".join([*parts, text[done:]]))


def launch_of(kernel: str, shape: str) -> str:
    """The object of host.h that launches a kernel, given its grid, block and whatever else stands in ``<<<...>>>``."""
    return f'(host::Launch<decltype(&{kernel})>("{kernel}", {shape}))'


def compiled(host: Path, include: Sequence[Path], defines: Sequence[tuple[str, str]], more: str, folder: Path) -> Path:
    """The program's host code as a shared object; a PeakgateError where it does not compile.

    ``more`` is put behind the source.
    """
    for stub in STUBS:
        write_whole(folder / stub, "")
    first, *others = read_sources(host, tuple(include))
    for source in others:
        write_whole(folder / source.path.name, host_text(source.text))
    main = folder / "main.cpp"
    write_whole(main, f"{host_text(first.text)}\n{more}\n")
    library = folder / "program.so"
    command = ["g++", "-std=c++17", "-O0", "-w", "-fpermissive", "-shared", "-fPIC", "-include", str(HERE / "host.h")]
    command += [f"-D{name}={value}" for name, value in defines] + [f"-I{folder}"]
    done = subprocess.run([*command, str(main), "-o", str(library)], capture_output=True, text=True, check=False)
    if done.returncode:
        error = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[-200:])
        raise PeakgateError(f"host code does not compile: {error.removeprefix(str(folder))}")
    return library


def outcome(
    host: Path,
    kernels: Path,
    runs: Sequence[tuple[Sequence[str], str]],
    *,
    defines: Sequence[tuple[str, str]] = (),
    include: Sequence[Path] = (),
    more: str = "",
) -> Outcome:
    """Run a program with each command line and standard input in each order of threads, until a defect is reported."""
    with tempfile.TemporaryDirectory() as name:
        try:
            library = compiled(host, include, defines, more, Path(name))
        except PeakgateError as error:
            return Outcome(refused=str(error))
        request = {
            "library": str(library),
            "kernels": str(kernels),
            "defines": list(defines),
            "include": [str(each) for each in include],
            "runs": list(runs),
            "folder": name,
        }
        return _answered(request)


def _answered(request: dict[str, Any]) -> Outcome:
    answer = Path(request["folder"], ANSWER)
    try:
        subprocess.run(
            [sys.executable, __file__, json.dumps(request)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=LIMIT_S,
            check=False,
            cwd=request["folder"],
        )
    except subprocess.TimeoutExpired:
        return Outcome(refused=f"did not end in {LIMIT_S} s")
    if not answer.exists():
        return Outcome(refused="its host code did not end well")
    content = json.loads(answer.read_text(encoding="utf-8"))
    return Outcome(tuple(content.get("kinds", ())), content.get("first", ""), content.get("refused", ""))


class _Argument(ctypes.Structure):
    _fields_ = (
        ("at", ctypes.c_void_p),
        ("size", ctypes.c_long),
        ("kind", ctypes.c_int),
        ("element_size", ctypes.c_int),
        ("element_kind", ctypes.c_int),
    )


_Allocated = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_long)
_Launched = ctypes.CFUNCTYPE(
    None,
    ctypes.c_char_p,
    ctypes.POINTER(ctypes.c_uint),
    ctypes.c_long,
    ctypes.POINTER(_Argument),
    ctypes.c_int,
)


class _Hooks(ctypes.Structure):
    _fields_ = (("allocated", _Allocated), ("launched", _Launched))


class _Device:
    """Context of a program's launches: its allocations, and kernels that are built when they are launched."""

    def __init__(self, request: dict[str, Any], schedule: int) -> None:
        self.request = request
        self.schedule = schedule
        self.allocations: dict[int, int] = {}
        self.kernels: dict[str, emulator.EmulatedKernel] = {}

    def allocated(self, address: int, size: int) -> None:
        self.allocations[address] = size

    def launched(self, name: bytes, shape: Any, shared: int, arguments: Any, count: int) -> None:
        """Run a launch; ends the process where a defect is reported or the kernel is refused."""
        try:
            kernel = self._kernel(name.decode())
            grid, block = (shape[0], shape[1], shape[2]), (shape[3], shape[4], shape[5])
            given = [self._given(arguments[place]) for place in range(count)]
            kernel.launch(grid, block, given, shared_bytes=shared, schedule=self.schedule)
        except KernelDefect as defect:
            self.end(kinds=sorted({each.kind.words for each in defect.defects}), first=str(defect.defects[0])[:300])
        except emulator.EmulatorError as error:
            self.end(refused=str(error).splitlines()[0][:300])

    def end(self, **answer: Any) -> None:
        """Leave the answer, and the process without what the program does at its end."""
        Path(self.request["folder"], ANSWER).write_text(json.dumps(answer), encoding="utf-8")
        os._exit(0)

    def _kernel(self, name: str) -> emulator.EmulatedKernel:
        if name not in self.kernels:
            defines = tuple((key, value) for key, value in self.request["defines"])
            include = tuple(Path(each) for each in self.request["include"])
            self.kernels[name] = emulator.load(Path(self.request["kernels"]), name, defines, include=include)
        return self.kernels[name]

    def _given(self, argument: Any) -> GivenArgument:
        content = ctypes.string_at(argument.at, argument.size)
        if argument.kind == 2:
            return self._array(int.from_bytes(content, "little"), argument.element_size, argument.element_kind)
        if argument.kind == 3:
            return Pointing(content, dict(self._pointers(content)))
        kind = "f" if argument.kind == 1 else "i"
        scalar: np.generic = np.frombuffer(content, np.dtype(f"{kind}{argument.size}"))[0]
        return scalar

    def _array(self, address: int, element_size: int, element_kind: int) -> np.ndarray[Any, Any] | None:
        if not address:
            return None
        for begin, size in self.allocations.items():
            if begin <= address < begin + max(size, 1):
                room = begin + size - address
                held = np.ctypeslib.as_array((ctypes.c_uint8 * room).from_address(address))
                if element_kind in (0, 1, 2) and element_size in (1, 2, 4, 8) and room % element_size == 0:
                    return held.view(f"{'f' if element_kind == 1 and element_size > 1 else 'i'}{element_size}")
                return held
        raise PeakgateError("a pointer to no allocation is given to a kernel")

    def _pointers(self, content: bytes) -> Iterator[tuple[int, np.ndarray[Any, Any]]]:
        for offset in range(0, len(content) - 7, 8):
            address = int.from_bytes(content[offset : offset + 8], "little")
            if any(begin <= address < begin + size for begin, size in self.allocations.items()):
                array = self._array(address, 1, 3)
                if array is not None:
                    yield offset, array


def _closing(code: str, at: int) -> int:
    depth = 0
    for place in range(at, len(code)):
        depth += {"{": 1, "}": -1}.get(code[place], 0)
        if depth == 0:
            return place
    return len(code) - 1


def run(request: dict[str, Any], arguments: Sequence[str], schedule: int) -> None:
    """Run the program in this process, which ends with it."""
    program = ctypes.CDLL(request["library"])
    device = _Device(request, schedule)
    hooks = _Hooks.in_dll(program, "peakgate_hooks")
    kept = _Allocated(device.allocated), _Launched(device.launched)
    hooks.allocated, hooks.launched = kept
    words = [b"program", *(each.encode() for each in arguments)]
    program.main(len(words), (ctypes.c_char_p * (len(words) + 1))(*words))
    device.end()


def main(request: dict[str, Any]) -> None:
    """Run the program of a request with all that it is given, in a process each, until one has something to answer."""
    answer = Path(request["folder"], ANSWER)
    for arguments, given in request["runs"]:
        for schedule in schedules(2):
            answer.unlink(missing_ok=True)
            Path(request["folder"], "given").write_text(given, encoding="utf-8")
            if (child := os.fork()) == 0:
                os.dup2(os.open("given", os.O_RDONLY), 0)
                run(request, arguments, schedule)
            os.waitpid(child, 0)
            if not answer.exists() or answer.read_text(encoding="utf-8") != "{}":
                return


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
