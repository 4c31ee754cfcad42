"""``peakgate inspect resources``: compare the compiled resources of each kernel and architecture with a baseline.

Covers the builds of the gate tier, with ``--tier full`` all of them. Exits 0 if nothing got worse, 1 on new spills,
lost occupancy or a kernel that does not compile, 2 on bad input, 3 if the baseline was made with another compiler or
other options. ``--update`` rewrites the baseline of all builds, with ``-k`` or ``--architectures`` only the selected
entries. The findings are also written to ``resources.json``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from peakgate.base import config, progress
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import write_whole
from peakgate.base.formatting import counted
from peakgate.base.options import VerbParser, add_selection, at_least, selector
from peakgate.base.report import Annotation, Report, Tone, clear_verdict
from peakgate.base.streams import say
from peakgate.base.verdict import ExitCode
from peakgate.inspect import add_verdict_folder
from peakgate.inspect.resources import baseline
from peakgate.inspect.resources.baseline import (
    RESOURCE_REGRESSIONS,
    BuildTarget,
    ResourceFinding,
    Survey,
    Usage,
    compare,
    differing,
    exit_code,
    incomparable,
    varying,
)
from peakgate.inspect.resources.survey import (
    ARCHITECTURES,
    KNOWN_ARCHITECTURES,
    SurveyedBuild,
    build_keys,
    builds,
    sharing_tensor_memory,
    survey,
    usage_anew,
)
from peakgate.render import terminal
from peakgate.render.findings import leave_verdict
from peakgate.spec import catalogue
from peakgate.spec.case import Scale, Tier

BASELINE = "resources.json"
RESOURCES_FILE = "resources.json"
COMPILATIONS = 5  # attempts to reproduce the baseline of a build that differs
MOST_BY_LUCK = 12  # if more builds differ, nondeterminism of the compiler is no explanation


def main(verb: str, arguments: Sequence[str]) -> int:
    """Compile everything, then compare with the baseline or rewrite it."""
    chosen = _parser(verb).parse_args(arguments)
    project = config.current()
    chosen.baseline = config.near(project.baselines / BASELINE)
    clear_verdict(chosen.out / RESOURCES_FILE)
    with progress.shown("describing the cases of the families"):
        cases = [case for scale in Scale for case in catalogue.cases(scale)]
    every = builds(cases)
    if not every:
        raise PeakgateError(
            f"{config.near(config.required().kernels)}: no family with a kernel to compile there", Code.FAMILY
        )
    if not chosen.update and Tier(chosen.tier) is Tier.GATE:
        cases = catalogue.cases(Scale.BENCH, Tier.GATE)
    selects = selector(chosen.text)
    selected = [case for case in cases if case.stage.source is not None and selects(case.id)]
    if chosen.text and not selected:
        raise PeakgateError(
            f"-k {chosen.text!r}: no case with a kernel has such an id; try a family's name, or --tier full",
            Code.SELECTION,
        )
    compared = {kernel for case in selected for kernel in build_keys(case)}
    wanted = [made for made in every if made.kernel in compared]  # with all their launches
    part = bool(chosen.text or chosen.architectures)
    known = _baseline(chosen.baseline, update=chosen.update, part=part)
    covered = (known and known.architectures) or ARCHITECTURES
    architectures = tuple(chosen.architectures or covered)
    start = time.perf_counter()
    with progress.shown("compiling the kernels"):
        current = survey(wanted, architectures, jobs=chosen.jobs)
    wall_s = time.perf_counter() - start
    known = known or Survey(current.nvrtc, current.options, {}, {}, tuple(chosen.architectures or ARCHITECTURES))
    elsewhere = {made.kernel for made in every}
    if chosen.text:  # the cases of a removed build are unknown
        elsewhere |= {target.kernel for target in known.usage}
    left_out = {target.sm for target in known.usage} - set(architectures) if chosen.architectures else set[int]()
    before = known.without(elsewhere - compared, left_out)
    reason = incomparable(before, current)
    with progress.shown("compiling again what differs from the baseline"):
        luck = {} if reason or chosen.update else as_before(before, current, wanted)
    current = replace(current, usage={**current.usage, **{target: usage for target, (usage, _) in luck.items()}})
    findings = [*compare(before, current), *varying(luck)]
    if chosen.update:
        code, advice = _update(chosen.baseline, known, current, reason, part=part, architectures=architectures)
    else:
        code = exit_code(before, current, findings)
        advice = {
            ExitCode.OK: f"nothing got worse than {chosen.baseline}",
            ExitCode.UNDECIDED: "could not decide: compare with the baseline's compiler and options, or rewrite "
            f"{chosen.baseline}: --update",
            ExitCode.REGRESSION: f"worse than {chosen.baseline}: fix the kernels, or accept it with --update and have "
            "the diff reviewed",
        }[code]
    found = Report(
        command=verb,
        exit_code=code,
        rows=[finding.row for finding in findings],
        sentences=[
            *([f"{chosen.baseline}: {reason}"] if reason else []),
            summary(current, findings, wall_s),
            *(line for made in wanted for line in sharing_tensor_memory(made, current)),
            advice,
        ],
        fields={
            "nvrtc": current.nvrtc,
            "options": list(current.options),
            "incomparable": reason,
            "findings": [asdict(finding) for finding in findings],
        },
        unit="kernel build",
        annotations=placed(findings, every, Tone.OPEN if reason else Tone.BAD),
    )
    terminal.show(found)
    return leave_verdict(found, chosen.out / RESOURCES_FILE)


def as_before(
    before: Survey, current: Survey, wanted: Sequence[SurveyedBuild]
) -> dict[BuildTarget, tuple[Usage, Usage]]:
    """Differences from the baseline due to compiler nondeterminism: the baseline's usage, and the other one.

    A build that differs is compiled again until it matches the baseline, at most COMPILATIONS times; none is if more
    than MOST_BY_LUCK builds differ.
    """
    differ = differing(before, current)
    if len(differ) > MOST_BY_LUCK:
        return {}
    made = {each.kernel: each for each in wanted}
    return {
        target: (before.usage[target], current.usage[target])
        for target in differ
        if any(usage_anew(made[target.kernel], target.sm) == before.usage[target] for _ in range(COMPILATIONS))
    }


def placed(findings: Sequence[ResourceFinding], made: Sequence[SurveyedBuild], tone: Tone) -> list[Annotation]:
    """The regressions, each where its kernel is defined."""
    lines = {each.kernel: each.stage.source_line for each in made}
    return [
        Annotation(finding.kind, f"{finding.row.name}: {finding.text}", *line[:2], tone=tone)
        for finding in findings
        if finding.kind in RESOURCE_REGRESSIONS and (line := lines.get(finding.kernel))
    ]


def summary(current: Survey, findings: Sequence[ResourceFinding], wall_s: float) -> str:
    """One line on the number of builds and of findings."""
    kernels = {target.kernel for target in (*current.usage, *current.broken)}
    regressions = sum(finding.kind in RESOURCE_REGRESSIONS for finding in findings)
    builds, count = counted(len(kernels), "kernel build"), len(current.usage) + len(current.broken)
    return (
        f"{builds}, {count} with their architectures, NVRTC {current.nvrtc}, {wall_s:.0f} s: "
        f"{counted(regressions, 'regression')}, {counted(len(findings) - regressions, 'other difference')}"
    )


def _parser(verb: str) -> argparse.ArgumentParser:
    parser = VerbParser(
        prog=f"peakgate {verb}",
        description="Compare registers, spills, shared memory and occupancy of every kernel with a baseline; no GPU.",
        epilog="exit codes: 0 nothing got worse, 1 something did, 2 bad input, 3 something could not be compared",
    )
    add_selection(parser, default="")
    tiers = [tier.value for tier in Tier]
    parser.add_argument("--tier", default=Tier.GATE.value, choices=tiers, help="which cases' builds (default: gate)")
    parser.add_argument(
        "--architectures",
        nargs="+",
        type=int,
        choices=KNOWN_ARCHITECTURES,
        metavar="SM",
        help=f"compile for these only, of {' '.join(map(str, KNOWN_ARCHITECTURES))} "
        f"(default: the baseline's; for a new one {' '.join(map(str, ARCHITECTURES))})",
    )
    parser.add_argument("--update", action="store_true", help="write the baseline anew and report what differs")
    parser.add_argument(
        "--jobs", type=at_least(1), default=None, metavar="N", help="number of processes (default: one per core)"
    )
    add_verdict_folder(parser)
    return parser


def _baseline(path: Path, *, update: bool, part: bool) -> Survey | None:
    """The baseline to compare with; None for ``update`` if it is missing or unreadable."""
    if not path.exists():
        if update:
            return None
        raise PeakgateError(
            f"{path}: no baseline there yet; `peakgate inspect resources --update` makes the first", Code.UNREADABLE
        )
    try:
        return baseline.read(path)
    except PeakgateError as error:
        if part or not update:
            raise
        say(f"replacing an unreadable baseline: {error}")
        return None


def _update(
    path: Path, known: Survey, current: Survey, reason: str | None, *, part: bool, architectures: Sequence[int]
) -> tuple[ExitCode, str]:
    """Write the baseline: builds that compile, old entries of those that do not, and, for a ``part``, of all others.

    It is not written if it would mix two compilers (``reason``).
    """
    made = current.usage.keys() | current.broken.keys()
    kernels, compiled_for = {target.kernel for target in made}, {target.sm for target in made}
    stay = {
        target: usage
        for target, usage in known.usage.items()
        if target in current.broken or (part and not (target.kernel in kernels and target.sm in compiled_for))
    }
    if reason and part:
        return ExitCode.UNDECIDED, f"{path} is unchanged: rewrite all of it, --update without -k and --architectures"
    written = {**({} if reason else stay), **current.usage}
    if not written:
        return ExitCode.REGRESSION, f"{path} is not written: nothing compiles"
    covered = sorted({*architectures, *(known.architectures or ARCHITECTURES)})
    limited = tuple(covered) if covered != sorted(ARCHITECTURES) else None
    write_whole(path, baseline.render(replace(current, usage=written, architectures=limited)))
    if current.broken:
        return ExitCode.REGRESSION, f"wrote {path} without the builds that do not compile, whose old entries are kept"
    return ExitCode.OK, f"wrote {path}"
