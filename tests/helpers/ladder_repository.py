"""Saved runs of every family, and a repository whose documents show them."""

from __future__ import annotations

import functools
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import pytest
from synthetic_runs import benchmark, document, save

from kernels.ladder import __main__ as ladder
from kernels.ladder.tables import OVERVIEW, Shown, show
from peakgate.base.config import find
from peakgate.runfile.saved import load_run
from peakgate.spec.case import Case, Family, RefusedCase, Scale, Tier
from peakgate.spec.catalogue import families, module_at

ROOT = Path(__file__).parents[2]
FAMILIES = families(find(ROOT))
NAMES = (*(family.name for family in FAMILIES), "sgemm-sizes")
RUNS = Path("baselines/nvidia-h200/runs")
TRANSPOSE_NOTE = Path("kernels/transpose/README.md")


@functools.cache
def cases(tier: Tier = Tier.GATE) -> tuple[Case, ...]:
    listed = (case for family in FAMILIES for case in family.cases(Scale.BENCH) if isinstance(case, Case))
    return tuple(case for case in listed if tier is Tier.FULL or case.tier is tier)


def entry(case: Case, **reported: Any) -> dict[str, Any]:
    """One benchmark; every stage reaches 2000 GB/s or 10 TFLOP/s, unless ``reported`` says otherwise."""
    about = {"family": case.family, "stage": case.stage.name, "size": case.size, "block": case.block}
    figures = {"gbs": 2000.0, "tflops": 10.0, "roof_fraction": 0.47, "occupancy": 0.5}
    return benchmark(case.id, 100.0, **(about | {"variant": case.variant, "dtype": case.dtype} | figures | reported))


def whole_run(
    figures: Mapping[str, Mapping[str, float]] = MappingProxyType({}), *, tier: Tier = Tier.GATE, without: str = "^$"
) -> dict[str, Any]:
    """A run of every case but those whose id matches ``without``; ``figures`` are keyed by case id."""
    content = document({}, roofs={"copy_256MiB": 4152.0, "copy_1GiB": 4249.0, "fma": 65.8})
    kept = [case for case in cases(tier) if not re.search(without, case.id)]
    content["benchmarks"] = [entry(case, **figures.get(case.id, {})) for case in kept]
    return content


def shown(content: dict[str, Any], folder: Path) -> Shown:
    return show(load_run(save(folder / RUNS, "shown", content)), listed())


@functools.cache
def listed() -> list[Family]:
    """The families of the laid out repository; each lists its cases, hundreds, once."""
    return [replace(family, cases=partial(_listed, family.cases)) for family in families()]


@functools.cache
def _listed(cases: Callable[[Scale], Iterator[Case | RefusedCase]], scale: Scale) -> Any:
    return tuple(cases(scale))


def charts() -> ModuleType:
    """The module of the current folder's project that draws."""
    found: ModuleType = module_at(Path("kernels/pictures.py")).charts
    return found


def lay_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a folder beside this one: documents with empty blocks, one saved run of the gate, pictures are sketched.

    Its kernels are copied, and their families imported, once for all tests; what a test leaves is deleted.
    """
    home = folder.parent / "ladder"
    if not home.exists():
        left_out = shutil.ignore_patterns("*.md", "*.svg", "tests", "__pycache__")
        shutil.copytree(ROOT / "kernels", home / "kernels", ignore=left_out)
    monkeypatch.chdir(home)
    for path in [*Path().glob("*.*"), *Path("kernels").rglob("*.md")]:
        path.unlink()
    for left in ("baselines", "kernels/pictures"):
        shutil.rmtree(left, ignore_errors=True)
    Path("peakgate.toml").write_text("")
    monkeypatch.setattr(ladder, "families", listed)
    monkeypatch.setattr(charts(), "svg", lambda picture: f"{charts().digest(picture)}\n")
    TRANSPOSE_NOTE.write_text("<!-- ladder:transpose -->\n<!-- /ladder:transpose -->\n")
    blocks = [f"Before.\n<!-- ladder:{name} -->\n<!-- /ladder:{name} -->\nAfter.\n" for name in NAMES]
    OVERVIEW.write_text("# The ladder\n\n" + "\n".join(blocks))
    save(RUNS, "gate", whole_run())
    return home
