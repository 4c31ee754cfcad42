"""Environments of packages for the sides of an ``ab``: made of a lock file, of wheels, or of one that exists.

Each side's processes run the Python of an environment in a temporary folder: the side's packages, and links to what it
lacks of the environment that Peakgate runs in. Peakgate itself is always the one that was started.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from peakgate.core import records
from peakgate.core.errors import Code, PeakgateError
from peakgate.core.processes import end_of, run_in_group

INSTALL_LIMIT_S = 1800
LAST_LINES = 4
"""Of what the installer printed, as many as an error has."""

_OURS = re.compile(r"peakgate(-\d.*)?|__editable__.*peakgate.*")
"""The entries of a folder of packages that are Peakgate's."""

_SITE = Path("lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages")
_PACKAGES = (
    "import importlib.metadata as m, json; found = [(d.name, d.version) for d in m.distributions()]; "
    "print(json.dumps(dict(reversed(found))))"  # the first of a name is the one that is imported
)
_ORIGINS = "peakgate-origins.pth"
"""Names the folders that links lead to, so that a sandbox shows them too."""


@dataclass(frozen=True, slots=True)
class SideEnvironment:
    """The environment of a side: what it was asked for as, its Python, and the version of each package."""

    label: str
    python: str
    packages: Mapping[str, str]


def made(asked_by: str, given: str, folder: Path) -> SideEnvironment:
    """The environment ``given`` as a new one in ``folder``, which must not exist.

    ``given`` is an environment's folder, a folder of wheels, or a file that uv installs: requirements or pylock.toml.
    A PeakgateError begins with who asked for it, and has the installer's last lines.
    """
    asked = Path(given).resolve()
    site = folder / _SITE
    origins: list[Path] = []
    venv.EnvBuilder(symlinks=True).create(folder)
    python = folder / "bin" / "python"
    if (asked / "pyvenv.cfg").is_file():
        if not (asked / _SITE).is_dir():
            raise PeakgateError(f"{asked_by}: {_SITE} is not in it; {_SAME_PYTHON}", Code.ENVIRONMENT)
        origins.append(asked / _SITE)
    elif asked.is_dir():
        wheels = sorted(map(str, asked.glob("*.whl")))
        if not wheels:
            raise PeakgateError(f"{asked_by}: neither pyvenv.cfg nor a wheel is in it; {_FORMS}", Code.ENVIRONMENT)
        _install(asked_by, python, ["--no-index", "--no-deps", *wheels], folder)
    elif asked.is_file():
        _install(asked_by, python, ["--requirements", str(asked)], folder)
    else:
        raise PeakgateError(f"{asked_by}: is not there; {_FORMS}", Code.ENVIRONMENT)
    for origin in origins:
        _link(origin, site)
    for path in filter(_is_ours, list(site.iterdir())):
        _remove(path)
    for origin in _own_sites():
        _link(origin, site)
    origins += _own_sites()
    (site / _ORIGINS).write_text("".join(f"{origin}\n" for origin in origins), encoding="utf-8")
    return SideEnvironment(given, str(python), _packages(asked_by, python))


_FORMS = "expected an environment, a folder of wheels, or a file of requirements or pylock.toml"
_SAME_PYTHON = f"expected an environment of Python {sys.version_info.major}.{sys.version_info.minor}, as Peakgate's"


def usual() -> SideEnvironment:
    """The environment that Peakgate runs in, for a side that names none."""
    return SideEnvironment("this environment", sys.executable, _packages("this environment", Path(sys.executable)))


def differing(base: SideEnvironment, head: SideEnvironment) -> list[str]:
    """The packages that differ: ``numpy 2.3.1 to 2.4.0``, ``none`` where a side lacks it."""
    names = sorted({*base.packages, *head.packages})
    versions = [(name, base.packages.get(name, "none"), head.packages.get(name, "none")) for name in names]
    return [f"{name} {before} to {after}" for name, before, after in versions if before != after]


def _install(asked_by: str, python: Path, arguments: Sequence[str], folder: Path) -> None:
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is None:
        raise PeakgateError("uv, which installs environments, is not there: pip install uv", Code.INSTALLATION)
    log = folder / "install.log"
    command = [uv, "pip", "install", "--python", str(python), "--no-progress", *arguments]
    with log.open("wb") as output:
        code = run_in_group(command, INSTALL_LIMIT_S, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    if code != 0:
        lines = [line.strip() for line in end_of(log).splitlines() if line.strip()]
        ended = f"exits {code}" if code is not None else f"did not end within {INSTALL_LIMIT_S} s"
        raise PeakgateError(f"{asked_by}: uv {ended}: {' / '.join(lines[-LAST_LINES:])}", Code.ENVIRONMENT)


def _own_sites() -> list[Path]:
    """The folders of installed packages that this process imports from, in that order."""
    paths = [Path(entry).resolve() for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]
    return [path for path in dict.fromkeys(paths) if path.is_dir()]


def _is_ours(path: Path) -> bool:
    return _OURS.fullmatch(path.name) is not None


def _link(origin: Path, target: Path) -> None:
    """Link what ``target`` lacks of the packages in ``origin``."""
    have = {_name(path) for path in target.glob("*.dist-info")}
    for path in origin.iterdir():
        known = path.suffix == ".dist-info" and _name(path) in have
        if not known and path.name not in ("__pycache__", _ORIGINS):
            _link_entry(path, target / path.name)


def _link_entry(origin: Path, target: Path) -> None:
    """Link one entry; folders that are no package of one distribution, as ``nvidia``, are merged."""
    if not (target.exists() or target.is_symlink()):
        target.symlink_to(origin)
    elif origin.is_dir() and target.is_dir() and not (target / "__init__.py").exists():
        if target.is_symlink():
            known = target.resolve()
            if known == origin:
                return
            target.unlink()
            target.mkdir()
            for path in known.iterdir():
                _link_entry(path, target / path.name)
        for path in origin.iterdir():
            _link_entry(path, target / path.name)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _name(metadata: Path) -> str:
    """The name of a distribution, as all spellings of it are compared, from its folder of metadata."""
    return re.sub(r"[-_.]+", "-", metadata.name.split("-")[0]).lower()


def _packages(asked_by: str, python: Path) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(python), "-P", "-c", _PACKAGES], capture_output=True, check=False, env=environment)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise PeakgateError(f"{asked_by}: its Python fails: {''.join(said)}", Code.ENVIRONMENT)
    found = records.decode(done.stdout, dict[str, str], Path(asked_by), "install it again")
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found.items()}
