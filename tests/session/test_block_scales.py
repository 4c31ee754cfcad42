"""Quantizers to blocks of 4-bit floats with a scale each (NVFP4, MXFP4): the right ones pass, others are wrong."""

import textwrap

import pytest

from peakgate.base.verdict import Verdict
from peakgate.device.cpu import CpuDevice
from peakgate.judge.floors import Floors
from peakgate.session.session import Session
from peakgate.spec.case import Scale, Tier
from peakgate.spec.catalogue import family_at

FAMILY = """
from peakgate.family import In, Out, Value, family, kernel

BLOCK, SCALE = {block}, "{scale}"


def scales_of(xp, x):
    largest = xp.abs(x.reshape(-1, BLOCK)).max(axis=1).astype("float32")
    if SCALE == "float8_e4m3fn":
        return xp.clip(largest / xp.float32(6), 2.0**-6, 448)
    return 2.0 ** xp.clip(xp.ceil(xp.log2(xp.maximum(largest.astype("float64") / 6, 2.0**-120))), -120, 120)


def of_e4m3(xp, values):
    exponent = xp.floor(xp.log2(values))
    step = 2.0 ** (exponent - 3)
    return xp.rint(values / step) * step


def quantized(xp, x):
    scales = scales_of(xp, x)
    held = of_e4m3(xp, scales) if SCALE == "float8_e4m3fn" else scales
    return x.reshape(-1, BLOCK) / held[:, None], scales


FAMILY = family(
    kernel(
        "quantize.cu",
        arguments=lambda blocks: [
            Out(blocks, BLOCK, dtype="float4_e2m1fn"),
            Out(blocks, dtype=SCALE),
            In(blocks * BLOCK, data=(-64, 64)),
            Value(blocks),
        ],
        grid=lambda blocks: -(-blocks // 64), block=64, bytes=lambda blocks: 4 * blocks * BLOCK,
        reference=quantized, sizes=[300], small_sizes=[70],
    )
)
"""

SOURCE = """
#include <cuda_fp4.h>
#include <cuda_fp8.h>

extern "C" __global__ void quantize(unsigned char* codes, {type}* scales, const float* x, int blocks)
{{
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= blocks) return;
    float largest = 0.0f;
    for (int i = 0; i < {block}; ++i) largest = fmaxf(largest, fabsf(x[at * {block} + i]));
    {scale}
    for (int i = 0; i < {block} / 2; ++i) {{
        const float2 pair = make_float2(x[at * {block} + 2 * i] / held, x[at * {block} + 2 * i + 1] / held);
        codes[at * {block} / 2 + i] = __nv_cvt_float2_to_fp4x2({pair}, __NV_E2M1, cudaRoundNearest);
    }}
}}
"""

NVFP4 = (
    "const __nv_fp8_e4m3 rounded(fminf(fmaxf(largest / 6.0f, 0x1p-6f), 448.0f)); scales[at] = rounded; "
    "const float held = float(rounded);"
)
MXFP4 = (
    "const unsigned bits = __float_as_uint(fmaxf(largest / 6.0f, 0x1p-120f)); "
    "const unsigned exponent = (bits >> 23) + ((bits & 0x7FFFFF) != 0); "
    "scales[at] = (unsigned char)exponent; const float held = __uint_as_float(exponent << 23);"
)
KINDS = {
    "nvfp4": {"block": 16, "scale": "float8_e4m3fn", "type": "__nv_fp8_e4m3", "code": NVFP4},
    "mxfp4": {"block": 32, "scale": "float8_e8m0fnu", "type": "unsigned char", "code": MXFP4},
}


def measured(folder, kind, *, code=None, pair="pair"):
    of = KINDS[kind]
    folder = folder / "quantize"
    folder.mkdir()
    (folder / "family.py").write_text(textwrap.dedent(FAMILY.format(block=of["block"], scale=of["scale"])))
    source = SOURCE.format(type=of["type"], block=of["block"], scale=code or of["code"], pair=pair)
    (folder / "quantize.cu").write_text(source)
    family = family_at(folder / "family.py")
    session = Session(CpuDevice(), Floors(folder), Tier.GATE, probes=family.probes, seed=1)
    (case,) = family.cases(Scale.SMALL)
    return session.measured(case)


@pytest.mark.parametrize("kind", KINDS)
def test_a_right_quantizer_to_blocks_of_4_bit_floats_is_right(tmp_path, kind):
    outcome = measured(tmp_path, kind)
    assert outcome.judgement.verdict is Verdict.NO_FLOOR, outcome.judgement
    assert outcome.proof.probes == 6


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("nvfp4", {"pair": "make_float2(pair.y, pair.x)"}),
        ("nvfp4", {"code": NVFP4.replace("float(rounded)", "largest / 6.0f")}),
        ("nvfp4", {"code": NVFP4.replace("scales[at] = rounded", "scales[at] = __nv_fp8_e4m3(0.9f * float(rounded))")}),
        ("mxfp4", {"code": MXFP4.replace("+ ((bits & 0x7FFFFF) != 0)", "")}),
        ("mxfp4", {"code": MXFP4.replace("(unsigned char)exponent", "(unsigned char)(exponent - 1)")}),
        ("mxfp4", {"pair": "make_float2(truncf(pair.x), truncf(pair.y))"}),
        ("mxfp4", {"code": MXFP4.replace("(bits >> 23)", "(bits >> 23) + (largest > 63.0f)")}),
    ],
)
def test_a_wrong_scale_or_code_is_wrong(tmp_path, kind, wrong):
    assert measured(tmp_path, kind, **wrong).judgement.verdict is Verdict.WRONG


RESTORED = """
from peakgate.family import In, Out, Value, family, kernel

FAMILY = family(
    kernel(
        "restore.cu",
        arguments=lambda blocks: [
            Out(blocks, 32), In(blocks, 32, dtype="float4_e2m1fn"), In(blocks, dtype="float8_e8m0fnu"), Value(blocks)
        ],
        grid=lambda blocks: blocks, block=32, bytes=lambda blocks: 145 * blocks,
        reference=lambda xp, codes, scales: codes * scales[:, None], sizes=[300], small_sizes=[70],
    )
)
"""
RESTORE = """
extern "C" __global__ void restore(float* out, const unsigned char* codes, const unsigned char* scales, int blocks)
{
    const float sizes[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    const int i = threadIdx.x, code = codes[blockIdx.x * 16 + i / 2] >> i % 2 * 4 & 15;
    const float size = sizes[code & 7] * __uint_as_float(scales[blockIdx.x] << 23);
    out[blockIdx.x * 32 + i] = code & 8 ? -size : size;
}
"""


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ((), Verdict.NO_FLOOR),
        (("code & 8 ?", "false ?"), Verdict.WRONG),
        (("i % 2 * 4", "(1 - i % 2) * 4"), Verdict.WRONG),
        (("<< 23", "<< 23 & 0x3FFFFFFF"), Verdict.WRONG),
        (("4.0f, 6.0f", "4.0f, 5.0f"), Verdict.WRONG),
    ],
)
def test_blocks_of_4_bit_floats_are_drawn_with_every_code_and_scale(tmp_path, change, verdict):
    (tmp_path / "family.py").write_text(RESTORED)
    (tmp_path / "restore.cu").write_text(RESTORE.replace(*change) if change else RESTORE)
    family = family_at(tmp_path / "family.py")
    session = Session(CpuDevice(), Floors(tmp_path), Tier.GATE, probes=family.probes, seed=1)
    (case,) = family.cases(Scale.SMALL)
    assert session.measured(case).judgement.verdict is verdict
