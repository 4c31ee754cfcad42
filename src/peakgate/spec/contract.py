"""The contract of a case: every term that identifies it or by which it is judged, and the comparison of two contracts.

``run.identity`` reads the terms from the cases of a project, ``compare.evidence`` from a run file. ``ab`` compares all
terms and does not measure a case that is surely equal; a change of those in PROMISED fails ``protect``; those in KEPT
are always the base's in ``bench --baselines-from REF``. A new term needs a field here and its value in
``run.identity``.

Not terms: the parts of a case's id, by which cases are matched; a stage's lesson and a model's predictions, which judge
nothing; a kernel's file, entry, options and include folders, whose effect is in the machine code.
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
"""The number of hexadecimal digits of a digest that are kept."""


class Contract(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The terms of one case; a term is None if it is unknown or does not apply.

    The contract of a case that is not described has no terms. Digests are cut to ``DIGITS``.
    """

    # Code: the fingerprint of the machine code; or the operation, with the library that does it and its version.
    code: str | None = None
    operation: str | None = None
    library: str | None = None

    # Launch: a digest of grids, blocks, macros, arguments and constants, with those of the edge-size problems.
    launch: str | None = None

    # Work, and the roof with which it is compared.
    bytes: int | float | None = None
    flops: int | float | None = None
    peak_tflops: float | str | None = None
    math: str | None = None
    roof: str | None = None

    # Inputs: the case's type, a digest of all buffers but temporary ones, how inputs are filled, digests of saved
    # arrays (including expected outputs). Scratch memory is included, since a kernel could keep a result in it.
    dtype: str | None = None
    buffers: str | None = None
    input_data: str | None = None
    saved: str | None = None

    # Reference: the number of edge-size problems, a digest of their expected outputs, one of a reference kernel. At the
    # case's own size: digests of generated data, and of the expected output if that is fast to compute.
    edge_problems: int | None = None
    reference: str | None = None
    benchmark_data: str | None = None
    benchmark_reference: str | None = None
    reference_kernel: str | None = None

    # Bound of the error: the tolerance, one per output, and atol and rtol if given; a digest of those of the edge-size
    # problems if they differ.
    tolerance: float | str | None = None
    edge_tolerance: str | None = None

    # Tier, and the devices that run it.
    tier: str | None = None
    min_capability: str | None = None
    host_bound: bool | None = None

    # The state in which a launch is timed; None: cold.
    state: str | None = None

    # The sampling method, for a saved run only.
    sampling: str | None = None

    problem: str | None = None
    """Not a term: why the case is not described, or does not build."""

    @property
    def described(self) -> bool:
        """Whether the case has a valid description."""
        return structs.replace(self, problem=None) != UNKNOWN

    @property
    def builds(self) -> bool:
        """Whether there is something to run."""
        return self.code is not None or self.operation is not None

    def surely_equals(self, other: Contract) -> bool:
        """Whether the two must be equal; False if neither machine code nor a library's version identifies the code.

        Both sides of an `ab` use one driver and environment, and library calls are Peakgate's own.
        """
        return (self.operation is None or self.library is not None) and not changes(self, other)


UNKNOWN = Contract()
"""The contract of a case that is not described; a run reports the reason."""

TERMS = tuple(name for name in Contract.__struct_fields__ if name != "problem")

PROMISED = tuple(term for term in TERMS if term not in ("code", "library", "launch"))
"""Terms that a change of a kernel does not affect, and that could make a failing kernel pass."""

EVALUATED = ("reference", "benchmark_data", "benchmark_reference")
"""Terms that need a call of the family's functions."""

KEPT = tuple(term for term in PROMISED if term not in ("operation", "buffers", "edge_tolerance", *EVALUATED))
"""The base's terms by which a change is judged and that can be compared without calling the change's functions.

Not among them: an operation in place of a kernel is the change's code. Other buffers make a case INCONCLUSIVE, except
scratch memory, which belongs to the kernel. Results of the change's functions need a process that runs its Python.
"""


def changes(before: Contract, after: Contract, among: Iterable[str] = TERMS) -> dict[str, tuple[TermValue, TermValue]]:
    """The terms that differ, each with both values, in the order of the fields."""
    pairs = {term: (getattr(before, term), getattr(after, term)) for term in among}
    return {term: (was, now) for term, (was, now) in pairs.items() if was != now}


def summary(contracts: Mapping[str, tuple[Contract, Contract]], among: Iterable[str] = TERMS) -> list[str]:
    """One line per term that differs: the number of cases, and the first of them with both values.

    Of sampling methods, which are long, only the parts that differ, and the page about them.
    """
    found: dict[str, list[str]] = {term: [] for term in among}
    for case, (before, after) in contracts.items():
        for term, (was, now) in changes(before, after, found).items():
            found[term].append(f"{case}: {_change(term, was, now)}")
    return [
        f"{named(term)} changed in {counted(len(each), 'case')} ({each[0]})" for term, each in found.items() if each
    ]


def _change(term: str, was: TermValue, now: TermValue) -> str:
    if term != "sampling":
        return f"{_text(was)} to {_text(now)}"
    before, after = (str(each).split(", ") for each in (was, now))
    gone, new = ([part for part in one if part not in other] for one, other in ((before, after), (after, before)))
    return "; ".join(
        [*(f"no longer {part}" for part in gone), *(f"now {part}" for part in new), "`peakgate help sampling`"]
    )


def named(term: str) -> str:
    """The name of a term in messages."""
    return "machine code" if term == "code" else term.replace("_", " ")


def stated(case: Case) -> Contract:
    """The terms that a case's record has, without calling its family's functions or compiling."""
    text = kernel_text(case)
    return Contract(
        operation=case.stage.operation,
        bytes=case.work.bytes,
        flops=case.work.flops,
        peak_tflops="default" if case.work.peak_tflops is None else case.work.peak_tflops,
        math=case.work.math,
        roof=case.roof,
        dtype=case.dtype,
        buffers=digest(repr([each for each in case.buffers if each.role.name != "TEMP"])),
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
    """The names and digests of a case's saved arrays as one text; empty if it has none."""
    return " ".join(f"{path.name}:{file_digest(path)}" for path in case.saved)


def kernel_text(case: Case) -> str:
    """The source, options and launches of a case's reference kernel as one text; empty if it has none."""
    from peakgate.base.emulated import read_sources  # noqa: PLC0415  (not needed for saved runs)
    from peakgate.spec.case import Case  # noqa: PLC0415  (as above)

    if not isinstance(case.reference, Case) or case.reference.stage.source is None:
        return ""
    stage = case.reference.stage
    files = read_sources(case.reference.stage.source, stage.include)
    texts = [(file.path.name, file.text) for file in files]
    return repr((texts, stage.kernel, stage.options, case.reference.defines, case.reference.launches))


def tolerance_of(case: Case) -> float | str:
    """The bounds of a case's error in one value."""
    parts = case.tolerance if isinstance(case.tolerance, tuple) else (case.tolerance,)
    bounds = [f"atol={case.atol:.12g}"] if case.atol else []
    bounds += [f"rtol={case.rtol:.12g}"] if case.rtol is not None else []
    return parts[0] if len(parts) == 1 and not bounds else " ".join([*(f"{part:.12g}" for part in parts), *bounds])


def advice_on(problem: str) -> str:
    """What to do if the families of a commit fail with ``problem``; empty if there is no advice."""
    if "No module named" not in problem:
        return ""
    return "a commit is judged without its submodules and before its `build`: commit the modules that families import"


def digest(text: str) -> str:
    """The first ``DIGITS`` digits of a text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _recipe(buffer: Buffer) -> str:
    """How an input is filled; a function's data is covered by other terms."""
    if buffer.data is None:
        return "random"
    if isinstance(buffer.data, Path):
        return buffer.data.name
    return "a function" if callable(buffer.data) else repr(buffer.data)


def _text(value: TermValue) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)
