"""Fill the pages of slow GPUs and of what a fleet costs: ``python -m lab.fleet.page``.

``rates`` writes the simulations' records, ``overhead`` what a fleet costs beside its gates, ``trial`` those of GPUs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from lab.fleet.rates import FEW, HEALTHY, KNOWN, PEERS, POWER
from lab.pages import ROOT, fill_page, percent, read_json, table
from peakgate.base.errors import PeakgateError
from peakgate.compare.resample import rate_at_most

OVERHEAD = "overhead.json"
TRIALS_SEEN = "trial-*/summary.json"
PARTS = {
    "one": "fleet of one GPU",
    "exclusive": "one GPU at a time",
    "together": "all GPUs at once",
    "losses": "the same, one worker killed midway",
    "shard": "full tier spread over all GPUs",
}


def rates(record: Path) -> dict[str, str]:
    """Blocks on what is detected, by name."""
    return {
        "fleet-known": _known(_read(record / KNOWN)),
        "fleet-healthy": _healthy(pd.concat([_read(record / HEALTHY), _read(record / FEW)])),
        "fleet-detected": _detected(_read(record / POWER)),
        "fleet-peers": _peers(_read(record / PEERS)),
    }


def costs(record: Path) -> dict[str, str]:
    """Blocks on what a fleet costs, by name."""
    return {"fleet-trial": trials(record), "fleet-overhead": _overhead(record / OVERHEAD)}


HERE = Path(__file__).parent
PAGES = {ROOT / "docs" / "explanation" / "slow-gpus.md": rates, HERE / "README.md": costs}
"""Page to the function that gives its blocks."""


def _known(gpus: pd.DataFrame) -> str:
    """The levels of the real GPUs, fastest first."""
    by_level = gpus.groupby("level")
    means = by_level[["all cases", "memory", "compute", "link"]].mean()
    columns: dict[str, Iterable[object]] = {"hosts": by_level["host"].nunique(), "GPUs": by_level.size()}
    columns |= {str(name): means[name].map("{:+.2f} %".format) for name in means}
    columns["SD within, all cases"] = by_level["all cases"].std().map("{:.2f} %".format)
    return _table(columns)


def _healthy(healthy: pd.DataFrame) -> str:
    named = healthy["any"] / healthy["fleets"]
    return _table(
        {
            "GPUs": healthy["gpus"],
            "scenario": healthy["scenario"],
            "fleets": healthy["fleets"],
            "named a GPU": healthy["gpu"],
            "a node": healthy["node"],
            "a rack": healthy["rack"],
            "anything": named.map(percent),
            "true rate at most (95 %)": list(map(percent, map(rate_at_most, named, healthy["fleets"]))),
            "3 % slow GPU named": (healthy["slow_named"] / healthy["fleets"]).map(percent),
        }
    )


def _detected(power: pd.DataFrame) -> str:
    detected = power.assign(
        text=(power["named"] / power["of"]).map(percent) + " (" + power["best"].map(percent) + ")",
        slowdown=power["slowdown_percent"].map("{:g} %".format),
    )
    rows = [(*unit, *found["text"]) for unit, found in detected.groupby(["gpus", "slow"], sort=False)]
    return table(("GPUs", "slow", *detected["slowdown"].unique()), rows)


def _peers(peers: pd.DataFrame) -> str:
    return _table(
        {
            "GPUs": peers["gpus"],
            "rule": peers["rule"],
            "fleets": peers["fleets"],
            "healthy fleets that name a GPU": (peers["healthy_fleets_named"] / peers["fleets"]).map(percent),
            "healthy GPUs named, per fleet": (peers["healthy_gpus_named"] / peers["fleets"]).map("{:.3g}".format),
            "5 % slow GPU named": (peers["slow_named"] / peers["fleets"]).map(percent),
        }
    )


def _overhead(path: Path) -> str:
    try:
        found = read_json(path)
    except (OSError, ValueError) as error:
        raise PeakgateError(f"{path}: no record ({error}); lab/fleet/overhead.py writes one") from None
    gates = [
        (f"{each['gates']} gates of 1 s on {each['workers']} workers", f"{each['wall_s']} s", "", "")
        for each in found["gates"]
    ]
    reports = [
        (
            f"report of {each['gpus']} GPUs from {each['source']}",
            f"{each['wall_s']} s",
            f"{each['processor_s']} s",
            f"{each['most_memory_mib'] / 1024:.2f} GiB",
        )
        for each in found["report"]
    ]
    rows = table(("what", "wall time", "processor time", "most memory"), [*gates, *reports])
    return f"On a machine with {found['cores']} cores:\n\n{rows}"


def _table(columns: Mapping[str, Iterable[object]]) -> str:
    return table(list(columns), zip(*columns.values(), strict=True))


def trials(record: Path) -> str:
    """The newest trial of each number of GPUs, with and without the full tier: wall times, phases, verdicts."""
    try:
        seen = [read_json(path) for path in record.glob(TRIALS_SEEN)]
    except (OSError, ValueError) as error:
        raise PeakgateError(f"{record / TRIALS_SEEN}: a trial cannot be read ({error})") from None
    if not seen:
        raise PeakgateError(f"{record / TRIALS_SEEN}: no record of a trial; see lab/fleet/trial.py")
    in_order = sorted(seen, key=lambda facts: str(facts["together"]["fleet"]))
    newest = {(int(facts["workers"]), "shard" in facts): facts for facts in in_order}
    return "\n\n".join(_trial(newest[kind]) for kind in sorted(newest))


def _trial(facts: Mapping[str, Any]) -> str:
    """Wall times on one machine, over those of the gates themselves and over ``bench`` of one GPU.

    Gates at once take as long as the slowest, those one by one as long as all of them.
    """
    alone = facts["alone"]["wall_s"] if "alone" in facts else None
    rows: list[tuple[str, ...]] = []
    if alone:
        rows.append(("`peakgate bench` of one GPU, without a fleet", f"{alone:.1f} s", "", "1.00"))
    for name, label in PARTS.items():
        if name in facts:
            wall = _wall_s(facts[name])
            gates_s = [float(gate["wall_s"]) for gate in facts[name]["gates"].values()]
            lasting_s = sum(gates_s) if name == "exclusive" else max(gates_s)
            beside = [f"{wall / each:.2f}" if each and name != "shard" else "" for each in (lasting_s, alone)]
            rows.append((label, f"{wall:.1f} s", *beside))
            if name == "shard":
                rows.append(("its gates' times added", f"{sum(gates_s):.1f} s", "", ""))
    at = f", {facts['commit'][:7]}" if "commit" in facts else ""
    head = (f"{facts['workers']} GPUs{at}", "wall time", "over its gates", "over `bench` of one GPU")
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


def _read(path: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise PeakgateError(f"{path}: no record ({error}); python -m lab.fleet.rates FOLDER writes one") from None


if __name__ == "__main__":
    for page, blocks in PAGES.items():
        fill_page(page, blocks(HERE))
