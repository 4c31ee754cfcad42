"""``--json``: one object on standard output, whatever becomes of the command, with the fields that the page lists."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from emulating import CUDA

from peakgate.base.errors import Code
from peakgate.cli import main
from peakgate.help import text_of


@pytest.fixture
def kernel(tmp_path, monkeypatch, capsys):
    """The source of init's example, in its project."""
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 0
    capsys.readouterr()
    return tmp_path / "kernels" / "scale" / "scale.cu"


def answer(*arguments, option="--json"):
    """Exit code and object of a command, started as a program starts it."""
    command = [sys.executable, "-P", "-m", "peakgate", *arguments, option]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    assert found["exit_code"] == done.returncode, done.stderr
    return done.returncode, found


def listed(topic):
    """The fields that the table of a section lists."""
    rows = [line.split(" | ")[0] for line in text_of(topic).splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def defects(found):
    return [defect for kernel in found["kernels"] for defect in kernel["defects"]]


def test_a_race_has_two_accesses_and_the_command_that_repeats_it(kernel):
    kernel.write_text(raced := (CUDA / "raced_scale.cu").read_text())
    code, found = answer("check", "kernels/scale/family.py")
    assert (code, found["gpu_s"]) == (1, 0.0)
    race = next(each for each in defects(found) if each["kind"] == "shared race")
    assert (race["file"], race["line"], race["text"]) == ("scale.cu", 6, raced.splitlines()[5].strip())
    assert {step["line"] for step in race["order"]} == {5, 6}
    assert all(len(step["thread"]) == 3 for step in race["order"])
    again, repeated = answer(*race["repeat"][1:])
    assert (again, repeated["schedules"]) == (1, [race["seed"]])
    assert "shared race" in {each["kind"] for each in defects(repeated)}


def test_a_wrong_result_has_its_worst_element(kernel):
    kernel.write_text(kernel.read_text().replace("2.0f *", "i == 7 ? NAN : 2.0f *"))
    code, found = answer("check", "kernels/scale/family.py")
    (wrong,) = defects(found)
    assert (code, wrong["kind"], wrong["file"], wrong["order"]) == (1, "wrong result", None, [])
    assert (wrong["values"]["index"], wrong["values"]["found"], wrong["values"]["wrong"]) == ([7], "nan", 1)
    assert listed("check") - {"defects"} <= wrong.keys()


def test_a_case_of_a_run_has_every_field_that_the_page_lists(kernel):
    code, found = answer("bench", "-k", "scale-4099", "--device", "cpu")
    (case,) = found["cases"]
    assert (code, case["verdict"]) == (0, "NO_FLOOR")
    assert listed("bench") - {"cases"} <= case.keys()
    assert isinstance(found["seed"], int)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("check", "nowhere/family.py"), Code.FAMILY),
        (("ab", "--plan", "HEAD"), Code.OPTION),
        (("bench", "-k", "no.such", "--device=cpu"), Code.SELECTION),
    ],
)
def test_a_mistake_is_an_object_too(kernel, arguments, code):
    exit_code, found = answer(*arguments)
    assert (exit_code, found["error"]["code"], "kernels" in found) == (2, code, False)


def test_an_older_verdict_is_not_taken_for_this_commands(kernel):
    assert answer("check", "kernels/scale/family.py")[0] == 0
    assert "kernels" not in answer("check", "-k", "no.such")[1]


def test_abbreviated_options_print_the_object_too(kernel):
    code, found = answer("check", "kernels/scale/family.py", "--ou", "elsewhere", option="--jso")
    assert (code, len(found["kernels"])) == (0, 1)
