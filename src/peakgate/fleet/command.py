"""``peakgate fleet``: run the gate on every GPU of this machine or of a Dask cluster, and find slow GPUs."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from peakgate.base import config
from peakgate.base.errors import CannotDecide, Code, PeakgateError
from peakgate.base.formatting import counted
from peakgate.base.options import VerbParser
from peakgate.base.progress import Progress
from peakgate.fleet import archive, place
from peakgate.fleet import store as stores
from peakgate.fleet.place import GpuPlace
from peakgate.fleet.store import AGAIN, GATES_PHASE, FleetPhases, FleetPlan, Store
from peakgate.run import inputs
from peakgate.run.lock import seconds
from peakgate.runfile.options import add_out
from peakgate.spec.case import Scale, Tier

WORK_VARIABLE, WORK = "PEAKGATE_FLEET_FOLDER", "~/.cache/peakgate/fleet"
"""Environment variable for the folder on the nodes, and its default."""

OURS = (
    "--out",
    "--benchmark-json",
    "--benchmark-storage",
    "--peakgate-commit",
    "--resume",
    "--strict-gate",
    "--baselines-from",
)
"""Options of ``bench`` that a fleet sets itself, or that need the repository's history."""

SELECTING = ("-k", "-m", "--peakgate-cases", "--deselect")
"""Options that select cases, which a sharded tier does not allow."""


def main(verb: str, arguments: Sequence[str]) -> int:
    """Measure and report; return 0 if all passed, 1 for an outlier, crash or failed gate, 3 if not all were judged."""
    phases = FleetPhases()
    options, for_bench = _parser(verb).parse_known_args(arguments)
    root = options.out / "fleet"
    if options.report is None:
        _refuse(options, for_bench)
        store = _measure(options, for_bench, root, phases)
    else:
        store = Store(options.report) if options.report != Path() else stores.newest(root)
    from peakgate.fleet import report  # noqa: PLC0415  (imported while the gates run)

    if options.report is not None and options.report.is_file():
        return report.of_table(options.report, root, options.past)
    return report.conclude(store, options.past, phases)


def _measure(options: argparse.Namespace, for_bench: Sequence[str], root: Path, phases: FleetPhases) -> Store:
    project = config.required()
    asks_gpus = options.scheduler is None and options.device == "gpu"
    scale = Scale.BENCH if options.device == "gpu" else Scale.SMALL
    with ThreadPoolExecutor(3) as ahead:
        packing = ahead.submit(archive.pack, project, options.out)
        asking = ahead.submit(place.inventory) if asks_gpus else None
        # Importing Dask and pandas takes a second; meanwhile threads pack the project and list the GPUs.
        from peakgate.fleet import measure, shard  # noqa: PLC0415

        spread = options.shard and not options.resume
        listing = ahead.submit(shard.listed, project, options.tier, scale) if spread else None
        packed, inventory = packing.result(), place.NO_GPUS if asking is None else asking.result()
    phases.ends("start")
    store, plan, places = _begun(options, for_bench, root, packed)
    cluster = measure.Cluster(options.scheduler, options.workers, os.environ.get(WORK_VARIABLE, WORK), options.wait)
    inventory = inventory if plan.device == "gpu" else place.NO_GPUS
    progress = Progress()
    with measure.engine(cluster, store, packed, progress, inventory) as found, ThreadPoolExecutor(1) as ahead:
        places |= {uuid: each for uuid, each in measure.places(found, plan.device).items() if uuid not in places}
        if listing is not None:  # before the plan is written, so that a fleet that can be resumed has its shares
            cases = shard.expected(listing.result(), project, options.tier, _slug(places))
            spread_cases = shard.split(cases, list(places))
            store.add_shares(spread_cases)
            text = f"{counted(len(cases), 'case')} on {counted(len(places), 'GPU')}"
            sys.stderr.write(f"{text}, {len(spread_cases.common)} of them on each\n")
        store.begin(plan, places.values())
        phases.ends("workers")
        imported = ahead.submit(importlib.import_module, "peakgate.fleet.report")
        run_pass = partial(measure.run_pass, found=found, store=store, plan=plan, progress=progress)
        shares = store.shares()
        run_pass(where=[places[uuid] for uuid in (shares.own if shares else places)], mode=plan.mode)
        phases.ends(GATES_PHASE)
        if plan.shard:
            return store
        suspects = imported.result().suspects(store, options.past)
        phases.ends("analysis")
        if suspects:
            sys.stderr.write(f"{counted(len(suspects), 'suspect')} to measure again\n")
            run_pass(where=[places[uuid] for uuid in suspects], mode=AGAIN)
            phases.ends("suspects")
    phases.ends("end of workers")
    return store


def _begun(
    options: argparse.Namespace, for_bench: Sequence[str], root: Path, packed: archive.ProjectArchive
) -> tuple[Store, FleetPlan, dict[str, GpuPlace]]:
    """A new fleet, or with ``--resume`` the newest one: its folder, its plan and its known places."""
    arguments = (*([f"--tier={options.tier}"] if options.tier else []), *for_bench)
    if not options.resume:
        store = stores.new(root)
        plan = FleetPlan(
            fleet=store.name,
            digest=packed.digest,
            inside=packed.inside,
            commit=str(packed.commit),
            dirty=packed.dirty,
            arguments=arguments,
            device=options.device,
            together=options.together,
            harness=inputs.harness(),
            shard=options.shard,
        )
        return store, plan, {}
    store = stores.newest(root)
    plan, places = store.read()
    same = {"project": plan.digest == packed.digest, "Peakgate": plan.harness == inputs.harness()}
    for what in [name for name, kept in same.items() if not kept]:
        raise PeakgateError(
            f"{store.folder}: --resume needs the same {what}, but it changed; measure again without --resume",
            Code.CHANGED,
        )
    if arguments:
        raise PeakgateError(
            f"--resume with {arguments[0]}: a fleet continues with its original options; leave them out", Code.OPTION
        )
    return store, plan, places


def _slug(places: Mapping[str, GpuPlace]) -> str | None:
    """The GPU model that shares a tier; CannotDecide if models or drivers differ."""
    kinds = sorted({(each.facts["slug"], each.facts["driver"]) for each in places.values() if not each.emulated})
    if len(kinds) > 1:
        named = "; ".join(f"{slug}, driver {driver}" for slug, driver in kinds)
        raise CannotDecide(
            f"--shard: needs GPUs of one model and driver, found {named}; leave some out", Code.GPU_MODELS
        )
    return kinds[0][0] if kinds else None


def _refuse(options: argparse.Namespace, for_bench: Sequence[str]) -> None:
    for option in for_bench:
        if option.partition("=")[0] in OURS:
            raise PeakgateError(f"{option}: `peakgate fleet` sets it for every gate; leave it out", Code.OPTION)
        if options.shard and option.startswith(SELECTING):
            raise PeakgateError(f"{option}: --shard spreads a whole tier; leave out one of them", Code.OPTION)
    if options.shard and options.together:
        raise PeakgateError("--together: --shard loads all GPUs at once anyway; leave it out", Code.OPTION)
    if options.shard and not options.resume:
        options.tier = options.tier or Tier.FULL.value
    if options.workers is not None and options.workers < 1:
        raise PeakgateError(f"--workers {options.workers}: expected 1 or more", Code.OPTION)


def _parser(verb: str) -> argparse.ArgumentParser:
    parser = VerbParser(
        prog=f"peakgate {verb}",
        description="Run the project's gate on every GPU of this machine, or of the Dask cluster whose scheduler is "
        "named, and report which GPUs, nodes and racks are slow. Other options go to `peakgate bench`: -k, --tier, ...",
        epilog="exit codes: 0 every gate passed and no GPU is slow, 1 a failed gate, an outlier or a crash, "
        "2 bad input, 3 not all judged, 130 interrupted",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--scheduler",
        metavar="URL",
        help="address of a Dask cluster's scheduler, tcp://HOST:8786 (default: this machine)",
    )
    parser.add_argument(
        "--workers", type=int, metavar="N", help="number of workers to start here, or to wait for on the cluster"
    )
    parser.add_argument(
        "--device", choices=("gpu", "cpu"), default="gpu", help="cpu: the emulator, to try `fleet` without GPUs"
    )
    parser.add_argument("--together", action="store_true", help="load all GPUs of a node at once, not one at a time")
    parser.add_argument(
        "--shard",
        action="store_true",
        help="split the full tier (or --tier) over GPUs of one model, instead of running all cases on each",
    )
    parser.add_argument("--tier", choices=[each.value for each in Tier], help="which cases (default: gate)")
    parser.add_argument("--resume", action="store_true", help="continue the newest fleet of the output folder")
    parser.add_argument(
        "--wait",
        type=seconds,
        default=120.0,
        metavar="SECONDS",
        help="how long to wait for the scheduler, for a worker that died, and for another run on a GPU (default: 120)",
    )
    parser.add_argument(
        "--report",
        type=Path,
        nargs="?",
        const=Path(),
        metavar="FLEET",
        help="report a measured fleet again: its folder or its Parquet file alone (default: the newest)",
    )
    parser.add_argument(
        "--past",
        type=Path,
        action="append",
        default=[],
        metavar="FLEET",
        help="an earlier fleet's folder or Parquet file to compare with, beside those of the output folder",
    )
    add_out(parser)
    return parser
