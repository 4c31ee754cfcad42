"""Products by a group of four warps: matrices lie as their descriptors say, and what is not waited for is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulating import finds, loaded
from matrix_forms import SPANS, TYPES, GroupForm, drawn, group_source

import peakgate_emulator as emulator
from peakgate_emulator import DefectKind

FORMS = [
    *(GroupForm(columns, "f32", "bf16", "bf16") for columns in (8, 24, 128, 256)),
    *(GroupForm(64, "f32", "f16", "f16", mode) for mode in SPANS),
    *(GroupForm(128, "f32", "bf16", "bf16", mode, "ab") for mode in SPANS),
    GroupForm(64, "f32", "f16", "f16", 1, "a"),
    GroupForm(64, "f32", "f16", "f16", 2, "b"),
    GroupForm(64, "f32", "f16", "f16", 1, "b", in_registers=True),
    GroupForm(64, "f16", "f16", "f16"),
    GroupForm(32, "f32", "tf32", "tf32"),
    GroupForm(32, "f32", "tf32", "tf32", 3, in_registers=True),
    GroupForm(64, "f32", "e4m3", "e5m2"),
    GroupForm(64, "f32", "e5m2", "e5m2", 0, in_registers=True),
    GroupForm(96, "f16", "e4m3", "e4m3", 2),
    GroupForm(48, "s32", "s8", "u8"),
    GroupForm(16, "s32", "u8", "u8", 0, clamps=True),
]


@pytest.fixture(scope="module")
def products(tmp_path_factory: pytest.TempPathFactory) -> Any:
    source = tmp_path_factory.mktemp("group") / "products.cu"
    source.write_text(group_source(FORMS), encoding="utf-8")
    return emulator.load(source, "products", ())


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("number", range(len(FORMS)))
def test_a_product_is_of_the_matrices_that_are_named(products: Any, number: int, add: bool) -> None:
    form = FORMS[number]
    generator = np.random.default_rng(1)
    a, b = drawn(generator, (64, form.depth), form.a), drawn(generator, (form.columns, form.depth), form.b)
    c = drawn(generator, (64, form.columns), form.sums)
    out, *given = form.arguments(a, b, c, add=add)
    products.launch((1, 1, 1), (128, 1, 1), (out, *given, np.int32(number)), shared_bytes=65536)
    exact = a.astype(np.float64) @ b.astype(np.float64).T + add * c.astype(np.float64)
    expected = exact.astype(TYPES[form.sums])
    np.testing.assert_allclose(form.product(out), expected, rtol=2e-7 if form.sums == "f32" else 0)


SOUND = {
    "FULL(b, p)": "wait(b, p)",
    "FENCE": 'asm volatile("wgmma.fence.sync.aligned;")',
    "COMMIT": 'asm volatile("wgmma.commit_group.sync.aligned;")',
    "WAIT": 'asm volatile("wgmma.wait_group.sync.aligned 1;")',
    "TOUCH": "",
    "RELEASE": "release(i - 1)",
    "LAST": 'asm volatile("wgmma.wait_group.sync.aligned 0;")',
}
REGISTERS = DefectKind.REGISTER_RACE
BROKEN = {
    "no wait for the slice": ({"FULL(b, p)": ""}, {DefectKind.SHARED_RACE, DefectKind.UNINITIALISED_SHARED}),
    "no fence": ({"FENCE": ""}, {REGISTERS}),
    "no commit": ({"COMMIT": ""}, {REGISTERS}),
    "no wait at the end": ({"LAST": ""}, {REGISTERS}),
    "no wait before the slot is given back": ({"WAIT": ""}, {DefectKind.SHARED_RACE}),
    "the slot at work is given back": ({"RELEASE": "release(i)"}, {DefectKind.SHARED_RACE}),
    "sums changed without a fence": (
        {"WAIT": SOUND["LAST"], "TOUCH": "s[1] *= 0.5f", "FENCE": f"if (i == 0) {SOUND['FENCE']}"},
        {REGISTERS},
    ),
    "sums changed behind the fence": (
        {"WAIT": SOUND["LAST"], "FENCE": f"{SOUND['FENCE']}; s[1] *= 0.5f"},
        {REGISTERS},
    ),
    "a sum read before the wait": ({"COMMIT": f"{SOUND['COMMIT']}; if (s[1] > 9) c[0] = 1"}, {REGISTERS}),
    "a sum written before the wait": ({"COMMIT": f"{SOUND['COMMIT']}; s[1] = 0"}, {REGISTERS}),
    "a sum changed later before the wait": (
        {"COMMIT": f"{SOUND['COMMIT']}; if (i == 2) s[1] = fmaxf(s[1], -1e30f)"},
        {REGISTERS},
    ),
    "a lane stays away": ({"WAIT": f"if (threadIdx.x != 5) {SOUND['WAIT']}"}, {DefectKind.WARP_MASK}),
}


def ring(changes: dict[str, str], schedule: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(1)
    a, b = (drawn(generator, (rows, 5 * 64), "bf16") for rows in (64, 8))
    slices = []
    for first in range(0, 5 * 64, 64):
        for matrix in (a, b):
            tile = np.ascontiguousarray(matrix[:, first : first + 64]).view(np.uint8).reshape(-1, 8, 16)
            slices += [tile[row, np.arange(8) ^ row % 8] for row in range(len(tile))]
    c = np.zeros((64, 8), np.float32)
    given = np.concatenate(slices).reshape(-1).view(np.uint32)
    launched: dict[str, Any] = {"shared_bytes": 2 * 72 * 128, "schedule": schedule, "outputs": [0]}
    loaded("slots", SOUND | changes).launch((1, 1, 1), (160, 1, 1), (c, given, np.int32(5)), **launched)
    return c, a.astype(np.float64) @ b.astype(np.float64).T


@pytest.mark.parametrize("schedule", [0, 1, 2, 7])
def test_a_ring_of_slots_gives_the_product_in_any_order(schedule: int) -> None:
    got, expected = ring({}, schedule)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("schedule", [0, 1, 2])
@pytest.mark.parametrize("what", BROKEN)
def test_a_ring_without_a_wait_a_fence_or_a_commit_is_found(what: str, schedule: int) -> None:
    changes, kinds = BROKEN[what]
    with finds(*kinds):
        ring(changes, schedule)


@pytest.mark.parametrize(
    ("who", "found"),
    [("threadIdx.x >= 128", False), ("true", False), ("threadIdx.x % 2", True), ("threadIdx.x >= 32", True)],
)
@pytest.mark.parametrize("end", ["__syncthreads();", ""])
def test_registers_are_given_away_by_groups_of_warps(who: str, found: bool, end: str, tmp_path: Path) -> None:
    source = tmp_path / "give.cu"
    text = f'if ({who}) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); out[threadIdx.x] = 1;'
    source.write_text(f'extern "C" __global__ void give(int* out) {{ {text} {end} }}', encoding="utf-8")
    kernel, out = emulator.load(source, "give"), np.zeros(256, np.int32)
    with finds(*([DefectKind.WARP_MASK] if found else [])):
        kernel.launch((1, 1, 1), (256, 1, 1), (out,))
