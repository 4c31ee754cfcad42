"""The version of a build and of an installation; release files that depend on neither the day nor the checkout."""

import importlib.util
import io
import re
import tarfile
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.version import Version
from ruamel.yaml import YAML

from peakgate.base.config import version
from peakgate.base.files import PACKAGE

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
HEADINGS = re.findall(r"^## \[([^]]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def build_script():
    spec = importlib.util.spec_from_file_location("build_script", ROOT / ".ci" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def archive(path, *, time, mode, order):
    with tarfile.open(path, "w:gz") as file:
        for name in order:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode, entry.uid, entry.uname = len(name), time, mode, time % 1000, "someone"
            file.addfile(entry, io.BytesIO(name.encode()))
    return path


def test_a_build_without_tags_is_between_two_releases():
    fallback = Version(SETTINGS["tool"]["setuptools_scm"]["fallback_version"])
    assert HEADINGS[0] == "Unreleased"
    assert fallback.is_devrelease
    assert fallback > max(Version(each) for each in HEADINGS[1:])


def test_the_changelog_has_no_release_twice_and_the_newest_first():
    released = [Version(each) for each in HEADINGS[1:]]
    assert released == sorted(set(released), reverse=True)


def test_the_citation_says_what_the_package_says():
    cited, package = YAML(typ="safe").load(ROOT / "CITATION.cff"), SETTINGS["project"]
    assert cited["abstract"] == package["description"]
    for name in ("license", "keywords", "authors"):
        assert cited[name] == package[name]


@pytest.mark.parametrize(
    ("installed", "beside_it", "reported"),
    [
        ("0.3.0", True, "0.3.0"),
        ("0.3.1.dev4+g1234567", True, "0.3.1.dev4+g1234567"),
        ("0.3.1.dev4+g1234567", False, "0.3.1.dev4+editable"),
        ("0.3.0", False, "0.3.0+editable"),
    ],
)
def test_an_editable_installation_names_no_commit_it_has_left(installed, beside_it, reported, monkeypatch, tmp_path):
    class Installed:
        version = installed

        @staticmethod
        def locate_file(name):
            return PACKAGE if beside_it else tmp_path / name

    monkeypatch.setattr(metadata, "distribution", lambda _name: Installed)
    assert version() == reported


def test_a_source_archive_has_no_trace_of_its_checkout(tmp_path):
    normalised = build_script().normalised
    one = archive(tmp_path / "one.tar.gz", time=1_700_000_000, mode=0o600, order=("a", "b", "c"))
    other = archive(tmp_path / "other.tar.gz", time=1_800_000_007, mode=0o644, order=("c", "a", "b"))
    assert one.read_bytes() != other.read_bytes()
    assert normalised(one, 1_234_567_890) == normalised(other, 1_234_567_890)
    with tarfile.open(fileobj=io.BytesIO(normalised(one, 1_234_567_890))) as file:
        assert [(each.name, each.mtime, each.mode, each.uid, each.uname) for each in file] == [
            (name, 1_234_567_890, 0o644, 0, "") for name in "abc"
        ]
        assert file.extractfile("b").read() == b"b"


def test_an_executable_file_stays_one(tmp_path):
    packed = build_script().normalised(archive(tmp_path / "x.tar.gz", time=0, mode=0o700, order=("run",)), 0)
    with tarfile.open(fileobj=io.BytesIO(packed)) as file:
        assert file.getmember("run").mode == 0o755
