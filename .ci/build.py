"""Make the source archive and the wheel of this tree twice and check them: ``nox -s build -- [FOLDER]``, else in dist.

Both builds must be equal byte for byte. Times are those of the commit, owners and modes are set, and the wheel is built
from the source archive, so that neither the checkout, its umask nor the day is in the files.
"""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LARGEST_MB = {"*.tar.gz": 3, "*.whl": 2}
"""Sizes beyond which a file has taken in records or tests."""
ENVIRONMENTS = ("reports", "cuda13", "cuda12")
"""Files of requirements/ with which the wheel is installed, each listed in CycloneDX's form."""
BUILD = "from setuptools.build_meta import build_{kind} as make; make({folder!r})"


def main(folder: Path) -> None:
    """Write both files into ``folder``, and lists of what the wheel's environments have into ``folder/sbom``."""
    time = os.environ.setdefault("SOURCE_DATE_EPOCH", _run("git", "log", "-1", "--format=%ct").strip())
    os.umask(0o022)
    first, second = (_built(int(time)) for _ in range(2))
    if first != second:
        names = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
        raise SystemExit(f"two builds of the same tree differ: {', '.join(names)}")
    folder.mkdir(parents=True, exist_ok=True)
    for kind in LARGEST_MB:
        for old in folder.glob(f"peakgate-{kind}"):
            old.unlink()
    for name, content in first.items():
        (folder / name).write_bytes(content)
        print(f"{folder / name}: {len(content) / 1e6:.2f} MB, twice the same bytes")  # noqa: T201
    _check(*(next(folder.glob(f"peakgate-{kind}")) for kind in LARGEST_MB))
    for name in ENVIRONMENTS:
        _list_components(name, folder / "sbom" / f"{name}.cdx.json")


def _built(time: int) -> dict[str, bytes]:
    """The source archive of this tree and the wheel of that archive, by name."""
    with tempfile.TemporaryDirectory() as scratch:
        made, unpacked = Path(scratch, "made"), Path(scratch, "unpacked")
        made.mkdir()
        shutil.rmtree(ROOT / "src" / "peakgate.egg-info", ignore_errors=True)  # may list an older tree's
        _run(sys.executable, "-c", BUILD.format(kind="sdist", folder=str(made)))
        shutil.rmtree(ROOT / "src" / "peakgate.egg-info")
        (archive,) = made.glob("*.tar.gz")
        archive.write_bytes(normalised(archive, time))
        unpacked.mkdir()
        _run("tar", "--extract", "--gzip", "--no-same-owner", "--file", str(archive), "--directory", str(unpacked))
        (source,) = unpacked.iterdir()
        _run(sys.executable, "-c", BUILD.format(kind="wheel", folder=str(made)), cwd=source)
        return {path.name: path.read_bytes() for path in sorted(made.iterdir())}


def normalised(archive: Path, time: int) -> bytes:
    """The same files in the order of their names, without owners, times and the modes of a checkout."""
    with tempfile.TemporaryFile() as written:
        with (
            tarfile.open(archive) as old,
            gzip.GzipFile(filename="", fileobj=written, mode="wb", mtime=time) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
        ):
            for entry in sorted(old.getmembers(), key=lambda each: each.name):
                plain = tarfile.TarInfo(entry.name)
                plain.type, plain.size, plain.linkname, plain.mtime = entry.type, entry.size, entry.linkname, time
                plain.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
                new.addfile(plain, old.extractfile(entry) if entry.isreg() else None)
        written.seek(0)
        return written.read()


def _check(archive: Path, wheel: Path) -> None:
    """Fail on what an index would refuse, on files that belong in neither, and on sizes beyond the limits."""
    for file, largest in zip((archive, wheel), LARGEST_MB.values(), strict=True):
        if (size := file.stat().st_size / 1e6) > largest:
            raise SystemExit(f"{file}: {size:.2f} MB, expected at most {largest} MB; see MANIFEST.in")
    _run(sys.executable, "-m", "twine", "check", "--strict", str(archive), str(wheel))
    _run("check-wheel-contents", str(wheel))
    # The project gives neither an address of a person nor that of one of its copies.
    _run("pyroma", "--min=10", "--skip-tests=AuthorEmail,Url", str(archive))


def _list_components(name: str, file: Path) -> None:
    """Write which packages an environment has, by version and hash (a software bill of materials)."""
    file.parent.mkdir(exist_ok=True)
    written = ("--output-reproducible", "--output-file", str(file))
    _run("cyclonedx-py", "requirements", "--pyproject", "pyproject.toml", *written, f"requirements/{name}.txt")


def _run(*command: str, cwd: Path = ROOT) -> str:
    """Standard output of a command; all that a command printed that failed."""
    done = subprocess.run(command, cwd=cwd, text=True, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"{done.stdout}{done.stderr}{command[0]} ended with {done.returncode}")
    return done.stdout


if __name__ == "__main__":
    main(Path(*sys.argv[1:2] or ["dist"]))
