"""``python -m lab.bisect.trial OUT``: a whole bisect on GPU 0 in a small repository that this module creates.

Sixteen commits of one kernel: some change only comments or documents, one does not build, some change the machine code
but not the time, and one makes the kernel about 1.6 % slower, which ``peakgate bisect`` has to name. ``--plan`` only
prints the number of comparisons and needs no GPU.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from peakgate.base.errors import PeakgateError, refused
from peakgate.base.files import write_whole
from peakgate.base.git import ask
from peakgate.base.verdict import ExitCode

CASE = "chain.chain-4194304"
FIGURES = "trial.json"
ROUNDS, SLOW_ROUNDS = 512, 520

FAMILY = '''"""out = in, after a chain of multiply-adds whose result is multiplied by zero."""

from peakgate.family import In, Out, Value, kernel

FAMILY = kernel(
    "chain.cu",
    arguments=lambda n: [Out(n), In(n), Value(n)],
    grid=lambda n: -(-n // 256),
    block=256,
    bytes=lambda n: 2 * 4 * n,
    reference=lambda xp, x: x,
    sizes=[1 << 22],
)
'''

KERNEL = """// {comment}
extern "C" __global__ void chain(float *out, const float *in, int n)
{{
    const int {index} = blockIdx.x * blockDim.x + threadIdx.x;
    if ({index} >= n) {{
        return;
    }}
    const float value = in[{index}];
    float x = value;
#pragma unroll 8
    for (int round = 0; round < {rounds}; ++round) {{
        x = x * {factor}f + {term}f{broken}
    }}
    out[{index}] = value + 0.0f * x;
}}
"""


@dataclass(frozen=True)
class Version:
    """The kernel in one commit."""

    comment: str = "a chain of multiply-adds"
    index: str = "i"
    rounds: int = ROUNDS
    factor: str = "0.5"
    term: str = "0.25"
    broken: str = ";"


VERSIONS: tuple[tuple[str, Version], ...] = (
    ("A kernel", Version()),
    ("Document it", Version()),
    ("A clearer comment", Version(comment="out = in, behind a chain of multiply-adds")),
    ("Another factor", Version(factor="0.625")),
    ("Document the factor", Version(factor="0.625")),
    ("Forget a semicolon", Version(factor="0.625", broken="")),
    ("Write the semicolon, rename the index", Version(factor="0.625", index="at")),
    ("Another term", Version(factor="0.625", index="at", term="0.375")),
    ("A comment on the term", Version("the term is three eighths", "at", ROUNDS, "0.625", "0.375")),
    ("A smaller factor", Version("the term is three eighths", "at", ROUNDS, "0.4375", "0.375")),
    ("More rounds", Version("the term is three eighths", "at", SLOW_ROUNDS, "0.4375", "0.375")),
    ("Explain the rounds", Version("as many rounds as are needed", "at", SLOW_ROUNDS, "0.4375", "0.375")),
    ("Document the rounds", Version("as many rounds as are needed", "at", SLOW_ROUNDS, "0.4375", "0.375")),
    ("A larger term", Version("as many rounds as are needed", "at", SLOW_ROUNDS, "0.4375", "0.75")),
    ("Document the term", Version("as many rounds as are needed", "at", SLOW_ROUNDS, "0.4375", "0.75")),
    ("A last comment", Version("out = in", "at", SLOW_ROUNDS, "0.4375", "0.75")),
)
"""Subject and kernel of every commit, oldest first."""

SLOW = next(at for at, (_, version) in enumerate(VERSIONS) if version.rounds == SLOW_ROUNDS)


def repository(folder: Path) -> list[str]:
    """Create the repository in an empty folder; returns its commits, oldest first."""
    family = folder / "kernels" / "chain"
    family.mkdir(parents=True)
    (folder / "peakgate.toml").write_text('kernels = "kernels"\n', encoding="utf-8")
    (folder / ".gitignore").write_text(".cache\n.peakgate\n.benchmarks\n__pycache__\n", encoding="utf-8")
    (family / "family.py").write_text(FAMILY, encoding="utf-8")
    ask(folder, "init", "--quiet")
    commits = []
    for number, (subject, version) in enumerate(VERSIONS):
        (family / "chain.cu").write_text(KERNEL.format(**vars(version)), encoding="utf-8")
        (folder / "README.md").write_text(f"A chain, version {number}.\n", encoding="utf-8")
        ask(folder, "add", "--all")
        ask(folder, "-c", "user.name=Trial", "-c", "user.email=trial@example.org", "commit", "--quiet", "-m", subject)
        commits.append(ask(folder, "rev-parse", "HEAD").decode().strip())
    return commits


def main(arguments: Sequence[str] | None = None) -> int:
    """Create the repository, bisect it, and check the answer; exit code 1 if the right commit is not named."""
    parser = argparse.ArgumentParser(prog="python -m lab.bisect.trial", description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--plan", action="store_true", help="print the number of comparisons; measure nothing")
    options = parser.parse_args(arguments)
    out = options.out.resolve()
    with tempfile.TemporaryDirectory(prefix="peakgate-trial-") as scratch:
        commits = repository(Path(scratch))
        command = [sys.executable, "-m", "peakgate", "bisect", commits[0], commits[-1], "--case", CASE]
        command += ["--out", str(out), *(("--plan",) if options.plan else ())]
        start = time.monotonic()
        code = subprocess.run(command, cwd=scratch, check=False).returncode
        seconds = time.monotonic() - start
    if options.plan:
        return code
    try:
        answer = json.loads((out / "bisect" / "bisect.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return refused(PeakgateError(f"bisect exited {code} without an answer ({error}); see its message above"))
    right = code == ExitCode.REGRESSION and answer["suspects"] == [commits[SLOW]]
    facts = {"right": right, "exit_code": code, "seconds": round(seconds, 1), "injected": VERSIONS[SLOW][0]}
    facts |= {key: answer[key] for key in ("border", "ends", "history", "steps")}
    write_whole(out / FIGURES, json.dumps(facts, indent=1) + "\n")
    sys.stdout.write(f"{'right' if right else 'WRONG'}: {json.dumps(facts)}\n")
    return ExitCode.OK if right else ExitCode.REGRESSION


if __name__ == "__main__":
    sys.exit(main())
