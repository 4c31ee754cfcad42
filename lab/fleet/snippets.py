"""Run the snippets of the fleet's page with stand-ins: ``python -m lab.fleet.snippets OUT.json``.

They are taken from ``docs/how-to/fleet.md`` as they are, but for numbers of workers and the device, which is the
emulator. Of SSH the commands run on this machine without ``ssh NODE``; of Slurm the script runs with the jobs of
dask-jobqueue's ``LocalCluster``, which are processes, and the job script of the real class is looked at; of Kubernetes
the manifest is held to the operator's schema. Needs dask-jobqueue, dask-kubernetes and jsonschema too.
"""

from __future__ import annotations

import argparse
import importlib.resources
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # PyYAML ships no type information

from lab.pages import ROOT
from peakgate.base.errors import PeakgateError, refused
from peakgate.base.files import write_whole
from peakgate.base.processes import end_group
from peakgate.base.text import say
from peakgate.base.verdict import ExitCode
from peakgate.fleet.store import newest

PAGE = ROOT / "docs" / "how-to" / "fleet.md"
ON_EMULATOR = ["--device", "cpu", "--out", "out"]
WORKERS_ON_PAGE, WORKERS = "125", "2"
LIMIT_S = 300.0
BENCH = """\
def bench_sum(gpu_benchmark):
    x = gpu_benchmark.xp.ones(1024, "float32")
    gpu_benchmark(lambda x: x + x, x)
"""
STAND_IN = """\
import dask_jobqueue
from dask_jobqueue.local import LocalCluster
dask_jobqueue.SLURMCluster = LocalCluster
"""
JOB_SCRIPT = """\
from dask_jobqueue import SLURMCluster
with SLURMCluster({arguments}) as cluster:
    print(cluster.job_script())
"""
Json = dict[str, Any]


def snippet(language: str, word: str) -> str:
    """The first block of the page in this language that has the word."""
    blocks = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return str(next(block for block in blocks if word in block))


def project(folder: Path) -> Path:
    """A project with one benchmark test."""
    (folder / "benchmarks").mkdir(parents=True)
    (folder / "benchmarks" / "bench_sum.py").write_text(BENCH, encoding="utf-8")
    (folder / "peakgate.toml").write_text('benchmarks = ["benchmarks"]\n', encoding="utf-8")
    return folder


def outcome(folder: Path, code: int) -> Json:
    """What became of the gates of a fleet; a PeakgateError where not all were measured."""
    outcomes = [gate["outcome"] for gate in newest(folder / "out" / "fleet").gates()]
    if outcomes != ["measured"] * int(WORKERS):
        raise PeakgateError(f"snippets: expected {WORKERS} measured gates, given {outcomes}")
    return {"gates": len(outcomes), "exit_code": code}


def ssh(folder: Path) -> Json:
    """The commands of the block for SSH, on this machine."""
    written = (line.partition("#")[0].split() for line in snippet("sh", "dask scheduler").splitlines())
    lines = [line for line in written if line]
    port, started = "18786", []
    here = {"head": "127.0.0.1", "8786": port, WORKERS_ON_PAGE: WORKERS}
    local = [[re.sub("|".join(here), lambda found: here[found[0]], word) for word in line] for line in lines]
    scheduler, worker, fleet = (line[2:] if line[0] == "ssh" else line for line in local)
    try:
        for command in (scheduler, worker, worker):
            threads = [WORKERS if word == "8" else word for word in command]
            started.append(subprocess.Popen(threads, cwd=folder, stderr=subprocess.DEVNULL, start_new_session=True))
            time.sleep(2.0)
        code = subprocess.run([*fleet, *ON_EMULATOR], cwd=folder, timeout=LIMIT_S, check=False).returncode
    finally:
        for process in reversed(started):
            end_group(process)
    return {"ran": [shlex.join(line) for line in lines], **outcome(folder, code)}


def slurm(folder: Path) -> Json:
    """The block for Slurm with local jobs, and the script that the real class would submit."""
    text = snippet("python", "SLURMCluster").replace(WORKERS_ON_PAGE, WORKERS).replace("cores=8", "cores=1")
    text = text.replace("run(fleet)", f"run([*fleet, *{ON_EMULATOR}])")
    code = subprocess.run([sys.executable, "-c", STAND_IN + text], cwd=folder, timeout=LIMIT_S, check=False).returncode
    arguments = re.search(r"SLURMCluster\((.*?)\) as", snippet("python", "SLURMCluster"), re.DOTALL)
    assert arguments is not None
    asked = [sys.executable, "-c", JOB_SCRIPT.format(arguments=arguments[1])]
    script = subprocess.run(asked, cwd=folder, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S, check=True).stdout
    directives = [line for line in script.splitlines() if line.startswith("#SBATCH")]
    for wanted in ("--exclusive", "--gpus-per-node=8", "-t 00:30:00"):
        if not any(wanted in line for line in directives):
            raise PeakgateError(f"snippets: the job script has no {wanted}: {directives}")
    return {"dask-jobqueue": version("dask-jobqueue"), "directives": directives, **outcome(folder, code)}


def kubernetes(_: Path) -> Json:
    """The manifest against the operator's schema, in which no field may be unknown."""
    import jsonschema  # type: ignore[import-untyped]  # noqa: PLC0415  (only this part needs it)

    charts = importlib.resources.files("dask_kubernetes") / "operator" / "deployment" / "helm"
    definition = yaml.safe_load((charts / "dask-kubernetes-operator/crds/daskcluster.yaml").read_text(encoding="utf-8"))
    manifest = yaml.safe_load(snippet("yaml", "DaskCluster"))
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    problems = [error.message for error in jsonschema.Draft7Validator(_closed(schema)).iter_errors(manifest)]
    if problems or manifest["kind"] != definition["spec"]["names"]["kind"]:
        raise PeakgateError(f"snippets: the manifest does not fit: {problems}")
    return {"dask-kubernetes": version("dask-kubernetes"), "problems": problems}


def _closed(schema: Any, top: bool = True) -> Any:
    """The schema without room for fields that it does not name; the API server checks the outermost."""
    if isinstance(schema, list):
        return [_closed(each, top=False) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _closed(value, top=False) for name, value in schema.items()}
    named = isinstance(schema.get("properties"), dict) and schema.get("type") == "object"
    return found | ({"additionalProperties": False} if named and not top else {})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run them and write the record; 2 where one does not do what the page says."""
    parser = argparse.ArgumentParser(prog="python -m lab.fleet.snippets", description=__doc__)
    parser.add_argument("record", type=Path)
    record = parser.parse_args(arguments).record
    bin_folder = str(Path(sys.executable).parent)
    os.environ["PATH"] = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
    found: Json = {}
    try:
        for part in (kubernetes, ssh, slurm):
            with tempfile.TemporaryDirectory() as scratch:
                found[part.__name__] = part(project(Path(scratch, "project")))
            say(f"{part.__name__}: {json.dumps(found[part.__name__])}\n")
    except PeakgateError as error:
        return refused(error)
    write_whole(record, json.dumps(found, indent=1) + "\n")
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
