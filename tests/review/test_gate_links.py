"""Where the links of a tree lead: as the kernel has it, and in time that grows with their number alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peakgate.review.links import MOST_HOPS, Links, reached

NAMES = st.sampled_from(["a", "b", "c", "..", ".", "nowhere"])
TARGETS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.tuples(st.sampled_from(["", "a", "a/b"]), st.sampled_from("cde")), TARGETS), TARGETS)
def test_a_path_ends_where_the_kernel_says(
    tmp_path_factory: pytest.TempPathFactory, links: dict[tuple[str, str], str], path: str
) -> None:
    top = tmp_path_factory.mktemp("links").resolve()
    (top / "a" / "b").mkdir(parents=True)
    for (folder, name), target in links.items():
        (top / folder / name).symlink_to(target)
    for at in (top / path, *(top / folder / name for folder, name in links)):
        *on_the_way, last = Links().hops(str(at))
        assert all(Path(each).is_symlink() for each in on_the_way)
        if at.exists():
            assert last == str(at.resolve())


def test_links_in_a_circle_or_too_many_end_without_a_place(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    assert set(Links().hops(str(tmp_path / "circle"))) == {str(tmp_path.resolve() / "circle")}
    for at in range(MOST_HOPS + 1):
        (tmp_path / f"l{at}").symlink_to(f"l{at + 1}")
    (tmp_path / f"l{MOST_HOPS + 1}").touch()
    for first, whole in ((0, False), (1, True)):
        *_, last = Links().hops(str(tmp_path / f"l{first}"))
        assert last.endswith(f"/l{MOST_HOPS + 1}") == whole == (tmp_path / f"l{first}").exists()


def test_what_is_missing_is_no_place_for_a_later_link(tmp_path: Path) -> None:
    links = Links()
    (tmp_path / "a").touch()
    assert [*links.hops(f"{tmp_path.resolve()}/later/../a")] == [f"{tmp_path.resolve()}/a"]
    assert [*links.hops(f"{tmp_path.resolve()}/later/a")] == [f"{tmp_path.resolve()}/later/a"]
    assert [*links.hops("/../nowhere")] == ["/nowhere"]
    (tmp_path / "later").symlink_to("/usr")
    assert [*links.hops(f"{tmp_path.resolve()}/later/../a")] == [f"{tmp_path.resolve()}/later", "/a"]


def deep(top: Path, depth: int, links: int) -> None:
    """A folder of that depth, and links to the folders in it, the deepest first and last."""
    (top / "kernels" / "p" / "/".join("d" * depth)).mkdir(parents=True)
    for at in range(links):
        (top / "kernels" / f"{'am'[at % 2]}{at}").symlink_to("/".join("p" + "d" * (at * depth // links + 1)))


@pytest.mark.parametrize("depth", [20, 40])
def test_each_link_is_read_once_and_each_folder_listed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, depth: int
) -> None:
    deep(tmp_path, depth, depth)
    asked: list[str] = []
    for name in ("readlink", "scandir"):

        def noted(path: str, does: Any = getattr(os, name)) -> Any:  # noqa: B008
            asked.append(path)
            return does(path)

        monkeypatch.setattr(os, name, noted)
    found = reached(tmp_path, [tmp_path / "kernels"])
    folders, around = depth + 2, len(tmp_path.resolve().parts)
    assert len(found) == 1 + 2 * depth
    assert len(asked) <= 2 * folders + depth + around


def test_what_does_not_exist_is_named_as_it_would_be(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "up").symlink_to("../no/where/../file")
    (tmp_path / "kernels" / "out").symlink_to("../../elsewhere")
    assert {*reached(tmp_path, [tmp_path / "kernels"])} == {"kernels", "kernels/up", "kernels/out", "no/file"}
    assert reached(tmp_path, [tmp_path, tmp_path / "kernels" / ".."])[0] == "."
