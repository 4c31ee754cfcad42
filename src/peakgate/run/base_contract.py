"""Which cases a run measures, and whose contract applies to each: the base's or the change's.

Without a base, a project's own families define how its cases are judged. With a base (``--baselines-from REF``), a case
that exists in the base keeps the base's work, tolerance, reference, input data, tier and edge-size problems; the change
defines only how the kernel is built and launched. The base's families are imported from a copy of its tree. Those of
the change are imported by a process in the sandbox (``listing``), which also calls the functions of new cases.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from msgspec import structs

from peakgate.base import config, git
from peakgate.base.config import Project
from peakgate.base.errors import PeakgateError
from peakgate.base.verdict import Judgement, Verdict
from peakgate.run import listing
from peakgate.run.collection import Cases, RunCase
from peakgate.run.listing import Listed
from peakgate.run.readable import keep_apart
from peakgate.spec import catalogue
from peakgate.spec.arguments import seen_as
from peakgate.spec.case import Argument, Buffer, Case, RefusedCase, Role, Scale
from peakgate.spec.contract import KEPT, Contract, advice_on, stated, summary


@dataclass(frozen=True)
class AgainstBase(Cases):
    """The cases of a change, judged by the base's contract where the base has the case; made by ``against``.

    ``edges`` are edge-size problems by case id; ``objections`` say by case id why a case cannot be measured.
    """

    cases: Mapping[str, RunCase] = field(default_factory=dict)
    edges: Mapping[str, Sequence[Case]] = field(default_factory=dict)
    objections: Mapping[str, Judgement] = field(default_factory=dict)
    of_either: Sequence[RefusedCase] = ()

    @property
    def refused(self) -> Sequence[RefusedCase]:
        return self.of_either

    def _all(self) -> Collection[RunCase]:
        return self.cases.values()

    def probes(self, case: Case) -> list[Case]:
        return list(self.edges[case.id])

    def without_small(self) -> list[str]:
        return []  # at the other scale the change's families would be imported into the judge

    def objection(self, case: RunCase) -> Judgement | None:
        return self.objections.get(case.id) or super().objection(case)


def against(
    base_root: Path, project: Project, scale: Scale, name: str, refusal: Callable[[Case], str | None]
) -> AgainstBase:
    """The cases of ``project`` at a scale, judged by the base whose project is in ``base_root``.

    ``name`` names the base in messages; ``refusal`` is the device's. A case that either side cannot describe is
    INCONCLUSIVE. Raises PeakgateError if the change's cases cannot be listed.
    """
    base_project = config.find(base_root)
    known: list[Listed] = []
    refused_before: list[RefusedCase] = []
    if base_project is not None and base_project.root.is_relative_to(base_root):
        keep_apart(git.tree_of(project.root), base_root)
        with _imports_of(base_project):
            found_cases = catalogue.described(scale, base_project)
        known, refused = listing.with_probes(found_cases)
        for each in refused:
            advice = advice_on(each.reason)
            refused_before.append(replace(each, reason=f"in {name}: {each.reason}{advice and '; '}{advice}"))
    heads, refused_after = listing.listed(project.root, scale)
    cases: dict[str, RunCase] = {each.case.id: each.case for each in known}
    problems: dict[str, Sequence[Case]] = {}
    objections: dict[str, Judgement] = {}
    for base in known:
        head = heads.get(base.case.id)
        if head is None:
            missing = Judgement(Verdict.MISSING, f"in {name}, not in the change")
            objections[base.case.id] = _refusal_of(base.case, refused_after) or missing
            continue
        judged, found = judged_by(base, head)
        if isinstance(judged, Case) and refusal(base.case) is None and (why := refusal(judged)):
            judged = f"the device runs the base's case and refuses the change's ({why})"
        if isinstance(judged, str):
            objections[base.case.id] = Judgement(Verdict.INCONCLUSIVE, f"{judged}; {name} cannot judge it")
        else:
            cases[base.case.id], problems[base.case.id] = judged, found
    new = [head for case_id, head in heads.items() if case_id not in cases]
    cases |= {head.case.id: head.case for head in new}
    problems |= {head.case.id: head.probes for head in new}
    for head in new:
        if refused_by_base := _refusal_of(head.case, refused_before):
            objections[head.case.id] = refused_by_base
    not_described = [each for each in (*refused_after, *refused_before) if each.id not in cases]
    cases |= {each.id: each for each in reversed(not_described)}
    notes = [f"judged by {name}, without effect: {line}" for line in differences(known, heads)]
    ids = frozenset(head.case.id for head in new)
    return AgainstBase(scale, ids, notes, cases, problems, objections, not_described)


def _refusal_of(case: Case, refused: Sequence[RefusedCase]) -> Judgement | None:
    """The judgement of a case that one side lacks because it, or its whole family, was refused there; else None."""
    alike = (each for each in refused if each.id == case.id or (each.whole and each.family == case.family))
    found = next(alike, None)
    return found.judgement if found else None


def judged_by(base: Listed, head: Listed) -> tuple[Case | str, Sequence[Case]]:
    """The case and its edge-size problems as measured: launched as in head, judged as in base.

    A reason instead of the case if head's arrays differ from those that the base's reference expects, or if head
    launches differently and lacks one of the base's edge-size problems.
    """
    judged = _with_launch_of(base.case, head.case)
    if judged is None:
        return f"its arrays are not the base's: {_arrays(head.case)}, expected {_arrays(base.case)}", ()
    found: list[Case] = []
    left_out: list[Case] = []
    for edge in base.probes:
        alike = [probe for probe in head.probes if _arrays(probe) == _arrays(edge)]
        alike.sort(key=lambda probe: probe.size != edge.size)
        launched = _with_launch_of(edge, alike[0]) if alike else None
        found.append(launched if launched is not None else edge)
        left_out += [] if launched is not None else [edge]
    if left_out:
        pairs = [(base.case, judged), *((edge, case) for edge, case in zip(base.probes, found, strict=True))]
        if any(_launched(one) != _launched(other) for one, other in pairs):
            return f"its launch differs from the base's and it lacks the edge-size problem {left_out[0].size}", ()
        found = [
            _built_as(judged, case) if case is edge else case for case, edge in zip(found, base.probes, strict=True)
        ]
    return judged, found


def differences(known: Sequence[Listed], heads: Mapping[str, Listed]) -> list[str]:
    """One line per contract term that differs between base and head: the number of cases and the first of them."""

    def contract(listed: Listed) -> Contract:
        return structs.replace(stated(listed.case), edge_problems=len(listed.probes))

    contracts = {}
    for base in known:
        with suppress(PeakgateError):  # a reference kernel that cannot be read: its case is INCONCLUSIVE
            if head := heads.get(base.case.id):
                contracts[base.case.id] = contract(base), contract(head)
    return summary(contracts, KEPT)


def _with_launch_of(base: Case, head: Case) -> Case | None:
    """The base's problem with head's kernel and launch; None if their arrays differ."""
    if _arrays(base) != _arrays(head):
        return None
    arrays = iter([argument for argument in base.buffers if _is_array(argument)])
    arguments = tuple(
        seen_as(next(arrays), argument) if isinstance(argument, Buffer) and _is_array(argument) else argument
        for argument in head.arguments
    )
    return _built_as(head, base, launch=head.launch, sequence=head.sequence, arguments=arguments)


def _built_as(head: Case, base: Case, **launched: Any) -> Case:
    """The base's problem with head's kernel; ``launched`` replaces the base's launch, sequence and arguments."""
    data = [buffer for _, buffer in base.stage.constants]
    stage = replace(
        head.stage,
        constants=tuple((name, buffer) for (name, _), buffer in zip(head.stage.constants, data, strict=True)),
        min_capability=head.stage.min_capability if head.stage.specific else base.stage.min_capability,
        host_bound=base.stage.host_bound,
        lesson=base.stage.lesson,
    )
    return replace(base, stage=stage, defines=head.defines, **launched)


def _is_array(argument: Argument) -> bool:
    """Whether it is an input or output array; scratch memory and scalars are up to the kernel."""
    return isinstance(argument, Buffer) and argument.role not in (Role.SCRATCH, Role.TEMP)


def _arrays(case: Case) -> str:
    """The reference's arguments and results as text: roles, types and shapes in order, constants last."""
    buffers = [argument for argument in case.arguments if isinstance(argument, Buffer) and _is_array(argument)]
    described = [f"{each.role.value} {each.dtype} {'x'.join(map(str, each.shape))}" for each in buffers]
    described += [f"constant {each.dtype} {'x'.join(map(str, each.shape))}" for _, each in case.stage.constants]
    return ", ".join(described)


def _launched(case: Case) -> tuple[object, ...]:
    return case.launch, case.sequence, case.defines, tuple(case.arguments)


@contextmanager
def _imports_of(project: Project) -> Iterator[None]:
    """Put this project's ``pythonpath`` first on ``sys.path`` for a ``with`` block.

    At its end modules loaded from there are removed from ``sys.modules``: the change's benchmark tests may import
    modules of the same names, and must get the change's.
    """
    before, known = list(sys.path), set(sys.modules)
    sys.path[:0] = map(str, project.pythonpath)
    try:
        yield
    finally:
        sys.path[:] = before
        folders = tuple(f"{folder}/" for folder in project.pythonpath)
        for module in set(sys.modules) - known:
            if folders and str(getattr(sys.modules[module], "__file__", None)).startswith(folders):
                del sys.modules[module]
