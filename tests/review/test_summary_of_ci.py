"""What a CI job makes of the verdict files: .github/verdict.py, run as a job runs it."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from peakgate.review.comment import MEANINGS

SCRIPT = Path(__file__).parents[2] / ".github" / "verdict.py"


def judged(*paths: Path) -> tuple[int, list[str]]:
    done = subprocess.run([sys.executable, str(SCRIPT), *map(str, paths)], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def verdict(folder: Path, name: str, code: object, **more: object) -> Path:
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"exit_code": code, **more}), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("code", "annotation"),
    [
        (0, "::notice title=Peakgate: pass::"),
        (1, "::error title=Peakgate: regression::"),
        (2, "::error title=Peakgate: bad input%2C or a command ended before its verdict::"),
        (3, "::warning title=Peakgate: could not decide::"),
    ],
)
def test_each_exit_code_has_its_annotation(tmp_path: Path, code: int, annotation: str) -> None:
    path = verdict(tmp_path, "compare", code, counts={"SLOWER": 1, "SAME": 76})
    assert judged(path) == (code, [f"{annotation}compare: 1 SLOWER, 76 SAME"])


def test_exit_codes_mean_what_the_comment_says_the_mildest_first() -> None:
    titles = {code: title for code, (_, title) in runpy.run_path(str(SCRIPT))["MEANINGS"].items()}
    assert list(titles.items()) == list(MEANINGS.items())


def test_the_worst_of_several_decides_and_each_is_reported(tmp_path: Path) -> None:
    paths = [verdict(tmp_path, name, code) for name, code in (("bench", 3), ("ab", 1), ("history", 0))]
    code, lines = judged(*paths)
    assert (code, len(lines)) == (1, 3)


def test_a_missing_or_broken_verdict_is_never_a_pass(tmp_path: Path) -> None:
    broken = tmp_path / "ab.json"
    broken.write_text("{", encoding="utf-8")
    codes: list[object] = [7, [], False, True, 0.0, "0", None]
    odd = [verdict(tmp_path, f"odd{number}", code) for number, code in enumerate(codes)]
    for path in (tmp_path / "bench.json", broken, *odd):
        code, lines = judged(path)
        assert (code, lines[0].startswith("::error ")) == (2, True)


def test_a_verdict_nested_beyond_measure_is_no_pass(tmp_path: Path) -> None:
    path = tmp_path / "ab.json"
    path.write_text("[" * 100_000, encoding="utf-8")
    assert judged(path)[0] == 2


def test_counts_that_are_no_counts_do_not_end_in_a_traceback(tmp_path: Path) -> None:
    code, (line,) = judged(verdict(tmp_path, "ab", 0, counts=[1]))
    assert (code, line.startswith("::notice ")) == (0, True)


def test_a_verdict_cannot_forge_an_annotation(tmp_path: Path) -> None:
    path = verdict(tmp_path, "bench", 0, verdicts={"a\n::error::b": 1})
    code, (line,) = judged(path)
    assert (code, line) == (0, "::notice title=Peakgate: pass::bench: 1 a%0A::error::b")
