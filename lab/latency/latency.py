"""How long a program waits: ``python -m lab.latency.latency FILE``, with NVRTC and without a GPU.

`check` of the one kernel that `init` writes, warm, beside a Python that does nothing, each started in turn; and
`ab --plan` of 100 kernels of which no code changed, with an empty cache and again. Each as wall and as processor time,
which a busy machine changes less.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

from peakgate.base.files import write_whole

STARTS, KERNELS = 15, 100
PEAKGATE = (sys.executable, "-P", "-m", "peakgate")


def seconds(*command: str) -> tuple[float, float]:
    """Wall and processor time of a command and what it starts; it must exit with 0."""
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - begun
    return round(wall, 4), round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 4)


def git(*arguments: str) -> None:
    """Run git with a name and an address for commits."""
    someone = ("-c", "user.name=T", "-c", "user.email=t@example.org")
    subprocess.run(["git", *someone, *arguments], check=True, stdout=subprocess.DEVNULL)


def starts() -> dict[str, list[tuple[float, float]]]:
    """Seconds of each start, in turns, after one that compiles."""
    subprocess.run([*PEAKGATE, "init"], check=True, stdout=subprocess.DEVNULL)
    check = (*PEAKGATE, "check", "kernels/scale/family.py")
    seconds(*check)
    found: dict[str, list[tuple[float, float]]] = {"check_s": [], "check_json_s": [], "python_pass_s": []}
    commands = dict(zip(found, (check, (*check, "--json"), (sys.executable, "-c", "pass")), strict=True))
    for _ in range(STARTS):
        for name, command in commands.items():
            found[name].append(seconds(*command))
    return found


def plans() -> dict[str, tuple[float, float]]:
    """Seconds of a plan of kernels of which one got a comment: from an empty cache, and from a full one."""
    source, family = (Path("kernels/scale", name).read_text(encoding="utf-8") for name in ("scale.cu", "family.py"))
    for number in range(KERNELS - 1):
        folder = Path(f"kernels/k{number:03}")
        folder.mkdir()
        (folder / "scale.cu").write_text(source.replace("2.0f", f"{number + 3}.0f"), encoding="utf-8")
        (folder / "family.py").write_text(family.replace("2 * x", f"{number + 3} * x"), encoding="utf-8")
    git("init", "--quiet")
    git("add", "--all")
    git("commit", "--quiet", "--message", "one")
    with Path("kernels/k005/scale.cu").open("a", encoding="utf-8") as text:
        text.write("// a comment\n")
    git("commit", "--quiet", "--all", "--message", "two")
    os.environ["PEAKGATE_CACHE"] = str(Path("fresh").resolve())
    plan = (*PEAKGATE, "ab", "--plan", "--capability", "9.0", "HEAD~1", "HEAD")
    return {"plan_cold_s": seconds(*plan), "plan_warm_s": seconds(*plan)}


def main() -> None:
    """Measure in a new folder and write the record."""
    out = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        found = {**starts(), **plans()}
        os.chdir("/")
    processor = next(
        line for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if "model name" in line
    )
    machine = {
        "processor": processor.partition(":")[2].strip(),
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        "load_average": round(os.getloadavg()[1], 1),
    }
    document = {"machine": machine, "peakgate": metadata.version("peakgate"), "kernels": KERNELS, **found}
    write_whole(out, json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
