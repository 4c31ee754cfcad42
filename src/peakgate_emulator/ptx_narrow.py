"""C++ statements for PTX's conversions to and from numbers of 8, 6 and 4 bits, two in a register.

By the PTX ISA, ``cvt``: the first of two operands is in the upper half; numbers of 6 bits have a byte each. Numbers too
large become the largest one, NaNs the format's NaN, in those of 6 and 4 bits, which have none, the largest number.
``relu`` makes negative numbers 0. Scales (ue8m0) are powers of 2 without a sign, rounded up or to zero.
"""

from __future__ import annotations

from collections.abc import Sequence

from peakgate_emulator.ptx_grammar import Instruction, Names, Operand, Unknown

FORMATS = {
    "e4m3x2": "__nv_fp8_e4m3",
    "e5m2x2": "__nv_fp8_e5m2",
    "e2m3x2": "__nv_fp6_e2m3",
    "e3m2x2": "__nv_fp6_e3m2",
    "e2m1x2": "__nv_fp4_e2m1",
    "ue8m0x2": "__nv_fp8_e8m0",
}
"""The C++ types of cuda_narrow.h by PTX type."""


def narrow_conversion(instruction: Instruction, names: Names) -> str:
    """``cvt`` from or to a type of ``FORMATS``."""
    *modifiers, to, source = instruction.modifiers
    result, *operands = instruction.operands
    flags, scales = {*modifiers}, "ue8m0x2" in (to, source)
    relu = str("relu" in flags).lower()
    if source in FORMATS:
        pair = "bf16x2" if scales else "f16x2"
        if to != pair or flags not in ({"rn"}, {"rn"} if scales else {"rn", "relu"}):
            raise Unknown
        number, two = ("__nv_bfloat16", "__nv_bfloat162") if scales else ("__half", "__half2")
        call = f"peakgate_ptx::wide_pair<{FORMATS[source]}, {number}>({names.bits(operands[0])}, {relu})"
        return names.put(result, call, two)
    expected = ({"rz"}, {"rp"}) if scales else ({"rn", "satfinite"},)
    if flags - ({"satfinite"} if scales else {"relu"}) not in expected:
        raise Unknown
    if scales and source == "f16x2":
        raise Unknown
    high, low = _pair_of(source, operands, names)
    how = f"{relu}, {str('satfinite' in flags).lower()}, {str('rz' in flags).lower()}"
    call = f"peakgate_ptx::narrow_pair<{FORMATS[to]}>({high}, {low}, {how})"
    return f"{names.bits(result)} = {call};"


def _pair_of(source: str, operands: Sequence[Operand], names: Names) -> tuple[str, str]:
    """The two numbers as floats: two operands, or the halves of one."""
    if source == "f32":
        high, low = (names.value(operand, "float") for operand in operands)
        return high, low
    if source not in ("f16x2", "bf16x2"):
        raise Unknown
    pair = names.value(operands[0], "__nv_bfloat162" if source == "bf16x2" else "__half2")
    return f"float({pair}.y)", f"float({pair}.x)"
