import json

import pytest
from peakgate.build.cubin import BuildError, cubin, parse_resources, source_files
from peakgate.case import Stage

pytest.importorskip("cuda.bindings", reason="NVRTC is not installed: dependency group nvrtc, cuda12 or cuda13")

SOURCE = """// doubles
#include "scale.cuh"
extern "C" __global__ void twice(float* out, const float* in) { out[threadIdx.x] = SCALE * in[threadIdx.x]; }
"""


@pytest.fixture
def stage(tmp_path, monkeypatch):
    monkeypatch.setenv("PEAKGATE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "scale.cuh").write_text("#ifndef SCALE\n#define SCALE 2.0f\n#endif\n")
    source = tmp_path / "twice.cu"
    source.write_text(SOURCE)
    return Stage("twice", "doubles", source)


def test_a_kernel_becomes_machine_code_with_its_resources(stage):
    built = cubin(stage, (), (9, 0))
    assert built.path.read_bytes()[:4] == b"\x7fELF"
    assert 0 < built.resources.registers < 64
    assert built.resources.spill_bytes == 0


def test_a_comment_changes_no_fingerprint_and_code_does(stage):
    first = cubin(stage, (), (9, 0))
    stage.source.write_text("// another word, another line\n\n" + SOURCE)
    commented = cubin(stage, (), (9, 0))
    changed = cubin(stage, (("SCALE", "3.0f"),), (9, 0))
    assert commented.path != first.path
    assert commented.fingerprint == first.fingerprint
    assert changed.fingerprint != first.fingerprint


def test_a_changed_header_is_compiled_again(stage):
    first = cubin(stage, (), (9, 0))
    (stage.source.parent / "scale.cuh").write_text("#define SCALE 5.0f\n")
    assert cubin(stage, (), (9, 0)).fingerprint != first.fingerprint


def test_a_second_build_is_read_from_the_cache(stage):
    first = cubin(stage, (), (9, 0))
    notes = first.path.with_suffix(".json")
    saved = json.loads(notes.read_text())
    saved["fingerprint"] = "from the cache"
    notes.write_text(json.dumps(saved))
    assert cubin(stage, (), (9, 0)).fingerprint == "from the cache"


def test_a_kernel_that_does_not_compile_is_named_with_its_line(stage):
    stage.source.write_text('extern "C" __global__ void twice(float* out)\n{\n    out[0] = missing;\n}\n')
    with pytest.raises(BuildError, match=r'twice\.cu:3: identifier "missing" is undefined'):
        cubin(stage, (), (9, 0))


def test_a_kernel_under_another_name_than_its_file_is_named():
    with pytest.raises(BuildError, match="no entry point `twice`"):
        parse_resources("ptxas info    : 0 bytes gmem", "twice")


def test_included_files_are_found_through_one_another(tmp_path):
    (tmp_path / "a.cu").write_text('#include "b.cuh"\n')
    (tmp_path / "b.cuh").write_text('#include "c.cuh"\n#include "b.cuh"\n')
    (tmp_path / "c.cuh").write_text("")
    assert [path.name for path in source_files(tmp_path / "a.cu")] == ["a.cu", "b.cuh", "c.cuh"]
