"""Modules of the project that were imported from elsewhere."""

import sys
from types import ModuleType

import pytest
from msgspec import structs

from peakgate.base import config
from peakgate.run.ab_process import foreign_modules


@pytest.fixture
def project(tmp_path, monkeypatch):
    root = tmp_path / "side"
    (root / "mine").mkdir(parents=True)
    (root / "mine" / "__init__.py").write_text("")
    (root / "lib" / "spaced").mkdir(parents=True)
    (root / "lib" / "spaced" / "a.py").write_text("")
    (root / "docs").mkdir()
    (root / "queue.py").write_text("")
    monkeypatch.chdir(root)
    return structs.replace(config.current(), root=root, pythonpath=(root / "lib",))


def module(name, file):
    made = ModuleType(name)
    made.__file__ = str(file)
    return made


def test_a_package_of_the_project_from_elsewhere_is_named_with_its_file(project, tmp_path):
    elsewhere = tmp_path / "checkout" / "mine"
    found = foreign_modules(
        {
            "mine": module("mine", project.root / "mine" / "__init__.py"),
            "mine._ext": module("mine._ext", elsewhere / "_ext.so"),
            "spaced.a": module("spaced.a", tmp_path / "site-packages" / "spaced" / "a.py"),
        },
        project,
    )
    assert list(found) == ["mine._ext", "spaced.a"]
    assert found["mine._ext"] == str(elsewhere / "_ext.so")


def test_what_is_not_the_projects_may_come_from_anywhere(project):
    others = {"docs": module("docs", "/usr/lib/docs.py"), "queue": module("queue", "/usr/lib/queue.py")}
    assert foreign_modules(others | {"sys": sys}, project) == {}


def test_a_project_in_a_folder_of_its_repository_may_use_the_rest_of_it(project):
    (project.root.parent / ".git").mkdir()
    shared = module("mine", project.root.parent / "shared" / "mine" / "__init__.py")
    assert foreign_modules({"mine": shared}, project) == {}
