"""Simulate fleets and fill the page that reports it.

``python -m lab.fleet.page RECORD --simulate RUNS`` writes the record, about half an hour of
one processor; ``... RECORD --page PAGE`` fills the page's blocks and draws its picture from the record.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from peakgate.core.errors import PeakgateError, refused
from peakgate.core.files import write_whole
from peakgate.core.verdict import ExitCode
from peakgate.reports.comparison.resample import rate_at_most
from peakgate.reports.pages.markers import table

from lab.fleet import rates
from lab.pages import open_page, percent

SEED = 20261122
HEALTHY, POWER, PEERS, KNOWN = "healthy.csv", "power.csv", "peers.csv", "known.csv"
PICTURE = "power.svg"
TRIALS_SEEN = "trial-*/summary.json"
PARTS = {
    "one": "fleet of one GPU",
    "exclusive": "one GPU at a time",
    "together": "all GPUs at once",
    "losses": "the same, one worker killed midway",
    "shard": "full tier spread over all GPUs",
}
PEER_SIZES = (8, 64, 1000)
FLEETS = {8: 1500, 64: 400, 1000: 400, 10_000: 300}
"""How many healthy fleets of so many GPUs are simulated of each shape."""

TRIALS = {8: 600, 64: 200, 1000: 200, 10_000: 200}
"""How many slow GPUs or nodes, of each kind and size of the slowdown."""


def simulate(record: Path, runs: Path) -> None:
    """Write the record."""
    known = rates.known(runs)
    rng = np.random.default_rng(SEED)
    bank = rates.Bank(known, rng)
    groups = known.cases.groupby("group")
    about = pd.DataFrame(
        {
            "cases": groups.size(),
            "loading": groups["loading"].first(),
            "gpu_case_sd_percent": 100 * groups["own_sd"].median(),
            "session_sd_percent": 100 * groups["session_sd"].median(),
            "effect_sd_percent": 100 * bank.table.std().reindex(groups.size().index),
        }
    ).reset_index()
    about["main_effects_percent"] = ", ".join(f"{effect:+.2f}" for effect in known.main_effects)
    about["largest_percent"], about["sessions"] = known.largest_percent, known.sessions
    _write(record / KNOWN, about)
    rows = [rates.healthy(bank, size, spread, FLEETS[size]) for size in rates.SIZES for spread in rates.SPREADS]
    _write(record / HEALTHY, pd.DataFrame(rows))
    compared = [row for size in PEER_SIZES for row in rates.peers(known, size, round(min(20, 4000 / size)), rng)]
    _write(record / PEERS, pd.DataFrame(compared))
    powers = []
    for size, kind, slowdown in itertools.product(rates.SIZES, rates.KINDS, rates.SLOWDOWNS):
        if kind != rates.NODE or size >= 64:
            hits, total = rates.detected(bank, size, kind, slowdown, trials=TRIALS[size], rng=rng)
            ideal = rates.best(known, size, kind, slowdown)
            powers.append((size, kind, 100 * slowdown, hits, total, ideal))
    columns = ["gpus", "slow", "slowdown_percent", "named", "of", "best"]
    _write(record / POWER, pd.DataFrame(powers, columns=columns))


def tables(record: Path) -> dict[str, str]:
    """The page's blocks by name."""
    healthy, power, peers, known = (_read(record / name) for name in (HEALTHY, POWER, PEERS, KNOWN))
    first = known.iloc[0]
    source = (
        f"{int(first.sessions)} gate sessions of {len(first.main_effects_percent.split(','))} GPUs, main effects "
        f"{first.main_effects_percent} %, two GPUs at most {first.largest_percent:.1f} % apart in a case."
    )
    groups = {
        "group": known["group"],
        "cases": known["cases"],
        "loading": known["loading"].map("{:.2f}".format),
        "SD between GPUs in a case": known["gpu_case_sd_percent"].map("{:.2f} %".format),
        "between sessions": known["session_sd_percent"].map("{:.2f} %".format),
    }
    named = healthy["any"] / healthy["fleets"]
    rates_of_healthy: dict[str, Iterable[object]] = {
        "GPUs": healthy["gpus"],
        "assumed main effect": healthy["spread"],
        "fleets": healthy["fleets"],
        "named a GPU": healthy["gpu"],
        "a node": healthy["node"],
        "a rack": healthy["rack"],
        "anything": healthy["any"].astype(str) + " (" + named.map(percent) + ")",
        "true rate at most (95 %)": list(map(percent, map(rate_at_most, named, healthy["fleets"]))),
    }
    detected = power.assign(
        text=(power["named"] / power["of"]).map(percent) + " (" + power["best"].map(percent) + ")",
        slowdown=power["slowdown_percent"].map("{:g} %".format),
    )
    rows = [(*unit, *found["text"]) for unit, found in detected.groupby(["gpus", "slow"], sort=False)]
    rules = {
        "GPUs": peers["gpus"],
        "rule": peers["rule"],
        "fleets": peers["fleets"],
        "healthy fleets that name a GPU": (peers["healthy_fleets_named"] / peers["fleets"]).map(percent),
        "healthy GPUs named, per fleet": (peers["healthy_gpus_named"] / peers["fleets"]).map("{:.3g}".format),
        "5 % slow GPU named": (peers["slow_named"] / peers["fleets"]).map(percent),
    }
    return {
        "fleet-trial": trials(record),
        "fleet-known": f"{source}\n\n{_table(groups)}",
        "fleet-healthy": _table(rates_of_healthy),
        "fleet-detected": table(("GPUs", "slow", *detected["slowdown"].unique()), rows),
        "fleet-peers": _table(rules),
    }


def _table(columns: Mapping[str, Iterable[object]]) -> str:
    return table(list(columns), zip(*columns.values(), strict=True))


def trials(record: Path) -> str:
    """The newest trial of each number of GPUs, the fewest first: wall times, where they went, verdicts below."""
    try:
        seen = [json.loads(path.read_text(encoding="utf-8")) for path in record.glob(TRIALS_SEEN)]
    except (OSError, ValueError) as error:
        raise PeakgateError(f"{record / TRIALS_SEEN}: a trial cannot be read ({error})") from None
    if not seen:
        raise PeakgateError(f"{record / TRIALS_SEEN}: no record of a trial; see lab/fleet/trial.py")
    newest = {int(facts["workers"]): facts for facts in sorted(seen, key=lambda facts: str(facts["together"]["fleet"]))}
    return "\n\n".join(_trial(newest[workers]) for workers in sorted(newest))


def _trial(facts: Mapping[str, Any]) -> str:
    """Wall times on one machine, beside ``bench`` of one GPU and beside the same command on one GPU."""
    alone, one = facts["alone"]["wall_s"], _wall_s(facts["one"]) if "one" in facts else None
    rows: list[tuple[str, ...]] = [("`peakgate bench` of one GPU, without a fleet", f"{alone:.1f} s", "1.00", "")]
    for name, label in PARTS.items():
        if name in facts:
            wall = _wall_s(facts[name])
            beside = [f"{wall / each:.2f}" if each and name != "shard" else "" for each in (alone, one)]
            rows.append((label, f"{wall:.1f} s", *beside))
    if "shard" in facts:
        added = sum(float(gate["wall_s"]) for gate in facts["shard"]["gates"].values())
        rows.append(("its gates' times added", f"{added:.1f} s", "", ""))
    head = (f"{facts['workers']} GPUs", "wall time", "over `bench` of one GPU", "over a fleet of one GPU")
    parts = [part for part in facts.values() if isinstance(part, dict) and "gates" in part]
    gates = [gate for part in parts for gate in part["gates"].values()]
    judged = Counter[str]()
    for gate in gates:
        judged.update(gate["verdicts"])
    lost = sum(gate["workers_lost"] for gate in gates)
    counted = ", ".join(f"{count} {verdict}" for verdict, count in judged.most_common())
    measured = sum(gate["outcome"] == "measured" for gate in gates)
    below = f"{measured} gates measured, {lost} workers lost on the way: {counted}."
    return "\n\n".join([table(head, rows), *_phases(facts), below])


def _wall_s(part: Mapping[str, Any]) -> float:
    """Wall time of a command, by its own clock where it has one: from the start of its process to its reports."""
    return float(sum(part["phases"].values()) if part.get("phases") else part["wall_s"])


def _phases(facts: Mapping[str, Any]) -> list[str]:
    """Where the seconds of each whole command went, and those of its slowest gate; nothing of an early trial."""
    rows = []
    for name, label in PARTS.items():
        if seconds := facts.get(name, {}).get("phases"):
            slowest = max(facts[name]["gates"].values(), key=lambda gate: float(gate["wall_s"]))
            rows.append((label, *map(_long_phases, (seconds, slowest["phases"]))))
    return [table(("seconds", "of the command", "of its slowest gate"), rows)] if rows else []


def _long_phases(seconds: Mapping[str, float]) -> str:
    return ", ".join(f"{phase} {value:.1f}" for phase, value in seconds.items() if value >= 0.05)


def picture(record: Path) -> str:
    """Power against the size of the slowdown, a panel per kind; dashed what the best possible test detects."""
    power = _read(record / POWER)
    with mpl.rc_context({"font.size": 9, "svg.hashsalt": "peakgate", "svg.fonttype": "none"}):
        figure = Figure(figsize=(10, 3.2), layout="constrained")
        FigureCanvasSVG(figure)
        panels = figure.subplots(1, len(rates.KINDS), sharey=True)
        for axes, kind in zip(panels, rates.KINDS, strict=True):
            for colour, (size, rows) in enumerate(power[power["slow"] == kind].groupby("gpus")):
                x, named, look = rows["slowdown_percent"], 100 * rows["named"] / rows["of"], {"color": f"C{colour}"}
                axes.plot(x, named, "o-", label=f"{size} GPUs", markersize=3, **look)
                axes.plot(x, 100 * rows["best"], "--", linewidth=0.9, **look)
            axes.set_title(f"slow: {kind}")
            axes.set_xlabel("slower by (%)")
            axes.legend(fontsize=8)
        panels[0].set_ylabel("named (%)")
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _write(path: Path, table: pd.DataFrame) -> None:
    write_whole(path, table.to_csv(index=False, float_format="%.6g", lineterminator="\n"))


def _read(path: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise PeakgateError(f"{path}: no record ({error}); --simulate RUNS writes one") from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, or fill a page; 2 where there is no record or no page."""
    parser = argparse.ArgumentParser(prog="python -m lab.fleet.page", description=__doc__)
    parser.add_argument("record", type=Path, help="folder of the record")
    parser.add_argument("--simulate", type=Path, metavar="RUNS", help="simulate from the gate sessions in this folder")
    parser.add_argument(
        "--page", type=Path, help="Markdown file whose blocks to fill; the picture is written beside this script"
    )
    options = parser.parse_args(arguments)
    try:
        if options.simulate:
            simulate(options.record, options.simulate)
        open_page(options.page)(tables(options.record))
        if options.page:
            write_whole(Path(__file__).with_name(PICTURE), picture(options.record))
    except PeakgateError as error:
        return refused(error)
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
