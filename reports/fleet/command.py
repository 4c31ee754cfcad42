"""``peakgate fleet``: the gate on every GPU of this machine or of a Dask cluster, and which GPUs are slow."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd
from peakgate.common.errors import PeakgateError
from peakgate.common.files import write_whole
from peakgate.common.processes import sigterm_interrupts
from peakgate.common.progress import Progress
from peakgate.project import config
from peakgate.reports.fleet import analysis, archive, dataset, measure, page, report
from peakgate.reports.fleet import store as stores
from peakgate.reports.fleet.analysis import Analysis
from peakgate.reports.fleet.store import Plan, Store
from peakgate.reports.options import add_out
from peakgate.reports.render.console import VerdictConsole
from peakgate.run import inputs
from peakgate.run.lock import seconds

OURS = ("--out", "--benchmark-json", "--benchmark-storage", "--commit", "--resume", "--strict-gate", "--baselines-from")
"""Options of ``bench`` that a gate of a fleet has already, or that need the repository's history."""


def main(verb: str, arguments: Sequence[str]) -> int:
    """Measure and report; 0 all passed, 1 an outlier, a crash or a failed gate, 2 bad input, 3 not all were judged."""
    options, for_bench = _parser(verb).parse_known_args(arguments)
    root = options.out / "fleet"
    if options.report is None:
        _refuse(options, for_bench)
        with sigterm_interrupts():
            store = _measure(options, for_bench, root)
    else:
        store = Store(options.report) if options.report != Path() else stores.newest(root)
    found = conclude(store, dataset.of_store(store), [*options.past, *_earlier(store)])
    console = VerdictConsole()
    report.show(found, console)
    written = {store.folder / dataset.FILE, *write(found, store.folder)}
    console.print(f"exit {int(found.exit_code)}; {', '.join(map(str, sorted(written)))}", soft_wrap=True)
    return found.exit_code


def conclude(store: Store, table: pd.DataFrame, past: Sequence[Path]) -> Analysis:
    """Write the fleet's data set and judge it, beside the data sets of earlier fleets."""
    dataset.write(table, store.folder / dataset.FILE)
    earlier = [dataset.read(path / dataset.FILE if path.is_dir() else path) for path in past]
    return analysis.analyse(table, pd.concat(earlier, ignore_index=True) if earlier else None)


def write(found: Analysis, folder: Path) -> list[Path]:
    """Write every report of a fleet; the paths."""
    texts = report.written(found, folder / "fleet") | {folder / "fleet.html": page.page(found)}
    for path, text in texts.items():
        write_whole(path, text)
    return list(texts)


def _earlier(store: Store) -> list[Path]:
    """The data sets of earlier fleets beside this one."""
    return sorted(path for path in store.folder.parent.glob(f"*/{dataset.FILE}") if path.parent.name < store.name)


def _measure(options: argparse.Namespace, for_bench: Sequence[str], root: Path) -> Store:
    project = config.required()
    packed = archive.pack(project)
    if options.resume:
        store = stores.newest(root)
        plan, places = store.read()
        _refuse_changed(plan, packed, store)
        if for_bench:
            raise PeakgateError(
                f"--resume with {for_bench[0]}: the fleet continues with its own options; leave them out"
            )
    else:
        store, places = stores.new(root), {}
        plan = Plan(
            fleet=store.name,
            digest=packed.digest,
            inside=packed.inside,
            commit=str(packed.commit),
            dirty=packed.dirty,
            arguments=tuple(for_bench),
            device=options.device,
            together=options.together,
            harness=inputs.harness(),
        )
    cluster = measure.Cluster(options.scheduler, options.workers, plan.device, options.work, options.wait)
    progress = Progress(sys.stderr, every_s=measure.PROGRESS_EVERY_S)
    with measure.engine(cluster, store, progress) as found:
        places |= {uuid: each for uuid, each in measure.places(found, plan.device).items() if uuid not in places}
        store.begin(plan, places.values())
        run_pass = partial(
            measure.run_pass, found=found, store=store, plan=plan, packed=packed, cluster=cluster, progress=progress
        )
        mode = measure.TOGETHER if plan.together else measure.EXCLUSIVE
        run_pass(where=list(places.values()), mode=mode)
        suspects = analysis.suspects(analysis.analyse(dataset.of_store(store)))
        if suspects:
            sys.stderr.write(f"{len(suspects)} suspects are measured again\n")
            again = [places[uuid] for uuid in suspects]
            run_pass(where=again, mode=measure.AGAIN)
    return store


def _refuse(options: argparse.Namespace, for_bench: Sequence[str]) -> None:
    for option in for_bench:
        if option.partition("=")[0] in OURS:
            raise PeakgateError(f"{option}: not with `peakgate fleet`, which sets it for every gate; leave it out")
    if options.workers is not None and options.workers < 1:
        raise PeakgateError(f"--workers {options.workers}: expected 1 or more")


def _refuse_changed(plan: Plan, packed: archive.Archive, store: Store) -> None:
    if plan.digest != packed.digest:
        raise PeakgateError(
            f"{store.folder}: --resume needs the same project, and its files changed; measure anew without it"
        )
    if plan.harness != inputs.harness():
        raise PeakgateError(
            f"{store.folder}: --resume needs the same Peakgate, and it changed; measure anew without it"
        )


def _parser(verb: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"peakgate {verb}",
        description="Run the project's gate on every GPU of this machine, or of the Dask cluster whose scheduler is "
        "named, and report which GPUs, nodes and racks are slow. Other options go to `peakgate bench`: -k, --tier, ...",
        epilog="exit codes: 0 every gate passed and no GPU is slow, 1 a failed gate, an outlier or a crash, "
        "2 bad input, 3 not all judged, 130 interrupted",
        allow_abbrev=False,
    )
    parser.add_argument("--scheduler", metavar="URL", help="of a Dask cluster, tcp://HOST:8786 (default: this machine)")
    parser.add_argument("--workers", type=int, metavar="N", help="workers to start here, or to wait for on the cluster")
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu", help="cpu: the emulator, to try a fleet")
    parser.add_argument("--together", action="store_true", help="load all GPUs of a node at once, not one at a time")
    parser.add_argument("--resume", action="store_true", help="continue the newest fleet of the output folder")
    parser.add_argument("--work", default="~/.cache/peakgate/fleet", metavar="DIR", help="folder on the nodes")
    parser.add_argument(
        "--wait",
        type=seconds,
        default=120.0,
        metavar="SECONDS",
        help="for the scheduler, for a worker that died, for another run on a GPU (default: 120)",
    )
    parser.add_argument(
        "--report",
        type=Path,
        nargs="?",
        const=Path(),
        metavar="FLEET",
        help="report a measured fleet again (default: the newest)",
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
