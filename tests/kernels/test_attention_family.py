"""The attention family: its references, and what a tiling promises the kernels that are built with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from family_modules import attention

from peakgate.case import Scale

SHARED_BYTES_OF_A_BLOCK = 227 * 1024
REGISTERS_OF_AN_SM = 65536
TILINGS = [attention.Tiling.of(width, causal) for width in attention.WIDTHS for causal in attention.CAUSAL.values()]


def drawn(heads: int = 2, length: int = 7, width: int = 64) -> list[np.ndarray]:
    generator = np.random.default_rng(length)
    return [generator.uniform(-2, 2, (heads, length, width)) for _ in range(3)]


@pytest.mark.parametrize("causal", attention.CAUSAL.values())
def test_a_result_is_the_mean_of_the_values_weighed_by_powers_of_the_scores(causal: bool) -> None:
    q, k, v = drawn()
    found = attention.attention(np, q, k, v, causal=causal)
    for head, row in np.ndindex(found.shape[:2]):
        seen = slice(row + 1 if causal else None)
        weights = np.exp(k[head, seen] @ q[head, row] / 8)
        np.testing.assert_allclose(found[head, row], np.average(v[head, seen], axis=0, weights=weights))


def test_the_first_query_of_causal_attention_gives_the_first_value() -> None:
    q, k, v = drawn()
    np.testing.assert_allclose(attention.attention(np, q, k, v, causal=True)[:, 0], v[:, 0])


def trained(causal: bool) -> list[np.ndarray]:
    """The arguments of the backward pass: queries, keys, values, the result, its gradient, the logarithms of sums."""
    q, k, v = drawn()
    scores = q @ k.transpose(0, 2, 1) / 8
    seen = np.tri(q.shape[1]) if causal else 1.0
    result = attention.attention(np, q, k, v, causal=causal)
    return [q, k, v, result, v[:, ::-1], np.log((np.exp(scores) * seen).sum(axis=2))]


@pytest.mark.parametrize("causal", attention.CAUSAL.values())
def test_gradients_are_the_slopes_of_the_forward_pass(causal: bool) -> None:
    *inputs, result, of_result, logs = trained(causal)
    found = attention.gradients(np, *inputs, result, of_result, logs, causal=causal)
    for number, gradient in enumerate(found):
        step = 1e-4 * inputs[number][::-1]
        ends = [[each + sign * step if at == number else each for at, each in enumerate(inputs)] for sign in (1, -1)]
        above, below = (attention.attention(np, *end, causal=causal) for end in ends)
        np.testing.assert_allclose((gradient * step).sum(), ((above - below) * of_result).sum() / 2, rtol=1e-6)


@pytest.mark.parametrize("causal", attention.CAUSAL.values())
def test_magnitudes_of_gradients_are_no_less_than_gradients(causal: bool) -> None:
    given = trained(causal)
    found = attention.gradients(np, *given, causal=causal)
    magnitudes = attention.gradient_magnitudes(np, *given, causal=causal)
    assert all((magnitude >= np.abs(gradient)).all() for magnitude, gradient in zip(magnitudes, found, strict=True))


@pytest.mark.parametrize("causal", attention.CAUSAL.values())
@pytest.mark.parametrize("length", [1, 2, 9])
def test_pairs_counts_the_scores_that_are_not_masked(length: int, causal: bool) -> None:
    seen = np.tri(length) if causal else np.ones((length, length))
    assert attention.pairs(length, causal) == seen.sum()


@pytest.mark.parametrize("tiling", TILINGS, ids=str)
def test_a_tiling_fits_the_shared_memory_and_the_registers_of_an_sm(tiling: Any) -> None:
    assert tiling.shared_bytes <= SHARED_BYTES_OF_A_BLOCK
    held = tiling.width // 2 + tiling.keys // 2 + tiling.keys // 4  # sums, scores and rounded weights of a thread
    assert 128 * tiling.groups * held < REGISTERS_OF_AN_SM
    assert tiling.keys % 16 == 0


@pytest.mark.parametrize("width", attention.WIDTHS)
def test_a_tile_of_the_backward_pass_fits_an_sm(width: int) -> None:
    tiling = attention.Backward(width)
    assert tiling.shared_bytes <= SHARED_BYTES_OF_A_BLOCK
    held = width + tiling.queries  # sums of two gradients, scores and the gradient of weights
    assert 128 * 2 * held < REGISTERS_OF_AN_SM


def test_every_problem_has_as_many_tokens_and_columns() -> None:
    for case in attention.FAMILY.cases(Scale.BENCH):
        heads, length = map(int, case.size.split("-")[0].split("x"))
        width = int(dict(case.defines)["HEAD"])
        assert heads * length * width == attention.TOKENS * attention.COLUMNS
