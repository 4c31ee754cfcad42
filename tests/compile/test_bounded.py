"""Compile bombs: each is one line after a bounded time, and nothing of the compiler is left."""

import os
from pathlib import Path

import pytest

import peakgate_emulator as emulator
from peakgate.base.errors import BuildError
from peakgate.compile.cubin import cubin
from peakgate.spec.case import Stage
from peakgate_emulator import bounded
from peakgate_emulator.build import build_runtime

TEMPLATES = """
template <int N, int M> struct Bomb { static const long v = Bomb<N - 1, 2 * M>::v + Bomb<N - 1, 2 * M + 1>::v; };
template <int M> struct Bomb<0, M> { static const long v = M; };
extern "C" __global__ void bomb(float* out) { out[0] = Bomb<26, 0>::v; }
"""
TABLE = '__device__ char table[1ull << 38] = {1};\nextern "C" __global__ void bomb(float* out) { out[0] = table[5]; }\n'
INCLUDES = '#include "FILE"\nextern "C" __global__ void bomb(float* out) { out[0] = 0; }\n'
RIGHT = 'extern "C" __global__ void right(float* out) { out[0] = 1; }\n'


def left_of(folder):
    """Processes that were started for a file of this folder."""
    found = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [command.parent.name] if str(folder).encode() in command.read_bytes() else []
        except OSError:
            continue
    return found


@pytest.fixture
def folder(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    build_runtime(emulator.find_compiler())  # ours, and needs more than a bomb is given here
    return tmp_path


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        (TEMPLATES, {"limit_s": 1}),
        (TABLE, {"MEMORY_BYTES": 1 << 30}),
        (INCLUDES.replace("FILE", "/dev/zero"), {"MEMORY_BYTES": 1 << 28}),
        (INCLUDES.replace("FILE", "PIPE"), {"WALL_BASE_S": 0.5, "WALL_PER_PROCESSOR_S": 0}),
    ],
    ids=["templates", "table", "endless file", "pipe that nobody writes"],
)
def test_a_compile_bomb_is_one_line_for_the_emulator(folder, monkeypatch, text, limits):
    given = {name: limit for name, limit in limits.items() if name == "limit_s"}
    for name in limits.keys() - given:
        monkeypatch.setattr(bounded, name, limits[name])
    source = folder / "bomb.cu"
    source.write_text(text.replace("PIPE", str(folder / "pipe")))
    with pytest.raises(emulator.KernelBuildError, match=r"^bomb.cu: the compiler was ended: more than ") as caught:
        emulator.load(source, "bomb", **given)
    assert len(str(caught.value).splitlines()) == 1
    assert left_of(folder) == []


def test_a_compile_bomb_is_one_line_and_other_kernels_are_built(tmp_path, monkeypatch):
    pytest.importorskip("cuda.bindings", reason="NVRTC is not installed: the extra nvrtc, cuda12 or cuda13")
    from peakgate.compile import nvrtc  # noqa: PLC0415

    monkeypatch.setenv("PEAKGATE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "peakgate.toml").write_text("compile_timeout_s = 1")
    monkeypatch.chdir(tmp_path)
    nvrtc.end_all()
    stages = {name: Stage(name, "", tmp_path / f"{name}.cu") for name in ("bomb", "right")}
    stages["bomb"].source.write_text(TEMPLATES)
    stages["right"].source.write_text(RIGHT)
    with pytest.raises(BuildError, match="the compiler was ended: more than 1 s"):
        cubin(stages["bomb"], (), (9, 0))
    with pytest.raises(BuildError, match="the compiler was ended"):
        cubin(stages["bomb"], (), (9, 0))  # it is not tried again
    assert cubin(stages["right"], (), (9, 0)).entry == "right"
    nvrtc.end_all()
    assert not nvrtc._idle


def test_nvrtcs_processes_begin_ahead_of_an_empty_cache_alone(tmp_path, monkeypatch):
    nvrtc = pytest.importorskip("peakgate.compile.nvrtc", reason="NVRTC is not installed")
    monkeypatch.setenv("PEAKGATE_CACHE", str(tmp_path))
    monkeypatch.setattr(nvrtc, "_idle", [])
    monkeypatch.setattr(nvrtc, "_CompilerProcess", lambda: "process")
    nvrtc.begin()
    assert nvrtc._idle == ["process"] * min(nvrtc.MOST_BEGUN, nvrtc.MOST_IDLE)
    nvrtc._idle.clear()
    (tmp_path / "cubin").mkdir()
    nvrtc.begin()
    assert nvrtc._idle == []


def test_nvrtcs_process_ends_with_the_one_that_started_it():
    pytest.importorskip("cuda.bindings", reason="NVRTC is not installed: the extra nvrtc, cuda12 or cuda13")
    from peakgate.compile import nvrtc  # noqa: PLC0415

    worker = nvrtc._CompilerProcess()
    worker._connection.close()  # as the end of this process would
    assert worker._process.wait(60) == 0
