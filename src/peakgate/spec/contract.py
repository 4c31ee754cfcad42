"""The contract of a case: every term that identifies it or that it is judged by, and the one comparison of two.

``run.identity`` reads the terms off the cases of a project, ``compare.evidence`` those that a run file has. Every
term is compared by ``ab``, which measures no case that is surely equal; those of PROMISED fail ``protect``; those of
KEPT are the base's in ``bench --baselines-from REF``, whatever the change says. A new term is a field here and its
value in ``run.identity``.

No term is: a case's id and its parts, which say which cases are compared; a stage's lesson and what a model predicts,
which judge nothing; a kernel's file, entry, options and include folders, which show in its machine code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from peakgate.base.files import file_digest
from peakgate.base.formatting import counted

if TYPE_CHECKING:  # saved runs have contracts too, and no case
    from peakgate.spec.case import Buffer, Case

TermValue = str | int | float | bool | None

DIGITS = 12
"""Of a digest, as many as are kept."""


class Contract(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The terms of one case; None where a term is not known, or the case has nothing of the kind.

    Without any term it is the contract of a case that is not described. Digests are their first digits.
    """

    # Code: the fingerprint of the machine code; instead of it the operation of the device or a library, and which
    # library does it in which version.
    code: str | None = None
    operation: str | None = None
    library: str | None = None

    # Launch: a digest of grids, blocks, macros, arguments and constants, of the edge-size problems too.
    launch: str | None = None

    # Work, and the roof with which it is compared.
    bytes: int | float | None = None
    flops: int | float | None = None
    peak_tflops: float | str | None = None
    math: str | None = None
    roof: str | None = None

    # Inputs: the type in the case's id, a digest of all buffers, how inputs are filled, digests of saved arrays (the
    # expected ones too). Scratch memory counts: a kernel can keep a result in it.
    dtype: str | None = None
    buffers: str | None = None
    input_data: str | None = None
    saved: str | None = None

    # Reference: how many edge-size problems, a digest of what is expected of them, one of a reference kernel. At the
    # case's own size digests of the data that functions make, and of what is expected where that takes no long time.
    edge_problems: int | None = None
    reference: str | None = None
    benchmark_data: str | None = None
    benchmark_reference: str | None = None
    reference_kernel: str | None = None

    # Bound of the error: the tolerance, one per output, and atol and rtol where they are given; a digest of those of
    # the edge-size problems, where they have others.
    tolerance: float | str | None = None
    edge_tolerance: str | None = None

    # Tier, and the devices that are asked to run it.
    tier: str | None = None
    min_capability: str | None = None
    host_bound: bool | None = None

    # What a timed launch finds; None: a flushed L2.
    state: str | None = None

    # How it was timed, and the state of the caches, of a saved run only.
    sampling: str | None = None

    problem: str | None = None
    """No term: why the case is not described, or does not build."""

    @property
    def described(self) -> bool:
        """Whether the case is described so that it could be run."""
        return structs.replace(self, problem=None) != UNKNOWN

    @property
    def builds(self) -> bool:
        """Whether there is something to run."""
        return self.code is not None or self.operation is not None

    def surely_equals(self, other: Contract) -> bool:
        """Whether the two cannot differ; False if neither machine code nor a library's version identifies what runs.

        Both sides of an `ab` run on one driver and in one environment, and Peakgate makes the libraries' calls.
        """
        return (self.operation is None or self.library is not None) and not changes(self, other)


UNKNOWN = Contract()
"""Contract of a case that is not described; a run reports the reason."""

TERMS = tuple(name for name in Contract.__struct_fields__ if name != "problem")

PROMISED = tuple(term for term in TERMS if term not in ("code", "library", "launch"))
"""Terms that no kernel change affects, and that could turn a failing kernel into a passing one."""

EVALUATED = ("reference", "benchmark_data", "benchmark_reference")
"""Terms that are known only by calling the family's functions."""

KEPT = tuple(term for term in PROMISED if term not in ("operation", "buffers", "edge_tolerance", *EVALUATED))
"""The base's terms, by which a change is judged, as far as they can be compared without calling the change's functions.

An operation in place of a kernel is the change's code. Other buffers leave a case undecided, but for scratch memory,
which is the kernel's own. Values of the change's functions are known only to a process that runs its Python.
"""


def changes(before: Contract, after: Contract, among: Iterable[str] = TERMS) -> dict[str, tuple[TermValue, TermValue]]:
    """The terms that differ, each with both values, in the order of the record."""
    pairs = {term: (getattr(before, term), getattr(after, term)) for term in among}
    return {term: (was, now) for term, (was, now) in pairs.items() if was != now}


def summary(contracts: Mapping[str, tuple[Contract, Contract]], among: Iterable[str] = TERMS) -> list[str]:
    """One line per term that differs: in how many of the cases, and the first of them with both values."""
    found: dict[str, list[str]] = {term: [] for term in among}
    for case, (before, after) in contracts.items():
        for term, (was, now) in changes(before, after, found).items():
            found[term].append(f"{case}: {_text(was)} to {_text(now)}")
    return [
        f"{named(term)} changed in {counted(len(each), 'case')} ({each[0]})" for term, each in found.items() if each
    ]


def named(term: str) -> str:
    """A term in words."""
    return "machine code" if term == "code" else term.replace("_", " ")


def stated(case: Case) -> Contract:
    """The terms that a case's description gives, with no function of its family called and nothing compiled."""
    text = kernel_text(case)
    return Contract(
        operation=case.stage.operation,
        bytes=case.work.bytes,
        flops=case.work.flops,
        peak_tflops="default" if case.work.peak_tflops is None else case.work.peak_tflops,
        math=case.work.math,
        roof=case.roof,
        dtype=case.dtype,
        buffers=digest(repr([*case.buffers])),
        input_data=", ".join(map(_recipe, case.inputs)) or None,
        saved=saved_files(case) or None,
        reference_kernel=digest(text) if text else None,
        tolerance=tolerance_of(case),
        tier=case.tier.value,
        min_capability=case.stage.needs,
        host_bound=bool(case.stage.host_bound),
        state=case.state if case.repeated else None,
    )


def saved_files(case: Case) -> str:
    """The saved arrays of a case and their contents, as one text; empty where it has none."""
    return " ".join(f"{path.name}:{file_digest(path)}" for path in case.saved)


def kernel_text(case: Case) -> str:
    """The source, options and launches of a case's reference kernel; empty where it has none."""
    from peakgate.base.emulated import read_sources  # noqa: PLC0415  (the emulator, which no saved run needs)
    from peakgate.spec.case import Case  # noqa: PLC0415  (as above)

    if not isinstance(case.reference, Case) or case.reference.stage.source is None:
        return ""
    stage = case.reference.stage
    files = read_sources(case.reference.stage.source, stage.include)
    texts = [(file.path.name, file.text) for file in files]
    return repr((texts, stage.kernel, stage.options, case.reference.defines, case.reference.launches))


def tolerance_of(case: Case) -> float | str:
    """How far an output may be off, in one value."""
    parts = case.tolerance if isinstance(case.tolerance, tuple) else (case.tolerance,)
    bounds = [f"atol={case.atol:.12g}"] if case.atol else []
    bounds += [f"rtol={case.rtol:.12g}"] if case.rtol is not None else []
    return parts[0] if len(parts) == 1 and not bounds else " ".join([*(f"{part:.12g}" for part in parts), *bounds])


def advice_on(problem: str) -> str:
    """What to do where the families of a commit fail as ``problem`` says; empty where that says all."""
    if "No module named" not in problem:
        return ""
    return "a commit is judged without its submodules and before its `build`: commit the modules that families import"


def digest(text: str) -> str:
    """The first digits of a text's sha256."""
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _recipe(buffer: Buffer) -> str:
    """How an input is filled; what a function makes shows in the reference's outputs only."""
    if buffer.data is None:
        return "random"
    if isinstance(buffer.data, Path):
        return buffer.data.name
    return "a function" if callable(buffer.data) else repr(buffer.data)


def _text(value: TermValue) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)
