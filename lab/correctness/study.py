"""Which rule separates wrong results from correct ones? Mutants and correct variants of kernels, judged by five rules.

A *variant* is a correct kernel: another order of the sums, split sums, trees, fused multiply-adds, tensor cores'
blocks, a library. A *mutant* is wrong: it damages small elements, a row, a tail, signs, a tile's last row, or loses
bits in its sums. Each is judged against the float64 reference by

- ``largest``: ``max|out - ref| <= tolerance * max|ref|`` over the output, Peakgate's rule before 0.3,
- ``row``: ``|out - ref| <= tolerance * (|ref| + rms of its row)``,
- ``absolute``: ``|out - ref| <= tolerance * reference(|inputs|)``,
- ``estimated``: Peakgate's rule, the magnitudes estimated (``peakgate.judge.magnitudes``),
- ``given``: Peakgate's rule, with the family's ``scale`` and ``terms``, which promise sums in float32 (float64): for
  this rule parts of a sum in a shorter type are not a variant.

``damage`` is the largest ``|out - ref| / magnitude`` of an element over that of the worst variant of the same kind and
type: a mutant above 2 must be WRONG, a variant never.

    python -m lab.correctness.study    # writes rules.csv, half a minute; python -m lab.fill shows it on the page
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from lab.pages import table
from peakgate.family import TOLERANCES, tolerance_of_sums
from peakgate.judge.correctness import bound_of, compare
from peakgate.judge.magnitudes import Rounded, estimated, of_row
from peakgate.spec.dtypes import unit_of_sums

Array = Any
Inputs = Sequence[Array]
TYPES = {"float64": np.float64, "float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
BEFORE = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
"""Default tolerances before 0.3, for the rules without magnitudes."""
RULES = {
    "largest": r"`tolerance * max\|ref\|` (before 0.3)",
    "row": r"`tolerance * (\|ref\| + rms of its row)`",
    "absolute": r"`tolerance * reference(\|inputs\|)`",
    "estimated": "Peakgate's, magnitudes estimated",
    "given": "Peakgate's, `scale` and `terms` given",
}
RECORD = Path(__file__).with_name("rules.csv")
EXCEEDS = 2.0
"""A mutant counts if its damage exceeds this."""


@dataclass(frozen=True)
class Kind:
    """A kind of kernel: inputs, float64 reference, magnitude of its sums, number of terms, variants.

    ``accumulated(inputs, order, sums)`` computes it in the precision ``sums``, adding in the given order.
    """

    name: str
    inputs: Callable[[np.random.Generator], Inputs]
    reference: Callable[[Any, Inputs], Array]
    magnitude: Callable[[Inputs], Array]
    terms: int
    accumulated: Callable[[Inputs, str, type], Array]


# Orders of a sum over the last axis, each addition rounded to the sums' precision.


def added(terms: Array, order: str, sums: type) -> Array:
    """The sum of ``terms`` over their last axis in the given order."""
    terms = terms.astype(sums)
    count = terms.shape[-1]
    if order.startswith("parts in "):  # four parts of the sum, stored in the output's type
        parts = [added(part, "sequence", sums) for part in np.array_split(terms, 4, axis=-1) if part.shape[-1]]
        return added(np.stack([kept(part, order) for part in parts], axis=-1), "sequence", sums)
    match order:
        case "sequence":
            return np.cumsum(terms, axis=-1, dtype=sums)[..., -1]
        case "backwards":
            return np.cumsum(terms[..., ::-1], axis=-1, dtype=sums)[..., -1]
        case "pairwise":
            while terms.shape[-1] > 1:
                odd = terms[..., -1:] if terms.shape[-1] % 2 else terms[..., :0]
                half = terms.shape[-1] // 2
                paired = (terms[..., : 2 * half : 2] + terms[..., 1 : 2 * half : 2]).astype(sums)
                terms = np.concatenate([paired, odd], axis=-1)
            return terms[..., 0]
        case "lanes":  # 32 threads, each in sequence, then a tree
            padded = np.concatenate([terms, np.zeros((*terms.shape[:-1], -count % 32), sums)], axis=-1)
            lanes: Array = np.cumsum(padded.reshape(*terms.shape[:-1], -1, 32), axis=-2, dtype=sums)[..., -1, :]
            return added(lanes, "pairwise", sums)
        case "split":  # four parts of k, then together
            parts = [added(part, "sequence", sums) for part in np.array_split(terms, 4, axis=-1) if part.shape[-1]]
            return added(np.stack(parts, axis=-1), "sequence", sums)
        case "blocks":  # a tensor core's: 16 products exactly, truncated to the sums' precision
            total = np.zeros(terms.shape[:-1], sums)
            for start in range(0, count, 16):
                exact = total.astype(np.float64) + terms[..., start : start + 16].astype(np.float64).sum(axis=-1)
                total = truncated(exact, sums)
            return total
        case "compensated":
            total, lost = np.zeros(terms.shape[:-1], sums), np.zeros(terms.shape[:-1], sums)
            for at in range(count):
                term = (terms[..., at] - lost).astype(sums)
                new = (total + term).astype(sums)
                lost, total = ((new - total) - term).astype(sums), new
            return total
        case "library":
            return terms.sum(axis=-1, dtype=sums)
    raise ValueError(order)


ORDERS = ("sequence", "backwards", "pairwise", "lanes", "split", "blocks", "compensated", "library")


def truncated(values: Array, sums: type) -> Array:
    """Rounded towards zero."""
    near = values.astype(sums)
    beyond = np.abs(near.astype(np.float64)) > np.abs(values)
    bits = near.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[near.dtype.itemsize])
    return np.where(beyond, bits - 1, bits).astype(bits.dtype).view(near.dtype)


def kept(values: Array, order: str) -> Array:
    """Intermediate results, rounded to the output's type if the order says so, as split sums store them."""
    name = order.removeprefix("parts in ")
    return values if name == order else values.astype(TYPES[name]).astype(values.dtype)


def root_of_squares(terms: Array) -> Array:
    return np.sqrt((terms.astype(np.float64) ** 2).sum(axis=-1))


M, N, K = 48, 64, 640


def products(a: Array, b: Array) -> Array:
    return a[:, None, :] * b.T[None, :, :]


def gemm(mixed: bool) -> Kind:
    def inputs(rng: np.random.Generator) -> Inputs:
        a, b = rng.uniform(-1, 1, (M, K)), rng.uniform(-1, 1, (K, N))
        return (a * 2.0 ** -(np.arange(M) % 13)[:, None], b * 2.0 ** -(np.arange(N) % 9)) if mixed else (a, b)

    return Kind(
        "gemm_mixed" if mixed else "gemm",
        inputs,
        lambda xp, given: given[0] @ given[1],
        lambda given: root_of_squares(products(*given)),
        K,
        lambda given, order, sums: added(products(*(each.astype(sums) for each in given)), order, sums),
    )


def softmax_in(given: Inputs, order: str, sums: type) -> Array:
    x = given[0].astype(sums)
    powers = kept(np.exp(x - x.max(axis=1, keepdims=True)).astype(sums), order)
    return (powers / added(powers, order, sums)[:, None]).astype(sums)


def softmax_of(xp: Any, given: Inputs) -> Array:
    powers = xp.exp(given[0] - given[0].max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def norm_of(xp: Any, given: Inputs) -> Array:
    x, weight = given
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / xp.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * weight


def norm_in(given: Inputs, order: str, sums: type) -> Array:
    x, weight = (each.astype(sums) for each in given)
    length = sums(x.shape[1])
    centred = kept((x - kept((added(x, order, sums) / length)[:, None], order)).astype(sums), order)
    variance = (added(centred * centred, order, sums) / length).astype(sums)
    return (centred / np.sqrt(variance + sums(1e-5))[:, None] * weight).astype(sums)


def attention_of(xp: Any, given: Inputs) -> Array:
    q, k, v = given
    return softmax_of(xp, [q @ k.T / xp.sqrt(xp.float64(q.shape[1]))]) @ v


def attention_in(given: Inputs, order: str, sums: type) -> Array:
    q, k, v = (each.astype(sums) for each in given)
    scores = (added(products(q, k.T), order, sums) / sums(np.sqrt(q.shape[1]))).astype(sums)
    weights = kept(softmax_in([scores], order, sums), order)
    return added(products(weights, v), order, sums)


def attention_size(given: Inputs) -> Array:
    q, k, v = (each.astype(np.float64) for each in given)
    weights = softmax_of(np, [q @ k.T / np.sqrt(q.shape[1])])
    scores = np.sqrt((q**2) @ (k.T**2)) / np.sqrt(q.shape[1])
    return np.sqrt((weights**2 * (1 + scores**2)) @ v**2)


def scan_in(given: Inputs, order: str, sums: type) -> Array:
    x = given[0].astype(sums)
    if order in ("sequence", "library"):
        return np.cumsum(x, axis=1, dtype=sums)
    if order.startswith("parts in "):
        return scan_in([kept(x, order)], "split", sums)
    width = {"lanes": 32, "pairwise": 2, "split": x.shape[1] // 4, "blocks": 16, "backwards": 64, "compensated": 128}[
        order
    ]
    parts = x.reshape(x.shape[0], -1, width)
    inside: Array = np.cumsum(parts, axis=2, dtype=sums)
    before = np.concatenate(
        [np.zeros((x.shape[0], 1), sums), np.cumsum(inside[..., -1], axis=1, dtype=sums)[:, :-1]], 1
    )
    return (inside + before[..., None]).astype(sums).reshape(x.shape)


def stencil_terms(x: Array) -> Array:
    padded = np.pad(x, ((0, 0), (2, 2)))
    weights = np.array([-1, 16, -30, 16, -1], np.float64) / 12
    return np.stack([padded[:, at : at + x.shape[1]] * weights[at] for at in range(5)], axis=-1)


def gelu_of(xp: Any, given: Inputs) -> Array:
    x = given[0]
    return 0.5 * x * (1 + xp.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


def gelu_in(given: Inputs, order: str, sums: type) -> Array:
    x = given[0].astype(sums)
    inner = sums(0.7978845608028654) * (x + sums(0.044715) * x * x * x)
    if order in ("pairwise", "lanes", "split"):  # by the exponential function
        powers = np.exp(sums(-2) * inner).astype(sums)
        return (x / (sums(1) + powers)).astype(sums)
    if order in ("blocks", "backwards"):
        inner = (x * (sums(0.7978845608028654) + sums(0.7978845608028654 * 0.044715) * x * x)).astype(sums)
    return (sums(0.5) * x * (sums(1) + kept(np.tanh(inner), order))).astype(sums)


KINDS = (
    gemm(mixed=False),
    gemm(mixed=True),
    Kind(
        "softmax",
        lambda rng: (4 * rng.standard_normal((M, 512)),),
        softmax_of,
        lambda given: softmax_of(np, given) * (1 + np.abs(given[0] - given[0].max(axis=1, keepdims=True))),
        512,
        softmax_in,
    ),
    Kind(
        "row_sums",
        lambda rng: (rng.uniform(-1, 1, (256, 1000)) * 10.0 ** rng.integers(-3, 3, (256, 1)),),
        lambda xp, given: given[0].sum(axis=1),
        lambda given: root_of_squares(given[0]),
        1000,
        lambda given, order, sums: added(given[0], order, sums),
    ),
    Kind(
        "layer_norm",
        lambda rng: (3 + rng.standard_normal((M, 768)), rng.uniform(0.5, 2, 768)),
        norm_of,
        lambda given: (4 + np.abs(norm_of(np, given))) * given[1],
        768,
        norm_in,
    ),
    Kind(
        "attention",
        lambda rng: tuple(rng.standard_normal((rows, 64)) for rows in (40, 200, 200)),
        attention_of,
        attention_size,
        264,
        attention_in,
    ),
    Kind(
        "scan",
        lambda rng: (rng.uniform(-1, 1, (24, 1024)),),
        lambda xp, given: xp.cumsum(given[0], axis=1),
        lambda given: np.sqrt(np.cumsum(given[0].astype(np.float64) ** 2, axis=1)),
        1024,
        scan_in,
    ),
    Kind(
        "stencil",
        lambda rng: (np.sin(np.linspace(0, 9, 2000))[None, :] * 2.0 ** np.arange(-8, 8)[:, None],),
        lambda xp, given: xp.asarray(stencil_terms(given[0])).sum(axis=-1),
        lambda given: root_of_squares(stencil_terms(given[0].astype(np.float64))),
        5,
        lambda given, order, sums: added(stencil_terms(given[0]).astype(sums), order, sums),
    ),
    Kind(
        "gelu",
        lambda rng: (4 * rng.standard_normal((64, 500)),),
        gelu_of,
        lambda given: np.abs(given[0]) * (1 + np.abs(given[0])),
        1,
        gelu_in,
    ),
)


def coarser(dtype: str) -> type:
    """The precision of a mutant that loses bits, if float32 (float64) is promised."""
    return np.float32 if dtype == "float64" else np.float16


def damaged(kind: Kind, given: Inputs, right: Array, dtype: str) -> Iterator[tuple[str, Array]]:
    """The mutants of a kind: name and output, made by changing a correct output."""
    size = np.abs(right.astype(np.float64))
    largest = size.max()

    def changed(where: Array, new: Array | float) -> Array:
        return np.where(where, np.asarray(new).astype(right.dtype), right)

    rows = np.broadcast_to(np.arange(right.shape[0]).reshape(-1, *(1,) * (right.ndim - 1)), right.shape)
    last = np.broadcast_to(np.arange(right.shape[-1]), right.shape)
    yield "small elements zero", changed(size < 0.9 * BEFORE[dtype] * largest, 0)
    yield "small elements: sign", changed(size < 0.4 * BEFORE[dtype] * largest, -right)
    yield "small elements halved", changed(size < 1.5 * BEFORE[dtype] * largest, right * right.dtype.type(0.5))
    quiet = np.sqrt((size**2).mean(axis=tuple(range(1, right.ndim)))).argmin() if right.ndim > 1 else size.argmin()
    yield "quietest row zero", changed(rows == quiet, 0)
    yield "quietest row 5 % off", changed(rows == quiet, right * right.dtype.type(1.05))
    yield "last column zero", changed(last == right.shape[-1] - 1, 0)
    yield "last row of a tile of the row before", changed(rows % 16 == 15, np.roll(right, 1, axis=0))
    yield "one element of its neighbour", changed((rows == 3) & (last == 3), np.roll(right, 1, axis=-1))
    yield "one element negated", changed((rows == 5) & (last == 5), -right)
    yield "sums lose bits", kind.accumulated(given, "sequence", coarser(dtype)).astype(right.dtype)
    sums = wide(dtype)
    if kind.name.startswith("gemm"):
        a, b = given
        yield (
            "last slice of k dropped",
            kind.accumulated((a[:, : K - 8], b[: K - 8]), "split", sums).astype(right.dtype),
        )
        yield "last term of k dropped", kind.accumulated((a[:, : K - 1], b[: K - 1]), "split", sums).astype(right.dtype)
        if dtype == "float32":
            bits = [each.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000) for each in given]
            yield "inputs cut to TF32", kind.accumulated([each.view(np.float32) for each in bits], "split", np.float32)
    elif kind.name == "row_sums":
        yield "last term dropped", kind.accumulated([given[0][:, :-1]], "lanes", sums).astype(right.dtype)


def wide(dtype: str) -> type:
    """The precision in which a correct kernel adds."""
    return np.float64 if dtype == "float64" else np.float32


def ratios(kind: Kind, dtype: str, exact: Inputs, output: Array, estimate: Array) -> dict[str, float]:
    """The largest error of an output over its bound under each rule."""
    tolerance, before, wanted = TOLERANCES[dtype], BEFORE[dtype], kind.reference(np, exact)
    found = output.astype(np.float64)
    size, difference = np.abs(wanted), np.abs(found - wanted)
    with np.errstate(all="ignore"):
        bounds = {
            "largest": np.full_like(size, before * size.max()),
            "row": before * (size + of_row(np, wanted)),
            "absolute": before * np.abs(kind.reference(np, [np.abs(each) for each in exact])),
        }
        off = {rule: np.where(difference, difference / bound, 0) for rule, bound in bounds.items()}
        over = {rule: float(np.nanmax(each)) for rule, each in off.items()}
    for rule, allowed, weight in (
        ("estimated", tolerance, estimate),
        ("given", max(tolerance_of_sums(dtype, kind.terms), 0.0), kind.magnitude(exact)),
    ):
        bound = bound_of(allowed, dtype, "float64")
        over[rule] = compare(np, found, wanted, bound, magnitudes=partial(list, [weight])).ratio
    return over


def judged(kind: Kind, dtype: str, seed: int = 1) -> Iterator[dict[str, Any]]:
    """One row for each variant and mutant of a kind in a type."""
    given = tuple(each.astype(TYPES[dtype]) for each in kind.inputs(np.random.default_rng(seed)))
    exact = [each.astype(np.float64) for each in given]
    wanted = kind.reference(np, exact)
    rounded = Rounded(TOLERANCES[dtype], unit_of_sums(dtype))
    moves = estimated(np, lambda moved: [kind.reference(np, moved)], exact, [wanted], [rounded])
    (estimate,) = moves.with_neighbours(np)
    limits = bound_of(1.0, dtype, "float64")
    unit = kind.magnitude(exact) * TOLERANCES[dtype] + limits.relative * np.abs(wanted) + limits.absolute
    orders = (*ORDERS, f"parts in {dtype}") if np.dtype(TYPES[dtype]).itemsize == 2 else ORDERS
    variants = {order: kind.accumulated(given, order, wide(dtype)).astype(TYPES[dtype]) for order in orders}

    def damage(output: Array) -> float:
        return float((np.abs(output.astype(np.float64) - wanted) / unit).max())

    honest = max(map(damage, variants.values()))
    for honesty, outputs in (("variant", variants.items()), ("mutant", damaged(kind, given, variants["lanes"], dtype))):
        for name, output in outputs:
            row = {"kind": kind.name, "type": dtype, "is": honesty, "name": name, "damage": damage(output) / honest}
            yield row | ratios(kind, dtype, exact, output, estimate)


def blocks() -> dict[str, str]:
    """The page's blocks: variants that each rule refuses, mutants that it misses, and those that Peakgate's misses."""
    with RECORD.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    mutants = [row for row in rows if row["is"] == "mutant" and float(row["damage"]) > EXCEEDS]
    lines = []
    for rule, name in RULES.items():
        # `terms` promises that no part of a sum is kept in a shorter type
        short = "parts in" if rule == "given" else " "
        variants = [row for row in rows if row["is"] == "variant" and not row["name"].startswith(short)]
        refused = sum(float(row[rule]) > 1 for row in variants)
        missed = sum(float(row[rule]) <= 1 for row in mutants)
        lines.append((name, f"{refused} of {len(variants)}", f"{missed} of {len(mutants)}"))
    head = ("an element, or an output, may be off by", "variants refused", "mutants missed")
    columns = ("kind", "type", "name", "damage", "estimated", "given")
    lost = [row for row in mutants if min(float(row["estimated"]), float(row["given"])) <= 1]
    return {
        "correctness-rules": table(head, lines),
        "correctness-missed": table(
            ("kind", "type", "mutant", "damage", "over the bound, estimated", "given"),
            [[row[each] for each in columns] for row in lost],
        ),
    }


def main() -> None:
    """Write the record."""
    rows = [row for kind in KINDS for dtype in TYPES for row in judged(kind, dtype)]
    with RECORD.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow({key: f"{each:.4g}" if isinstance(each, float) else each for key, each in row.items()})


if __name__ == "__main__":
    main()
