"""Compile a .cu file to a cubin with NVRTC, cached on disk.

Needs neither a GPU nor the CUDA toolkit.

The options are those of a plain ``nvcc`` build. Options and NVRTC version are part of the cache key and of the run
file, because the same source took 93 registers under one version of NVRTC and 106 under another.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.json import encode

from peakgate.base import records
from peakgate.base.emulated import entry_of, read_sources
from peakgate.base.errors import BuildError, Code, PeakgateError
from peakgate.base.files import alone, cache_folder, write_whole
from peakgate.base.packages import install_command
from peakgate.compile import compilers
from peakgate.compile.compilers import first_error, objection_to, places_of_errors
from peakgate.judge.occupancy import Resources
from peakgate.spec import arguments
from peakgate.spec.case import Case, Stage
from peakgate_emulator.attempts import refused_by
from peakgate_emulator.device_code import PEAKGATE_MACRO
from peakgate_emulator.headers import PRELUDE, cuda_folders, cuda_version, host_headers
from peakgate_emulator.sources import SourceFile

Defines = tuple[tuple[str, str], ...]

# NVRTC's own cache is off: it returns no log, and the log has the resources.
OPTIONS = ("--std=c++17", "--ptxas-options=-v", "--device-as-default-execution-space", "--no-cache")

_NOTES = 4  # format version of the notes next to a cached cubin

_USAGE = re.compile(
    r"Compiling entry function '(?P<kernel>[^']+)'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads.*?"
    r"Used (?P<registers>\d+) registers(?P<rest>[^\n]*)",
    re.DOTALL,
)
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code of one stage for one architecture; equal code has an equal ``fingerprint``.

    ``entries`` and ``constants`` are the lowered names of the stage's kernels and constants. ``resources`` and
    ``entry`` are those of the first kernel.
    """

    path: Path
    fingerprint: str
    resources: Resources
    entries: tuple[str, ...]
    constants: tuple[str, ...] = ()
    further: tuple[Resources, ...] = ()
    """The resources of the kernels after the first."""
    bounds: tuple[int | None, ...] = ()
    """The most threads per block that each kernel's ``__launch_bounds__`` allows, None without launch bounds."""
    parameters: tuple[tuple[int, ...], ...] = ()
    """The bytes of each parameter of each kernel."""

    @property
    def of_kernels(self) -> tuple[Resources, ...]:
        """The resources of each kernel, in the order of the stage."""
        return (self.resources, *self.further)

    @property
    def entry(self) -> str:
        return self.entries[0]


class _Notes(Struct):
    """The notes next to a cached cubin."""

    fingerprint: str
    resources: Annotated[list[Resources], Meta(min_length=1)]
    entries: tuple[str, ...]
    constants: tuple[str, ...]
    bounds: tuple[int | None, ...]
    parameters: tuple[tuple[int, ...], ...]
    options: tuple[str, ...]


def source_files(source: Path, include: Sequence[Path] = ()) -> list[Path]:
    """The file and every file it includes from its folder or an include folder, in the order of first inclusion."""
    return [file.path for file in read_sources(source, include)]


def cubin(stage: Stage, defines: Defines, capability: tuple[int, int]) -> Cubin:
    """Compile a stage for a compute capability, or take it from the cache.

    Raises BuildError with the compiler's first message when the source does not compile.
    """
    unit = _Unit.of(stage, defines, capability)
    key = unit.key()
    stem = cache_folder() / "cubin" / f"{stage.name}-{key}"
    code, notes = stem.with_suffix(".cubin"), stem.with_suffix(".json")
    if (saved := _saved(code, notes, stage.name, unit.file_name)) is not None:
        return saved
    # Both sides of an `ab` compile the same kernels at the same time.
    with alone(stem.with_name(f".lock-{key[:2]}")):
        if (saved := _saved(code, notes, stage.name, unit.file_name)) is not None:
            return saved
        machine_code, (first, *further), lowered, bounds, parameters = unit.compiled()
        entries, constants = lowered[: len(stage.kernels)], lowered[len(stage.kernels) :]
        fingerprint = _fingerprint(machine_code, entries, stage.name, unit.file_name)
        write_whole(code, machine_code)
        kept = _Notes(fingerprint, [first, *further], entries, constants, bounds, parameters, unit.options)
        write_whole(notes, encode(kept))
        return Cubin(code, fingerprint, first, entries, constants, tuple(further), bounds, parameters)


def refuse_other_sizes(built: Cubin, case: Case) -> None:
    """Raise PeakgateError if a launch gives a kernel a value of another size than its parameter, such as a struct."""
    for each in case.launches:
        sizes = built.parameters[case.stage.kernels.index(each.kernel)]
        for number, (at, size) in enumerate(zip(each.takes, sizes, strict=False), 1):
            given = case.arguments[at]
            if (
                isinstance(given, arguments.Scalar | arguments.Struct)
                and (nbytes := arguments.value_of(given).nbytes) != size
            ):
                raise PeakgateError(
                    f"{each.kernel}: argument {number}: {nbytes} bytes given, expected {size}", Code.ARGUMENTS
                )


def built_before(stage: Stage, fingerprint: str) -> Cubin:
    """A stage's cached machine code with this fingerprint, from any tree; PeakgateError if the cache has none."""
    for notes in sorted((cache_folder() / "cubin").glob(f"{stage.name}-*.json")):
        found = _saved(notes.with_suffix(".cubin"), notes, stage.name, f"{stage.name}.cu")
        if found is not None and found.fingerprint == fingerprint and len(found.entries) == len(stage.kernels):
            return found
    raise PeakgateError(
        f"{cache_folder()}: no build of {stage.name} with fingerprint {fingerprint}, which was made before; "
        "something empties the cache while it is used: run it again",
        Code.CHANGED,
    )


def _saved(code: Path, notes: Path, stage: str, file_name: str) -> Cubin | None:
    """A build from the cache; None if there is none or its files are damaged, so that it is built again."""
    try:
        saved = records.read(notes, _Notes, "it is made again")
        whole = saved.fingerprint == _fingerprint(code.read_bytes(), saved.entries, stage, file_name)
    except (OSError, PeakgateError):
        return None
    first, *further = saved.resources
    of_kernels = (tuple(further), saved.bounds, saved.parameters)
    built = Cubin(code, saved.fingerprint, first, saved.entries, saved.constants, *of_kernels)
    return built if whole else None


def _fingerprint(machine_code: bytes, entries: tuple[str, ...], stage: str, file_name: str) -> str:
    """A hash of the machine code of the whole file and of the names of the kernels that are launched."""
    launched = b"" if entries == (stage,) else b"\0".join(entry.encode() for entry in entries)
    return hashlib.sha256(without_internal_names(machine_code, file_name) + launched).hexdigest()[:16]


def without_internal_names(machine_code: bytes, file_name: str) -> bytes:
    """The machine code with the names of internal linkage zeroed, since they contain a hash of the source text.

    Otherwise a comment would change the fingerprint. A mangled name starts with its length and contains the file's
    name: ``34_GLOBAL__N__00000000_9_my_k_1_cu_k``. Only string tables are changed, which hold no code, and only names
    of this form with this file's name and the right length.
    """
    mangled = re.sub(r"\W", "_", file_name).encode()
    name = rb"_(?:INTERNAL|GLOBAL__N_)_[0-9a-f]{8}_%d_%s_\w*" % (len(mangled), re.escape(mangled))
    grammar = re.compile(rb"(?<!\d)(\d{1,3})(?=(%s))" % name, re.ASCII)
    if not grammar.search(machine_code):
        return machine_code
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415  # few kernels have such names

    found = bytearray(machine_code)
    for section in ELFFile(io.BytesIO(machine_code)).iter_sections("SHT_STRTAB"):
        first, size = section["sh_offset"], section["sh_size"]
        for match in grammar.finditer(machine_code, first, first + size):
            length = int(match[1])
            if len(mangled) < length <= len(match[2]):
                found[match.end(1) : match.end(1) + length] = bytes(length)
    return bytes(found)


def compiled_anew(stage: Stage, defines: Defines, capability: tuple[int, int]) -> Resources:
    """A stage's resources from a new compilation that neither reads nor changes the cache.

    NVRTC is not fully deterministic: its output can depend on the addresses of its own data. Raises BuildError like
    ``cubin``.
    """
    return _Unit.of(stage, defines, capability).compiled()[1][0]


@dataclass(frozen=True, slots=True)
class _Unit:
    """The input of NVRTC for a stage."""

    stage: Stage
    files: tuple[SourceFile, ...]
    options: tuple[str, ...]

    @staticmethod
    def of(stage: Stage, defines: Defines, capability: tuple[int, int]) -> _Unit:
        if stage.source is None:
            raise ValueError(f"stage {stage.name} is an operation of the device; it has no source to build")
        if objection := objection_to(stage.options, stage.source):
            raise BuildError(objection)
        defined = [f"--define-macro={name}={value}" for name, value in ((PEAKGATE_MACRO, "1"), *defines)]
        options = (*OPTIONS, f"--gpu-architecture={stage.architecture(capability)}", *defined, *stage.options)
        try:
            return _Unit(stage, tuple(read_sources(stage.source, stage.include)), options)
        except PeakgateError as error:
            raise BuildError(error.message, error.code) from None

    @property
    def file_name(self) -> str:
        """The file name given to NVRTC, from the stage's name: it is part of symbols of internal linkage."""
        return f"{self.stage.name}.cu"

    @property
    def names(self) -> tuple[str, ...]:
        """The C++ name expressions of the kernels and constants."""
        entries = (entry_of(name, self.files) for name in self.stage.kernels)
        kernels = (each.expression if each.parameters else f"peakgate_kernel(&{each.kernel})" for each in entries)
        return (*kernels, *(f"&{name}" for name, _ in self.stage.constants))

    @property
    def stand_ins(self) -> dict[str, str]:
        """The headers given to NVRTC, by name."""
        return compilers.nvrtc_headers() | host_headers(self.files)

    def key(self) -> str:
        nvrtc = installed_nvrtc()
        digest = hashlib.sha256()
        for file in self.files:
            digest.update(file.text.encode() + b"\0")
        # Stand-ins and CUDA's own headers matter only to sources that include some.
        includes_foreign = any(file.foreign for file in self.files)
        foreign = (self.stand_ins, cuda_version(_major())) if includes_foreign else ""
        prelude = compilers.nvrtc_headers()[PRELUDE]
        built = (self.file_name, self.names, self.stage.constants, self.options)
        digest.update(repr((_NOTES, built, nvrtc.version(), prelude, foreign)).encode())
        return digest.hexdigest()[:20]

    def compiled(
        self,
    ) -> tuple[bytes, list[Resources], tuple[str, ...], tuple[int | None, ...], tuple[tuple[int, ...], ...]]:
        """The machine code, each kernel's resources, the lowered names; each kernel's launch bound and parameters."""
        nvrtc = installed_nvrtc()
        source = self.files[0].path
        own = {name for file in self.files for name in file.includes}
        given = {name: text for name, text in self.stand_ins.items() if name not in own}
        folders = (source.parent, *self.stage.include, *cuda_folders(_major()))
        options = (
            *self.options,
            f"--pre-include={PRELUDE}",
            *(f"--include-path={folder}" for folder in folders),
        )
        compiled = None

        def attempt(file: Path) -> str | None:
            nonlocal compiled
            text = self.files[0].text if file == source else file.read_text(encoding="utf-8")
            try:
                compiled = nvrtc.compile_to_cubin(text, self.file_name, options, given, self.names)
            except nvrtc.CompilationFailed as failure:
                return str(failure)
            return None

        log = refused_by(attempt, places_of_errors, self.files, self.stage.functions)
        if compiled is None:
            raise BuildError(first_error(log or "", self.file_name, self.files, self.stage.kernels, _major()))
        lowered = tuple(compiled.lowered[name] for name in self.names)
        kernels = lowered[: len(self.stage.kernels)]
        self._check_constants(compiled.machine_code, lowered[len(kernels) :])
        resources = [parse_resources(compiled.log, kernel) for kernel in kernels]
        bounds, parameters = map(compiled.bounds.get, kernels), map(compiled.parameters.__getitem__, kernels)
        return compiled.machine_code, resources, lowered, tuple(bounds), tuple(parameters)

    def _check_constants(self, machine_code: bytes, lowered: Sequence[str]) -> None:
        """Raise BuildError if a constant is smaller than its data, so that copying would overwrite its neighbour."""
        if not lowered:
            return
        from elftools.elf.elffile import ELFFile  # noqa: PLC0415  # few kernels have constants
        from elftools.elf.sections import SymbolTableSection  # noqa: PLC0415

        table = ELFFile(io.BytesIO(machine_code)).get_section_by_name(".symtab")
        for (name, buffer), symbol in zip(self.stage.constants, lowered, strict=True):
            found = table.get_symbol_by_name(symbol) if isinstance(table, SymbolTableSection) else None
            size = found[0]["st_size"] if found else 0
            if size < buffer.nbytes:
                raise BuildError(
                    f"{self.files[0].path.name}: constant {name} has {size} bytes, its data {buffer.nbytes}; see the "
                    f"constants of stage {self.stage.name}"
                )


def installed_nvrtc() -> ModuleType:
    """The module ``peakgate.compile.nvrtc``; PeakgateError with how to install NVRTC if it is missing."""
    try:
        from peakgate.compile import nvrtc  # noqa: PLC0415

        nvrtc.version()  # the bindings may be installed without the library
    except (ImportError, RuntimeError, OSError):
        raise PeakgateError(
            f"NVRTC, which compiles kernels, is not installed: {install_command('nvrtc')}", Code.INSTALLATION
        ) from None
    return nvrtc


def _major() -> int:
    return int(installed_nvrtc().version().split(".")[0])


def parse_resources(log: str, kernel: str) -> Resources:
    """Read one kernel's resources from the output of ``ptxas -v``; spills are stores plus loads."""
    for match in _USAGE.finditer(log):
        if match["kernel"] == kernel:
            shared = _SHARED.search(match["rest"])
            return Resources(
                registers=int(match["registers"]),
                stack_bytes=int(match["stack"]),
                spill_bytes=int(match["stores"]) + int(match["loads"]),
                static_shared_bytes=int(shared[1]) if shared else 0,
            )
    raise BuildError(f"no entry point `{kernel}` was compiled: a kernel has the stage's name, or is its `entry`")
