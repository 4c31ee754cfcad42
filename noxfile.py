"""What this project does, a session a sentence: `nox -l` lists them, `nox -s NAME -- ARGUMENTS` runs one."""

from __future__ import annotations

import nox

nox.needs_version = ">=2025.2"
nox.options.sessions = ["tests", "lint"]
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"

PYPROJECT = nox.project.load_toml("pyproject.toml")


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
def floors(session: nox.Session) -> None:
    """Propose floors from saved runs as a diff: -- RUN... [--write]."""
    install(session, "reports")
    session.run("python", "-m", "reports", "floors", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests of the suite and the reports."""
    install_for_device(session, "tests", needs=("--nvrtc",))
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and types."""
    install(session, "lint")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy")


@nox.session(default=False)
def lock(session: nox.Session) -> None:
    """Pin every dependency again, for every supported Python, after pyproject.toml changed."""
    session.install("uv")
    common = ("uv", "pip", "compile", "pyproject.toml", "--universal", "--quiet", "--no-emit-index-url", "--upgrade")
    groups = ("bench", "reports", "tests", "lint", "compiler")
    for output, cuda in (("requirements.lock", "cuda13"), ("requirements-cuda12.lock", "cuda12")):
        chosen = [f"--group={group}" for group in (*groups, cuda) if not (cuda == "cuda12" and group == "lint")]
        session.run(*common, *chosen, f"--output-file={output}", "--custom-compile-command=nox -s lock")
