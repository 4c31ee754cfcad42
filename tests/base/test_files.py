import itertools
import json
import os
import socket
from contextlib import suppress
from pathlib import Path

import pytest
from expecting import refuses

from peakgate.base import config, records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import (
    UnreadableFile,
    a_line_each,
    each_below,
    file_digest,
    make_folder,
    open_output,
    read_limited,
    refuse_links,
    remove_output,
    remove_tree,
    write_new,
    write_whole,
)
from peakgate.run.journal import Journal
from peakgate.run.places import Places
from peakgate_emulator.sources import source_text


def test_an_interrupted_write_leaves_the_old_file_whole(tmp_path, monkeypatch):
    target = tmp_path / "kept.json"
    target.write_bytes(b"old")

    def refuse(*_given, **_named):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(KeyboardInterrupt):
        write_whole(target, b"new")
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["kept.json"]


def test_all_below_a_folder_is_found_and_no_link_followed(tmp_path):
    at = tmp_path
    for _ in range(1200):
        (at := at / "d").mkdir()
    (tmp_path / "d" / "file").touch()
    (tmp_path / "link").symlink_to("d")
    try:
        found = [each.path for each in each_below(tmp_path)]
        assert len(found) == len({*found}) == 1202
        assert str(tmp_path / "link" / "file") not in found
        assert [each.name for each in each_below(tmp_path / "link" / "d", seen={str(tmp_path)})] == ["d"] * 1198
        seen = {str(tmp_path / "d" / "d")}
        assert {each.name for each in each_below(tmp_path, seen)} == {"d", "file", "link"}
        assert [*each_below(tmp_path, seen)] == [*each_below(tmp_path / "nowhere")] == []
    finally:
        remove_tree(tmp_path / "d")


def test_a_folder_is_made_and_text_and_bytes_arrive_as_they_are(tmp_path):
    write_whole(tmp_path / "new" / "text", "µs")
    write_whole(tmp_path / "new" / "bytes", b"\x7fELF")
    assert (tmp_path / "new" / "text").read_text(encoding="utf-8") == "µs"
    assert (tmp_path / "new" / "bytes").read_bytes() == b"\x7fELF"
    assert oct((tmp_path / "new" / "text").stat().st_mode & 0o777) == "0o644"


def test_a_rewritten_file_keeps_its_mode(tmp_path):
    target = tmp_path / "script"
    target.write_text("old")
    target.chmod(0o755)
    write_whole(target, "new")
    assert oct(target.stat().st_mode & 0o777) == "0o755"


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PeakgateError, match=r"file/below: cannot be written \(.*\)"):
        write_whole(tmp_path / "file" / "below", "text")


@pytest.mark.parametrize("members", [{"b": {"x": 1}, "a": [2, "ä"]}, [{"x": 1}, [2]]])
def test_members_stand_a_line_each_and_read_back_in_their_order(members):
    text = a_line_each({"schema": 1, "device": {"name": "X"}}, "members", members)
    assert json.loads(text) == {"schema": 1, "device": {"name": "X"}, "members": members}
    assert list(json.loads(text)["members"]) == list(members)
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if "members" in line)
    assert len(lines[first + 1 : -2]) == len(members)
    assert text.endswith("\n")


LIMIT_BYTES = 1000


def test_a_file_up_to_the_limit_is_read_and_no_larger_one(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * LIMIT_BYTES)
    assert read_limited(path, LIMIT_BYTES) == path.read_bytes()
    with pytest.raises(UnreadableFile):
        read_limited(path, LIMIT_BYTES - 1)


@pytest.fixture
def odd(tmp_path):
    """The path of what is no regular file of a bounded size, by its kind."""

    def made(kind):
        path = tmp_path / {"NUL": "a\0b", "long": "x" * 300}.get(kind, "file")
        if kind == "folder":
            path.mkdir()
        elif kind == "FIFO":
            os.mkfifo(path)
        elif kind in ("endless", "grows", "itself"):
            path.symlink_to({"endless": "/dev/zero", "grows": "/proc/self/smaps", "itself": path.name}[kind])
        elif kind == "socket":
            with socket.socket(socket.AF_UNIX) as opened:
                opened.bind(os.path.relpath(path))
        return path

    return made


@pytest.mark.parametrize("kind", ["none", "folder", "FIFO", "endless", "grows", "itself", "NUL", "long", "socket"])
def test_what_is_no_regular_file_is_never_waited_for(odd, kind):
    with pytest.raises(UnreadableFile) as refused:
        read_limited(odd(kind), LIMIT_BYTES)
    assert refused.value.missing == (kind == "none")
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("kind", ["endless", "FIFO", "none", "folder"])
def test_what_has_no_end_has_no_digest_and_is_not_waited_for(odd, kind):
    assert file_digest(odd(kind)) is None


def test_a_large_file_has_no_digest(tmp_path, monkeypatch):
    monkeypatch.setattr("peakgate.base.files.LARGEST_DIGESTED_BYTES", 2)
    (tmp_path / "file").write_bytes(b"abc")
    assert file_digest(tmp_path / "file") is None


@pytest.mark.parametrize("link", ["file", "folder", "above"])
def test_a_file_that_a_link_places_outside_the_folder_is_refused(tmp_path, link):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "file").write_bytes(b"secret")
    (inside / "own").write_bytes(b"own")
    (inside / "alias").symlink_to("own")
    (inside / "file").symlink_to(outside / "file")
    (inside / "folder").symlink_to(outside)
    path = {"file": inside / "file", "folder": inside / "folder" / "file", "above": inside / ".." / "outside" / "file"}
    assert read_limited(path[link], LIMIT_BYTES) == b"secret"
    with pytest.raises(UnreadableFile):
        read_limited(path[link], LIMIT_BYTES, inside=inside)
    assert read_limited(inside / "alias", LIMIT_BYTES, inside=inside) == b"own"


@pytest.mark.parametrize("at", [0, 1, 499, 998, 999])
def test_the_member_that_does_not_fit_is_named_among_many(tmp_path, at):
    members = {f"k{number}": "x" if number >= at else 1 for number in range(1000)}
    with pytest.raises(records.RecordError, match=rf"^file: k{at} is 'x'"):
        records.decode(json.dumps(members).encode(), dict[str, int], Path("file"), "see it")


def test_a_byte_order_mark_is_named_in_settings(tmp_path):
    (tmp_path / "peakgate.toml").write_bytes(b"\xef\xbb\xbfbenchmarks = []\n")
    with refuses(Code.MALFORMED, "byte-order mark"):
        config.find(tmp_path)
    (tmp_path / "k.cu").write_bytes(b"\xef\xbb\xbfint x;\n")
    assert source_text(tmp_path / "k.cu") == "int x;\n"


@pytest.mark.parametrize("text", ["tool = 3\n", "tool.peakgate = 3\n"])
def test_settings_that_are_no_table_are_refused_in_words_of_toml(tmp_path, text):
    (tmp_path / "pyproject.toml").write_text(text)
    with refuses(Code.RECORD, "expected a table"):
        config.find(tmp_path)


def _victim(folder):
    """A folder of somebody else's, and what is in it."""
    (folder / "deep").mkdir(parents=True)
    for name in ("file", "bench.journal", "deep/file", "deep/bench.json"):
        (folder / name).write_text("precious")
    return {path: path.read_text() for path in folder.rglob("*") if path.is_file()}


OUTPUTS = {
    "write_whole": lambda path: write_whole(path, "mine"),
    "write_new": lambda path: write_new(path.with_name("new"), "mine"),
    "open_output": lambda path: open_output(path).close(),
    "append": lambda path: open_output(path, "ab").close(),
    "remove_output": remove_output,
    "make_folder": lambda path: make_folder(path.with_name("made")),
    "folder of it": lambda path: make_folder(path / "made"),
    "journal": lambda path: Journal(path.parent).close(keep=False),
    "places": lambda path: Places(path.parent).clear(),
    "staging": lambda path: Places(path.parent).remove_staging(),
}


@pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS)
@pytest.mark.parametrize("mark", [".git", "pyproject.toml", "peakgate.toml"])
def test_no_output_of_a_project_goes_through_a_link(tmp_path, output, mark):
    victim, project = tmp_path / "victim", tmp_path / "project"
    before = _victim(victim)
    (project / "inside").mkdir(parents=True)
    (project / mark).mkdir()
    (project / "inside" / "out").symlink_to(victim)
    for path in ("inside/out/file", "inside/out/deep/file", "inside/out/made/deep/file"):
        with suppress(PeakgateError):
            output(project / path)
    assert {path: path.read_text() for path in victim.rglob("*") if path.is_file()} == before
    assert sorted(path.name for path in victim.iterdir()) == ["bench.journal", "deep", "file"]


@pytest.mark.parametrize("name", ["bench.journal", "bench.staged", "bench.json", "file"])
def test_no_file_of_outputs_is_a_link(tmp_path, name):
    before = _victim(tmp_path / "victim")
    (tmp_path / "out").mkdir()
    for target, output in itertools.product(("victim", "victim/file"), OUTPUTS.values()):
        remove_output(tmp_path / "out" / name)
        (tmp_path / "out" / name).symlink_to(tmp_path / target)
        with suppress(PeakgateError):
            output(tmp_path / "out" / name)
    assert {path: path.read_text() for path in (tmp_path / "victim").rglob("*") if path.is_file()} == before


def test_links_of_the_machine_around_a_project_are_followed(tmp_path):
    (tmp_path / "disk" / "project").mkdir(parents=True)
    (tmp_path / "home").symlink_to(tmp_path / "disk")
    (tmp_path / "disk" / "project" / "pyproject.toml").write_text("")
    write_whole(tmp_path / "home" / "project" / "out" / "file", "mine")
    assert (tmp_path / "disk" / "project" / "out" / "file").read_text() == "mine"
    (tmp_path / "disk" / "project" / "link").symlink_to(tmp_path / "disk")
    with pytest.raises(PeakgateError) as refused:
        write_whole(tmp_path / "home" / "project" / "link" / "file", "mine")
    assert refused.value.code is Code.TAKEN


def test_a_folder_whose_entries_are_links_is_refused(tmp_path):
    refuse_links(tmp_path)
    (tmp_path / "run.json").symlink_to("nowhere")
    with pytest.raises(PeakgateError) as refused:
        refuse_links(tmp_path)
    assert refused.value.code is Code.TAKEN


def test_a_device_is_neither_replaced_nor_removed_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "odd")
    with pytest.raises(PeakgateError) as refused:
        write_whole(tmp_path / "odd", "mine")
    assert refused.value.code is Code.UNWRITABLE
    assert (tmp_path / "odd").is_fifo()


def test_a_folder_is_removed_without_what_its_links_lead_to(tmp_path):
    before = _victim(tmp_path / "victim")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "link").symlink_to(tmp_path / "victim")
    remove_output(tmp_path / "out")
    remove_output(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert {path: path.read_text() for path in before} == before
