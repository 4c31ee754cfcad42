"""What is installed is named by hash, and what proposes newer versions sees all of it."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REQUIREMENTS = sorted((ROOT / "requirements").glob("*.txt"))
WORKFLOWS = [*(ROOT / ".github").rglob("*.yml"), ROOT / ".ci" / "run", ROOT / "noxfile.py"]
PINNED = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[[^]]*\])?==\S+", re.MULTILINE)


@pytest.mark.parametrize("file", REQUIREMENTS, ids=lambda path: path.stem)
def test_every_package_is_one_version_with_a_hash(file):
    entries = re.split(r"\n(?=[A-Za-z])", "\n" + re.sub(r"(?m)^\s*#.*\n", "", file.read_text()))[1:]
    assert entries
    for entry in entries:
        assert PINNED.match(entry), entry.splitlines()[0]
        assert "--hash=sha256:" in entry, entry.splitlines()[0]


def test_nox_uv_and_the_build_backend_are_among_the_pinned():
    pinned = {file.stem: set(PINNED.findall(file.read_text())) for file in REQUIREMENTS}
    assert {"nox", "uv"} <= pinned["nox"]
    backend = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["build-backend"].partition(".")[0]
    assert all(backend in pinned[name] for name in ("reports", "tests"))


def test_nothing_is_installed_without_hashes():
    for path in WORKFLOWS:
        for line in path.read_text().splitlines():
            if "pip install" in line and not line.lstrip().startswith("#"):
                assert "--require-hashes" in line or "--no-deps" in line, (path.name, line)


def test_newer_versions_of_packages_and_actions_are_proposed():
    proposed = (ROOT / ".github" / "dependabot.yml").read_text()
    assert "package-ecosystem: pip" in proposed
    assert "directory: /requirements" in proposed
    assert "package-ecosystem: github-actions" in proposed


def test_every_action_is_pinned_by_commit():
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for action in re.findall(r"uses: (\S+)", path.read_text()):
            if not action.startswith("OWNER/REPOSITORY/"):
                assert re.search(r"@[0-9a-f]{40}$", action), (path.name, action)
