"""``python -m lab.foreign.selection FOLDER...``: which kernels of checked-out repositories are tried, as JSON.

Each folder is named ``owner+repository``. The rule was written before a kernel of these repositories had run:

1. Files ``*.cu`` and ``*.cuh`` of at most 200 kB in which every include is the repository's (beside the file, in a
   folder above it, or in an ``include``, ``inc``, ``common`` or ``src`` of one), CUDA's, or the C or C++ library's.
   Others need a library besides and are counted.
2. Every kernel that is defined there, but for templates with a pack of parameters or one that is a template itself.
   Kernels of equal text, but for blanks and comments, count once, the first by path.
3. Of each repository the first 16 by the SHA-256 of ``repository/path:kernel``.
4. Further ones, after that list had been tried, many of which are no programs: of each repository the first 8 that the
   list lacks and that CUDA's own compiler takes (nvcc 13.4, ``-ptx -arch=sm_90 -std=c++17 -rdc=true``, the folders of
   rule 1 as include, templates instantiated). ``chosen.json`` has what it refused too, with its error.

In the list of chosen kernels 28 words are none: the rule took `__launch_bounds__`, `__cluster_dims__` or `main` for a
kernel's name. It no longer does; the list stays as it was tried.

A template is instantiated with ``float`` for each type, ``true`` for each bool and 16 for any other value.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from peakgate.base.errors import PeakgateError
from peakgate.compile.compilers import nvrtc_headers
from peakgate_emulator.headers import cuda_folders, emulator_headers
from peakgate_emulator.sources import masked, source_text

PER_REPOSITORY = 16
FURTHER = 40
"""Behind these, by the same order: the ones that rule 4 looks at."""
MAX_BYTES = 200_000
SHARED_FOLDERS = ("include", "inc", "common", "src")

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)
_KERNEL = re.compile(
    r"(?:template\s*<(?P<parameters>[^;{}]*?)>\s*)?(?:extern\s*\"?\s*C?\s*\"?\s*)?(?:static\s+|inline\s+)*__global__\s+"
    r"(?:(?:__launch_bounds__|__maxnreg__|__cluster_dims__|__attribute__)\s*\((?:[^()]|\([^()]*\))*\)\s*|[\w:]+\s+)*?"
    r"(?P<name>(?!__launch_bounds__|__maxnreg__|__cluster_dims__|main\b)\w+)\s*\((?P<arguments>[^;{}]*)\)\s*\{",
    re.DOTALL,
)
_LIBRARY = {
    *(
        "iostream",
        "cstdio",
        "cstdlib",
        "cmath",
        "cstring",
        "cstdint",
        "cassert",
        "climits",
        "cfloat",
        "cstddef",
        "ctime",
    ),
    *("algorithm", "numeric", "vector", "string", "limits", "type_traits", "utility", "tuple", "array", "functional"),
    *("random", "chrono", "fstream", "sstream", "iomanip", "memory", "map", "set", "unordered_map", "initializer_list"),
    *(
        "stdio.h",
        "stdlib.h",
        "string.h",
        "math.h",
        "float.h",
        "limits.h",
        "stdint.h",
        "assert.h",
        "time.h",
        "sys/time.h",
    ),
}


@dataclass(frozen=True, slots=True)
class Chosen:
    """A kernel that is tried, with its template arguments."""

    repository: str
    file: str
    kernel: str
    entry: str


def known_headers() -> frozenset[str]:
    """Names provided by CUDA, C and C++."""
    known = {*_LIBRARY, *nvrtc_headers(), *emulator_headers()}
    for folder in cuda_folders(13):
        known |= {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    return frozenset(known)


def folders_of(file: Path, root: Path) -> list[Path]:
    """Where a file's includes may be."""
    above = [folder for folder in file.parents if folder == root or root in folder.parents]
    return [folder for each in above for folder in (each, *(each / name for name in SHARED_FOLDERS)) if folder.is_dir()]


def is_self_contained(file: Path, root: Path, known: frozenset[str]) -> bool:
    """Whether every include of a file is the repository's, CUDA's or the language's."""
    places = folders_of(file, root)
    waiting, seen = [file], {file}
    while waiting:
        path = waiting.pop()
        for name in _INCLUDE.findall(masked(source_text(path), literals=False)):
            found = next((at / name for at in (path.parent, *places) if (at / name).is_file()), None)
            if found is None and name not in known:
                return False
            if found is not None and found.resolve() not in seen:
                seen.add(found.resolve())
                waiting.append(found.resolve())
    return True


def arguments_of(parameters: str) -> str | None:
    """The arguments that a template is instantiated with; None where it takes a pack or a template."""
    if "..." in parameters or re.search(r"\btemplate\b", parameters):
        return None
    given = []
    for parameter in re.split(r",(?![^<>]*>)", parameters):
        kind = parameter.strip().partition("=")[0]
        given.append("float" if re.match(r"(?:typename|class)\b", kind) else "true" if "bool" in kind else "16")
    return ", ".join(given)


def kernels_of(file: Path) -> Iterator[tuple[str, str, str]]:
    """Name, entry and text without blanks of each kernel of a file."""
    code = masked(source_text(file), literals=False)
    for match in _KERNEL.finditer(code):
        depth, end = 0, match.end() - 1
        for end in range(match.end() - 1, len(code)):
            depth += {"{": 1, "}": -1}.get(code[end], 0)
            if depth == 0:
                break
        text = "".join(code[match.start() : end].split())
        if match["parameters"] is None:
            yield match["name"], match["name"], text
        elif (given := arguments_of(match["parameters"])) is not None:
            yield match["name"], f"{match['name']}<{given}>", text


def chosen_of(root: Path, known: frozenset[str]) -> tuple[list[Chosen], dict[str, int]]:
    """The kernels of a repository in the order of rule 3, and how many files and kernels there were."""
    repository = root.name.replace("+", "/")
    files = sorted(path for path in root.rglob("*.cu*") if path.suffix in (".cu", ".cuh") and path.is_file())
    counts = {"files": len(files), "need_another_library": 0, "kernels": 0, "distinct": 0}
    distinct: dict[str, Chosen] = {}
    for file in files:
        if file.stat().st_size > MAX_BYTES:
            continue
        try:
            if not is_self_contained(file, root, known):
                counts["need_another_library"] += 1
                continue
        except PeakgateError:
            continue
        for name, entry, text in kernels_of(file):
            counts["kernels"] += 1
            distinct.setdefault(text, Chosen(repository, file.relative_to(root).as_posix(), name, entry))
    counts["distinct"] = len(distinct)
    return sorted(distinct.values(), key=_order), counts


def _order(each: Chosen) -> str:
    return hashlib.sha256(f"{each.repository}/{each.file}:{each.kernel}".encode()).hexdigest()


def main(folders: Sequence[str]) -> None:
    """Print what is chosen."""
    known = known_headers()
    found = {Path(folder).name.replace("+", "/"): chosen_of(Path(folder), known) for folder in folders}
    tried = {name: chosen[:PER_REPOSITORY] for name, (chosen, _) in found.items()}
    counts = {name: {**numbers, "tried": len(tried[name])} for name, (_, numbers) in found.items()}
    every = [asdict(each) for chosen in tried.values() for each in chosen]
    last = PER_REPOSITORY + FURTHER
    further = [asdict(each) for chosen, _ in found.values() for each in chosen[PER_REPOSITORY:last]]
    sys.stdout.write(json.dumps({"repositories": counts, "chosen": every, "further": further}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
