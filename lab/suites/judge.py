"""Judge a suite: ``python -m lab.suites.judge SUITE CHECKOUT`` fills SUITE.json beside this file.

SUITE is ``scor``, ``indigo`` or ``gpuverify``, CHECKOUT the repository at the commit that README.md names; none of its
code is kept here. What the record has judged is not run again, what it has refused is; ``--again`` runs everything.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab.pages import read_json
from lab.suites import selection
from lab.suites.program import Outcome, launch_of, outcome
from peakgate.base.files import a_line_each, write_whole
from peakgate_emulator.sources import kernels, source_text

HERE = Path(__file__).resolve().parent
COMMITS = {
    "scor": "csl-iisc/ScoR at 6dc3507ecc419aac6ea3a49ec746b610d5029219",
    "indigo": "burtscher/Indigo3Suite at f351177756f76c7836b8a81bb04fcdd1286eaedc",
    "gpuverify": "mc-imperial/gpuverify at 49219770aad01231edd0d8e0fa3ed036006cf32a",
}
CONTRACT = (
    *((f"__{word}(e)", "do { if (!(e)) return; } while (0)") for word in ("requires", "global_requires", "assume")),
    ("__assert(e)", "assert(e)"),
    *((f"__{word}(...)", "((void)0)") for word in ("invariant", "global_invariant", "ensures", "global_ensures")),
    *((f"__{word}(...)", "((void)0)") for word in ("requires_fresh_array", "ensures_fresh_array")),
    ("__axiom(...)", ""),
    ("__enabled()", "true"),
    ("__implies(a, b)", "(!(a) || (b))"),
    *((f"__{word}(e)", "(e)") for word in ("all", "other_int", "other_bool")),
    *((f"__{word}(...)", "true") for word in ("no_read", "no_write", "read", "write", "read_implies", "write_implies")),
    *((f"__{word}(...)", "true") for word in ("distinct_int", "uniform_int", "uniform_bool", "at_most_one")),
    *((f"__{word}(...)", "0") for word in ("ptr_offset_bytes", "read_offset_bytes", "write_offset_bytes")),
)
"""GPUVerify's words for contracts in a launch: a thread for which what is required does not hold returns."""

Judged = tuple[str, bool, Callable[[], Outcome]]


def programs(suite: str, root: Path) -> Iterator[Judged]:
    """Name, label and judgement of each program of a suite."""
    if suite == "gpuverify":
        for test, defective in selection.gpuverify(root):
            if defective is not None:
                yield str(test.parent.relative_to(root / "testsuite" / "CUDA")), defective, _launcher(test)
        return
    for program in (selection.scor_applications if suite == "scor" else selection.indigo)(root):
        yield program.name, program.defective, _runner(program)


def _runner(program: selection.Program) -> Callable[[], Outcome]:
    return lambda: outcome(
        program.host, program.kernels, program.runs, defines=program.defines, include=program.include
    )


def _launcher(test: Path) -> Callable[[], Outcome]:
    text = source_text(test)
    options = " ".join(re.findall(r"^//(--.*)$", text, re.MULTILINE))
    defines = tuple((name, value) for name, value in re.findall(r"-D(\w+)=(\w+)", options))
    shapes = [_shape(options, f"{name}Dim") for name in ("grid", "block")]
    (kernel,) = kernels(text)[:1] or [""]
    launch = launch_of(kernel, f"dim3({shapes[0]}), dim3({shapes[1]})")
    lines = [f"{launch}.with({value});".replace("blockDim.x", shapes[1].split(",")[0]) for value in selection.VALUES]
    more = "\n".join(["int main() {", *lines, "return 0;", "}"])
    return lambda: outcome(test, test, (((), ""),), defines=(*defines, *CONTRACT), more=more)


def _shape(options: str, name: str) -> str:
    found = re.search(rf"--{name}=\[?([\d,]+)\]?", options)
    return found[1] if found else "1"


def main() -> None:
    """Write the record of a suite."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", choices=COMMITS)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--again", action="store_true", help="run what the record has already, too")
    parser.add_argument("--only", default="", help="programs whose names contain this")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    record = HERE / f"{options.suite}.json"
    known = read_json(record)["programs"] if record.exists() else {}
    todo = [
        (name, defective, judge)
        for name, defective, judge in programs(options.suite, options.checkout.resolve())
        if options.only in name and (options.again or "refused" in known.get(name, {"refused": ""}))
    ]
    head = {"repository": COMMITS[options.suite]}
    with ThreadPoolExecutor(options.jobs) as pool:
        for (name, defective, _), found in zip(todo, pool.map(lambda each: each[2](), todo), strict=True):
            entry = {"label": "defective" if defective else "sound", "reported": list(found.kinds)}
            known[name] = {**entry, **{key: value for key in ("first", "refused") if (value := getattr(found, key))}}
            write_whole(record, a_line_each(head, "programs", dict(sorted(known.items()))))


if __name__ == "__main__":
    main()
