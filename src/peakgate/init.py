"""``peakgate init``: make a repository a project, with examples and, on request, a workflow. Overwrites nothing."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from peakgate.base import config, git, progress
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import read_text, write_whole
from peakgate.base.formatting import counted, duration
from peakgate.base.options import VerbParser
from peakgate.base.packages import recorded_origin
from peakgate.base.streams import say
from peakgate.base.verdict import ExitCode

PROJECT_TEMPLATES = Path(__file__).with_name("templates")
KERNEL = ("scale/family.py", "scale/scale.cu")
BENCHMARKS = ("test_scale.py", "bench_scale.py")
SETTINGS_TEXT = """[tool.peakgate]
kernels = "kernels"            # a folder per family
{benchmarks}baselines = "baselines"        # floors and reference runs
"""
BENCHMARKS_SETTING = 'benchmarks = ["{}"]    # pytest files that use the fixture gpu_benchmark\n'
PINS = {f"requirements/peakgate-{name}.txt": f"requirements-{name}.txt" for name in ("reports", "cuda13")}
NO_GPU_PINS = {"requirements/peakgate-nvrtc.txt": "requirements-nvrtc.txt"}
WORKFLOWS = {
    "github": {
        ".github/workflows/peakgate.yml": "github.yml",
        ".github/workflows/peakgate-judge.yml": "github-judge.yml",
        ".github/workflows/peakgate-no-gpu.yml": "github-no-gpu.yml",
        ".github/workflows/peakgate-history.yml": "github-history.yml",
        ".github/workflows/peakgate-comment.yml": "github-comment.yml",
        ".github/workflows/peakgate-asked.yml": "github-asked.yml",
        **PINS,
        **NO_GPU_PINS,
    },
    "gitlab": {"peakgate.gitlab-ci.yml": "gitlab.yml", **PINS},
}
"""By CI system the files that are written, and the template of each."""
REMOTE = re.compile(r"^(?:[a-z+]+://)?(?:[\w.-]+@)?[\w.-]+(?::\d+)?[:/](?P<repository>[\w.-]+/[\w.-]+?)(?:\.git)?/?$")
PINNED = re.compile(r"""git\+(?:https?|ssh)://[^\s"'`$\\]+@[0-9a-f]{40}|https?://[^\s"'`$\\]+#sha256=[0-9a-f]{64}""")
"""Requirement that a workflow may install, and pip reads: a commit by its full hash, or a file by its digest."""
INSTALLED = "peakgate @ "
"""What stands before the requirement in a workflow."""
OLDER_DRIVER = (
    "if its driver is older than 580: copy requirements/cuda12.txt of Peakgate's repository over "
    "requirements/peakgate-cuda13.txt"
)
LEFT_TO_DO = {
    "github": (
        "run `peakgate inspect resources --update`, commit baselines/resources.json and these files, push to {branch}",
        "give a GPU runner the labels that peakgate-judge.yml asks for, or set the variable PEAKGATE_GPU to none",
        OLDER_DRIVER,
        "limit the runner's group to peakgate-judge.yml and peakgate-history.yml on {branch}",
        "make /var/lib/peakgate on the runner, writable for its user: the runs of {branch} are kept there",
        "require the check `gate / judge (gpu)` on {branch}: peakgate help gate-a-pull-request",
        "after five runs there: `peakgate floors /var/lib/peakgate/GPU --write`, and commit the floors",
        "expect exit code 3 of the history job until ten runs are there",
    ),
    "gitlab": (
        "move peakgate.gitlab-ci.yml into a project that a change cannot edit, and commit the other files here",
        "name it in Settings, CI/CD, General pipelines, CI/CD configuration file: peakgate.gitlab-ci.yml@GROUP/PROJECT",
        "include there the jobs that this repository's .gitlab-ci.yml has: peakgate help gate-a-pull-request",
        "give a runner with a GPU the tag that the file asks for, and require that pipelines succeed",
        OLDER_DRIVER,
        "for the note on a merge request: a token and a schedule, peakgate help comments",
    ),
}
"""What a person has to do after a workflow was written."""
OTHER_BRANCH = (
    "origin's default branch is not known here, {branch} is assumed; if it is another one: git remote set-head origin "
    "--auto, delete these files, run again"
)
"""What a person has to do before that."""
IGNORED = (".peakgate/", ".benchmarks/", ".cache/")


def main(verb: str, arguments: Sequence[str]) -> int:  # noqa: ARG001  (one verb)
    """Write the missing files, print which, and the next step."""
    parser = VerbParser(
        prog="peakgate init",
        description="Make the working directory a project: [tool.peakgate] in its pyproject.toml and, where there are "
        "none yet, examples: a kernel with its family.py, and benchmark tests of it and of a callable. Nothing is "
        "overwritten.",
        epilog="exit codes: 0 written, 2 bad input",
    )
    parser.add_argument(
        "--ci", choices=WORKFLOWS, help="also write the workflows that judge a change, and the packages that they pin"
    )
    parser.add_argument(
        "--peakgate",
        metavar="ADDRESS",
        help="what the workflows install: git+URL@COMMIT or URL#sha256=HASH (default: where this Peakgate came from)",
    )
    parser.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="FILE.cu",
        help="write a family.py for the kernels of this file in place of the examples, check it, and list what is left "
        "to decide",
    )
    options = parser.parse_args(arguments)
    if options.source and (options.ci or options.peakgate):
        parser.error("--from writes a family alone; --ci is for a second `peakgate init`")
    address = _pinned(options.peakgate) if options.ci else ""
    root = Path.cwd()
    above = config.find(root)
    if above is not None and above.root != root:
        raise PeakgateError(
            f"{root}: is inside the project {above.root}; run `peakgate init` in a separate repository", Code.PROJECT
        )
    if options.source:
        return _from_source(root, above, options.source.resolve())
    branch, known = _branch(root) if options.ci else ("", True)
    values = {"@PEAKGATE@": address, "@BRANCH@": branch}
    if options.ci == "github":
        values["@REPOSITORY@"] = _repository(root)
    written = [*_settings(root, above, examples=True), *_ignored(root)]
    project = config.current()
    with_kernels = not project.kernels.exists()
    wanted = {project.kernels / name: name for name in KERNEL if with_kernels}
    if project.benchmarks and not project.benchmarks[0].exists():
        wanted |= {project.benchmarks[0] / name: name for name in BENCHMARKS[0 if with_kernels else 1 :]}
    for place, name in wanted.items():
        write_whole(place, (PROJECT_TEMPLATES / Path(name).name).read_text(encoding="utf-8"))
    written += [str(place.relative_to(root)) for place in wanted]
    written += _workflow(root, WORKFLOWS[options.ci], values) if options.ci else []
    for path in written:
        say(f"written: {path}")
    steps = LEFT_TO_DO[options.ci] if options.ci else ()
    for number, step in enumerate(steps if known else (OTHER_BRANCH, *steps), 1):
        say(f"to do {number}: {step.format(branch=branch)}")
    done = "" if written else "nothing to write: this is a project already; "
    say(f"{done}next: {'peakgate help gate' if options.ci else 'peakgate bench, or peakgate help tutorial'}")
    return ExitCode.OK


def _from_source(root: Path, above: config.Project | None, source: Path) -> int:
    """Write a family for a foreign .cu file, and check it unless no kernel ran; the check's exit code."""
    from peakgate.base.emulated import read_sources  # noqa: PLC0415  (the other ways of `init` need no emulator)
    from peakgate.inspect import check  # noqa: PLC0415  (nor NumPy)
    from peakgate.inspect.skeleton.stand_ins import BUILDS_S  # noqa: PLC0415  (as above)
    from peakgate.inspect.skeleton.write import CHECK_S, LAUNCHES_S, skeleton  # noqa: PLC0415  (as above)
    from peakgate_emulator.sources import kernels as names_of  # noqa: PLC0415  (as above)

    kernels = root / "kernels" if above is None else above.kernels
    inside = source.is_relative_to(kernels) and source.parent != kernels
    folder = source.parent if inside else kernels / re.sub(r"\W", "_", source.stem)
    family_file = folder / "family.py"
    if not source.is_relative_to(root):
        raise PeakgateError(f"{source}: is outside the project {root}; copy it to {folder}/", Code.PROJECT)
    if source.suffix == ".py":
        raise PeakgateError(
            f"--from {source}: Python; expected the source of a kernel, such as a .cu file", Code.OPTION
        )
    if family_file.exists():
        raise PeakgateError(
            f"{config.near(family_file)}: is there already; delete it to have it written anew", Code.TAKEN
        )
    names = names_of(read_sources(source)[0].text)
    say(
        f"{source.name}: {counted(len(names), 'kernel')}{': ' if names else ''}{', '.join(names)}; built in about "
        f"{duration(BUILDS_S)} at most, run in {duration(LAUNCHES_S)} and checked in {duration(CHECK_S)} of processor "
        "time"
    )
    with progress.shown("reading the file", ticks=False):  # processes are forked
        found = skeleton(source, folder, root)
    written = [*_settings(root, above, examples=False), *_ignored(root)]
    write_whole(family_file, found.text)
    stand_ins = found.stand_ins.write(folder)
    written += [str(each.relative_to(root)) for each in (family_file, *stand_ins)]
    for name in written:
        say(f"written: {name}")
    if found.problem:
        say(f"not checked: {found.problem}")
        code = int(ExitCode.UNDECIDED)
    else:
        limit_s = CHECK_S / max(1, found.text.count("kernel("))
        code = check.main("check", [str(family_file.relative_to(root))], found.guesses, limit_s)
    for number, step in enumerate(found.to_do, 1):
        say(f"to do {number}: {step}")
    say(f"next: edit {family_file.relative_to(root)}, then peakgate check; peakgate help existing-code")
    return code


def _settings(root: Path, present: config.Project | None, *, examples: bool) -> list[str]:
    """Write the settings of a new project, with a folder of benchmark tests if it is there or ``examples`` make it."""
    if present is not None:
        return []
    path = root / config.PYPROJECT
    before = read_text(path) if path.exists() else ""
    there = root / "benchmarks"
    ours = not there.exists() or any("gpu_benchmark" in read_text(file) for file in there.glob("*.py"))
    benchmarks = BENCHMARKS_SETTING.format("benchmarks" if ours else "gpu_benchmarks")
    settings = SETTINGS_TEXT.format(benchmarks=benchmarks if examples or (ours and there.exists()) else "")
    pytest = tomllib.loads(before).get("tool", {}).get("pytest", {}).get("ini_options", {})
    if folders := pytest.get("pythonpath"):  # `bench` does not read pytest's settings
        several = folders.split() if isinstance(folders, str) else folders
        settings += f"pythonpath = {json.dumps(several)}    # as pytest's\n"
    write_whole(path, before + ("\n" if before and not before.endswith("\n\n") else "") + settings)
    return [config.PYPROJECT]


def _ignored(root: Path) -> list[str]:
    path = root / ".gitignore"
    before = read_text(path) if path.exists() else ""
    missing = [line for line in IGNORED if line not in before.splitlines()]
    if not missing:
        return []
    write_whole(path, before + ("\n" if before and not before.endswith("\n") else "") + "\n".join(missing) + "\n")
    return [path.name]


def _workflow(root: Path, files: Mapping[str, str], values: Mapping[str, str]) -> list[str]:
    """Write the missing files; in those that are there, exchange the requirement alone. Their paths."""
    written = []
    for path, template in files.items():
        if (root / path).exists():
            before = read_text(root / path)
            text = re.sub(re.escape(INSTALLED) + f"(?:{PINNED.pattern})", INSTALLED + values["@PEAKGATE@"], before)
        else:
            before, text = None, (PROJECT_TEMPLATES / template).read_text(encoding="utf-8")
            for name, value in values.items():
                text = text.replace(name, value)
        if text != before:
            write_whole(root / path, text)
            written.append(path)
    return written


def _branch(root: Path) -> tuple[str, bool]:
    """The default branch, and whether it is the remote's: else the one at hand, or `main` without git."""
    for asked, known in (("rev-parse --abbrev-ref origin/HEAD", True), ("symbolic-ref --short HEAD", False)):
        with suppress(PeakgateError):
            return git.ask(root, *asked.split()).decode().strip().removeprefix("origin/"), known
    return "main", False


def _repository(root: Path) -> str:
    """OWNER/REPOSITORY of the remote origin."""
    with suppress(PeakgateError):
        if found := REMOTE.search(git.ask(root, "remote", "get-url", "origin").decode().strip()):
            return found["repository"]
    raise PeakgateError(
        "--ci github: the remote origin names no repository, which the workflow calls itself by; first run "
        "git remote add origin git@github.com:OWNER/REPOSITORY",
        Code.OPTION,
    )


def _pinned(address: str | None) -> str:
    """The address a workflow installs from, which must name a commit or a hash."""
    found = address
    if found is None:  # where the installed package came from
        recorded = recorded_origin()
        digest = recorded.get("archive_info", {}).get("hashes", {}).get("sha256")
        if commit := recorded.get("vcs_info", {}).get("commit_id"):
            found = f"git+{recorded.get('url', '')}@{commit}"
        elif digest and str(recorded.get("url", "")).startswith("http"):
            found = f"{recorded['url']}#sha256={digest}"
    if found is None:
        raise PeakgateError(
            "--ci: this peakgate was not installed from a commit or a hashed file; name what a workflow "
            "installs: --peakgate git+URL@COMMIT or URL#sha256=HASH",
            Code.OPTION,
        )
    if not PINNED.fullmatch(found):
        raise PeakgateError(
            f"--peakgate {found}: expected git+https://…@ or git+ssh://…@ and 40 hex digits, or https://…#sha256= and "
            "64; git@HOST:PATH is git+ssh://git@HOST/PATH",
            Code.OPTION,
        )
    return found
