"""The API of a ``family.py``: ``kernel``, ``family`` and their parts, and the records of a case.

::

    FAMILY = kernel(
        "scale.cu",
        arguments=lambda n: [Out(n), In(n), Value(n)],
        grid=lambda n: -(-n // 256),
        block=256,
        bytes=lambda n: 2 * 4 * n,
        reference=lambda xp, x: 2 * x,
        sizes=[1 << 26],
    )

``FAMILY = family(*(kernel(name, ...) for name in ("naive.cu", "tiled.cu")))`` is a folder of several kernels; kernels
with one name are variants of one stage, and ``axes={"block": [128, 256]}`` sweeps a kernel. ``stage(1, "naive", "One
thread per row.")`` is ``kernel`` for the numbered file ``01_naive.cu``. For tiers and labels, several launches as one
case, a reference kernel and saved arrays see ``peakgate help kernels``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Unpack

from peakgate.base.formatting import counted
from peakgate.spec import case as records
from peakgate.spec.arguments import Surface, Texture
from peakgate.spec.builds import Description
from peakgate.spec.case import *  # noqa: F403  (a family.py needs no second import for them)
from peakgate.spec.case import Array, Case, Family, RefusedCase, Scale, Sized, Stage
from peakgate.spec.catalogue import current_folder
from peakgate.spec.groups import TOLERANCES, Check, Compile, Plain, gathered, refuse_unknown, tolerance_of_sums
from peakgate.spec.operands import (
    ArgumentList,
    Extent,
    In,
    InOut,
    LaunchOf,
    Out,
    Scratch,
    Temp,
    TensorMap,
    Value,
    launch,
)
from peakgate.spec.sweep import EDGES, AxisValues, Size, Sizes, by_side

__all__ = [
    "EDGES",
    "TOLERANCES",
    "AxisValues",
    "Check",
    "Compile",
    "Extent",
    "In",
    "InOut",
    "LaunchOf",
    "Out",
    "Scratch",
    "Size",
    "Sizes",
    "StageKernel",
    "Surface",
    "Temp",
    "TensorMap",
    "Texture",
    "Value",
    "by_side",
    "family",
    "kernel",
    "launch",
    "stage",
    "tolerance_of_sums",
]
__all__ += records.__all__


def kernel(
    source: str = "",
    *,
    arguments: Callable[..., ArgumentList],
    grid: Callable[..., Extent] | Extent = 0,
    block: Callable[..., Extent] | Extent = 0,
    shared_bytes: Callable[..., int] | int = 0,
    launches: Callable[..., Sequence[LaunchOf]] | Sequence[LaunchOf] = (),
    reference: Callable[..., Array | tuple[Array, ...]] | LaunchOf | str | Sequence[str] | None = None,
    check: Callable[..., Check] | Check | None = None,
    bytes: Callable[..., int],  # noqa: A002  (what it is)
    flops: Callable[..., int] | None = None,
    math: Callable[..., str] | str | None = None,
    roof: Callable[..., str] | str = "",
    compile: Callable[..., Compile] | Compile | None = None,  # noqa: A002  (as above)
    sizes: Callable[..., Sizes] | Sizes = (),
    small_sizes: Callable[..., Sizes | None] | Sizes | None = (),
    edges: Callable[..., Sizes] | Sizes = (),
    axes: Mapping[str, AxisValues] = MappingProxyType({}),
    where: Callable[..., bool] | None = None,
    gate: Callable[..., bool] | bool = True,
    name: str = "",
    lesson: str = "",
    variant: Callable[..., str] | str | None = None,
    block_in_id: Callable[..., bool] | bool | None = None,
    predicted: Callable[..., Mapping[str, float]] | Mapping[str, float] = MappingProxyType({}),
    operation: str = "",
    host_bound: bool = False,
    state: str | Sequence[str] = "cold",
    **plain: Unpack[Plain],
) -> Family:
    """A family of the one kernel in ``source``, a .cu file in the family's folder; the family is named like the folder.

    ``arguments``, ``grid``, ``bytes`` and ``flops`` are functions of a size; ``block`` is in threads. ``launches``
    instead of grid and block are several launches as one case, timed together; ``arguments`` then returns a dict of
    names. ``reference(xp, *inputs)`` returns the expected outputs, in argument order, computed with the array module
    ``xp``; its keyword-only parameters are numbers of the size or axes, as in ``lambda xp, *, n: xp.arange(n)``.
    ``reference`` may also be a ``launch`` of another kernel, whose outputs are expected, or the file of a saved array.
    Without one, results are compared with nothing: ``check`` looks for defects of memory, races and barriers alone,
    ``bench`` reports RAN in the emulator and INCONCLUSIVE on a GPU.
    ``arguments`` raises ValueError for a size that the kernel does not support. ``check`` is the allowed error,
    ``compile`` how the source is compiled; their fields (see ``Check`` and ``Compile``) are parameters of ``kernel``
    too.

    ``sizes`` are measured on a GPU; ``gate``, by default true, selects those of the gate tier, the others are in the
    full tier only. ``small_sizes`` run in the emulator: by default one of the edge-size problems, none with None.
    ``edges`` are the sizes that prove the build: by default numbers off every power of two, and each number ragged
    beyond four tiles of the usual sizes and of the kernel's own, in the proportions that ``arguments`` accepts; none if
    arrays are saved. ``peakgate check`` adds some next to every tile.

    ``axes={"block": [128, 256], "vec": [1, 2, 4]}`` builds and launches the kernel with each combination of these
    values; ``where``, a function of a size and of axes, selects combinations, by default all. Functions get the axes
    that they name as parameters besides the numbers of a size (``grid=lambda n, block, vec: n // (block * vec)``), and
    may name only some numbers; ``block`` may be named even if it is not an axis. ``block``, ``shared_bytes``,
    ``launches``, ``sizes``, ``small_sizes``, ``edges``, ``check``, ``compile``, ``defines``, ``roof`` and ``math`` may
    be functions of axes, or axes. Positional parameters of ``arguments`` may be axes instead of ``sizes``:
    ``axes={"n": [1 << 20, 1 << 26], ...}``; other axes are then keyword-only, ``lambda n, *, vec: ...``.

    The case id is ``family.name-size-block-variant``. ``name`` is by default the file's; the block is part of the id if
    it is an axis, or with ``block_in_id``. ``variant`` is by default the labels of the other axes: a string itself,
    ``vec4`` for a number, or the key of a dict such as ``{"": 1, "wide": 4}``. ``math`` is the type whose peak applies
    to ``flops``: fp32, or tf32, bf16, fp16, fp8, fp4, int8 on tensor cores; by default that of the inputs
    (``Case.math``). ``roof`` is the measured roof with which the case is compared: copy, read, write, fma, link or a
    tensor core type; by default the type of ``math``, else copy. ``predicted`` has a model's predictions,
    by their name in the run file. ``gate``, ``variant`` and ``predicted`` are values or functions of a size.

    An ``operation`` instead of ``source`` is a reference implementation: memcpy, cublas_sgemm, cublas_bf16_nt,
    cublaslt_e4m3_nt, h2d_pageable, h2d_pinned, d2h_pageable or d2h_pinned; its first argument is the output. All
    matrices are row-major. The two that end in nt compute C = A.B^T for A m x k and B n x k with C in bfloat16: of
    bfloat16 with float32 sums, and of float8_e4m3fn with sums in the tensor cores. ``host_bound`` marks an operation
    whose time depends on the host as much as on the GPU: it is in the full tier.

    ``state`` is the state in which launches are timed: "cold", after a flush of the L2; "warm", right after the same
    launch; "graph", in a captured CUDA graph of launches, timed per launch. Several, ``("cold", "graph")``, make
    several cases; all but "cold" end the case id. Raises ValueError for an invalid parameter.
    """
    given = {name: value for name, value in locals().items() if name != "plain"}
    refuse_unknown(plain, given)
    given["check"] = gathered(Check, "check", check, plain)
    given["compile"] = gathered(Compile, "compile", compile, plain)
    builds = Description(folder=current_folder(), **given).builds()
    return builds[0].family() if len(builds) == 1 else family(*(build.family() for build in builds), summary=lesson)


StageKernel = Callable[..., Family]
"""``kernel`` with a fixed source, name and lesson."""


def stage(number: int, name: str, lesson: str) -> StageKernel:
    """``kernel`` for the stage ``name`` in the file ``NN_name.cu``, where NN is the number of the lesson."""
    return partial(kernel, f"{number:02}_{name}.cu", name=name, lesson=lesson)


def family(*kernels: Family, summary: str = "", headlines: Mapping[str, str] = MappingProxyType({})) -> Family:
    """The kernels of one folder as one family, in this order.

    Kernels with one name are variants of one stage, with other macros, blocks or sizes. ``headlines`` names, by stage,
    the case that represents it in tables and pictures, as the part of its id after the stage; by default it is the
    stage's first gate case of the largest problem. Raises ValueError if kernels with one name differ in source, lesson,
    entry or options.
    """
    stages: dict[str, Stage] = {}
    for stage in (stage for each in kernels for stage in each.stages):
        if stages.setdefault(stage.name, stage) != stage:
            raise ValueError(
                f"two kernels are named {stage.name}, but differ in source, lesson, entry or options: they are no "
                "variants of one stage; give one of them another name=..."
            )

    of_case: dict[str, Family] = {}

    def member(case: Case) -> Family:
        if case.id not in of_case:
            for scale in Scale:
                deque(cases(scale), maxlen=0)
        return of_case.get(case.id) or next(each for each in kernels if each.stages[0].name == case.stage.name)

    def cases(scale: Scale) -> Iterator[Case | RefusedCase]:
        for each in kernels:
            for case in each.cases(scale):
                if isinstance(case, Case):
                    of_case[case.id] = each
                yield case

    def probes(case: Case) -> Iterator[Case]:
        yield from member(case).probes(case)

    def sized(case: Case) -> Sized | None:
        return member(case).sized(case)

    return Family(
        kernels[0].name,
        summary or counted(len(stages), "kernel"),
        tuple(stages.values()),
        cases,
        probes,
        headlines,
        sized=sized,
    )
