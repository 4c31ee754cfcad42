"""Which programs of the labelled suites are judged, with what labels and inputs; README.md says why.

Pure: it looks at names and sources of checked-out repositories, never at what the emulator reports.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

ALGORITHMS = ("BFS", "CC", "MIS", "MST", "PR", "SSSP", "TC")
OF_EACH = 40
"""Codes of each of Indigo3's algorithms that are sound, and as many that are defective."""
IN_ACCESSES = {"RaceBug", "SyncBug", "BoundsBug", "NbrBoundsBug", "NborBoundsBug", "ExcessThreadsBug"}
"""Indigo3's defects of an access or a barrier; the others show in values only."""
GRAPHS = ("undirected_graph_4n_10e_1791.egr", "undirect2dim_rand_torus_100n_400e.egr")
APPLICATIONS = {
    "1dconv": ("5 600", 605),
    "graph-coloring": ("128 256", 0),
    "graph-connectivity": ("128 256", 0),
    "matrix-multiplication": ("8 8 8", 128),
    "reduction": ("5000", 5000),
    "rule-110": ("512 4", 512),
    "uts": ("4 3 7", 0),
}
"""The first words of the standard input of ScoR's applications, and how many numbers follow; else edges of a graph."""
SCOR_SHAPE = (("NBLOCKS", "8"), ("NTHREADS", "64"))
VALUES = ("blockDim.x", "1", "0")
"""Values tried for the integer parameters of GPUVerify's kernels."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program with its label; ``runs`` are the command lines and standard inputs that it is given in turn."""

    name: str
    defective: bool
    host: Path
    kernels: Path
    defines: tuple[tuple[str, str], ...]
    include: tuple[Path, ...]
    runs: tuple[tuple[tuple[str, ...], str], ...]


def scor_applications(root: Path) -> Iterator[Program]:
    """Every application of ScoR, as its Makefile builds it: as it is, and with RACEY."""
    for name, (words, numbers) in APPLICATIONS.items():
        folder = root / "benchmarks" / name
        (host,) = folder.glob("*_main.cu")
        (kernels,) = folder.glob("*_kernel.cu")
        given = " ".join([words, *(str(each) for each in _numbers(words, numbers))])
        for defective in (False, True):
            yield Program(
                f"{name}-racey" if defective else name,
                defective,
                host,
                kernels,
                (*SCOR_SHAPE, *((("RACEY", "1"),) if defective else ())),
                (folder,),
                (((), given),),
            )


def indigo(root: Path) -> Iterator[Program]:
    """Of each algorithm the first sound and defective CUDA codes by the SHA-256 of their names.

    ``root`` has them in ``generatedCodes``, generated with ``bug: {all}`` and else as configured. Sound is a code whose
    every tag of a defect is a ``No...Bug``, defective one with a single defect, which is one of an access or a barrier.
    """
    for algorithm in ALGORITHMS:
        codes = sorted((root / "generatedCodes" / "CUDA" / f"{algorithm}-CUDA").glob("*.cu"), key=_digest)
        for defective in (False, True):
            wanted = (code for code in codes if indigo_label(code.stem) is defective)
            for code in islice(wanted, OF_EACH):
                needs_source = algorithm in ("BFS", "SSSP")
                runs = tuple(
                    ((str(root / "inputs" / graph), "1", *(("0",) if needs_source else ())), "") for graph in GRAPHS
                )
                yield Program(code.stem, defective, code, code, (), (root / "lib",), runs)


def indigo_label(name: str) -> bool | None:
    """Whether a code is defective by its name; None where it is neither sound nor of a single defect in accesses."""
    defects = [tag for tag in name.split("_") if re.fullmatch(r"(?!No)\w*Bug\d*", tag)]
    if not defects:
        return False
    return True if len(defects) == 1 and defects[0] in IN_ACCESSES else None


def gpuverify(root: Path) -> Iterator[tuple[Path, bool | None]]:
    """Every CUDA test and its label by its first line; None where its tool, not its code, is what is tested."""
    for test in sorted((root / "testsuite" / "CUDA").rglob("kernel.cu")):
        first = test.read_text(encoding="utf-8", errors="replace").partition("\n")[0].strip()
        yield test, {"//pass": False, "//xfail:NOT_ALL_VERIFIED": True}.get(first)


def _digest(code: Path) -> str:
    return hashlib.sha256(code.name.encode()).hexdigest()


def _numbers(words: str, count: int) -> Iterable[int]:
    """Small numbers, or the edges of a ring with chords, each with its smaller end first."""
    if count:
        return ((7 * place + 3) % 2 for place in range(count))
    if len(words.split()) == 3:
        return ()
    vertices, edges = map(int, words.split())
    ends = [sorted((place % vertices, (place + 1 + place // vertices * 5) % vertices)) for place in range(edges)]
    return [end for pair in ends for end in pair]
