"""The files that a run leaves: its entries in pytest-benchmark's JSON, and the verdict that names the run's inputs.

Names and units of the entries are part of the schema. Files are moved to their places once they are whole.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from peakgate.base import records
from peakgate.base.config import near, version
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import file_digest, make_folder, remove_output, unwritable, write_new, write_whole
from peakgate.base.report import Report, write_json
from peakgate.base.text import counted
from peakgate.base.verdict import ExitCode, Verdict, counts

if TYPE_CHECKING:
    from peakgate.run.session import Outcome, Session
    from peakgate.spec.case import Case, RefusedCase

Entry = dict[str, Any]
"""One case as the run file keeps it: its ``extra_info``."""


def extra_info(outcome: Outcome) -> dict[str, Any]:
    """One benchmark's ``extra_info``; None where a figure is not known or not claimed."""
    from peakgate.spec.case import RefusedCase  # noqa: PLC0415  (a supervisor does without numpy)

    figures, resources, samples = outcome.metrics, outcome.resources, outcome.samples
    described = _undescribed(outcome.case) if isinstance(outcome.case, RefusedCase) else _described(outcome.case)
    claimed, dynamic_bytes = described["bytes"] is not None, described["dynamic_shared_bytes"]
    interval = samples.median_interval_us if figures and samples else None
    return described | {
        "time_us": _rounded(figures.time_us if figures else None, 4),
        "median_interval_us": [round(each, 4) for each in interval] if interval else None,
        "trimmed_mean_us": _rounded(samples.trimmed_mean_us if figures and samples else None, 5),
        "control_us": _rounded(samples.control_us if samples else None, 5),
        "first_us": _rounded(samples.first_us if samples else None, 4),
        "footprint_bytes": samples.footprint_bytes if samples else None,
        "activity_us": _rounded(samples.activity_us if samples else None, 4),
        "gbs": _rounded(figures.gbs if figures and claimed else None, 2),
        "tflops": _rounded(figures.tflops if figures and claimed else None, 4),
        "peak_fraction": _rounded(figures.peak_fraction if figures else None, 5),
        "bound": figures.bound if figures else None,
        "roof_fraction": _rounded(figures.roof_fraction if figures else None, 5),
        "roof": figures.roof if figures else None,
        "floor": outcome.floor,
        "verdict": outcome.judgement.verdict.value,
        "reason": outcome.judgement.reason,
        "energy": asdict(outcome.energy) if outcome.energy else None,
        "registers": resources.registers if resources else None,
        "spill_bytes": resources.spill_bytes if resources else None,
        "static_shared_bytes": resources.static_shared_bytes if resources else None,
        "shared_bytes": resources.static_shared_bytes + dynamic_bytes if resources else None,
        "occupancy": _rounded(outcome.occupancy.fraction if outcome.occupancy else None, 4),
        "occupancy_limiter": "+".join(outcome.occupancy.limiters) if outcome.occupancy else None,
        "fingerprint": outcome.fingerprint,
        "tuned": to_builtins(outcome.tuned) if outcome.tuned else None,
        "sm_clock_mhz": _rounded(samples.median_sm_clock_mhz if samples else None, 0),
        "power_w": _rounded(samples.power_w if samples else None, 0),
        "power_bound": samples.power_bound if samples else False,
        "samples": len(samples.times_us) if samples else 0,
        "discarded": samples.discarded if samples else 0,
        "sampling": samples.method if samples else None,
        "pair_ratios": [round(each, 6) for each in samples.pair_ratios] if samples and samples.pair_ratios else None,
        "relative_error": outcome.proof.error if outcome.proof else None,
        "error_over_bound": _rounded(outcome.proof.ratio if outcome.proof else None, 6),
        "varying_elements": outcome.proof.varying if outcome.proof else None,
        "probes": outcome.proof.probes if outcome.proof else 0,
        "timed_launches_checked": outcome.proof.timed if outcome.proof else 0,
    }


def _described(case: Case) -> dict[str, Any]:
    """What the description of a case gives of its entry."""
    claimed = case.work.claimed
    return {
        "case": case.id,
        "family": case.family,
        "stage": case.stage.name,
        "size": case.size,
        "block": case.block,
        "variant": case.variant,
        "state": case.state,
        "gpus": case.gpus,
        "dtype": case.dtype,
        "tier": case.tier.value,
        "host_bound": case.stage.host_bound,
        "bytes": case.work.bytes if claimed else None,
        "flops": case.work.flops if claimed else None,
        "peak_tflops": case.work.peak_tflops,
        "math": case.math,
        "math_given": case.work.math is not None,
        "dynamic_shared_bytes": case.launch.shared_bytes,
        "tolerance": case.largest_tolerance,
        "predicted": dict(case.predicted),
    }


def _undescribed(case: RefusedCase) -> dict[str, Any]:
    """The same of a case that is not described, of which nothing but its name is known."""
    named = {"case": case.id, "family": case.family, "stage": case.name, "size": "", "block": "", "variant": ""}
    judged = {"state": "cold", "gpus": 1, "dtype": "float32", "tier": "gate", "host_bound": False}
    work = {"bytes": None, "flops": None, "peak_tflops": None, "math": "fp32", "math_given": False}
    return named | judged | work | {"dynamic_shared_bytes": 0, "tolerance": 0.0, "predicted": {}}


def machine_info(session: Session) -> dict[str, Any]:
    """``machine_info.gpu``: the device, its state before the run, and the roofs measured in it."""
    preflight = asdict(session.preflight) if session.preflight else None
    return session.device.describe() | {"preflight": preflight, "roofs": dict(session.roofs)}


def run_info(session: Session, entries: Sequence[Entry], skipped: Mapping[str, str], partial: str | None) -> Entry:
    """The file's own section: what was asked for, verdict counts, cases without figures, where the time went.

    ``entries`` are the ``extra_info`` of all finished cases, ``skipped`` why the device cannot run a case; ``partial``
    says what the run lacks of what it was to measure, None where it lacks nothing.
    """
    return {
        "version": version(),
        "device": session.device.kind,
        "tier": session.tier.value,
        "seed": session.seed,
        "whole": session.whole and partial is None,
        "partial": partial,
        "verdicts": dict(Counter(entry["verdict"] for entry in entries)),
        "not_measured": [judged(entry) for entry in entries if entry["time_us"] is None],
        "skipped": dict(skipped),
        "wall_s": {what: round(seconds, 3) for what, seconds in session.wall_s.items()},
    }


def unsaved(session: Session, outcomes: Sequence[Outcome], commit_info: Mapping[str, Any]) -> dict[str, Any]:
    """A run file of what a process has measured so far of a tree: of the figures of samples those that reports read."""
    from peakgate.spec.case import CASE_SCHEMA  # noqa: PLC0415  (a supervisor does without numpy)

    entries = [extra_info(outcome) for outcome in outcomes]
    benchmarks = [
        {"extra_info": entry, "stats": _stats(outcome.samples.times_us)}
        for entry, outcome in zip(entries, outcomes, strict=True)
        if outcome.samples and outcome.metrics
    ]
    return {
        "peakgate_schema": CASE_SCHEMA,
        "datetime": datetime.now(UTC).isoformat(),
        "machine_info": {"gpu": machine_info(session)},
        "commit_info": dict(commit_info),
        "benchmarks": benchmarks,
        "peakgate": run_info(session, entries, {}, None),
    }


def _stats(times_us: Sequence[float]) -> dict[str, float]:
    """The figures of samples, in seconds."""
    quartiles = statistics.quantiles(times_us, n=4, method="inclusive") if len(times_us) > 1 else [0.0] * 3
    iqr_us = quartiles[2] - quartiles[0]
    return {"median": statistics.median(times_us) / 1e6, "iqr": iqr_us / 1e6, "rounds": len(times_us)}


def judged(entry: Entry) -> dict[str, str]:
    """A case, its verdict and the reason."""
    return {name: entry[name] for name in ("case", "verdict", "reason")}


def summarised(entry: Entry) -> dict[str, Any]:
    """A case as the verdict file has it: what was judged, and its figures."""
    figures = ("time_us", "median_interval_us", "peak_fraction", "bound", "floor", "relative_error")
    return {**judged(entry), **{name: entry.get(name) for name in figures}}


def closing_lines(session: Session, entries: Sequence[Entry], partial: str | None) -> list[str]:
    """The last lines of a run: notes, roofs, the wall time by phase, and the counts."""
    lines = list(session.notes)
    if session.roofs:
        rates = ", ".join(f"{name} {rate:.1f}" for name, rate in session.roofs.items())
        from peakgate.spec.work import ARITHMETIC_ROOFS  # noqa: PLC0415  (a supervisor does without numpy)

        arithmetic = ", ".join(sorted({"fma"} | {*ARITHMETIC_ROOFS} & session.roofs.keys()))
        lines.append(f"roofs of this run (GB/s; {arithmetic} TFLOP/s): {rates}")
    parts = ", ".join(f"{what} {seconds:.1f}" for what, seconds in session.wall_s.items() if what != "total")
    lines.append(f"wall {session.wall_s['total']:.1f} s: {parts}")
    checked = [entry for entry in entries if entry.get("varying_elements") is not None]
    if checked:
        varying = [f"{entry['case']} ({entry['varying_elements']})" for entry in checked if entry["varying_elements"]]
        lines.append(
            f"launched twice on the same data: {counted(len(varying), 'case')} of {len(checked)} differ in some bits"
            + (f" (elements): {', '.join(varying)}" if varying else "")
        )
    verdicts = [Verdict(entry["verdict"]) for entry in entries]
    lines.append(f"{counted(len(entries), 'case')} on {session.device.slug}: {counts(verdicts)}")
    if partial is not None:
        lines.append(f"partial run: {partial}")
    return lines


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


VERDICT_FILE = "bench.json"
OTHER_BUILDS_FILE = "other_builds.json"
"""In the verdict's folder: the run file of the builds that an A/B samples in turns with the cases."""
STAGING = "bench.staged"
"""The folder in which pytest-benchmark, whose writer is not atomic, writes before its files are moved."""

FILE_SCHEME = "file://"


@dataclass(frozen=True, slots=True)
class Places:
    """Where a run's files go: its verdict's folder, the JSON that was asked for by name, pytest-benchmark's storage.

    ``storage`` is None for the default, a folder of the project per GPU model; ``json`` None where none is asked for.
    """

    out: Path
    json: Path | None = None
    storage: Path | None = None

    @property
    def staging(self) -> Path:
        return self.out / STAGING

    @property
    def staged_json(self) -> Path:
        return self.staging / "run.json"

    def clear(self) -> None:
        """Remove what an earlier run left, so that nothing old can be taken for this run's: PeakgateError if not."""
        stale = [self.out / VERDICT_FILE, *([self.json] if self.json else [])]
        stale += [scratch for path in stale for scratch in path.parent.glob(f".{path.name}.*")]  # of a run killed there
        try:
            make_folder(self.out)
            for path in (*stale, self.staging):
                remove_output(path)
            make_folder(self.staging)
        except OSError as error:
            raise unwritable(Path(error.filename or self.out), error) from None

    def publish(self, default_storage: Path, *, measured: bool = True) -> list[Path]:
        """Move the staged run files to their places, whole and fsynced; where they now are.

        Where nothing was ``measured`` an empty file is none: pytest-benchmark 5.2 opens it before there is anything.
        """
        published = []
        for path in sorted(self.staging.rglob("*.json")):
            content = path.read_bytes()
            if not content and not measured:
                remove_output(path)
                continue
            if not _whole(content):
                raise PeakgateError(
                    f"{path}: the run file is not whole; free its disk and measure again with --resume", Code.UNWRITABLE
                )
            if path == self.staged_json:
                assert self.json is not None
                write_whole(self.json, content)
                published.append(self.json)
            else:
                folder = (self.storage or default_storage) / path.parent.name
                published.append(_numbered(folder, path.name, content))
            remove_output(path)
        return published

    def remove_staging(self) -> None:
        """Leave nothing but whole files behind."""
        remove_output(self.staging)


def storage_folder(given: str | None) -> Path | None:
    """The folder of a ``--benchmark-storage``; PeakgateError for a place that is none."""
    if given is None:
        return None
    if "://" in given and not given.startswith(FILE_SCHEME):
        raise PeakgateError(
            f"--benchmark-storage={given}: runs are saved as files; expected a folder or file://FOLDER", Code.OPTION
        )
    return Path(given.removeprefix(FILE_SCHEME)).absolute()


def write_verdict(
    out: Path, verdict: Mapping[str, Any], baselines: Path, cases: Path | None, saved: Sequence[Path]
) -> None:
    """Write the verdict with the sha256 of every file that it rests on: floors, cases asked for, saved runs.

    ``verdict`` has the exit code as ``code``.
    """
    slug = str(verdict["device"])
    files = [baselines / slug / "floors.toml", *([cases] if cases else []), *saved]
    digests = {str(near(path.absolute())): file_digest(path) for path in files}
    write_json(report({**verdict, "files": digests}), out / VERDICT_FILE)


def report(verdict: Mapping[str, Any]) -> Report:
    """The report of a run; ``verdict`` has its exit code as ``code`` besides the fields of the document."""
    fields = {name: value for name, value in verdict.items() if name != "code"}
    return Report("bench", ExitCode(verdict["code"]), fields=fields)


def _whole(content: bytes) -> bool:
    try:
        records.decode(content, dict[str, Any], Path(VERDICT_FILE), "")
    except PeakgateError:
        return False
    return True


def _numbered(folder: Path, name: str, content: bytes) -> Path:
    """Save a run under the next number of the folder, as pytest-benchmark counts; never over another run."""
    rest = name.partition("_")[2]
    while True:
        taken = [int(path.name[:4]) for path in folder.glob("[0-9][0-9][0-9][0-9]_*.json")]
        path = folder / f"{max(taken, default=0) + 1:04}_{rest}"
        if write_new(path, content):
            return path
