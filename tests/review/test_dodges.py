"""Every way to dodge the gate that the page of promises names, tried on a repository with a base and a change."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ab_fake import git as git_in
from synthetic_runs import document, save

from peakgate.base import config
from peakgate.cli import main
from peakgate.run import base_contract as contract
from peakgate.run.inputs import exported
from peakgate.spec.case import Case, Scale, Tier

ROOT = Path(__file__).parents[2]
PROMISES = ROOT / "docs" / "explanation" / "promises.md"
GPU = "nvidia-h200"
H200 = f"baselines/{GPU}"
CASE = "twice.{}-1024"
git = partial(git_in, Path())
"""Of the working directory."""

KERNELS = """
extern "C" __global__ void twice(float* out, const float* in, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2.0f * in[i];
}

extern "C" __global__ void thrice(float* out, const float* in, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 3.0f * in[i];
}

extern "C" __global__ void whole_blocks(float* out, const float* in, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (blockIdx.x < n / blockDim.x) out[i] = 2.0f * in[i];
}
"""

FAMILY = """
from pathlib import Path

from peakgate.case import Buffer, Case, Family, Launch, Role, Scalar, Scale, Stage, Tier, Work

HONEST = dict(entry="twice", factor=2, bytes=8, tolerance=0.0, edges=(33,), data=None, n=None, tier=Tier.GATE, more={})
NAMES = %(names)r
CHANGES = %(changes)s
SOURCE = Path(__file__).with_name("twice.cu")
HOW = {name: {**HONEST, **CHANGES.get(name, {})} for name in NAMES}
STAGES = {name: Stage(name, "", SOURCE, entry=how["entry"], **how["more"]) for name, how in HOW.items()}


def case(name, size, shape=None):
    how = HOW[name]
    shape = how.get("shape", shape or size)
    arrays = Buffer(Role.OUT, (shape,)), Buffer(Role.IN, (shape,), data=how["data"])
    return Case(
        "twice", STAGES[name], Launch((how.get("blocks", 1) * -(-size // 32), 1, 1), (32, 1, 1)),
        (*arrays, Scalar(size if how["n"] is None else how["n"])), Work(how["bytes"] * size),
        lambda xp, inputs: [xp.float32(how["factor"]) * inputs[0]],
        size=str(size), tolerance=how["tolerance"], tier=how["tier"],
    )


def cases(scale):
    yield from (case(name, 1024) for name in NAMES)


def probes(of):
    yield from (case(of.stage.name, size) for size in HOW[of.stage.name]["edges"])


FAMILY = Family("twice", "a test", tuple(STAGES.values()), cases, probes)
"""

FORGED = """
import sys
if "peakgate.session.prover" in sys.modules:
    import peakgate.session.prover as session
    from peakgate.judge.correctness import Deviation
    session.check = lambda *arguments: Deviation(0.0, 0.0, None)
"""
"""A family file that patches the judge of the process that imports it."""


@dataclass(frozen=True)
class Terms:
    """A dodge in a family file: its changes of one stage, the verdict of its case, and the terms `protect` lists."""

    changes: str
    verdict: str
    listed: tuple[str, ...] = ()


TERMS = {
    "claims more bytes or flops": Terms("{'bytes': 16}", "NO_FLOOR", ("bytes",)),
    "loosens a tolerance": Terms("{'tolerance': 1e9, 'entry': 'thrice'}", "WRONG", ("tolerance",)),
    "changes a reference to match a wrong kernel": Terms("{'factor': 3, 'entry': 'thrice'}", "WRONG", ("reference",)),
    "drops edge-size problems": Terms("{'edges': (64,), 'entry': 'whole_blocks'}", "WRONG", ("reference",)),
    "fills the inputs with zeros": Terms("{'data': 0.0, 'entry': 'thrice'}", "WRONG", ("input_data",)),
    "raises `min_capability`": Terms("{'more': {'min_capability': (99, 0)}}", "NO_FLOOR", ("min_capability",)),
    "moves a case to the full tier": Terms("{'tier': Tier.FULL}", "NO_FLOOR", ("tier",)),
    "sets `host_bound`": Terms("{'more': {'host_bound': True}}", "NO_FLOOR", ("host_bound",)),
    "launches on fewer elements": Terms("{'n': 512}", "WRONG"),
    "gives the kernel smaller arrays": Terms("{'shape': 512}", "INCONCLUSIVE", ("buffers", "reference")),
    "makes a launch cooperative, which the emulator refuses": Terms(
        "{'more': {'cooperative': True}, 'blocks': 32}", "INCONCLUSIVE"
    ),
    "patches the judge from a family file": Terms("{'entry': 'thrice'}", "WRONG"),
}
RENAMED = "renames or deletes a stage"
NAMES = [f"s{number}" for number in range(len(TERMS))]
STAGE_OF = dict(zip(TERMS, NAMES, strict=True))

LISTED: Mapping[str, tuple[str, ...]] = {
    "lowers a floor": ("floor lowered: twice.s0-1024: 0.7 to 0.6",),
    "deletes a floor": ("floor dropped: twice.s1-1024: 0.8 to none",),
    "makes floors.toml a link": ("symbolic link: floors.toml",),
    "edits a saved run": ("run edited: edited.json",),
    "deletes a saved run": ("run deleted: deleted.json",),
    "renames a saved run": ("run deleted: named.json",),
    "adds a run dated in the future": ("run that cannot be trusted: forged.json",),
    "adds a run of another GPU": ("run that cannot be trusted: other.json",),
    "acknowledges itself, or until 9999": (f"for review: {H200}/acknowledged.toml", "floor lowered"),
    "edits digests, resources or waivers": (
        *(f"for review: {H200}/digests.json", "for review: baselines/resources.json"),
        "for review: baselines/waivers.toml",
    ),
    "makes the verdict script return 0": ("for review: .github/verdict.py",),
    "makes the `bench` session do nothing": ("for review: noxfile.py",),
    "removes the condition of a workflow": ("for review: .github/workflows/gate.yml",),
    "pins another NVRTC in a lock file": ("for review: requirements/nvrtc.txt",),
    "changes a benchmark test's work or reference": ("for review: benchmarks/test_scale.py",),
    "multiplies the reported median by 0.8": ("for review: src/peakgate/measure/sampling.py",),
    "scales saved samples": ("for review: src/peakgate/callables/fixture.py",),
    "makes the correctness check find nothing": ("for review: src/peakgate/judge/correctness.py",),
    "makes the gate always PASS": ("for review: src/peakgate/judge/floors.py",),
    "makes every exit code 0": ("for review: src/peakgate/base/verdict.py",),
    "makes `decide` always SAME": ("for review: src/peakgate/compare/ab/decide.py",),
    "halves the peaks": ("for review: src/peakgate/judge/metrics.py",),
    "skips the flush of the L2": ("for review: src/peakgate/device/stream.py",),
    "leaves out the guard behind buffers": ("for review: src/peakgate/device/arrays.py",),
    "sets a default tolerance in the case record": ("for review: src/peakgate/spec/case.py",),
    "replaces a library call": ("for review: src/peakgate/device/operations.py",),
}
"""Dodges that `protect` lists, each with what it prints."""

DODGES = tomllib.loads(Path(__file__).with_name("dodges.toml").read_text(encoding="utf-8"))["dodge"]
SHOWN_BY = {each["change"]: each["shown_by"] for each in DODGES if "shown_by" in each}
"""Dodges that another test shows."""

COMMITTED = "commits a `bench.json` in an ignored folder"

OUTSIDE = (
    "makes a kernel slow in some processes only",
    "adds a plausible forged run",
    "forges samples in a benchmark test",
    "slows the base's kernel down from its own",
    "is another kernel where it finds the judge's files when it is compiled (`__has_include`, `__FILE__`)",
)
"""Dodges that are named as a limit or as outside the promise; nothing refuses them."""


def write(files: Mapping[str, str]) -> None:
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)


def family(names: list[str], changes: str = "{}") -> str:
    return FAMILY % {"names": names, "changes": changes}


FLOORS = f'schema = 1\ngpu = "{GPU}"\n[floors]\n"twice.s0-1024" = 0.7\n"twice.s1-1024" = 0.8\n'


@pytest.fixture(scope="module")
def change(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose tag ``base`` is honest and whose commit above has every dodge, each on a stage of its own."""
    folder = tmp_path_factory.mktemp("change")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for_review = [line for lines in LISTED.values() for line in lines if line.startswith("for review: ")]
        reviewed = [line.removeprefix("for review: ") for line in for_review]
        write(dict.fromkeys(reviewed, "before\n"))
        write({"peakgate.toml": 'benchmarks = ["benchmarks"]\n', ".gitignore": ".peakgate\n.benchmarks\n"})
        write({"kernels/twice/twice.cu": KERNELS, "kernels/twice/family.py": family([*NAMES, "gone"])})
        write({f"{H200}/floors.toml": FLOORS, "baselines/linked/floors.toml": FLOORS.replace(GPU, "linked")})
        write({f"{H200}/runs/{name}.json": "{}" for name in ("edited", "deleted", "named")})
        Path(f"{H200}/acknowledged.toml").unlink()
        write({"benchmarks/test_scale.py": ""})
        git("init", "-q")
        git("add", "--all")
        git("commit", "-q", "-m", "base")
        git("tag", "base")

        changes = {STAGE_OF[dodge]: terms.changes for dodge, terms in TERMS.items()}
        written = "{" + ", ".join(f"{stage!r}: {text}" for stage, text in changes.items()) + "}"
        write(dict.fromkeys(reviewed, "after\n"))
        write({"kernels/twice/family.py": family([*NAMES, "renamed"], written) + FORGED})
        write({f"{H200}/floors.toml": FLOORS.replace("0.7", "0.6").replace('"twice.s1-1024" = 0.8\n', "")})
        write({f"{H200}/acknowledged.toml": "schema = 1\n[[acknowledged]]\nexpires = 9999-12-31\n"})
        Path("baselines/linked/floors.toml").unlink()
        Path("baselines/linked/floors.toml").symlink_to("../../elsewhere.toml")
        write({"elsewhere.toml": FLOORS.replace(GPU, "linked"), f"{H200}/runs/edited.json": '{"a": 1}'})
        Path(f"{H200}/runs/deleted.json").unlink()
        Path(f"{H200}/runs/named.json").rename(f"{H200}/runs/another.json")
        save(Path(H200, "runs"), "forged", document() | {"datetime": "2099-01-01T00:00:00+00:00"})
        save(Path(H200, "runs"), "other", document(slug="nvidia-l4"))
        write({".peakgate/out/bench.json": '{"exit_code": 0}', "benchmarks/test_scale.py": "# other work\n"})
        git("add", "--all", "--force")
        git("commit", "-q", "-m", "change")
    return folder


@pytest.fixture
def inside(change: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(change)
    monkeypatch.setenv("PEAKGATE_CACHE", str(ROOT / ".cache"))
    return change


@pytest.fixture(scope="module")
def verdict(change: Path) -> dict[str, Any]:
    """The verdict of one run as the workflow makes it, on the emulator, with the run file's entries by case."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(change)
        patch.setenv("PEAKGATE_CACHE", str(ROOT / ".cache"))
        run = ["bench", "--device", "cpu", "--baselines-from", "base", "--out", "out", "--benchmark-json", "run.json"]
        code = main(run)
    found: dict[str, Any] = json.loads((change / "out" / "bench.json").read_text())
    assert found["exit_code"] == code
    entries = json.loads((change / "run.json").read_text())["benchmarks"]
    return found | {"entries": {each["extra_info"]["case"]: each["extra_info"] for each in entries}}


@pytest.fixture(scope="module")
def listed(change: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `protect` says of the change, as the workflow asks it."""
    out = tmp_path_factory.mktemp("protect")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(change)
        code = main(["protect", "--base", "base", "--acknowledged-from-base", "--out", str(out)])
    found: dict[str, Any] = json.loads((out / "protect.json").read_text())
    assert found["exit_code"] == code == 1
    return found


@pytest.mark.parametrize("dodge", TERMS)
def test_a_changed_term_of_a_known_case_buys_no_verdict(verdict: dict[str, Any], dodge: str) -> None:
    verdicts = {case["case"]: case["verdict"] for case in verdict["cases"]}
    assert verdicts[CASE.format(STAGE_OF[dodge])] == TERMS[dodge].verdict, verdict["cases"]


@pytest.mark.parametrize("dodge", [dodge for dodge, terms in TERMS.items() if terms.listed])
def test_a_changed_term_of_a_known_case_is_listed(listed: dict[str, Any], dodge: str) -> None:
    case = CASE.format(STAGE_OF[dodge])
    terms = {each["term"] for each in listed["changes"]["failing"] if each["what"] == case and each["gpu"] == ""}
    assert terms >= set(TERMS[dodge].listed)


def test_figures_rest_on_the_work_of_the_base(verdict: dict[str, Any]) -> None:
    entry = verdict["entries"][CASE.format(STAGE_OF["claims more bytes or flops"])]
    assert (entry["bytes"], entry["tolerance"]) == (8 * 1024, 0.0)


def test_a_stage_that_goes_is_missing_and_one_that_comes_is_new(
    verdict: dict[str, Any], listed: dict[str, Any]
) -> None:
    verdicts = {case["case"]: case["verdict"] for case in verdict["cases"]}
    assert verdicts["twice.gone-1024"] == "MISSING"
    assert verdicts["twice.renamed-1024"] == "NEW"
    assert "twice.gone-1024" in {each["what"] for each in listed["changes"]["failing"]}
    assert verdict["exit_code"] == 1


def test_at_benchmark_scale_the_tier_and_the_flags_are_the_bases(inside: Path) -> None:
    project = config.required()
    with exported("base", project.root, project.baselines) as tree:
        against = contract.against(tree, project, Scale.BENCH, "base", lambda case: None)
    gated = {case.id: case for case in against.listed(Tier.GATE) if isinstance(case, Case)}
    assert {case.id for case in against.listed(Tier.GATE)} == {
        CASE.format(name) for name in (*NAMES, "gone", "renamed")
    }
    assert not gated[CASE.format(STAGE_OF["sets `host_bound`"])].stage.host_bound
    assert gated[CASE.format(STAGE_OF["raises `min_capability`"])].stage.min_capability == (7, 5)
    assert any("tier changed" in note for note in against.notes)


@pytest.mark.parametrize("dodge", LISTED)
def test_a_change_of_what_judges_it_is_listed(listed: dict[str, Any], dodge: str) -> None:
    printed = [
        f"{each['gpu']}: {each['kind']}: {each['what']}: {each['before']} to {each['after']}"
        for each in listed["changes"]["failing"] + listed["changes"]["review"]
    ]
    for line in LISTED[dodge]:
        assert any(line in each for each in printed), (line, printed)


def test_a_verdict_that_the_change_brings_along_is_removed_first(inside: Path) -> None:
    brought = inside / ".peakgate" / "out" / "bench.json"
    brought.write_text('{"exit_code": 0}')
    assert main(["bench", "--device", "cpu", "--baselines-from", "nowhere"]) == 2
    assert not brought.exists()


@pytest.mark.parametrize("dodge", SHOWN_BY)
def test_the_test_that_shows_a_dodge_is_there(dodge: str) -> None:
    module, _, name = SHOWN_BY[dodge].partition(".")
    files = [*(ROOT / "tests").glob(f"*/{module}.py")]
    assert any(file.is_file() and f"def {name}(" in file.read_text() for file in files)


def test_the_page_names_the_dodges_that_are_tried_here() -> None:
    assert {each["change"] for each in DODGES} == {*TERMS, *LISTED, *SHOWN_BY, *OUTSIDE, RENAMED, COMMITTED}


def test_the_page_says_what_is_seen_here() -> None:
    table = {each["change"]: each["result"] for each in DODGES}
    for dodge, terms in TERMS.items():
        expected = "judged by the base's" if terms.verdict == "NO_FLOOR" else terms.verdict
        assert expected in table[dodge], dodge
        assert ("exit 1" in table[dodge]) == (bool(terms.listed) or terms.verdict == "WRONG"), dodge
        assert ("listed" in table[dodge]) == bool(terms.listed), dodge
    for dodge, lines in LISTED.items():
        reviewed = all(line.startswith("for review") for line in lines)
        assert ("for review" in table[dodge]) == any(line.startswith("for review") for line in lines), dodge
        assert reviewed or "exit 1" in table[dodge], dodge
    assert "MISSING" in table[RENAMED]
    assert all("**" in table[dodge] for dodge in OUTSIDE)


def test_a_case_that_patches_the_judge_patches_another_process(inside: Path) -> None:
    wrong = CASE.format(STAGE_OF["patches the judge from a family file"])
    write({".peakgate/cases": f"twice.renamed-1024\n{wrong}\n"})
    main(
        [
            "bench",
            "--device",
            "cpu",
            "--baselines-from",
            "base",
            "--peakgate-cases",
            ".peakgate/cases",
            "--out",
            ".peakgate/few",
        ]
    )
    found = json.loads(Path(".peakgate/few/bench.json").read_text())["cases"]
    verdicts = [(case["case"], case["verdict"]) for case in found]
    assert verdicts == [("twice.renamed-1024", "NEW"), (wrong, "WRONG")]


@pytest.mark.gpu
def test_on_a_gpu_the_base_judges_as_well(inside: Path) -> None:
    main(["bench", "--device", "gpu", "--baselines-from", "base", "--out", "gpu", "--benchmark-json", "gpu.json"])
    found = {case["case"]: case["verdict"] for case in json.loads((inside / "gpu" / "bench.json").read_text())["cases"]}
    assert found["twice.gone-1024"] == "MISSING"
    assert found["twice.renamed-1024"] == "NEW"
    for dodge, terms in TERMS.items():
        if terms.verdict == "WRONG" or "arrays" in dodge:
            assert found[CASE.format(STAGE_OF[dodge])] == terms.verdict, dodge
        else:
            assert found[CASE.format(STAGE_OF[dodge])] in ("PASS", "NO_FLOOR", "BELOW_FLOOR"), dodge
    saved = json.loads((inside / "gpu.json").read_text())["benchmarks"]
    entries = {each["extra_info"]["case"]: each["extra_info"] for each in saved}
    assert entries[CASE.format(STAGE_OF["claims more bytes or flops"])]["bytes"] == 8 * 1024


def test_against_itself_no_case_of_this_repository_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    against = contract.against(ROOT, config.required(), Scale.SMALL, "itself", lambda case: None)
    assert len(against.cases) > 100
    assert (against.objections, set(against.new), list(against.notes)) == ({}, set(), [])
