from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.ladder.markers import BLOCK_MARKER, difference, fill, find_blocks, inside, link, read_document
from peakgate.base.errors import PeakgateError

DOCUMENT = Path("kernels/README.md")
NAMES = ("transpose", "sgemm")
prose = st.text(st.characters(codec="utf-8"), max_size=200).filter(
    lambda text: not any(BLOCK_MARKER.fullmatch(line) for line in text.split("\n"))
)


def document(*lines: str) -> str:
    return "\n".join(lines) + "\n"


def filled(text: str, held: str = "table") -> str:
    return fill(text, DOCUMENT, lambda name: f"{held} of {name}", NAMES)


def test_what_stood_in_a_block_is_replaced() -> None:
    old = document("# Title", "<!-- ladder:sgemm -->", "old", "older", "<!-- /ladder:sgemm -->", "end")
    new = document("# Title", "<!-- ladder:sgemm -->", "", "table of sgemm", "", "<!-- /ladder:sgemm -->", "end")
    assert filled(old) == new


@given(prose, prose, prose)
def test_filling_twice_is_filling_once_and_text_outside_is_untouched(before: str, held: str, after: str) -> None:
    old = f"{before}\n<!-- ladder:sgemm -->\n{held}\n<!-- /ladder:sgemm -->\n{after}"
    new = filled(old)
    assert filled(new) == new
    assert new.startswith(f"{before}\n<!-- ladder:sgemm -->\n")
    assert new.endswith(f"\n<!-- /ladder:sgemm -->\n{after}")
    assert inside(new, DOCUMENT) == {"sgemm": "table of sgemm"}


def test_two_blocks_are_filled_each_with_its_own() -> None:
    pair = [line for name in NAMES for line in (f"<!-- ladder:{name} -->", f"<!-- /ladder:{name} -->")]
    held = inside(filled(document(*pair)), DOCUMENT)
    assert held == {"transpose": "table of transpose", "sgemm": "table of sgemm"}


def test_a_marker_inside_a_sentence_is_text() -> None:
    assert find_blocks(document("Put `<!-- ladder:sgemm -->` there.", "> <!-- ladder:sgemm -->"), DOCUMENT) == ()


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (["", "<!-- ladder:sgemm -->"], "README.md:2: ladder:sgemm is not closed"),
        (["<!-- /ladder:sgemm -->"], "README.md:1: <!-- /ladder:sgemm --> closes nothing"),
        (["<!-- ladder:sgemm -->", "<!-- /ladder:transpose -->"], "README.md:2: <!-- /ladder:transpose --> closes"),
        (["<!-- ladder:sgemm -->", "<!-- ladder:transpose -->"], "README.md:2: ladder:transpose opens inside"),
        (["<!-- ladder:sgemm -->", "<!-- /ladder:sgemm -->"] * 2, "README.md:3: ladder:sgemm stands here again"),
        (["<!-- ladder:sgem -->", "<!-- /ladder:sgem -->"], "no ladder named sgem, the nearest is sgemm; there are sg"),
    ],
)
def test_a_wrong_marker_is_named_with_its_line(lines: list[str], complaint: str) -> None:
    with pytest.raises(PeakgateError) as caught:
        filled(document(*lines))
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_line_ends_of_a_document_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_bytes(b"one\r\n<!-- ladder:sgemm -->\r\n<!-- /ladder:sgemm -->\r\ntwo\r\n")
    new = filled(read_document(path))
    assert new.startswith("one\r\n<!-- ladder:sgemm -->\r\n")
    assert new.endswith("<!-- /ladder:sgemm -->\r\ntwo\r\n")


def test_a_document_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PeakgateError, match=r"README\.md: expected a document"):
        read_document(tmp_path / "README.md")


def test_a_difference_ends_its_lines_even_where_the_document_does_not() -> None:
    reported = difference("a\nold", "a\nnew", DOCUMENT)
    assert reported.splitlines()[-2:] == ["-old", "+new"]
    assert reported.endswith("\n")


def test_a_link_leads_from_the_document_to_the_file() -> None:
    target = Path("kernels/pictures/sgemm.svg")
    assert link(target, Path("kernels/transpose")) == "../pictures/sgemm.svg"
    assert link(target, Path()) == "kernels/pictures/sgemm.svg"
