"""The command ``peakgate`` as a user types it."""

import subprocess
import sys

import pytest
from peakgate import cli


def test_without_a_verb_every_verb_is_listed(capsys):
    assert cli.main([]) == 0
    said = capsys.readouterr().out
    assert all(f"\n  {verb} " in said for verb in cli.VERBS)


def test_the_version_is_that_of_the_distribution(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("peakgate 0.")


def test_an_unknown_verb_is_one_line_with_the_nearest_and_exit_2(capsys):
    assert cli.main(["comprae", "a", "b"]) == 2
    assert capsys.readouterr().err == "peakgate comprae: no such verb, did you mean 'compare'?; see `peakgate --help`\n"


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_explains_itself(verb, capsys):
    with pytest.raises(SystemExit) as left:
        cli.main([verb, "--help"])
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: peakgate {verb}")


def test_a_missing_extra_is_one_line_that_says_what_to_install():
    without = (
        "import sys; sys.modules['scipy'] = None; from peakgate.cli import main; sys.exit(main(['compare', 'a', 'b']))"
    )
    done = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "peakgate compare needs scipy, which is not installed; pip install 'peakgate[reports]'\n"


@pytest.mark.parametrize("verb", ["bench", "check", "mutants", "sanitize"])
def test_outside_a_project_the_error_names_init(verb, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main([verb]) == 2
    assert "no project here or above" in capsys.readouterr().err
