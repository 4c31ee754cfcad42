"""Families in a few lines each: of one kernel, or of several in one folder.

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

``FAMILY = family(*(kernel(name, ...) for name in ("naive.cu", "tiled.cu")))`` is a folder of several kernels; those of
one name are variants of one stage, and ``axes={"block": [128, 256]}`` sweeps a kernel. ``stage(1, "naive", "One thread
per row.")`` is ``kernel`` of the ladder's file ``01_naive.cu``. Tiers and labels, several launches as one case, a
reference kernel and saved arrays: ``peakgate help kernels``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import Unpack

from peakgate.base.formatting import counted
from peakgate.spec.builds import Description
from peakgate.spec.case import Array, Case, Family, RefusedCase, Scale, Sized, Stage
from peakgate.spec.groups import Check, Compile, Plain, gathered, refuse_unknown
from peakgate.spec.importer import current_folder
from peakgate.spec.operands import ArgumentList, Extent, LaunchOf
from peakgate.spec.sweep import AxisValues, Sizes


def kernel(
    source: str = "",
    *,
    arguments: Callable[..., ArgumentList],
    grid: Callable[..., Extent] | Extent = 0,
    block: Callable[..., Extent] | Extent = 0,
    shared_bytes: Callable[..., int] | int = 0,
    launches: Callable[..., Sequence[LaunchOf]] | Sequence[LaunchOf] = (),
    reference: Callable[..., Array | tuple[Array, ...]] | LaunchOf | str | Sequence[str],
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
    """A family with the one kernel in ``source``, a .cu file beside the family's, named like its folder.

    ``arguments``, ``grid``, ``bytes`` and ``flops`` are functions of a size; ``block`` is in threads. ``launches`` in
    place of grid and block are several launches as one case, timed together; ``arguments`` then gives names to them.
    ``reference(xp, *inputs)`` gives the expected outputs, in argument order, against the array module ``xp``; numbers
    of the size and axes are passed to it by name where it takes them by keyword alone, as ``lambda xp, *, n:
    xp.arange(n)`` does. A ``launch`` in its place is that of another kernel whose outputs are expected, a text the file
    of a saved array. ``arguments`` raises ValueError for a size that the kernel does not take. ``check`` says how far
    an element may be off, ``compile`` how the source is built; their fields (see ``Check`` and ``Compile``) may be
    given as parameters of ``kernel`` too.

    ``sizes`` are measured on a GPU; ``gate``, by default true, says which of them are in the gate tier, the others are
    in the full tier alone. ``small_sizes`` run in the emulator: by default one of the edge-size problems, none with
    None. ``edges`` prove the build right where tidy sizes cannot: by default numbers off every power of two, and each
    number ragged beyond four of the usual tiles and the kernel's own; none where arrays are saved. ``peakgate check``
    adds some beside every tile.

    ``axes={"block": [128, 256], "vec": [1, 2, 4]}`` builds and launches the kernel in each combination of these
    values; ``where``, a function of a size and of axes, says which are measured and checked, by default all. Every
    function is given the axes that it names, beside the numbers of a size (``grid=lambda n, block, vec: n // (block *
    vec)``), and may name some of these alone; ``block`` is given to those that name it, axis or not. ``block``,
    ``shared_bytes``, ``launches``, ``sizes``, ``small_sizes``, ``edges``, ``check``, ``compile``, ``defines``,
    ``roof`` and ``math`` may be functions of axes, or an axis of that name gives them. Numbers that ``arguments`` takes
    by position may be axes in place of ``sizes``: ``axes={"n": [1 << 20, 1 << 26], ...}``; it takes other axes by
    keyword alone then, ``lambda n, *, vec: ...``.

    The case id is ``family.name-size-block-variant``. ``name`` is by default the file's; a block that is an axis is
    part of the id, or any with ``block_in_id``. ``variant`` is by default the labels of the other axes: a text as it
    is, ``vec4`` of a number, or the key in a dict such as ``{"": 1, "wide": 4}``. ``math`` is the type whose peak the
    ``flops`` have: fp32, or tf32, bf16, fp16, fp8, int8 on tensor cores; by default that of the inputs
    (``Case.math``). ``roof`` is the measured roof that the case is compared with: copy, read, write, fma, link or a
    type of the tensor cores; by default the type that ``math`` gives, else copy. ``predicted`` has what a model
    expects, by the name under which the run file reports it. ``gate``, ``variant`` and ``predicted`` are values or
    functions of a size.

    An ``operation`` of the device in place of ``source`` is what kernels are compared with: memcpy, cublas_sgemm,
    cublas_bf16_nt, cublaslt_e4m3_nt, h2d_pageable, h2d_pinned, d2h_pageable or d2h_pinned; its first argument is the
    output. All matrices are row-major; the two that end in nt are C = A.B^T of A m x k and B n x k with C in bfloat16,
    of bfloat16 with float32 sums and of float8_e4m3fn with sums in the tensor cores. ``host_bound`` marks one whose
    time is the host's as much as the GPU's: it is in the full tier.

    ``state`` is what a timed launch finds: "cold", a flushed L2; "warm", one in which the same launch just worked;
    "graph", a captured CUDA graph of launches, timed per launch. Several of them, ``("cold", "graph")``, are as many
    cases; all but "cold" end the case id. ValueError names a parameter that is not as it has to be.
    """
    given = {name: value for name, value in locals().items() if name != "plain"}
    refuse_unknown(plain, given)
    given["check"] = gathered(Check, "check", check, plain)
    given["compile"] = gathered(Compile, "compile", compile, plain)
    builds = Description(folder=current_folder(), **given).builds()
    return builds[0].family() if len(builds) == 1 else family(*(build.family() for build in builds), summary=lesson)


StageKernel = Callable[..., Family]
"""``kernel`` for one source, called with how that is built, launched and judged."""


def stage(number: int, name: str, lesson: str) -> StageKernel:
    """``kernel`` for the stage of that name in ``NN_name.cu``, files being numbered in the order of their lessons."""
    return partial(kernel, f"{number:02}_{name}.cu", name=name, lesson=lesson)


def family(*kernels: Family, summary: str = "", headlines: Mapping[str, str] = MappingProxyType({})) -> Family:
    """The kernels of one folder as one family, in this order, such as the stages of a ladder.

    Kernels of one name are variants of one stage: built with other macros, launched with other blocks, at other sizes.
    ``headlines`` names, by stage, the case that stands for it in tables and pictures, as its id goes on after the
    stage; by default it is the stage's first case in the gate of the largest problem. ValueError where kernels of one
    name differ in source, lesson, entry or options.
    """
    stages: dict[str, Stage] = {}
    for stage in (stage for each in kernels for stage in each.stages):
        if stages.setdefault(stage.name, stage) != stage:
            raise ValueError(
                f"two kernels are named {stage.name}, but differ in source, lesson, entry or options: they are no "
                "variants of one stage; give one of them another name=..."
            )

    @cache
    def members() -> Mapping[str, Family]:
        listed = ((case, each) for each in kernels for scale in Scale for case in each.cases(scale))
        return {case.id: each for case, each in listed if isinstance(case, Case)}

    def member(case: Case) -> Family:
        return members().get(case.id) or next(each for each in kernels if each.stages[0].name == case.stage.name)

    def cases(scale: Scale) -> Iterator[Case | RefusedCase]:
        for each in kernels:
            yield from each.cases(scale)

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
