"""The builds of the sgemm family, and random inputs for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from family_modules import KERNELS, sgemm

from peakgate.case import Array, Case, Role, Scale
from peakgate.device.expected import exact_inputs
from peakgate.family import tolerance_of_sums
from peakgate.judge.correctness import bound_of, compare

cases = sgemm.FAMILY.cases


FOLDER = KERNELS / "sgemm"


def all_cases() -> list[Case]:
    return [*cases(Scale.BENCH), *cases(Scale.SMALL)]


def builds() -> Iterator[Case]:
    """One case for each build: a kernel and its macros."""
    seen = set()
    for case in all_cases():
        if case.stage.source and (key := (case.stage.name, case.defines)) not in seen:
            seen.add(key)
            yield case


BUILDS = [
    pytest.param(case, id="-".join((case.stage.name, *(value for _, value in case.defines)))) for case in builds()
]


def shape_of(case: Case) -> tuple[int, int, int]:
    c, a, *_ = case.buffers
    return (*c.shape, a.shape[1])  # type: ignore[return-value]


def is_persistent(case: Case) -> bool:
    return any(buffer.role is Role.SCRATCH for buffer in case.buffers)


def text_of(path: Path) -> str:
    """A kernel file with its includes written out, each once, where it is included."""
    included: set[Path] = set()

    def expanded(file: Path) -> str:
        if file in included:
            return ""
        included.add(file)
        lines = (re.fullmatch(r'#include "(.+)"', line) or line for line in file.read_text().splitlines())
        return "\n".join(
            line if isinstance(line, str) else expanded((file.parent / line[1]).resolve()) for line in lines
        )

    return expanded(path)


def macros(case: Case) -> dict[str, int]:
    """The integer macros of a case's kernel, as its build sees them; of two definitions the first one holds."""
    assert case.stage.source is not None
    given_macros = dict(case.defines)
    values: dict[str, int] = {}
    for name, text in re.findall(r"^#define (\w+) (.+)$", text_of(case.stage.source), flags=re.MULTILINE):
        expression = given_macros.get(name, text)
        if name not in values and re.fullmatch(r"[\w+*/() ]+", expression):
            values[name] = eval(expression.replace("/", "//"), {}, values)
    return values


def random_matrices(m: int, n: int, k: int, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, (m, k)).astype(np.float32), rng.uniform(-1, 1, (k, n)).astype(np.float32)


def over_bound(got: Array, inputs: tuple[Array, Array]) -> float:
    """The largest error of an element over its bound: a product is right up to 1."""
    exact = exact_inputs(inputs)
    expected, magnitude = sgemm.product(np, *exact), sgemm.magnitude(np, *exact)
    bound = bound_of(tolerance_of_sums("float32", inputs[0].shape[1]), "float32", "float64")
    return compare(np, got, expected, bound, magnitudes=lambda: [magnitude]).ratio
