"""What this project does, a session a sentence: `nox -l` lists them, `nox -s NAME -- ARGUMENTS` runs one."""

from __future__ import annotations

from pathlib import Path

import nox

nox.needs_version = ">=2025.2"
nox.options.sessions = ["tests", "lint"]
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"

PYPROJECT = nox.project.load_toml("pyproject.toml")
WORKFLOWS = Path(".github", "workflows")


def install(session: nox.Session, *groups: str) -> None:
    """Install dependency groups, every package at its locked version."""
    lock = "requirements-cuda12.lock" if "cuda12" in groups else "requirements.lock"
    session.install("-c", lock, *nox.project.dependency_groups(PYPROJECT, *groups))


def install_for_device(session: nox.Session, *groups: str, needs: tuple[str, ...] = ()) -> None:
    """Install the groups, and what the device of this machine needs besides."""
    install(session, *groups)
    needed = session.run("python", "-m", "suite.needs", *needs, *session.posargs, silent=True)
    if isinstance(needed, str) and needed.split():
        install(session, *groups, *needed.split())


@nox.session
def bench(session: nox.Session) -> None:
    """Prove, time and gate every kernel on the device that is there; arguments go to pytest."""
    install_for_device(session, "bench")
    session.run("python", "-m", "suite", *session.posargs)


@nox.session
def compare(session: nox.Session) -> None:
    """Compare two runs: -- BASE NEW, each a file, a folder, a commit, `latest` or `driver:VERSION`."""
    install(session, "reports")
    session.run("python", "-m", "reports", "compare", *session.posargs)


@nox.session
def show(session: nox.Session) -> None:
    """Write a page of one run: -- RUN, as for `compare`."""
    install(session, "reports")
    session.run("python", "-m", "reports", "show", *session.posargs)


@nox.session
def ab(session: nox.Session) -> None:
    """Measure two commits in turns on one GPU and decide what HEAD made slower: -- BASE [HEAD]."""
    install_for_device(session, "bench", "reports")
    session.run("python", "-m", "reports", "ab", *session.posargs)


@nox.session
def floors(session: nox.Session) -> None:
    """Propose floors from saved runs as a diff: -- RUN... [--write]."""
    install(session, "reports")
    session.run("python", "-m", "reports", "floors", *session.posargs)


@nox.session
def keep(session: nox.Session) -> None:
    """Keep saved runs as references beside the floors, without their samples: -- RUN..."""
    install(session, "reports")
    session.run("python", "-m", "reports", "keep", *session.posargs)


@nox.session
def ladder(session: nox.Session) -> None:
    """Check that the tables and pictures of kernels/ show the run they name: -- [RUN] [--write]."""
    install(session, "reports")
    session.run("python", "-m", "reports", "ladder", *session.posargs)


@nox.session
def resources(session: nox.Session) -> None:
    """Hold registers, spills and occupancy of every kernel to their baseline, with no GPU: -- [--update]."""
    install(session, "bench", "nvrtc")
    session.run("python", "-m", "suite.resources", *session.posargs)


@nox.session
def sanitize(session: nox.Session) -> None:
    """Run every kernel under compute-sanitizer on the GPU: -- [--tool NAME] [-k TEXT]."""
    install_for_device(session, "bench")
    session.run("python", "-m", "suite.sanitize", *session.posargs)


@nox.session
def history(session: nox.Session) -> None:
    """Say what got slower over the saved runs, and between which commits: -- [--gpu SLUG] [--runs DIR]."""
    install(session, "reports")
    session.run("python", "-m", "reports", "history", *session.posargs)


@nox.session
def selftest(session: nox.Session) -> None:
    """Measure unchanged code ten times and say what this runner can see: -- [--sessions N] [--save]."""
    install_for_device(session, "bench", "reports")
    session.run("python", "-m", "reports.selftest.sessions", *session.posargs)


@nox.session
def protect(session: nox.Session) -> None:
    """Fail a change that lowers a floor or edits a saved run without saying why: -- --base REF."""
    install(session, "reports")
    session.run("python", "-m", "reports", "protect", *session.posargs)


@nox.session
def check(session: nox.Session) -> None:
    """Run every kernel, or one of your own, in the checked emulator: -- [-k TEXT] [KERNEL.cu --launch FILE.toml]."""
    install_for_device(session, "bench")
    session.run("python", "-m", "suite.check", *session.posargs)


@nox.session
def mutants(session: nox.Session) -> None:
    """Take each barrier and each guard out of the kernels and show that the checked emulator notices: -- [-k TEXT]."""
    install_for_device(session, "bench")
    session.run("python", "-m", "suite.check", "--mutants", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests of the suite and the reports."""
    install_for_device(session, "tests", needs=("--nvrtc",))
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types and workflows."""
    install(session, "lint")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy")
    session.run("check-jsonschema", "--builtin-schema=vendor.github-workflows", *map(str, WORKFLOWS.glob("*.yml")))
    session.run("check-jsonschema", "--builtin-schema=vendor.gitlab-ci", ".github/examples/gitlab-ci.yml")
    session.run("zizmor", "--offline", "--quiet", ".github")


@nox.session(default=False)
def speed(session: nox.Session) -> None:
    """Time the reports on kept and synthetic runs, a minute long."""
    install(session, "reports")
    session.run("python", ".ci/speed.py")


@nox.session(default=False)
def lock(session: nox.Session) -> None:
    """Pin every dependency again, for every supported Python, after pyproject.toml changed."""
    session.install("uv")
    common = ("uv", "pip", "compile", "pyproject.toml", "--universal", "--quiet", "--no-emit-index-url", "--upgrade")
    groups = ("bench", "reports", "tests", "lint", "compiler")
    for output, cuda in (("requirements.lock", "cuda13"), ("requirements-cuda12.lock", "cuda12")):
        chosen = [f"--group={group}" for group in (*groups, cuda) if not (cuda == "cuda12" and group == "lint")]
        session.run(*common, *chosen, f"--output-file={output}", "--custom-compile-command=nox -s lock")
