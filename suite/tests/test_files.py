import json

import pytest
from peakgate.common.errors import PeakgateError
from peakgate.common.files import a_line_each, write_whole


def test_an_interrupted_write_leaves_the_old_file_whole(tmp_path, monkeypatch):
    target = tmp_path / "kept.json"
    target.write_bytes(b"old")

    def refuse(self, other):
        raise KeyboardInterrupt

    monkeypatch.setattr("pathlib.Path.replace", refuse)
    with pytest.raises(KeyboardInterrupt):
        write_whole(target, b"new")
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["kept.json"]


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
