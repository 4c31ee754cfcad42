"""``peakgate ab``: measure two sides interleaved, or list what would be measured."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, structs

from peakgate.base import config, progress, records
from peakgate.base.errors import CannotDecide, Code, PeakgateError
from peakgate.base.files import make_folder, refuse_links, remove_output, scratch_folder
from peakgate.base.formatting import counted
from peakgate.base.options import add_selection, at_least, compute_capability, seconds_above_0
from peakgate.base.report import Report, add_json_option, write_json
from peakgate.base.streams import say, warn
from peakgate.base.verdict import ExitCode, Verdict
from peakgate.compare.ab.folders import SideEnvironment, Wanted, folders, in_environments, made, resolve, usual
from peakgate.compare.ab.means import AB_FOLDER, MANIFEST, SIDES, Budget, Means, Phases, import_beside
from peakgate.compare.ab.plan import NO_GPU_HERE, environment_notes, plan, read_codes, reasons
from peakgate.compare.ab.process import SideBroken, built_environments
from peakgate.compare.ab.schedule import Side
from peakgate.compile.cubin import installed_nvrtc
from peakgate.run.ab_process import AB_VARIABLE
from peakgate.run.lock import add_lock_options, device_uuid, folder_locked, locked
from peakgate.runfile.options import GATE_EXIT_CODES, add_verdict_options, verb_parser

# Imports pandas and SciPy, which are slow to import: in the background, while git and the driver answer and the sides
# start.
EXPERIMENT = "peakgate.compare.ab.experiment"

GPU = re.compile(r"gpu(:\d+(,\d+)*)?")
OUTPUTS = ("ab.md", "ab.csv", "ab.json", "ab.junit.xml", "ab.html")


class AskedOfAb(Struct):
    """What ``gate``, ``bisect`` and experiments ask of an A/B in their environment.

    ``sentinels`` is their number. ``all_pairs``: every screening pair measures every case, even those that fewer pairs
    settle. ``judged_by_base``: head's cases keep base's contract where base has one, and none of head's families is
    imported.
    """

    sentinels: Annotated[int, Meta(ge=0, description="a number of cases")] = 5
    all_pairs: bool = False
    judged_by_base: bool = False


def main(verb: str, arguments: Sequence[str]) -> int:
    """Run ``ab`` and return the exit code."""
    options = _parser(verb).parse_args(arguments)
    asked = os.environ.get(AB_VARIABLE, "{}").encode()
    vars(options).update(structs.asdict(records.decode(asked, AskedOfAb, Path(AB_VARIABLE), "unset it")))
    if options.earlier is not None:
        if options.sides or options.plan or options.json:
            raise PeakgateError("--from DIR measures nothing; leave out sides, --plan and --json", Code.OPTION)
        from peakgate.compare.ab.experiment import report  # noqa: PLC0415  (pandas and SciPy take long)
        from peakgate.compare.ab.record import load_record  # noqa: PLC0415  (as above)

        return report(load_record(options.earlier), options)
    if not GPU.fullmatch(options.device):
        raise PeakgateError(f"--device {options.device}: ab measures on a GPU; expected gpu or gpu:N", Code.OPTION)
    named = [Wanted(name, folder=name.startswith(("/", "./", "../"))) for name in options.sides]
    here = Wanted(".")
    if options.base_env or options.head_env:  # one commit is both sides
        named = named or [here]
        here = named[0]
    if not named:
        raise PeakgateError("ab needs a BASE: name a commit or a folder", Code.OPTION)
    if len(named) > 2:
        raise PeakgateError(f"ab compares two sides; leave out {named[2].name!r}", Code.OPTION)
    base, head = (*named, here)[:2]
    if options.capability is not None:
        compute_capability(options.capability)  # the sides read it themselves
    if options.plan and options.json:
        raise PeakgateError("--json: a plan has no verdict; leave --plan or --json out", Code.OPTION)
    if options.plan:
        return _plan(options, base, head)
    import_beside(EXPERIMENT)
    with _emptied(options.out, options.wait) as raw:  # before anything can end this run without a verdict
        return _measured(options, base, head, raw)


def _measured(options: argparse.Namespace, base: Wanted, head: Wanted, raw: Path) -> ExitCode:
    """Measure both sides, decide and write the report; ``raw`` is the folder of the runs."""
    phases, budget = Phases(), Budget(options.budget)
    for side in (base, head):
        resolve(side)  # a mistake in a name shows without a GPU too
    uuid = _gpu(options)  # before anything is built for it
    try:
        with _environments(options) as made, locked(uuid, options.wait), ExitStack() as worktrees:
            with phases.timed(SIDES):
                with progress.shown("checking out both sides"):
                    there = worktrees.enter_context(folders(base, head))
                from peakgate.compare.ab.experiment import measured, report  # noqa: PLC0415  (imported in the background)

            means = Means(raw, budget, phases)
            record, judged, explained = measured(in_environments(there, made), options, means)
    except SideBroken as broken:
        if broken.which == Side.BASE:
            raise PeakgateError(f"{broken}; a base that runs is needed to compare with", Code.SIDE) from None
        # A head that cannot be measured is a regression: print one line and write the verdict file.
        warn(" ".join(str(broken).split()))
        found = Report("ab", ExitCode.REGRESSION, Verdict.WRONG, fields={"reason": str(broken), "rows": []})
        write_json(found, options.out / "ab.json")
        return found.exit_code
    return report(record, options, phases, judged, explained)


def _gpu(options: argparse.Namespace) -> str:
    """The uuid of the GPU that was chosen; CannotDecide if it does not answer."""
    uuid = device_uuid(options.device)
    if uuid is None:
        raise CannotDecide(f"not measured: --device {options.device}: {NO_GPU_HERE}", Code.NO_GPU)
    return uuid


def _parser(verb: str) -> argparse.ArgumentParser:
    parser = verb_parser(
        verb,
        "Measure two commits interleaved on one GPU and decide what HEAD made slower. Each is a commit, a branch, a "
        "tag, a folder as it is (/DIR, ./DIR or ../DIR), or `.` for the working tree as it is.",
        f"{GATE_EXIT_CODES}, 130 interrupted",
    )
    parser.add_argument("sides", metavar="BASE [HEAD]", nargs="*", help="HEAD is `.` unless named")
    add_selection(parser, "parts", "; again for more", action="append", default=[])
    add_pairs_options(parser)
    parser.add_argument("--budget", type=seconds_above_0, metavar="SECONDS", help="stop cleanly after so long")
    add_lock_options(parser)
    parser.add_argument(
        "--plan", action="store_true", help="print what would be measured and why; needs no GPU, measures nothing"
    )
    parser.add_argument("--capability", metavar="9.0", help="compute capability to plan for (default: of the GPU)")
    parser.add_argument(
        "--explain",
        action="store_true",
        help="explain why each slower case is slower, from machine code and hardware counters (ncu)",
    )
    add_json_option(parser)
    add_verdict_options(parser)
    advanced = parser.add_argument_group("advanced options")
    advanced.add_argument(
        "--base-env",
        metavar="ENV",
        help="run BASE in ENV: requirements or pylock.toml, which uv installs, a folder of wheels, or an environment; "
        "one commit is then both sides",
    )
    advanced.add_argument("--head-env", metavar="ENV", help="run HEAD in ENV (default of either: this environment)")
    advanced.add_argument(
        "--measure-unchanged", action="store_true", help="measure and judge cases whose machine code is unchanged too"
    )
    advanced.add_argument(
        "--energy", action="store_true", help="measure joules per launch in the first three pairs, for information"
    )
    advanced.add_argument(
        "--from",
        dest="earlier",
        type=Path,
        metavar="DIR",
        help="measure nothing: decide again from what an earlier `ab` left in its output folder DIR",
    )
    return parser


def add_pairs_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that ``ab`` and ``bisect`` share: pairs, device and tier."""
    parser.add_argument(
        "--pairs",
        type=_pairs,
        default=_pairs("10"),
        metavar="N[,M]",
        help="N screening pairs, then M fresh pairs for suspects, twice as many for one that they leave open "
        "(default: 10,20)",
    )
    parser.add_argument("--device", default="gpu:0", help="gpu, gpu:N or gpu:N,M (default: gpu:0)")
    parser.add_argument("--tier", default="gate", choices=("gate", "full"), help="which cases (default: gate)")


def _pairs(text: str) -> tuple[int, int]:
    """Screening and confirming pairs, ``10,20``, for argparse."""
    screening, _, confirming = text.partition(",")
    return at_least(2)(screening), at_least(2)(confirming or "20")


def _plan(options: argparse.Namespace, base: Wanted, head: Wanted) -> ExitCode:
    """Print each case that would be measured, and why, without measuring.

    As ``ab`` would, exits 1 if a case builds only in base, 3 if one builds on neither side or cannot be described.
    """
    for side in (base, head):
        resolve(side)
    if options.capability is None:
        _gpu(options)
    if config.current().kernels.is_dir() and not (options.base_env and options.head_env):
        installed_nvrtc()  # before both sides are built
    import_beside(EXPERIMENT)
    try:
        with (
            progress.shown("checking out both sides"),
            _environments(options) as made,
            folders(base, head) as there,
            scratch_folder("plan") as scratch,
        ):
            placed = in_environments(there, made)
            progress.step("building both sides")
            environments = built_environments(placed, scratch)
            progress.step("building the kernels of both sides")
            codes = read_codes(placed, options.tier, environments, options.capability)
    except SideBroken as broken:
        raise PeakgateError.repeated(str(broken), Code.SIDE) from None
    from peakgate.compare.ab.experiment import durations_us  # noqa: PLC0415  (imported in the background)

    planned = plan(
        *codes,
        sentinels=options.sentinels,
        durations_us=durations_us(),
        chosen=options.parts,
        measure_unchanged=options.measure_unchanged,
    )
    for note in environment_notes(placed, codes):
        say(note)
    for case, reason in reasons(planned, *codes).items():
        say(f"{case}: {reason}")
    pairs = f"{options.pairs[0]} pairs at most" if planned.timed else "nothing"
    cases, sentinels = counted(len(planned.measured), "case"), counted(len(planned.sentinels), "sentinel")
    equal = len(planned.unchanged or {})
    say(f"{cases} to measure, {sentinels}, {equal} not measured, the same on both sides: {pairs}")
    refused = [case for case in planned.head_only if not codes[1][case].described]
    return ExitCode.REGRESSION if planned.lost else ExitCode.UNDECIDED if planned.broken or refused else ExitCode.OK


@contextmanager
def _environments(options: argparse.Namespace) -> Iterator[list[SideEnvironment]]:
    """The environments of both sides; empty if neither is named."""
    named = [(Side.BASE, options.base_env), (Side.HEAD, options.head_env)]
    if not any(given for _, given in named):
        yield []
        return
    if options.explain:
        raise PeakgateError("--explain compares in one environment; leave it out with --base-env", Code.OPTION)
    with scratch_folder("environments") as scratch:
        folder = Path(scratch).resolve()
        yield [made(f"--{which}-env {given}", given, folder / which) if given else usual() for which, given in named]


@contextmanager
def _emptied(out: Path, wait_s: float) -> Iterator[Path]:
    """The folder of the raw runs, ours alone in the block, without an earlier experiment's pairs."""
    raw = out / AB_FOLDER
    with ExitStack() as held:
        try:
            make_folder(raw)
            refuse_links(raw)
            held.enter_context(folder_locked(raw, wait_s))
            if (raw / MANIFEST).exists():
                for path in [*raw.glob("*.json"), *raw.glob("*.txt"), *raw.glob("*.log")]:
                    remove_output(path)
            for name in OUTPUTS:
                remove_output(out / name)
        except OSError as error:
            raise PeakgateError(
                f"--out {out}: cannot be written ({error.strerror}); free it or name another", Code.UNWRITABLE
            ) from None
        yield raw.resolve()
