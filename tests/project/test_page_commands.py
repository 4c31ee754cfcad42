"""Commands of the documentation are run here or by the test that is named, or are marked as for a GPU or a cluster."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from functools import cache, reduce
from io import StringIO
from pathlib import Path

import pytest
from page_commands import Step, script, steps

from peakgate.base import git
from peakgate.base.processes import variables
from peakgate.cli import VERBS, main
from peakgate.help import page, topics
from peakgate.inspect import SUBJECTS

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "baselines" / "nvidia-h200" / "runs"
GATES = sorted(KEPT.glob("20261120T17*-gate.json.gz"))
NOISY = ("access.transfer_", "sgemm.cublas-256")
"""The page on history says of these that ten sessions do not decide on 15 %, and that it then ends with 3."""
RUN_BY = {
    "peakgate bench --energy": "tests/measure/test_energy.py",
    "peakgate compare driver:": "tests/compare/test_compare_driver.py",
    "./my_bench": "tests/runfile/test_imported.py",
    "peakgate import": "tests/runfile/test_imported.py",
    "nox -s": "tests/project/test_workflows.py",
    "python -m lab.bisect": "tests/lab/test_bisect_simulate.py",
    "python -m lab.history": "tests/lab/test_history_pool.py",
    "python -m lab.injected": "tests/lab/test_injected_page.py",
    "python tests/runfile/test_kept.py": "tests/runfile/test_kept.py",
}
"""Beginning of a command to the tests that run it, or what it calls, otherwise."""
NAMES = {
    r"\bGOOD\b": "HEAD~1",
    r"\bBAD\b": "HEAD",
    r"\bBASE\b": str(GATES[0]),
    r"\bNEW\b": str(GATES[1]),
    r"\bFOLDER\b": ".benchmarks",
    r"ADDRESS@COMMIT": "https://example.org/peakgate@" + 40 * "a",
}
"""What a reader puts in place of a name in capital letters."""


def runnable() -> dict[str, list[Step]]:
    """The files and commands of each page but the tutorial, whose commands and earlier pages' are not run again."""
    known = {*steps(page("tutorial"))}
    found = {}
    for topic in topics():
        own = [step for step in steps(page(topic)) if step.path or not step.text.startswith(tuple(RUN_BY))]
        found[topic] = [step for step in own if step not in known or not step.text.startswith("peakgate ")]
        known.update(own)
    return {topic: own for topic, own in found.items() if topic != "tutorial" and not all(step.path for step in own)}


HERE = runnable()
OF_ITS_OWN = "peakgate fleet --device"
"""What leaves threads behind, and so is run in a process."""


@pytest.fixture(scope="module")
def _reader() -> Iterator[None]:
    """The environment of somebody with a name for git, and without a GPU."""
    someone = {f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    branch = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "init.defaultBranch", "GIT_CONFIG_VALUE_0": "main"}
    programs = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": ""}
    with variables(**someone, **branch, **programs):
        yield


def run(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", text], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def tutorial(_reader: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A folder in which somebody did the tutorial, and what was printed."""
    pytest.importorskip("cuda.bindings", reason="NVRTC is not installed: the extra nvrtc, cuda12 or cuda13")
    folder = tmp_path_factory.mktemp("tutorial")
    return folder / "my-kernels", run(script(steps(page("tutorial"))), folder)


def test_a_reader_of_the_tutorial_gets_what_it_shows(tutorial: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    _, done = tutorial
    assert done.returncode == 0, done.stdout + done.stderr
    blocks = re.findall(r"^```text\n(.*?)^```$", page("tutorial"), re.MULTILINE | re.DOTALL)
    pieces = [piece.strip() for block in blocks for line in block.splitlines() for piece in line.split("…")]
    assert len(pieces) > 5
    assert not [piece for piece in pieces if piece not in done.stdout]


@pytest.fixture(scope="module")
def gates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of saved runs, without the noisy cases."""
    saved = tmp_path_factory.mktemp("gates")
    for path in GATES:
        gate = json.loads(gzip.decompress(path.read_bytes()))
        gate["benchmarks"] = [
            entry for entry in gate["benchmarks"] if not entry["extra_info"]["case"].startswith(NOISY)
        ]
        (saved / path.stem).write_text(json.dumps(gate), encoding="utf-8")
    return saved


@pytest.mark.parametrize("topic", HERE)
def test_the_commands_of_a_page_end_as_it_says(
    topic: str,
    tutorial: tuple[Path, subprocess.CompletedProcess[str]],
    gates: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if topic == "fleet" and not hasattr(tarfile, "data_filter"):
        pytest.skip("a fleet needs Python 3.11.4")
    project = shutil.copytree(tutorial[0], tmp_path / "project", symlinks=True)
    example = project / "benchmarks" / "bench_scale.py"
    example.write_text(example.read_text(encoding="utf-8").replace("1 << 24", "1 << 10"), encoding="utf-8")
    shutil.rmtree(project / ".benchmarks")
    shutil.copytree(gates, project / ".benchmarks" / "nvidia-h200")
    git.ask(project, "remote", "add", "origin", "git@github.com:us/kernels.git")
    for lock in ("old.lock", "new.lock"):
        (project / lock).touch()
    monkeypatch.chdir(project)
    for step in HERE[topic]:
        text = step.text if step.path else reduce(lambda text, name: re.sub(name, NAMES[name], text), NAMES, step.text)
        if text.startswith("peakgate ") and not text.startswith(OF_ITS_OWN):
            assert main(shlex.split(text, comments=True)[1:]) == step.exit_code, text
        else:
            done = run(script([step._replace(text=text)]), project)
            assert done.returncode == 0, done.stdout + done.stderr


def test_what_other_tests_run_is_there_and_on_a_page() -> None:
    commands = [step.text for topic in topics() for step in steps(page(topic)) if not step.path]
    for beginning, tests in RUN_BY.items():
        assert (ROOT / tests).is_file()
        assert any(command.startswith(beginning) for command in commands), beginning


MENTIONED = re.compile(r"(?:^|`|&& |do )peakgate ([a-z]+)((?: [^`\n&|;]*)?)", re.MULTILINE)


@cache
def known_options(verb: str) -> frozenset[str]:
    with redirect_stdout(StringIO()) as said:
        for call in [[verb, subject] for subject in SUBJECTS] if verb == "inspect" else [[verb]]:
            with suppress(SystemExit):
                main([*call, "--help"])
    return frozenset(re.findall(r"(?<!\S)--?[a-z][\w-]*", re.sub(r"[\[\](),`]", " ", said.getvalue())))


@pytest.mark.parametrize("topic", topics())
def test_a_command_on_a_page_has_the_options_that_it_gives(topic: str) -> None:
    code = "\n".join(re.findall(r"`+[^`]+`+", page(topic)))
    for verb, arguments in MENTIONED.findall(code):
        assert verb in VERBS, verb
        given = re.findall(r"(?<!\S)--?[a-z][\w-]*", arguments.partition("  #")[0])
        assert set(given) <= known_options(verb), (verb, arguments)
