"""Sessions of this repository, one sentence each: `nox -l` lists them, `nox -s NAME -- ARGUMENTS` runs one."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2025.2"
nox.options.sessions = ["tests", "lint"]
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"

# uv leaves compiling modules to the first run that imports them: a second of a gate on a fresh machine.
os.environ.setdefault("UV_COMPILE_BYTECODE", "1")

SPREAD = ("-n", "auto", "--dist", "worksteal")
"""How pytest-xdist spreads tests: in their order, since fixtures of files are dear, until a process has none left."""
EMULATED = ("tests/emulator", "tests/inspect", "tests/kernels")
"""Tests of thousands of emulated kernels, which stay mapped: with all others they exceed what a process may map."""
WORKFLOWS = Path(".github", "workflows")
ISSUE_FORMS = [path for path in sorted(Path(".github", "ISSUE_TEMPLATE").glob("*.yml")) if path.stem != "config"]
STEPS: dict[Path, list[str]] = {}
"""What was installed in each environment since nox began, as ``once`` records it."""
PROGRAMS: list[str] = []
"""The folder of programs of the environment that ``reports`` makes."""
LENIENT = "".join(
    f"{name} = false\n"
    for name in ("disallow_untyped_defs", "disallow_incomplete_defs", "disallow_untyped_calls", "check_untyped_defs")
)
"""What mypy does not ask of tests."""
TYPED = (
    "src",
    "noxfile.py",
    "conftest.py",
    ".ci/build.py",
    "docs/site/reference.py",
    "suite",
    "kernels",
    "lab",
    "tests",
)
GITLAB = Path(".github", "examples", "gitlab-ci.yml"), Path("src", "peakgate", "templates", "gitlab.yml")


def install(session: nox.Session, *files: str) -> None:
    """Install what these files of requirements/ pin, by hash, and then this tree with nothing beside it."""
    requirements(session, *files)
    once(session, ("--no-deps", "--no-build-isolation", "-e", "."), Path("pyproject.toml"))


def requirements(session: nox.Session, *files: str) -> None:
    """Install what these files of requirements/ pin; a package whose hash is another one is refused."""
    pinned = [Path("requirements", f"{name}.txt") for name in files]
    once(session, ("--require-hashes", *(word for path in pinned for word in ("-r", str(path)))), *pinned)


def once(session: nox.Session, arguments: tuple[str, ...], *read: Path) -> None:
    """Install, unless the last session in this environment began with the same steps and ``read`` is as it was then."""
    key = hashlib.sha256(repr((arguments, [path.read_bytes() for path in read])).encode()).hexdigest()
    if (location := getattr(session.virtualenv, "location", None)) is None:  # no environment of its own
        session.install(*arguments)
        return
    place = Path(location)
    steps, record = STEPS.setdefault(place, []), place / "installed.txt"
    steps.append(key)
    if record.exists() and record.read_text().split()[: len(steps)] == steps:
        return
    _record(session, record, steps[:-1])
    session.install(*arguments)
    _record(session, record, steps)


def _record(session: nox.Session, record: Path, steps: list[str]) -> None:
    """Write down what is installed; as part of the installation, which ``nox -R`` leaves out."""
    write = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])"
    session.run_install("python", "-c", write, str(record), " ".join(steps), silent=True, log=False)


def install_for_device(session: nox.Session, *files: str, needs: tuple[str, ...] = ()) -> None:
    """Install this tree, and what the device of this machine needs besides."""
    install(session, *files)
    needed = session.run_install("python", "-m", "peakgate.device.choose", *needs, *session.posargs, silent=True)
    if isinstance(needed, str) and needed.split():
        requirements(session, *needed.split())


@nox.session
def bench(session: nox.Session) -> None:
    """Prove, time and judge every kernel on the device at hand; arguments go to `peakgate bench` and pytest."""
    install_for_device(session, "bench")  # a third of what reports need: a newcomer waits for it
    session.run("peakgate", "bench", *session.posargs)


@nox.session(default=False)
def reports(session: nox.Session) -> None:
    """Make the environment, .nox/reports, that every session which reads or compares runs shares."""
    install_for_device(session, "reports")
    PROGRAMS[:] = session.bin_paths or []


in_reports = nox.session(venv_backend="none", requires=["reports"])
"""A session in the environment that ``reports`` makes, or with ``nox --no-venv`` in that of nox's caller."""


def run_in_reports(session: nox.Session, *command: str) -> None:
    """Run a command with the session's arguments in the environment that ``reports`` made."""
    path = os.pathsep.join([*PROGRAMS, os.environ["PATH"]])
    session.run(shutil.which(command[0], path=path) or command[0], *command[1:], *session.posargs, env={"PATH": path})


@in_reports
def compare(session: nox.Session) -> None:
    """Compare two runs: -- BASE NEW, each a file, a folder, a commit, `latest` or `driver:VERSION`."""
    run_in_reports(session, "peakgate", "compare")


@in_reports
def show(session: nox.Session) -> None:
    """Write a page of one run, or the pages of all: -- RUN | --all."""
    run_in_reports(session, "peakgate", "show")


@in_reports
def gate(session: nox.Session) -> None:
    """Judge a change with a tool that it cannot edit: -- BASE HEAD --repository DIR."""
    run_in_reports(session, "python", "-I", "-m", "peakgate", "gate")


@in_reports
def ab(session: nox.Session) -> None:
    """Measure two commits interleaved on one GPU and decide what HEAD made slower: -- BASE [HEAD]."""
    run_in_reports(session, "peakgate", "ab")


@in_reports
def floors(session: nox.Session) -> None:
    """Propose floors from saved runs as a diff, or keep runs as references: -- RUN... [--write | --keep]."""
    run_in_reports(session, "peakgate", "floors")


@in_reports
def ladder(session: nox.Session) -> None:
    """Check that the tables and pictures of kernels/ show the run they name: -- [RUN] [--write]."""
    run_in_reports(session, "python", "-m", "kernels.ladder")


@in_reports
def history(session: nox.Session) -> None:
    """Report what got slower over the saved runs, and between which commits: -- [--gpu SLUG] [--runs DIR]."""
    run_in_reports(session, "peakgate", "history")


@in_reports
def selftest(session: nox.Session) -> None:
    """Measure unchanged code ten times and report what this runner can resolve: -- [--sessions N] [--save]."""
    run_in_reports(session, "peakgate", "selftest")


@in_reports
def protect(session: nox.Session) -> None:
    """Fail a change that could buy a pass, a lowered floor say, without an acknowledgement: -- --base REF."""
    run_in_reports(session, "peakgate", "protect")


@in_reports
def check(session: nox.Session) -> None:
    """Run every kernel in the checked emulator: -- [-k TEXT] [FAMILY.py]."""
    run_in_reports(session, "peakgate", "check")


@in_reports
def calibrate(session: nox.Session) -> None:
    """Run the emulator's suite of kernels with known defects: -- [-k TEXT] [--write]. A minute."""
    run_in_reports(session, "python", "-m", "lab.calibrated.emulated")


@nox.session
def inspect(session: nox.Session) -> None:
    """Examine every kernel without timing it: -- resources [--update] | mutants [-k TEXT] | sanitize [--tool NAME]."""
    install_for_device(session, "reports", needs=("--nvrtc",))  # NVRTC, which no other session needs without a GPU
    session.run("peakgate", "inspect", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests of the tool, the reports, the kernels and the experiments, on every processor."""
    install_for_device(session, "tests", needs=("--nvrtc",))
    one_process = session.posargs or Path("/dev/nvidiactl").exists()  # tests on a GPU follow one another
    session.env["GIT_TEMPLATE_DIR"] = ""  # each of their repositories would have a dozen examples of hooks
    if one_process:
        session.run("python", "-m", "pytest", *session.posargs)
    else:
        for part in (EMULATED, [f"--ignore={folder}" for folder in EMULATED]):
            session.run("python", "-m", "pytest", *SPREAD, *part)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types and workflows."""
    install(session, "tests", "nvrtc")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("lint-imports")
    # All in one run, tests by settings of their modules: each further run would begin with reading what was checked.
    settings = Path(".cache", "mypy.toml")
    settings.parent.mkdir(exist_ok=True)
    modules = [path.stem for path in sorted(Path("tests").rglob("*.py")) if "data" not in path.parts]
    settings.write_text(f"{Path('pyproject.toml').read_text()}\n[[tool.mypy.overrides]]\nmodule = {modules}\n{LENIENT}")
    session.run("mypy", f"--config-file={settings}", *TYPED, env={"MYPYPATH": "src"})
    session.run("check-jsonschema", "--builtin-schema=vendor.github-workflows", *map(str, WORKFLOWS.glob("*.yml")))
    session.run("check-jsonschema", "--builtin-schema=vendor.gitlab-ci", *map(str, GITLAB))
    session.run("check-jsonschema", "--builtin-schema=vendor.dependabot", ".github/dependabot.yml")
    session.run("check-jsonschema", "--builtin-schema=vendor.github-issue-forms", *map(str, ISSUE_FORMS))
    session.run("check-jsonschema", "--builtin-schema=vendor.citation-file-format", "CITATION.cff")
    session.run("zizmor", "--offline", "--quiet", ".github")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation site in docs/site/html, and a manual page; a link that leads nowhere fails."""
    install(session, "docs")
    # Anew, for Sphinx does not see a change of the code that pages are written from.
    shutil.rmtree("docs/site/html", ignore_errors=True)
    how = ("-q", "--fail-on-warning", "--keep-going", "-d", ".cache/docs", "-c", "docs/site")
    session.run("python", "-m", "sphinx", "--fresh-env", *how, ".", "docs/site/html", *session.posargs)
    session.run("python", "-m", "sphinx", "-b", "man", *how, ".", "docs/site/man")


@nox.session(default=False)
def build(session: nox.Session) -> None:
    """Make the wheel and the source archive, twice the same, check both and list what the wheel needs: -- [FOLDER]."""
    requirements(session, "release")
    session.run("python", ".ci/build.py", *session.posargs)


@nox.session(default=False)
def stranger(session: nox.Session) -> None:
    """Install the wheel into an empty environment and use it in an empty repository, without a GPU."""
    requirements(session, "nox")
    session.run("bash", ".ci/stranger", external=True)


@nox.session(default=False)
def mutation(session: nox.Session) -> None:
    """Mutate the modules that judge, and see whether the tests notice: -- [MODULE ...], as in lab/mutation."""
    install(session, "tests")
    session.run("python", "-m", "lab.mutation.meaning")
    session.run("python", "-m", "lab.mutation.mutation", *session.posargs)


@in_reports
def kill(session: nox.Session) -> None:
    """Kill runs at 200 random moments and 100 times while a file is written: -- [--trials N] [FILE]."""
    run_in_reports(session, "python", "-m", "lab.faults.kill")


@in_reports
def disks(session: nox.Session) -> None:
    """Measure on full, filling and read-only disks, mounted for this alone: -- [FILE]. Some minutes."""
    run_in_reports(session, "python", "-m", "lab.faults.disks")


LOCKS = {
    "tests": ("pyproject.toml", "--extra=reports", "--extra=fleet", "--group=build", "--group=tests", "--group=lint"),
    "reports": ("pyproject.toml", "--extra=reports", "--group=build"),
    "bench": ("pyproject.toml", "--group=build"),
    "fleet": ("pyproject.toml", "--extra=reports", "--extra=fleet", "--group=build"),
    "docs": ("pyproject.toml", "--extra=reports", "--extra=fleet", "--group=build", "--group=docs"),
    "cuda13": ("pyproject.toml", "--extra=cuda13"),
    "nvrtc": ("pyproject.toml", "--extra=nvrtc"),
    "cuda12": ("pyproject.toml", "--extra=cuda12"),
    "compiler": ("pyproject.toml", "--extra=compiler"),
    "release": ("--group=pyproject.toml:build", "--group=pyproject.toml:release"),
    "nox": ("--group=pyproject.toml:tools",),
}
"""Contents of each file of requirements/. The first is resolved freely, the others to the same versions, so that files
can be installed together; but not two of CUDA 12, CUDA 13 and NVRTC, whose bindings exclude each other."""


@nox.session(default=False)
def lock(session: nox.Session) -> None:
    """Pin every dependency again, with hashes, for every supported Python, after pyproject.toml changed."""
    requirements(session, "nox")
    common = ("uv", "pip", "compile", "--universal", "--quiet", "--no-emit-index-url", "--upgrade")
    done: list[str] = []
    for name, chosen in LOCKS.items():
        others = [f"--constraint=requirements/{other}.txt" for other in done if {name, other} != {"cuda12", "cuda13"}]
        written = (f"--output-file=requirements/{name}.txt", "--custom-compile-command=nox -s lock")
        session.run(*common, "--generate-hashes", *chosen, *others, *written)
        done += [name] if name in ("tests", "cuda13") else []


@nox.session(default=False)
def fuzz(session: nox.Session) -> None:
    """Give 300,000 hostile inputs to readers: -- [--seed TEXT] [--inputs N] [--record FILE] [READER ...]. An hour."""
    install(session, "tests")
    session.run("python", "-m", "lab.faults.fuzz", *session.posargs)
