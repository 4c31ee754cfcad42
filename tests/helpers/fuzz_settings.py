"""Readers of what people and commands commit: floors, acknowledgements, waivers, settings, families, baselines."""

from __future__ import annotations

import json
import sys
from contextlib import chdir
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import digests
import fuzz_mutate as mutate
from fuzz_calls import Finding, call, verb
from fuzz_runs import TIMES_US
from synthetic_runs import document

from lab.injected import mutants
from peakgate.base import config
from peakgate.base.verdict import ExitCode
from peakgate.case import Scale
from peakgate.inspect.resources import baseline
from peakgate.inspect.resources.baseline import compare as compare_resources
from peakgate.judge import acknowledged, waivers
from peakgate.judge.floors import load_floors
from peakgate.spec import catalogue

HONEST: dict[str, Any] = {}


FLOORS = 'schema = 1\ngpu = "nvidia-h200"\n\n[floors]\n"a.fast-1" = 0.2 # 5 runs\n"a.slow-2" = 0.7\n"b.c" = 1\n'


def floors_read(folder: Path, data: bytes) -> int:
    path = folder / "floors.toml"
    path.write_bytes(data)

    def read() -> None:
        floors = load_floors(path, gpu="nvidia-h200")
        if not all(0 < floor <= 1 for floor in floors.by_case.values()) or floors.gpu != "nvidia-h200":
            raise Finding(f"floors {floors.by_case} of {floors.gpu}")

    return call(read).code


def floors_revised(folder: Path, data: bytes) -> int:
    """``floors --write`` on a hostile floors.toml: refused, or what is there afterwards is read."""
    path = folder / "baselines" / "nvidia-h200" / "floors.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    runs = folder / "five"
    if not runs.exists():
        runs.mkdir()
        for day in range(1, 6):
            (runs / f"{day}.json").write_text(json.dumps(document(TIMES_US, day=day)))
    path.write_bytes(data)
    with chdir(folder):
        found = verb("floors", runs, "--write")
    if found.code == ExitCode.OK:
        load_floors(path, gpu="nvidia-h200")
    return found.code


ACKNOWLEDGED = """schema = 1

[[acknowledged]]
case = "a.fast-1"
from = 0.7
to = 0.65
reason = "why"
expires = 2027-02-01

[[acknowledged]]
run = "20261121T134026-gate.json"
from = "blob"
to = "none"
reason = "why"
expires = 2027-03-01
"""


def acknowledgements_read(folder: Path, data: bytes) -> int:
    path, today = folder / acknowledged.ACKNOWLEDGED_FILE, date(2027, 1, 1)
    path.write_bytes(data)

    def read() -> None:
        for each in acknowledged.load(path, "nvidia-h200", today):
            if not today <= date.fromisoformat(each.expires) <= today + acknowledged.LONGEST_ACKNOWLEDGED:
                raise Finding(f"an acknowledgement until {each.expires}")

    return call(read).code


WAIVERS = "\n".join(
    f'[[survivor]]\nfile = "a/{name}.cu"\nline = "if (i < n)"\nchange = "x"\noccurrence = {count}\nreason = "why"\n'
    for count, name in enumerate(("x", "y"), 1)
) + ('[[defect]]\ncommand = "check"\nkernel = "a.x"\nkind = "shared race"\nreason = "why"\nexpires = 2026-12-31\n')


def waivers_read(folder: Path, data: bytes) -> int:
    path = folder / waivers.WAIVERS_FILE
    path.write_bytes(data)

    def read() -> None:
        found = waivers.read(path)
        reasons = [*found.survivors.values(), *(waiver.reason for waiver in found.defects.values())]
        if not all(reason.strip() for reason in reasons):
            raise Finding("an entry without a reason")
        waivers.rule((), found.defects, lambda _: True, date(2026, 12, 1))

    return call(read).code


SLOWDOWNS = "\n".join(
    f'[[mutant]]\nname = "{name}"\nfile = "{name}.cu"\nreason = "why"\n[[mutant.edit]]\nold = "{name}"\nnew = "z"\n'
    for name in ("x", "y")
)


def slowdowns_read(folder: Path, data: bytes) -> int:
    path = folder / mutants.LIST.name
    path.write_bytes(data)

    def read() -> None:
        for mutant in mutants.read(path):
            mutants.mutated(mutant.edit[0].old + " and more", mutant)

    return call(read).code


PYPROJECT = """[project]
name = "x"
[tool.peakgate]
kernels = "kernels"
baselines = "baselines"
out = "out"
benchmarks = ["benchmarks"]
include = ["include"]
options = ["-DX=1"]
pythonpath = ["src"]
plugins = ["p"]
build = "make"
build_timeout_s = 60
requires = ">=0.1"
"""


def settings_read(folder: Path, data: bytes) -> int:
    project = folder / "project"
    project.mkdir(exist_ok=True)
    (project / "pyproject.toml").write_bytes(data)
    (project / "peakgate.toml").unlink(missing_ok=True)

    def read() -> None:
        found = config.find(project)
        if found is not None and found.root == project:
            catalogue.families(found)

    return call(read).code


FAMILY = """from peakgate.family import In, Out, Value, kernel
FAMILY = kernel(
    "scale.cu",
    arguments=lambda n: [Out(n), In(n), Value(n)],
    grid=lambda n: -(-n // 256),
    block=256,
    bytes=lambda n: 8 * n,
    flops=lambda n: n,
    reference=lambda xp, x: 2 * x,
    sizes=[1024],
    small_sizes=[64, 96],
    edges=[33],
    tolerance=1e-6,
    shared_bytes=0,
    defines={"X": 1},
    entry="scale",
    options=["-DX=1"],
    include=["."],
    cooperative=False,
    name="scale",
    lesson="why",
    min_capability=(7, 5),
)
"""


def family_read(folder: Path, data: bytes) -> int:
    kernels = folder / "kernels" / "scale"
    kernels.mkdir(parents=True, exist_ok=True)
    (kernels / "scale.cu").write_text("")
    path = kernels / "family.py"
    path.write_bytes(data)
    for name in [name for name in sys.modules if name.startswith("peakgate_family_")]:
        del sys.modules[name]

    def read() -> None:
        family = catalogue.family_at(path, config.current())
        for scale in Scale:
            for case in catalogue.cases(scale, listed=[family]):
                catalogue.probes(case, [family])

    return call(read).code


def digest_file(random: Random) -> bytes:
    problem = {"problem": "0123456789abcdef", "outputs": ["0" * 64, {"abs_sum": 1.5, "samples": [0.5, 1.0]}]}
    base = {"peakgate_digests": 3, "device": {"slug": "nvidia-h200"}, "problems": {"a.b": problem, "a.c": problem}}
    return mutate.document(base, random)


def digests_read(folder: Path, data: bytes) -> int:
    path = folder / "digests.json"
    path.write_bytes(data)

    def read() -> None:
        for recorded in digests.read(path).problems.values():
            if not all(isinstance(output, str | digests.SampledOutput) for output in recorded.outputs):
                raise Finding("an output that is neither a digest nor samples")
        digests.write(folder / "again.json", digests.read(path))

    return call(read).code


def resources_file(random: Random) -> bytes:
    usage = {
        "registers": 32,
        "spill_bytes": 0,
        "stack_bytes": 0,
        "static_shared_bytes": 0,
        "occupancy": {"256": [1.0, "warps"]},
    }
    kernels = {"a.b": {"sm_90": usage, "sm_80": usage}, "a.c": {"sm_90": usage}}
    return mutate.document({"schema": 1, "nvrtc": "13.0", "options": ["-O3"], "kernels": kernels}, random)


def resources_read(folder: Path, data: bytes) -> int:
    path = folder / "resources.json"
    path.write_bytes(data)

    def read() -> None:
        found = baseline.read(path)
        for text in map(str, compare_resources(found, HONEST.setdefault("resources", found))):
            if len(text.splitlines()) != 1:
                raise Finding(f"a finding of several lines: {text[:200]!r}")
        baseline.render(found)

    return call(read).code


def words(random: Random) -> bytes:
    """What is asked of the help: words of headings, codes, and whatever else."""
    known = ["settings", "PG203", "programs", "exit codes", "add a kernel", "baselines"]
    return mutate.lines(random.choice(known), random)


def help_read(_folder: Path, data: bytes) -> int:
    text = data.decode("utf-8", "surrogateescape").replace("\0", "")[:5000]
    return verb("help", "--", text.removesuffix("\n")).code
