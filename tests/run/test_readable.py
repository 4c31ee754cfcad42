"""A change of what a family's functions read is seen, and functions of families that cannot read it are not called."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from peakgate.base.errors import Code, PeakgateError
from peakgate.run import identity, listing, readable
from peakgate.run.readable import keep_apart, own_folders, owners
from peakgate.spec.case import Family, Scale

FAMILY = """
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from peakgate.family import In, Out, Value, kernel
HERE = Path(__file__).parent
{more}
FAMILY = kernel("twice.cu", arguments=lambda n: [Out(n), In(n), Value(n)], grid=1, block=32, bytes=lambda n: 8 * n,
                reference=lambda xp, x: {factor} * x, sizes=[1024])
"""
KERNEL = """extern "C" __global__ void twice(float* out, const float* in, int n) {}"""
LAZY = """
def factor():
    from {module} import FACTOR
    return FACTOR
"""
BY_FILE = """
spec = spec_from_file_location("elsewhere", HERE.parent / "a" / "helper.py")
spec.loader.exec_module(module := module_from_spec(spec))
sys.modules["elsewhere"] = module
"""

WAYS = {
    "a sibling": ("kernels/b/helper.py", "from .helper import FACTOR", "FACTOR", True),
    "a sibling at the call": ("kernels/b/helper.py", LAZY.format(module=".helper"), "factor()", True),
    "a file beside it": ("kernels/b/factor.txt", "", "eval((HERE / 'factor.txt').read_text().split()[-1])", True),
    "a module of pythonpath": ("lib/helper.py", "from helper import FACTOR", "FACTOR", False),
    "such a module at the call": ("lib/helper.py", LAZY.format(module="helper"), "factor()", False),
    "a file outside the families": ("f.txt", "", "eval((HERE.parents[1] / 'f.txt').read_text().split()[-1])", False),
    "a package of all families": ("kernels/a/helper.py", LAZY.format(module="a.helper"), "factor()", False),
    "a search path": (
        "kernels/a/helper.py",
        "sys.path.append(str(HERE.parent / 'a'))" + LAZY.format(module="helper"),
        "factor()",
        False,
    ),
    "a module by its file": ("kernels/a/helper.py", BY_FILE, "module.FACTOR", False),
    "a link": ("kernels/a/helper.py", "from .link import FACTOR", "FACTOR", False),
    "a link to data": ("kernels/a/f.txt", "", "eval((HERE / 'f.txt').read_text().split()[-1])", False),
}
"""What the functions of family b read: the file, how, the factor, and whether it is sure that a's do not read it."""


@pytest.mark.parametrize("way", WAYS)
def test_a_change_of_what_a_function_reads_is_seen_and_others_are_called_only_if_they_may_read_it(
    tmp_path, monkeypatch, way
):
    monkeypatch.setattr(identity, "cubin", lambda *_: SimpleNamespace(fingerprint="f"))
    name, more, factor, b_alone = WAYS[way]
    path = tmp_path / name
    for family, text in (("a", FAMILY.format(more="", factor=1)), ("b", FAMILY.format(more=more, factor=factor))):
        folder = tmp_path / "kernels" / family
        folder.mkdir(parents=True)
        (folder / "family.py").write_text(text)
        (folder / "twice.cu").write_text(KERNEL)
    paths = ["lib", "kernels"] if way == "a package of all families" else ["lib"]
    (tmp_path / "lib").mkdir()
    (tmp_path / "peakgate.toml").write_text(f"pythonpath = {paths}")
    if "link" in way:
        (tmp_path / "kernels" / "b" / ("link.py" if path.suffix == ".py" else path.name)).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    before, after = (_contracts(path, f"FACTOR = {number}") for number in (2, 3))
    assert before["b.twice-1024"].reference != after["b.twice-1024"].reference
    assert (after["a.twice-1024"].reference is None) == b_alone
    assert before["a.twice-1024"] == after["a.twice-1024"]


def _contracts(path, text):
    """Both families' contracts with this text in the one file that differs."""
    path.write_text(text)
    known, refused = listing.listed(Path.cwd(), Scale.BENCH)
    assert refused == []
    return identity.identities(list(known.values()), (9, 0), [path])


def test_a_file_is_owned_by_the_family_in_whose_folder_it_is():
    folders = [Path("/p/kernels/a"), Path("/p/kernels/b")]
    owned = [Path("/p/kernels/a/x/y.npy"), Path("/p/kernels/b/family.py")]
    assert owners(owned, folders) == {*folders}
    assert owners([*owned, Path("/p/kernels/abc.py")], folders) == {None, *folders}
    assert owners([], folders) == set()
    assert owners(None, folders) == {None}


@pytest.fixture
def families(tmp_path, monkeypatch):
    """The folder of two families, a and b, that this process imported as packages; no search path reaches it."""
    for name in "ab":
        file = tmp_path / "kernels" / name / "family.py"
        file.parent.mkdir(parents=True)
        file.write_text("")
        module = ModuleType(f"{name}.family")
        module.__file__, module.FAMILY = (
            str(file),
            Family(f"family {name}", "", (), lambda _: iter(()), lambda _: iter(())),
        )
        monkeypatch.setitem(sys.modules, f"{name}.family", module)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "lib")])
    return tmp_path / "kernels"


def known(families):
    """The families of that folder that have one of their own."""
    return {name for name, folder in own_folders().items() if Path(folder).parent == families}


def imported(monkeypatch, name, file):
    """Have this process import a module from a file."""
    module = ModuleType(name)
    module.__file__ = str(file) if file else None
    monkeypatch.setitem(sys.modules, name, module)


def test_a_family_owns_its_folder_where_nothing_else_comes_from_there(families, monkeypatch):
    imported(monkeypatch, "a.helper", families / "a" / "helper.py")
    imported(monkeypatch, "elsewhere", families / "elsewhere.py")
    imported(monkeypatch, "built_in", None)
    (families / "a" / "own_link").symlink_to("family.py")
    assert known(families) == {"family a", "family b"}
    assert own_folders()["family a"] == str(families / "a")


def test_a_family_does_not_own_a_folder_from_which_another_package_has_a_module(families, monkeypatch):
    imported(monkeypatch, "elsewhere", families / "a" / "helper.py")
    assert known(families) == {"family b"}


@pytest.mark.parametrize("to", ["a/family.py", "a"])
def test_a_family_does_not_own_a_folder_to_which_another_familys_link_leads(families, to):
    (families / "b" / "link").symlink_to(families / to)
    assert known(families) == {"family b"}


@pytest.mark.parametrize(("entry", "owning"), [("a", {"family b"}), ("a/deep", {"family b"}), (".", set())])
def test_a_family_does_not_own_a_folder_that_a_search_path_reaches(families, monkeypatch, entry, owning):
    monkeypatch.setattr(sys, "path", [*sys.path, str(families / entry)])
    assert known(families) == owning


def test_the_files_that_differ_are_named_from_the_top_of_the_tree(tmp_path, monkeypatch):
    (tmp_path / "peakgate.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    listed = tmp_path / "names"
    listed.write_text("kernels/a/x.npy\0f.txt\0")
    assert identity.files_in(listed) == [tmp_path / "kernels/a/x.npy", tmp_path / "f.txt"]


READS = """
import os
from pathlib import Path

def relative():
    return open("table.txt").read()

def below_the_working_directory():
    return (Path.cwd() / "table.txt").read_text()

def descriptor():
    return os.read(os.open(b"table.txt", os.O_RDONLY), 9)

def folder():
    return os.listdir(".")

def late():
    import late_module

def own():
    return Path(__file__).with_name("table.txt").read_text()

def elsewhere():
    import wave
    return Path("/proc/self/stat").read_text()
"""


@pytest.fixture
def base(tmp_path, monkeypatch):
    """The functions of a module in the base's tree, in a process that works in the change's."""
    monkeypatch.setattr(readable, "_apart", {})
    for side in ("base", "change"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "table.txt").write_text(side)
    (tmp_path / "change" / "late_module.py").write_text("")
    (tmp_path / "base" / "reads.py").write_text(READS)
    monkeypatch.chdir(tmp_path / "change")
    monkeypatch.syspath_prepend(str(tmp_path / "change"))
    monkeypatch.delitem(sys.modules, "wave", raising=False)
    found = {}
    exec(compile(READS, str(tmp_path / "base" / "reads.py"), "exec"), found)
    found["__file__"] = str(tmp_path / "base" / "reads.py")
    keep_apart(tmp_path / "change", tmp_path / "base")
    return SimpleNamespace(**found)


@pytest.mark.parametrize("name", ["relative", "below_the_working_directory", "descriptor", "folder", "late"])
def test_what_judges_a_change_reads_nothing_of_it(base, name):
    with pytest.raises(PeakgateError) as refused:
        getattr(base, name)()
    assert refused.value.code is Code.FAMILY
    assert "reads.py:" in refused.value.message


def test_what_judges_a_change_reads_its_own_tree_and_the_machine(base):
    assert base.own() == "base"
    assert base.elsewhere()
    assert Path("table.txt").read_text() == "change"  # this test is not of the base
