import pytest

from suite.errors import PeakgateError
from suite.files import write_whole


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
