"""A change of what a family's functions read is seen, and functions of families that cannot read it are not called."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from peakgate.core.case import Scale
from peakgate.run import identity, listing
from peakgate.run.readable import owners

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
