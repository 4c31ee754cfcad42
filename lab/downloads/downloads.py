"""Downloads of an installation, by file of requirements/: packages, and megabytes of wheels for Python 3.12 on Linux.

``python -m lab.downloads.downloads`` writes the table of docs/how-to/install.md from its record; ``--measure`` loads
every wheel first, with pip, and records its size: two gigabytes.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from lab.pages import ROOT, fill_page, read_json, table
from peakgate.base.files import write_whole

RECORD = Path(__file__).with_name("downloads.json")
PAGE = ROOT / "docs" / "how-to" / "install.md"
FILES = {
    "reports": "every verb but `bench` and `ab` on a GPU",
    "fleet": "`reports`, and `fleet`",
    "cuda13": "`bench`, `ab` and the others that measure, with a driver for CUDA 13",
    "cuda12": "the same with a driver for CUDA 12",
    "nvrtc": "`resources`, and `ab --plan` without a GPU",
    "compiler": "the emulator where the machine has no C++ compiler",
    "tests": "`nox -s tests lint`",
}
"""Purpose of each file of requirements/; each holds the package's own dependencies too."""

LARGEST = 3


def measured(name: str) -> dict[str, int]:
    """Bytes of each wheel that a file of requirements/ leads to, by package; what a marker excludes is left out."""
    with tempfile.TemporaryDirectory() as folder:
        target = ("--python-version=3.12", "--only-binary=:all:")
        platforms = [
            f"--platform=manylinux{tag}_x86_64" for tag in ("_2_28", "_2_27", "_2_24", "_2_17", "2014", "_2_5", "1")
        ]
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--require-hashes",
            "--no-cache-dir",
        ]
        command += [*target, *platforms, f"--dest={folder}", f"--requirement=requirements/{name}.txt"]
        subprocess.run(command, cwd=ROOT, check=True)
        return {path.name.split("-")[0]: path.stat().st_size for path in sorted(Path(folder).iterdir())}


def page() -> dict[str, str]:
    """The block of the page."""
    rows = []
    for name, sizes in read_json(RECORD).items():
        largest = sorted(sizes, key=lambda package: -sizes[package])[:LARGEST]
        named = ", ".join(f"{re.sub('_', '-', each)} {sizes[each] / 1e6:.0f}" for each in largest)
        rows.append((f"`{name}`", FILES[name], len(sizes), f"{sum(sizes.values()) / 1e6:.0f}", named))
    return {"downloads": table(("file", "for", "packages", "MB", "the largest"), rows)}


if __name__ == "__main__":
    if "--measure" in sys.argv[1:]:
        write_whole(RECORD, json.dumps({name: measured(name) for name in FILES}, indent=1) + "\n")
    fill_page(PAGE, page())
