"""What this repository does, one sentence per session: `nox -l` lists them, `nox -s NAME -- ARGUMENTS` runs one."""

from __future__ import annotations

from pathlib import Path

import nox

nox.needs_version = ">=2025.2"
nox.options.sessions = ["tests", "lint"]
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"

PYPROJECT = nox.project.load_toml("pyproject.toml")
TESTS = ("suite/tests", "reports/tests", "kernels/tests")
WORKFLOWS = Path(".github", "workflows")


def install(session: nox.Session, *extras: str, groups: tuple[str, ...] = ()) -> None:
    """Install this tree with these extras and dependency groups, every package at its locked version."""
    lock = "requirements-cuda12.lock" if "cuda12" in extras else "requirements.lock"
    wanted = f".[{','.join(extras)}]" if extras else "."
    session.install("-c", lock, "-e", wanted, *nox.project.dependency_groups(PYPROJECT, *groups))


def install_for_device(
    session: nox.Session, *extras: str, groups: tuple[str, ...] = (), needs: tuple[str, ...] = ()
) -> None:
    """Install this tree, and what the device of this machine needs besides."""
    install(session, *extras, groups=groups)
    needed = session.run("python", "-m", "peakgate.device.needs", *needs, *session.posargs, silent=True)
    if isinstance(needed, str) and needed.split():
        install(session, *extras, *needed.split(), groups=groups)


@nox.session
def bench(session: nox.Session) -> None:
    """Prove, time and gate every kernel on the device at hand; arguments go to `peakgate bench` and pytest."""
    install_for_device(session)
    session.run("peakgate", "bench", *session.posargs)


@nox.session
def compare(session: nox.Session) -> None:
    """Compare two runs: -- BASE NEW, each a file, a folder, a commit, `latest` or `driver:VERSION`."""
    install(session, "reports")
    session.run("peakgate", "compare", *session.posargs)


@nox.session
def show(session: nox.Session) -> None:
    """Write a page of one run: -- RUN, as for `compare`."""
    install(session, "reports")
    session.run("peakgate", "show", *session.posargs)


@nox.session
def ab(session: nox.Session) -> None:
    """Measure two commits alternately on one GPU and decide what HEAD made slower: -- BASE [HEAD]."""
    install_for_device(session, "reports")
    session.run("peakgate", "ab", *session.posargs)


@nox.session
def floors(session: nox.Session) -> None:
    """Propose floors from saved runs as a diff: -- RUN... [--write]."""
    install(session, "reports")
    session.run("peakgate", "floors", *session.posargs)


@nox.session
def keep(session: nox.Session) -> None:
    """Keep saved runs as references beside the floors, without their samples: -- RUN..."""
    install(session, "reports")
    session.run("peakgate", "keep", *session.posargs)


@nox.session
def ladder(session: nox.Session) -> None:
    """Check that the tables and pictures of kernels/ show the run they name: -- [RUN] [--write]."""
    install(session, "reports")
    session.run("peakgate", "ladder", *session.posargs)


@nox.session
def resources(session: nox.Session) -> None:
    """Compare registers, spills and occupancy of every kernel with their baseline, with no GPU: -- [--update]."""
    install(session, "nvrtc")
    session.run("peakgate", "resources", *session.posargs)


@nox.session
def sanitize(session: nox.Session) -> None:
    """Run every kernel under compute-sanitizer on the GPU: -- [--tool NAME] [-k TEXT]."""
    install_for_device(session)
    session.run("peakgate", "sanitize", *session.posargs)


@nox.session
def history(session: nox.Session) -> None:
    """Report what got slower over the saved runs, and between which commits: -- [--gpu SLUG] [--runs DIR]."""
    install(session, "reports")
    session.run("peakgate", "history", *session.posargs)


@nox.session
def selftest(session: nox.Session) -> None:
    """Measure unchanged code ten times and report what this runner can resolve: -- [--sessions N] [--save]."""
    install_for_device(session, "reports")
    session.run("peakgate", "selftest", *session.posargs)


@nox.session
def protect(session: nox.Session) -> None:
    """Fail a change that lowers a floor or edits a saved run without a reason: -- --base REF."""
    install(session, "reports")
    session.run("peakgate", "protect", *session.posargs)


@nox.session
def check(session: nox.Session) -> None:
    """Run every kernel in the checked emulator: -- [-k TEXT] [FAMILY.py]."""
    install_for_device(session)
    session.run("peakgate", "check", *session.posargs)


@nox.session
def mutants(session: nox.Session) -> None:
    """Delete each barrier and each guard of the kernels and see whether the checked emulator notices: -- [-k TEXT]."""
    install_for_device(session)
    session.run("peakgate", "mutants", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests of the tool, the reports and the kernels."""
    install_for_device(session, "reports", groups=("tests",), needs=("--nvrtc",))
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types and workflows."""
    install(session, "reports", "nvrtc", groups=("tests", "lint"))
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    # The tool as it is installed: strict editable mode links single files, which is what mypy can follow.
    session.install("--no-deps", "--reinstall", "--config-settings=editable_mode=strict", "-e", ".")
    session.run("mypy", "-p", "peakgate")
    session.run("mypy", "--exclude=tests", "noxfile.py", "conftest.py", "kernels")
    lenient = ("--allow-untyped-defs", "--allow-incomplete-defs", "--allow-untyped-calls", "--no-check-untyped-defs")
    session.run("mypy", *lenient, *TESTS)
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
    for output, cuda in (("requirements.lock", "cuda13"), ("requirements-cuda12.lock", "cuda12")):
        extras = [f"--extra={extra}" for extra in ("reports", "compiler", cuda)]
        groups = [f"--group={group}" for group in ("tests", "lint") if not (cuda == "cuda12" and group == "lint")]
        session.run(*common, *extras, *groups, f"--output-file={output}", "--custom-compile-command=nox -s lock")
