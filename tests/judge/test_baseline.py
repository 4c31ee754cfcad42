from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from expecting import refuses
from hypothesis import given
from hypothesis import strategies as st

from peakgate.base.errors import Code, PeakgateError
from peakgate.judge.floors import Origin, load_floors, origin_comment, revise_floors

HEAD = 'schema = 1\ngpu = "nvidia-h200"\n\n[floors]\n'
ORIGIN = origin_comment(Origin(5, 1, 0.725, 0.12, "580.159.04", "2026-11-20", 6.6))


def refused(folder: Path, text: str, known: set[str] | None = None) -> str:
    path = folder / "floors.toml"
    path.write_text(text)
    with pytest.raises(PeakgateError) as caught:
        load_floors(path, known)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message.removeprefix(str(path))


def test_floors_are_read_by_case_id(tmp_path: Path) -> None:
    path = tmp_path / "floors.toml"
    path.write_text(HEAD + '"transpose.smem_pad-8192-32x8" = 0.709 # why\n"roof.copy-1GiB" = 1\n')
    floors = load_floors(path, {"transpose.smem_pad-8192-32x8", "roof.copy-1GiB", "sgemm.naive-128"})
    assert (floors.path, floors.gpu, floors.present) == (path, "nvidia-h200", True)
    assert floors.get("transpose.smem_pad-8192-32x8") == 0.709
    assert floors.get("roof.copy-1GiB") == 1.0
    assert floors.get("sgemm.naive-128") is None


def test_no_file_is_no_floors_and_says_so(tmp_path: Path) -> None:
    floors = load_floors(tmp_path / "floors.toml", {"a.b"})
    assert (floors.path, floors.present, floors.get("a.b")) == (tmp_path / "floors.toml", False, None)


def test_a_file_without_floors_is_there_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "floors.toml"
    path.write_text('schema = 1\ngpu = "nvidia-h200"\n')
    assert load_floors(path).present


@pytest.mark.parametrize("floor", ["0", "0.0", "-0.1", "1.01", "true", '"0.7"', "nan", "inf", "[0.7]"])
def test_a_floor_that_is_no_fraction_is_named_with_its_line(tmp_path: Path, floor: str) -> None:
    text = HEAD + f'"a.b" = 0.5\n"a.c" = {floor}\n'
    assert refused(tmp_path, text).startswith(":6: floors.a.c ")


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        pytest.param(HEAD + "transpose.smem = 0.7\n", ":5: ", "quotation marks", id="an id without quotation marks"),
        pytest.param(HEAD + '"transpose.smem_padd" = 0.7\n', ":5: ", "'transpose.smem_pad'", id="a misspelt case"),
        pytest.param(HEAD.replace("[floors]", "[floor]"), ":4: floor ", "'floors'", id="a misspelt key"),
        pytest.param('gpu = "x"\nschema = 2\n', ":2: schema is 2", "", id="a later schema"),
        pytest.param('gpu = "x"\nschema = "1"\n', ":2: schema is '1'", "", id="a schema that is text"),
        pytest.param('gpu = "x"\nschema = true\n', ":2: schema is True", "", id="a schema that is true"),
        pytest.param('gpu = "x"\n', ": schema is missing", "", id="no schema"),
        pytest.param("schema = 1\n", ": gpu is missing", "", id="no GPU"),
        pytest.param("schema = 1\ngpu = 3\n", ":2: gpu is 3", "", id="a GPU that is a number"),
        pytest.param('schema = 1\ngpu = ""\n', ":2: gpu is ''", "", id="a GPU without a name"),
        pytest.param('schema = 1\ngpu = "x"\nfloors = 0.7\n', ":3: ", "", id="floors that are no table"),
        pytest.param("schema = ", "", "end of document", id="a broken line"),
        pytest.param("\ufeffa = 1", ":1: ", "byte-order mark", id="a byte-order mark"),
        pytest.param("schema = 1\nschema = 1\n", "", "at line 2", id="a key twice"),
        pytest.param(HEAD + '"a.b" = 0.5\n"a.b" = 0.6\n', "", "at line 6", id="a floor twice"),
        *(
            pytest.param(text, "", "not TOML", id=f"what no one writes: {text[:5]}")
            for text in ("a = " + "9" * 5000, "a = " + "[" * 5000, "a = " + "{b=" * 5000)
        ),
    ],
)
def test_a_mistake_is_one_line_with_place_and_what_is_nearest(tmp_path: Path, text: str, place: str, said: str) -> None:
    message = refused(tmp_path, text, {"transpose.smem_pad", "a.b"})
    assert message.startswith(place)
    assert said in message


def test_floors_of_imported_cases_stand_beside_those_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "floors.toml"
    imported = ("scan.nvbench-N_1", "scan.google-benchmark")
    path.write_text(HEAD + "".join(f'"{case}" = 0.7\n' for case in (*imported, "a.b")))
    assert set(load_floors(path, {"a.b"}).by_case) == {*imported, "a.b"}


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "floors.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(PeakgateError, match="UTF-8"):
        load_floors(path)


def test_a_new_file_states_where_each_floor_comes_from(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    path, several = tmp_path / "floors.toml", origin_comment(Origin(5, 2, 0.725, 0.12, "580.159.04", "2026-11-20", 6.6))
    path.write_text(revise_floors("", "nvidia-h200", {"a.b-8192": (0.709, ORIGIN), "a.c": (0.7, several)}))
    assert load_floors(path, {"a.b-8192", "a.c"}).get("a.b-8192") == 0.709
    golden("floors.toml", path.read_text())


def test_a_rewrite_keeps_whatever_it_was_not_told_of() -> None:
    text = (
        "# ours\n" + HEAD + '# slow on purpose\n"b.late" = 0.5   # agreed with the team\n\n"a.early" = 0.25\n'
        f'"c.ours" = 0.1 # {ORIGIN}\n'
    )
    newer = origin_comment(Origin(7, 2, 0.9, 0.2, "590.1", "2026-12-01", 6.6))
    revised = revise_floors(
        text, "nvidia-h200", {"b.late": (0.6, newer), "c.ours": (0.2, newer), "d.new": (0.3, newer)}
    )
    expected = text.replace("0.5   # agreed with the team", f"0.6 # agreed with the team; {newer}")
    expected = expected.replace(f"0.1 # {ORIGIN}", f"0.2 # {newer}") + f'"d.new" = 0.3 # {newer}\n'
    assert revised == expected
    again = revise_floors(revised, "nvidia-h200", {"b.late": (0.6, newer)})
    assert again == revised


@given(
    st.dictionaries(
        st.text("AZaz09_.-", min_size=1, max_size=30), st.integers(1, 1000).map(lambda n: n / 1000), min_size=1
    )
)
def test_what_is_written_is_read_back(floors: dict[str, float]) -> None:
    text = revise_floors("", "nvidia-h200", {case: (floor, ORIGIN) for case, floor in floors.items()})
    assert tomllib.loads(text) == {"schema": 1, "gpu": "nvidia-h200", "floors": floors}


def test_floors_of_another_gpu_than_the_folder_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "floors.toml"
    path.write_text(HEAD)
    assert load_floors(path, gpu="nvidia-h200").present
    with refuses(Code.GPU_MODELS, r"floors\.toml:2: "):
        load_floors(path, gpu="nvidia-l4")


def test_an_origin_of_either_form_is_replaced(tmp_path: Path) -> None:
    old = HEAD + '"a.b" = 0.5 # 10 sessions, median 0.51, spread 0.1 %, driver 1, 2026-11-20\n'
    once = revise_floors(old, "nvidia-h200", {"a.b": (0.6, ORIGIN)})
    assert ORIGIN in once
    assert tomllib.loads(once)["floors"] == {"a.b": 0.6}
    again = revise_floors(once, "nvidia-h200", {"a.b": (0.5, "x")})
    assert tomllib.loads(again)["floors"] == {"a.b": 0.5}
    assert ORIGIN not in again


def test_a_dropped_floor_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    text = HEAD + '"a.b" = 0.5 # mine\n"a.link" = 0.8\n"a.c" = 0.4\n'
    left = revise_floors(text, "nvidia-h200", {}, ["a.link", "a.gone"])
    assert left == text.replace('"a.link" = 0.8\n', "")
