"""An all-reduce, an all-gather and a copy between GPUs of this host: times, floors, an ``ab``, as a record.

    python -m lab.links.measure OUT.json [COUNT]
    python -m lab.links.measure --page

COUNT GPUs, by default 2, that nothing else uses. In a project of its own five runs set floors and a sixth is judged by
them; then ``ab`` compares a commit whose all-reduce does its work twice with the one before it. ``--page`` fills the
table of the page from RECORD.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from lab.pages import fill_page, percent, read_json, table
from peakgate.callables.settings import too_few
from peakgate.device.driver import gpu_count, gpu_name, gpu_uuid, slug

BENCH = Path(__file__).parents[2] / "tests" / "data" / "links" / "bench_links.py"
RECORD = Path(__file__).with_name("h200-2.json")
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "several-gpus.md"
ONCE = "    communicator.allReduce(*arrays, nccl.NCCL_SUM, stream)\n"
SESSIONS = 5
FIELDS = (
    *("gpus", "verdict", "reason", "time_us", "median_interval_us", "gbs", "peak_fraction", "bound", "floor"),
    *("bytes", "relative_error", "timed_launches_checked", "samples", "discarded", "sampling"),
)


def called(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A command in the project, shown."""
    sys.stderr.write(f"+ {' '.join(command)}\n")
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def peakgate(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of Peakgate, with what it prints at its end where it fails."""
    done = called(folder, sys.executable, "-m", "peakgate", *arguments)
    if done.returncode:
        sys.stderr.write(f"exit {done.returncode}: {(done.stdout + done.stderr)[-2000:]}\n")
    return done


def committed(folder: Path, text: str) -> None:
    """A commit of the project with this benchmark file."""
    (folder / BENCH.name).write_text(text, encoding="utf-8")
    called(folder, "git", "add", BENCH.name, "peakgate.toml")
    called(folder, "git", "-c", "user.name=lab", "-c", "user.email=lab@localhost", "commit", "-m", "Change the links")


def run(folder: Path, *device: str) -> dict[str, Any]:
    """The cases of one run and its machine."""
    done = peakgate(folder, "bench", *device, "--benchmark-json=run.json")
    saved = read_json(folder / "run.json")
    gpu = saved["machine_info"]["gpu"]
    return {
        "exit_code": done.returncode,
        "driver": gpu["driver"],
        "peak_nvlink_gbs": gpu["peak_nvlink_gbs"],
        "cases": {
            each["extra_info"]["case"]: {field: each["extra_info"][field] for field in FIELDS}
            for each in saved["benchmarks"]
        },
        "not_measured": saved["peakgate"]["not_measured"],
    }


def main(out: Path, count: int) -> None:
    """Measure, and write the record after each step."""
    if (lacking := too_few(count, gpu_count(), gpu_count())) is not None:
        raise SystemExit(lacking)
    chosen = [f"--device=gpu:{','.join(map(str, range(count)))}", "-k", f"{count}gpu"]
    record: dict[str, Any] = {"gpu": gpu_name(0), "uuids": [gpu_uuid(index) for index in range(count)], "runs": []}
    with tempfile.TemporaryDirectory(prefix="peakgate-links-") as scratch:
        folder, model = Path(scratch), slug(gpu_name(0))
        (folder / "peakgate.toml").write_text(f'benchmarks = ["{BENCH.name}"]\n', encoding="utf-8")
        called(folder, "git", "init")
        committed(folder, BENCH.read_text(encoding="utf-8"))
        for _ in range(SESSIONS):
            record["runs"].append(run(folder, *chosen))
            out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        peakgate(folder, "floors", f".benchmarks/{model}", "--write")
        floors = folder / "baselines" / model / "floors.toml"
        record["floors"] = floors.read_text(encoding="utf-8") if floors.is_file() else None
        record["judged"] = run(folder, *chosen)
        out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        committed(folder, BENCH.read_text(encoding="utf-8").replace(ONCE, 2 * ONCE))
        compared = peakgate(folder, "ab", *chosen, "--pairs=4", "--confirm-pairs=4", "--json", "HEAD~1", "HEAD")
        record["ab"] = json.loads(compared.stdout) if compared.stdout.startswith("{") else compared.stderr[-2000:]
        out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        if floors.is_file():
            shutil.copy(floors, out.with_suffix(".floors.toml"))


def page(record: dict[str, Any]) -> str:
    """A row for each case: its times in the first runs, the last of them judged, and what `ab` said of it."""
    said = {row["case"]: row for row in record["ab"]["rows"]}
    rows = []
    for case, judged in record["judged"]["cases"].items():
        times_us = [run["cases"][case]["time_us"] for run in record["runs"]]
        rows.append(
            (
                case.partition(".")[2],
                f"{min(times_us):.1f} to {max(times_us):.1f}",
                f"{judged['gbs']:.0f}",
                percent(judged["peak_fraction"]),
                "" if judged["floor"] is None else percent(judged["floor"]),
                judged["verdict"],
                said[case]["change"] if said[case]["verdict"] in {"SLOWER", "FASTER"} else said[case]["verdict"],
            )
        )
    return table(("case", "µs in five runs", "GB/s", "of the peak", "floor", "a sixth run", "`ab`"), rows)


if __name__ == "__main__":
    if sys.argv[1] == "--page":
        fill_page(PAGE, {"links": page(read_json(RECORD))})
    else:
        main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2)
