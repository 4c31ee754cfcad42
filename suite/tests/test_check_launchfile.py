"""A launch in TOML is read strictly: each mistake is told by the key that is wrong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.case import Buffer, Launch, Role, Scalar
from suite.check import launchfile
from suite.errors import PeakgateError

HEAD = """
grid = [2, 3]
block = [32]
"""
OUT = '[[argument]]\nrole = "out"\nshape = [4, 8]\n'
IN = '[[argument]]\nrole = "in"\nshape = [4, 8]\n'
COUNT = "[[argument]]\nvalue = 32\n"


@pytest.fixture
def read(tmp_path):
    def read_text(text):
        (tmp_path / "launch.toml").write_text(text)
        (tmp_path / "mine.cu").write_text("")
        return launchfile.read(tmp_path / "launch.toml", tmp_path / "mine.cu")

    return read_text


def test_a_whole_description_becomes_a_case(read):
    described = read(
        'kernel = "copy"\nshared_bytes = 128\ndefines = { TILE = 32, REAL = "float" }\nexpected = "copy of argument 1"'
        + HEAD
        + OUT
        + IN
        + COUNT
    )
    case = described.case
    assert case.id == "external.copy"
    assert case.launch == Launch((2, 3, 1), (32, 1, 1), 128)
    assert case.arguments == (Buffer(Role.OUT, (4, 8)), Buffer(Role.IN, (4, 8)), Scalar(32))
    assert case.defines == (("TILE", "32"), ("REAL", "float"))
    source = np.arange(32.0).reshape(4, 8)
    assert described.compared
    assert case.reference(np, [source])[0] is source


def test_the_kernel_is_named_like_its_file_and_nothing_is_expected_unless_it_says_so(read):
    described = read(HEAD + OUT)
    assert described.case.stage.name == "mine"
    assert not described.compared


def test_a_template_is_launched_by_its_template_id_under_a_plain_name(read):
    stage = read('kernel = "rows::softmax<float, 256>"\n' + HEAD + OUT).case.stage
    assert (stage.name, stage.kernel) == ("rows_softmax_float_256", "rows::softmax<float, 256>")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (HEAD + "blocks = [1]\n", "unknown key 'blocks'; expected kernel, grid, block"),
        (HEAD + OUT + "size = 3\n", "argument 0: unknown key 'size'; expected role, shape, dtype"),
        (HEAD + COUNT + 'role = "in"\n', "argument 0: unknown key 'role'; expected value, dtype"),
        ("block = [32]\n", "grid is missing; expected a list of one to three whole numbers"),
        ("grid = [0]\nblock = [32]\n", "grid is [0]; expected"),
        ("grid = [1, 1, 1, 1]\nblock = [32]\n", "grid is [1, 1, 1, 1]; expected"),
        (HEAD + "shared_bytes = -1\n", "shared_bytes is -1; expected a whole number"),
        (HEAD + "defines = 3\n", "defines is 3; expected a table"),
        (HEAD + "defines = { TILE = true }\n", "defines.TILE is True; expected a number or a text"),
        (HEAD + 'kernel = "a b"\n', "kernel is 'a b'; expected the name"),
        (HEAD + "argument = 3\n", "argument is 3; expected one [[argument]]"),
        (HEAD + "argument = [3]\n", "argument 0 is 3; expected a table"),
        (HEAD + '[[argument]]\nrole = "input"\nshape = [1]\n', "argument 0: role is 'input'; expected one of in, out"),
        (HEAD + '[[argument]]\nrole = "in"\n', "argument 0: shape is missing; expected a list"),
        (HEAD + OUT + 'dtype = "half"\n', "argument 0: dtype is 'half'; expected one of float16"),
        (HEAD + '[[argument]]\nvalue = "3"\n', "argument 0: value is '3'; expected a number"),
        (HEAD + "[[argument]]\nvalue = 0.5\n", "argument 0: value is 0.5; expected a number that int32 holds"),
        (HEAD + "[[argument]]\nvalue = inf\n", "argument 0: value is inf; expected a number that int32 holds"),
        (HEAD + "[[argument]]\nvalue = 3000000000\n", "expected a number that int32 holds"),
        ('expected = "zeros"' + HEAD + OUT, "expected is 'zeros'; expected \"none\" or"),
        ('expected = "copy of argument 0"' + HEAD + OUT, "expected the number of an argument with role in or inout"),
        ('expected = "copy of argument 9"' + HEAD + OUT, "expected the number of an argument with role in or inout"),
        ('expected = "copy of argument 0"' + HEAD + IN, "expected one argument with role out or inout"),
        ("grid = [", "expected a launch described in TOML"),
    ],
)
def test_a_mistake_is_told_by_its_key(read, text, complaint):
    with pytest.raises(PeakgateError) as told:
        read(text)
    assert complaint in str(told.value)
    assert "\n" not in str(told.value)
    assert "launch.toml: " in str(told.value)


def test_missing_files_are_named(tmp_path):
    with pytest.raises(PeakgateError, match=r"none\.toml"):
        launchfile.read(tmp_path / "none.toml", tmp_path / "none.cu")
    (tmp_path / "launch.toml").write_text(HEAD)
    with pytest.raises(PeakgateError, match=r"none\.cu: no such file"):
        launchfile.read(tmp_path / "launch.toml", tmp_path / "none.cu")


@given(key=st.from_regex(r"[a-z_]{1,12}", fullmatch=True))
def test_any_key_that_is_not_known_is_named(tmp_path_factory, key):
    folder = tmp_path_factory.mktemp("launch")
    (folder / "mine.cu").write_text("")
    (folder / "launch.toml").write_text(f"{key}_unknown = 1\n{HEAD}")
    with pytest.raises(PeakgateError, match=f"unknown key '{key}_unknown'"):
        launchfile.read(folder / "launch.toml", folder / "mine.cu")
