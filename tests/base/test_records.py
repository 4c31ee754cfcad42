"""Records are read the same whatever reads them first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from peakgate.base import records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import short

FIRST_IN_THREADS = """
import sys

from peakgate.base import records
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
from peakgate.base import records

sys.setswitchinterval(1e-6)
with ThreadPoolExecutor(6) as pool:
    for _ in range(150):
        Inner = msgspec.defstruct("Inner", [("name", records.Name)])
        names = [f"field_{number}" for number in range(60)]
        annotations = [(name, "dict[str, Inner]") for name in names]  # texts, as those of modules are
        outer = msgspec.defstruct("Outer", annotations, namespace={"__module__": "__main__"})
        content = msgspec.json.encode({name: {"a": {"name": "b"}} for name in names})
        found = [*pool.map(lambda _: records.decode(content, outer, Path("file.json"), ""), range(6))]
        assert len({repr(each) for each in found}) == 1
"""


def test_a_kind_that_threads_read_first_ends_no_process() -> None:
    assert subprocess.run([sys.executable, "-c", FIRST_IN_THREADS], check=False).returncode == 0


def test_a_number_too_long_to_write_is_named_without_digits() -> None:
    assert not any(map(str.isdigit, short(1 << 100_000)))


@pytest.mark.parametrize(("name", "head"), records.COMPRESSED.items())
def test_a_compressed_file_is_named_as_such(tmp_path: Path, name: str, head: bytes) -> None:
    (path := tmp_path / "run.json").write_bytes(head + b"\x00rest")
    with pytest.raises(PeakgateError) as refused:
        records.read(path, dict, "measure again")
    assert (refused.value.code, name in refused.value.message) == (Code.MALFORMED, True)
