"""Kernels are built once, with the compiler that is there; what does not compile is reported in one line."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from emulating import COMPILERS, every_compiler
from emulator_cache import with_runtime

import peakgate_emulator as emulator
from peakgate_emulator import Compiler, EmulatorError, KernelBuildError
from peakgate_emulator import build as build_module
from peakgate_emulator import compiler as compiler_module
from peakgate_emulator import launch as launch_module
from peakgate_emulator.binary import symbols_of

STORE = 'extern "C" __global__ void store(int* out) { out[threadIdx.x] = VALUE; }\n'


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, with the emulator's runtime in it and no kernel."""
    with_runtime(tmp_path / "cache")
    monkeypatch.setenv("PEAKGATE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "emulator"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "store.cu"
    path.write_text(STORE)
    return path


def stored(source: Path, defines: tuple[tuple[str, str], ...] = (), *, include: tuple[Path, ...] = ()) -> int:
    out = np.zeros(1, np.int32)
    emulator.load(source, "store", defines, include=include).launch((1, 1, 1), (1, 1, 1), (out,))
    return int(out[0])


def kernels_in(cache: Path) -> set[str]:
    return {path.name for path in cache.glob("store-*.so")}


@every_compiler
def test_the_symbols_of_a_kernel_without_variables_are_not_read(
    compiler: Compiler, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = "{ __shared__ int tile[9]; tile[threadIdx.x] = 1; "  # the checks of its bounds have data of their own
    source.write_text(STORE.replace("{ ", checked).replace("VALUE", "tile[threadIdx.x]"))
    read: list[Path] = []
    monkeypatch.setattr(launch_module, "variables_of", read.append)
    emulator.load(source, "store", compiler=compiler)
    assert read == []
    source.write_text("__device__ int counter;\n" + STORE.replace("VALUE", "counter"))
    emulator.load(source, "store", compiler=compiler)
    assert len(read) == 1


def test_a_second_load_takes_the_build_from_the_cache(
    source: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert stored(source, (("VALUE", "3"),)) == 3
    monkeypatch.setattr(build_module, "run", pytest.fail)
    assert stored(source, (("VALUE", "3"),)) == 3
    assert len(kernels_in(cache)) == 1


def test_defines_sources_and_includes_make_builds_of_their_own(source: Path, cache: Path) -> None:
    assert stored(source, (("VALUE", "3"),)) == 3
    assert stored(source, (("VALUE", "4"),)) == 4
    header = source.parent / "headers" / "value.cuh"
    header.parent.mkdir()
    header.write_text('#include "inner.cuh"\n')
    inner = header.parent / "inner.cuh"
    inner.write_text("#define VALUE 5\n")
    source.write_text('#include "headers/value.cuh"\n' + STORE)
    assert stored(source) == 5
    inner.write_text("#define VALUE 6\n")
    assert stored(source) == 6
    assert len(kernels_in(cache)) == 4


def test_included_files_are_found_in_the_folders_given(source: Path, cache: Path) -> None:
    headers = source.parent / "elsewhere"
    headers.mkdir()
    (headers / "value.cuh").write_text("#define VALUE 7\n")
    source.write_text('#include "value.cuh"\n' + STORE)
    with pytest.raises(KernelBuildError, match=r"^store\.cu:1: .*value\.cuh"):
        stored(source)
    assert stored(source, include=(headers,)) == 7
    assert len(kernels_in(cache)) == 1


def test_many_may_build_the_same_kernel_at_once(source: Path, cache: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda value: stored(source, (("VALUE", value),)), ["3"] * 4)) == {3}
    assert len(kernels_in(cache)) == 1


@every_compiler
def test_a_runtime_that_another_process_builds_is_waited_for(
    compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def waited(lock: Path) -> Iterator[None]:
        lock.with_suffix(".so").touch()  # the other one's
        yield

    monkeypatch.setenv("PEAKGATE_CACHE", str(tmp_path))
    monkeypatch.setattr(build_module, "alone", waited)
    monkeypatch.setattr(build_module, "must_run", pytest.fail)
    assert build_module.build_runtime(compiler).exists()


def test_every_source_of_the_runtime_is_compiled() -> None:
    sources = {path.name for path in build_module.RUNTIME_FOLDER.glob("*.cpp")}
    assert sources == {*build_module.RUNTIME_SOURCES, build_module.PRODUCTS}


@every_compiler
def test_kernels_find_every_function_in_one_of_two_runtimes(compiler: Compiler) -> None:
    smaller, whole = (build_module.build_runtime(compiler, whole=whole) for whole in (False, True))
    defined = [{each.name for each in symbols_of(path) if each.section} for path in (smaller, whole)]
    api = (build_module.RUNTIME_FOLDER / "runtime_api.h").read_text()
    declared = set(re.findall(r"^PEAKGATE_API [^\n(]*\b(peakgate_\w+)\(", api, re.MULTILINE))
    of_image = {name for name in declared if name.startswith("peakgate_multiply")}
    assert declared - of_image <= defined[1]
    assert declared - of_image - defined[0] == build_module.further_functions()


@every_compiler
def test_a_kernel_gets_the_larger_runtime_if_it_calls_it(compiler: Compiler, source: Path) -> None:
    for reads, whole in (("0", False), ("tex1Dfetch<int>(in, 0)", True)):
        source.write_text(
            f'extern "C" __global__ void store(int* out, cudaTextureObject_t in) {{ out[0] = {reads}; }}\n'
        )
        built = build_module.build_kernel(source, "store", compiler=compiler)
        assert build_module.build_runtime(compiler, whole=whole).name.encode() in built.read_bytes()


@pytest.mark.parametrize("compiler", [each for each in COMPILERS if each.is_gcc], ids=lambda compiler: compiler.name)
def test_what_all_kernels_include_is_precompiled_once(compiler: Compiler, source: Path, cache: Path) -> None:
    for built in cache.glob("headers-*"):
        shutil.rmtree(built)
    made = []
    for value, options in (("1", ()), ("2", ("-Iothers",)), ("3", ("-std=c++20",))):
        build_module.build_kernel(source, "store", (("VALUE", value),), options=options, compiler=compiler)
        made.append({path: path.stat().st_ino for path in cache.glob("*/kernel.h.gch")})
    assert made[0] == made[1]
    assert [len(each) for each in made] == [1, 1, 2]


@pytest.mark.parametrize("compiler", [each for each in COMPILERS if each.is_gcc], ids=lambda compiler: compiler.name)
def test_a_copied_cache_keeps_its_precompiled_header(compiler: Compiler, source: Path, cache: Path) -> None:
    copied = {*cache.glob("*/kernel.h.gch")}
    build_module.build_kernel(source, "store", (("VALUE", "1"),), compiler=compiler)
    assert {*cache.glob("*/kernel.h.gch")} == copied != set()


def test_prebuild_leaves_nothing_to_compile(source: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    emulator.prebuild([(source, "store", (("VALUE", str(value)),)) for value in (1, 2, 2)])
    assert len(kernels_in(cache)) == 2
    monkeypatch.setattr(build_module, "run", pytest.fail)
    assert [stored(source, (("VALUE", value),)) for value in ("1", "2")] == [1, 2]


def test_prebuild_leaves_a_kernel_that_does_not_compile_to_load(source: Path, cache: Path) -> None:
    emulator.prebuild([(source, "store", ()), (source, "store", (("VALUE", "1"),))])
    assert len(kernels_in(cache)) == 1
    with pytest.raises(KernelBuildError):
        stored(source)


@every_compiler
def test_a_compile_error_is_one_line_with_its_place(compiler: Compiler, source: Path, cache: Path) -> None:
    source.write_text('// a comment\nextern "C" __global__ void store(int* out) { out[0] = nonsense; }\n')
    with pytest.raises(KernelBuildError) as caught:
        emulator.load(source, "store", compiler=compiler)
    assert str(caught.value).startswith("store.cu:2: ")
    assert "nonsense" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "peakgate_kernel" not in str(caught.value)
    assert list(cache.rglob("peakgate.*")) == []


@every_compiler
def test_a_kernel_that_is_not_in_the_file_is_named(compiler: Compiler, source: Path, cache: Path) -> None:
    with pytest.raises(KernelBuildError, match=r"^store\.cu has no entry point `restore` .*: it has store;"):
        emulator.load(source, "restore", (("VALUE", "1"),), compiler=compiler)
    assert kernels_in(cache) == set()


def test_a_name_that_no_kernel_can_have_is_refused(source: Path) -> None:
    with pytest.raises(EmulatorError, match=r"'two words' given as the name of a kernel in store\.cu"):
        emulator.load(source, "two words")


def test_a_missing_source_is_named(tmp_path: Path) -> None:
    with pytest.raises(EmulatorError, match=r"gone\.cu: expected the readable source of a kernel"):
        emulator.load(tmp_path / "gone.cu", "gone")


def test_a_function_without_a_body_is_named_with_its_line(source: Path, cache: Path) -> None:
    source.write_text('int absent(int);\nextern "C" __global__ void store(int* out) { out[0] = absent(1); }\n')
    with pytest.raises(KernelBuildError, match=r"^store\.cu:1: `absent`: declared and used, but defined in none"):
        emulator.load(source, "store")
    assert kernels_in(cache) == set()


@every_compiler
def test_more_static_shared_memory_than_cuda_allows_is_refused(compiler: Compiler, source: Path, cache: Path) -> None:
    source.write_text(
        "template <int N> __device__ float* tile() { __shared__ float values[N]; return values; }\n"
        'extern "C" __global__ void store(float* out) { out[0] = tile<COUNT>()[0] + tile<4>()[0]; }\n'
    )
    emulator.load(source, "store", (("COUNT", str(12 * 1024 - 4)),), compiler=compiler)
    with pytest.raises(KernelBuildError, match=r"^store\.cu: kernel store has 49168 bytes of static shared memory"):
        emulator.load(source, "store", (("COUNT", str(12 * 1024)),), compiler=compiler)
    assert len(kernels_in(cache)) == 1


def test_a_cache_that_cannot_be_written_is_named(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PEAKGATE_CACHE", str(tmp_path / "file"))
    with pytest.raises(EmulatorError, match=r"file/emulator: builds cannot be kept there .*PEAKGATE_CACHE"):
        emulator.load(source, "store")


def pretend(folder: Path, name: str, answer: str) -> Path:
    program = folder / name
    program.write_text(f"#!/bin/sh\necho '{answer}'\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty PATH and no ziglang."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(compiler_module, "_zig_version", lambda: None)
    compiler_module._search.cache_clear()
    return folder


def test_without_any_compiler_the_three_choices_are_named(nothing_installed: Path) -> None:
    assert nothing_installed.is_dir()
    with pytest.raises(EmulatorError) as caught:
        emulator.find_compiler()
    for choice in ("g++ >= 12", "clang++ >= 16", "pip install ziglang"):
        assert choice in caught.value.message


def test_compilers_that_are_too_old_are_named(nothing_installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gcc = pretend(nothing_installed, "g++", "g++ (Ubuntu 11.4.0-1ubuntu1) 11.4.0")
    clang = pretend(nothing_installed, "clang++", "Ubuntu clang version 14.0.0-1ubuntu1")
    monkeypatch.setattr(compiler_module, "_zig_version", lambda: "0.13.0")
    with pytest.raises(EmulatorError) as caught:
        emulator.find_compiler()
    for seen in (f"{gcc} is g++ 11.4.0", f"{clang} is clang++ 14.0.0", "ziglang is 0.13.0"):
        assert seen in caught.value.message


@pytest.mark.parametrize(
    ("answer", "name", "version"),
    [
        ("g++ (Debian 12.2.0-14) 12.2.0", "g++", "12.2.0"),
        ("g++-14 (GCC) 14.1.1 20240522", "g++", "14.1.1"),
        ("Debian clang version 19.1.7 (3)", "clang++", "19.1.7"),
    ],
)
def test_a_compiler_is_known_by_its_own_word(nothing_installed: Path, answer: str, name: str, version: str) -> None:
    pretend(nothing_installed, "g++", answer)
    found = emulator.find_compiler()
    assert (found.name, found.version) == (name, version)


def test_a_compiler_that_does_not_run_is_passed_over(nothing_installed: Path) -> None:
    broken = nothing_installed / "g++"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(EmulatorError, match=r"g\+\+ does not run"):
        emulator.find_compiler()


needs_zig = pytest.mark.skipif(
    not any(compiler.name == "zig" for compiler in COMPILERS), reason="ziglang is not installed"
)


@needs_zig
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("name", [*build_module.RUNTIME_SOURCES, build_module.PRODUCTS])
def test_the_runtime_compiles_for_every_machine_without_warning(name: str, machine: str, tmp_path: Path) -> None:
    """Only zig compiles for other machines without their headers."""
    zig = next(compiler for compiler in COMPILERS if compiler.name == "zig")
    command = [part.replace(platform.machine(), machine) for part in zig.command]
    strict = ("-Wall", "-Wextra", "-Werror")
    built = tmp_path / "runtime.o"
    done = compiler_module.run(
        [
            *command,
            *compiler_module.runtime_flags(zig, (name,)),
            *strict,
            "-c",
            build_module.RUNTIME_FOLDER / name,
            "-o",
            built,
        ]
    )
    assert done.stderr == ""
    with built.open("rb") as file:
        assert ELFFile(file).get_machine_arch() == {"x86_64": "x64", "aarch64": "AArch64"}[machine]


@needs_zig
def test_ziglang_alone_will_do(source: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert emulator.find_compiler().name == "zig"
    assert stored(source, (("VALUE", "9"),)) == 9
    assert (cache / "zig").is_dir()


@every_compiler
@pytest.mark.parametrize("name", [*build_module.RUNTIME_SOURCES, build_module.PRODUCTS, "cuda_cpu.h"])
def test_the_emulator_compiles_without_warnings(compiler: Compiler, name: str, tmp_path: Path) -> None:
    unit = tmp_path / "unit.cpp"
    unit.write_text(f'#include "{build_module.RUNTIME_FOLDER / name}"\n')
    command = [*compiler.command, "-std=c++17", "-Wall", "-Wextra", "-Werror", "-O1", "-c", unit, "-o", tmp_path / "o"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_machine_is_part_of_a_compilers_identity() -> None:
    assert emulator.find_compiler().identity.endswith(platform.machine())
