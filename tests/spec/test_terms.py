"""Which terms of a case's contract a change of it touches, and what is compared of two contracts."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from expecting import refuses

from peakgate.base.errors import BuildError, Code
from peakgate.run import identity
from peakgate.run.identity import terms
from peakgate.run.listing import Listed, with_probes
from peakgate.spec import catalogue
from peakgate.spec.arguments import TensorMapArgument
from peakgate.spec.case import Buffer, Case, KernelLaunch, Launch, RefusedCase, Role, Scalar, Scale, Stage, Tier, Work
from peakgate.spec.catalogue import Catalogue
from peakgate.spec.contract import (
    EVALUATED,
    KEPT,
    PROMISED,
    TERMS,
    UNKNOWN,
    Contract,
    advice_on,
    changes,
    named,
    stated,
    summary,
)

ONE = Launch((1, 1, 1), (32, 1, 1))


@pytest.fixture
def case(tmp_path):
    (tmp_path / "twice.cu").write_text("")
    stage = Stage("twice", "", tmp_path / "twice.cu", constants=(("factor", Buffer(Role.IN, (1,), data=2.0)),))
    arguments = (Buffer(Role.OUT, (32,)), Buffer(Role.IN, (32,)), Scalar(32))
    return Case("mine", stage, ONE, arguments, Work(256), lambda xp, inputs: [2 * inputs[0]], size="32")


def contract(case, *, edges=(1, 31), **of_problems):
    probes = []
    for size in edges:
        arrays = tuple(Buffer(role, (size,)) for role in (Role.OUT, Role.IN))
        probes.append(replace(case, size=str(size), arguments=(*arrays, Scalar(size)), work=Work(0), **of_problems))
    return terms([Listed(case, tuple(probes))])[case.id]


def other_input(case, **changed):
    out, given, count = case.arguments
    return replace(case, arguments=(out, replace(given, **changed), count))


def other_stage(case, **changed):
    return replace(case, stage=replace(case.stage, **changed))


CHANGES = {
    "the grid": (lambda case: replace(case, launch=Launch((2, 1, 1), (32, 1, 1))), ["launch"]),
    "a macro": (lambda case: replace(case, defines=(("TILE", "8"),)), ["launch"]),
    "a value": (lambda case: replace(case, arguments=(*case.arguments[:2], Scalar(16))), ["launch"]),
    "a tensor map": (
        lambda case: replace(
            other_stage(case, min_capability=(9, 0)),
            arguments=(*case.arguments, TensorMapArgument(1, (32,), swizzle=128)),
        ),
        ["launch", "min_capability"],
    ),
    "several launches": (lambda case: replace(case, sequence=(KernelLaunch("twice", ONE, (0, 1)),)), ["launch"]),
    "a cooperative launch": (lambda case: other_stage(case, cooperative=True), ["launch"]),
    "a constant's type": (
        lambda case: other_stage(case, constants=(("factor", Buffer(Role.IN, (1,), "float64", data=2.0)),)),
        ["launch"],
    ),
    "bytes": (lambda case: replace(case, work=Work(512)), ["bytes"]),
    "flops": (lambda case: replace(case, work=Work(256, 1)), ["flops"]),
    "the peak": (lambda case: replace(case, work=Work(256, 0, 100.0)), ["peak_tflops"]),
    "the type of its operations": (lambda case: replace(case, work=Work(256, 0, math="bf16")), ["math"]),
    "the roof": (lambda case: replace(case, roof="read"), ["roof"]),
    "the type in the id": (lambda case: replace(case, dtype="float16"), ["dtype"]),
    "an array's type": (lambda case: other_input(case, dtype="float64"), ["launch", "buffers"]),
    "data at the benchmark's size": (lambda case: other_input(case, data=0.0), ["input_data"]),
    "scratch memory": (
        lambda case: replace(case, arguments=(*case.arguments, Buffer(Role.SCRATCH, (1,)))),
        ["launch", "buffers"],
    ),
    "temporary memory": (
        lambda case: replace(case, arguments=(*case.arguments, Buffer(Role.TEMP, (1,)))),
        ["launch"],
    ),
    "a tolerance": (lambda case: replace(case, tolerance=1e-6), ["tolerance"]),
    "a tolerance of one output": (lambda case: replace(case, tolerance=(1.00000001e-6,)), ["tolerance"]),
    "atol": (lambda case: replace(case, atol=1e-6), ["tolerance"]),
    "an rtol of 0": (lambda case: replace(case, rtol=0.0), ["tolerance"]),
    "the tier": (lambda case: replace(case, tier=Tier.GATE), ["tier"]),
    "the device": (lambda case: other_stage(case, min_capability=(9, 0)), ["min_capability"]),
    "features of one device": (
        lambda case: other_stage(case, min_capability=(9, 0), specific=True),
        ["min_capability"],
    ),
    "whose time it is": (lambda case: other_stage(case, host_bound=True), ["host_bound"]),
    "an operation": (lambda case: other_stage(case, source=None, operation="memcpy"), ["operation"]),
    "the reference": (lambda case: replace(case, reference=lambda xp, inputs: [3 * inputs[0]]), ["reference"]),
    "the lesson": (lambda case: other_stage(case, lesson="more"), []),
    "a model's prediction": (lambda case: replace(case, predicted=(("sectors", 4.0),)), []),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_a_case_changes_exactly_its_terms(case, change, monkeypatch):
    monkeypatch.setattr(identity, "MOST_BYTES", 0)  # the reference at the case's own size
    changed, expected = CHANGES[change]
    assert list(changes(contract(case), contract(changed(case)))) == expected


def test_edge_size_problems_are_part_of_the_contract(case):
    before = contract(case)
    assert list(changes(before, contract(case, edges=(1, 31, 33)))) == ["launch", "edge_problems", "reference"]
    assert list(changes(before, contract(case, launch=Launch((2, 1, 1), (32, 1, 1))))) == ["launch"]
    assert list(changes(before, contract(case, scale=lambda xp, inputs: [inputs[0]]))) == ["reference"]
    assert list(changes(before, contract(case, tolerance=1e-2))) == ["edge_tolerance"]


def test_a_reference_kernel_counts_with_its_source(case, tmp_path):
    (tmp_path / "other.cu").write_text("")
    kernel = replace(case, reference=None, stage=Stage("other", "", tmp_path / "other.cu"))
    case = replace(case, reference=kernel)
    before = stated(case)
    (tmp_path / "other.cu").write_text("// changed")
    assert list(changes(before, stated(case))) == ["reference_kernel"]


def test_expected_values_are_part_of_the_contract(case, tmp_path):
    def of(**changed):
        return contract(replace(case, **changed)).reference

    flat = of(reference=lambda xp, inputs: [2 * inputs[0]])
    assert of(reference=lambda xp, inputs: [(2 * inputs[0]).reshape(-1, 1)]) != flat
    assert contract(case, scale=lambda xp, inputs: [None]) == contract(case)
    for content in (b"1", b"2"):
        (tmp_path / "expected.npy").write_bytes(content)
        (tmp_path / "other.cu").write_text(f"// {content}")
        saved = of(reference=(tmp_path / "expected.npy",))
        kernel = of(reference=replace(case, reference=None, stage=Stage("other", "", tmp_path / "other.cu")))
        if content == b"1":
            before = saved, kernel
    assert (saved != before[0], kernel != before[1]) == (True, True)


def test_a_case_is_evaluated_at_its_own_size_up_to_a_limit(case, monkeypatch):
    made = other_input(replace(case, work=Work(256, 100)), data=_below_32)
    for limit, at in (("MOST_DATA_BYTES", 128), ("MOST_BYTES", made.buffer_bytes), ("MOST_FLOPS", 100)):
        term = "benchmark_data" if limit == "MOST_DATA_BYTES" else "benchmark_reference"
        for most, known in ((at, True), (at - 1, False)):
            monkeypatch.setattr(identity, limit, most)
            assert (getattr(contract(made), term) is not None) == known
        monkeypatch.undo()
    assert contract(other_input(made, shape=((1 << 28) + 1,))).benchmark_data is None  # a GiB and a number
    assert contract(other_input(made, shape=((1 << 20) + 1,))).benchmark_reference is None
    assert contract(replace(made, work=Work(256, (1 << 28) + 1))).benchmark_reference is None
    assert contract(case).benchmark_data is None  # random, no function's
    saved = replace(
        case, reference=replace(case, reference=None, stage=replace(case.stage, source=None, operation="a"))
    )
    assert contract(saved).benchmark_reference is None


def test_edge_size_problems_count_by_their_size_and_tolerance(case):
    def of(*probes):
        return terms([Listed(case, probes)])[case.id]

    tiny = replace(case, work=Work(0))
    assert list(changes(of(replace(tiny, size="a")), of(replace(tiny, size="b")))) == ["reference"]
    loose = replace(tiny, tolerance=0.5)
    assert of(tiny, tiny).edge_tolerance is None
    assert len({of(*probes).edge_tolerance for probes in ((tiny, tiny), (tiny, loose), (loose, loose))}) == 3


def test_edge_size_problems_of_one_build_are_evaluated_once(case):
    evaluated = []
    probe = replace(case, reference=lambda xp, inputs: evaluated.append(1) or inputs, work=Work(0))
    terms([Listed(replace(case, size=size), (probe,)) for size in ("32", "64")])
    assert len(evaluated) == 1


def test_equal_functions_of_equal_inputs_are_called_once(case):
    evaluated = []

    def reference(xp, inputs):
        evaluated.append(inputs[0].size)
        return inputs

    first = replace(case, reference=reference, work=Work(0))
    more = [
        replace(other_stage(first, entry="k"), variant="kernel"),
        replace(other_input(first, data=1.0), variant="inputs"),
        replace(other_stage(first, constants=(("factor", Buffer(Role.IN, (1,), data=3.0)),)), variant="constant"),
        replace(first, scale=lambda xp, inputs: [None], variant="magnitudes"),
    ]
    found = terms([Listed(each, (each,)) for each in (first, *more)])
    assert len(evaluated) == 4
    digests = [found[each.id].reference for each in (first, *more)]
    assert digests[0] == digests[1] == digests[4]
    assert len({*digests}) == 3


def test_every_term_is_the_kernels_own_or_promised():
    assert set(TERMS) - set(PROMISED) == {"code", "library", "launch"}
    assert set(PROMISED) - set(KEPT) == {"operation", "buffers", "edge_tolerance", *EVALUATED}


def test_what_surely_equals_has_machine_code_or_a_version():
    kernel, called, library = Contract(code="1"), Contract(operation="callable"), Contract(operation="a", library="a 1")
    assert [each.surely_equals(each) for each in (kernel, called, library)] == [True, False, True]
    assert not kernel.surely_equals(Contract(code="1", launch="2"))
    assert not library.surely_equals(Contract(operation="a"))
    assert (UNKNOWN.described, Contract(launch="1").described, Contract(launch="1").builds) == (False, True, False)
    assert not Contract(problem="no such file").described
    assert changes(Contract(problem="a"), Contract(problem="b")) == {}
    assert kernel.builds
    assert called.builds


def test_of_two_sampling_methods_only_what_differs_is_named():
    before, after = Contract(sampling="events, flushed, blocked"), Contract(sampling="events, flushed, moved")
    (line,) = summary({"a.b": (before, after)})
    assert [each in line for each in ("blocked", "moved", "flushed")] == [True, True, False]


def test_a_summary_counts_each_terms_cases_and_names_the_first():
    cases = {name: (Contract(bytes=8, tier="gate"), Contract(bytes=16, tier="gate")) for name in ("a.b", "a.c")}
    (line,) = summary(cases)
    assert "2 cases" in line
    assert "8 to 16" in line
    assert summary(cases, ["tier"]) == []
    cases = {"a.b": (Contract(peak_tflops=0.1 + 0.2, tier="gate"), Contract(peak_tflops=0.5, tier="full"))}
    sides = [line.partition("(a.b: ")[2].split(" to ") for line in summary(cases)]
    assert sides == [["0.3", "0.5)"], ["gate", "full)"]]


def _below_32(xp, shape):
    return (xp.arange(*shape) % (7 if shape[0] < 32 else 5) + 1).astype("float32")


@pytest.mark.parametrize(
    ("changed", "term"),
    [
        ({"reference": lambda xp, inputs: [(2 if inputs[0].size < 32 else 3) * inputs[0]]}, "benchmark_reference"),
        ({"data": lambda xp, shape: (xp.arange(*shape) % 7 + 1).astype("float32")}, "benchmark_data"),
    ],
)
def test_what_differs_at_the_benchmarks_size_alone_is_compared(case, changed, term):
    plain = other_input(case, data=_below_32)
    other = replace(plain, **changed) if "reference" in changed else other_input(plain, **changed)
    found = changes(contract(plain), contract(other))
    assert term in found
    assert "reference" not in found


def test_a_case_states_how_inputs_are_filled(case, tmp_path):
    (tmp_path / "x.npy").write_bytes(b"1")
    fillings = {None: "random", 2.0: "2.0", (0, 1): "(0, 1)", _below_32: "a function", tmp_path / "x.npy": "x.npy"}
    for data, stated_as in fillings.items():
        assert stated(other_input(case, data=data)).input_data == f"{stated_as}, 2.0"  # and the constant
    assert [stated(replace(case, state=state)).state for state in ("cold", "warm", "graph")] == [None, "warm", "graph"]
    assert stated(replace(case, tolerance=1e-3)).tolerance == 1e-3
    assert stated(replace(case, tolerance=(1e-3,))).tolerance == 1e-3
    assert stated(replace(case, tolerance=1e-3, atol=0.5, rtol=0.0)).tolerance == "0.001 atol=0.5 rtol=0"
    two = replace(case, arguments=(*case.arguments, Buffer(Role.OUT, (32,))), tolerance=(1e-3, 0.5))
    assert stated(two).tolerance == "0.001 0.5"
    assert stated(replace(other_stage(case, constants=()), arguments=case.arguments[:1])).input_data is None
    assert (stated(case).reference_kernel, len(stated(case).buffers)) == (None, 12)
    assert stated(replace(case, reference=other_stage(case, source=None, operation="copy"))).reference_kernel is None
    assert stated(case).saved is None
    saved = stated(other_input(case, data=tmp_path / "x.npy")).saved
    assert saved.startswith("x.npy:")
    (tmp_path / "x.npy").write_bytes(b"2")
    assert stated(other_input(case, data=tmp_path / "x.npy")).saved != saved
    assert (named("code"), named("edge_problems")) == ("machine code", "edge problems")
    assert (stated(case).min_capability, stated(case).host_bound, stated(case).peak_tflops) == ("7.5", False, "default")


@pytest.fixture
def project(case, monkeypatch):
    """What the families of a project give, without one: two cases of which one is in the gate tier."""
    gated = replace(case, size="64", tier=Tier.GATE)
    found = {each.id: Listed(each, ()) for each in (case, gated)}
    given = SimpleNamespace(ids=(gated.id, case.id), found=found, refused=[])
    root = identity.config.current().root

    def listed(project, scale, tier=Tier.FULL):
        assert (project, scale) == (root, Scale.BENCH)
        known, refused = with_probes(Catalogue((), [each.case for each in found.values()], given.refused), tier)
        return {each.case.id: found[each.case.id] for each in known}, refused

    monkeypatch.setattr(catalogue, "probes", lambda case, families: ())
    monkeypatch.setattr(identity.listing, "listed", listed)

    def compiled(stage, defines, capability):
        assert (stage, defines) in [(each.case.stage, each.case.defines) for each in found.values()]
        assert capability == (9, 0)
        return SimpleNamespace(fingerprint="f" * 16)

    monkeypatch.setattr(identity, "cubin", compiled)
    return given


@pytest.fixture
def benchmark_tests(monkeypatch):
    """Two benchmark tests of the project, by the ids that they have."""
    root = identity.config.current().root
    tests = ("bench.test_a", "bench.test_b")
    project = SimpleNamespace(root=root, benchmarks=tests)
    monkeypatch.setattr(identity.config, "current", lambda: project)

    def collected(of, kernels):
        assert of is project
        assert all(kernel.startswith("mine.") for kernel in kernels)
        return of.benchmarks

    monkeypatch.setattr("peakgate.run.collection.collected", collected)
    return project


def printed(capsys, *arguments):
    assert identity.main(list(arguments)) == 0
    return json.loads(capsys.readouterr().out)


def test_identities_are_those_of_the_tier_and_the_architecture(project, capsys):
    gated, full = project.ids
    found = printed(capsys, "--capability", "9.0")
    assert list(found) == [gated]
    assert (found[gated]["code"], found[gated]["tier"], found[gated]["edge_problems"]) == ("f" * 16, "gate", 0)
    assert sorted(printed(capsys, "--capability", "9.0", "--tier", "full")) == sorted(project.ids)
    assert identity.identities(list(project.found.values()), (5, 0)) == {}
    terms_only = printed(capsys, "--terms")
    assert sorted(terms_only) == sorted(project.ids)
    assert "code" not in terms_only[full]


def test_what_a_family_does_not_describe_has_no_term(project, capsys):
    refused = RefusedCase.named("mine", "gone", "fails")
    project.refused.append(refused)
    assert printed(capsys, "--capability", "9.0")[refused.id] == {"problem": refused.reason}
    assert identity.main(["--terms"]) == 2
    assert "fails" in capsys.readouterr().err


def test_a_case_whose_reference_fails_on_edges_is_not_described(project, capsys, tmp_path):
    gated, full = project.ids

    def fails(xp, inputs):
        raise ValueError("no")

    case = replace(project.found[gated].case, reference=fails)
    project.found[gated] = Listed(case, (replace(case, size="1", work=Work(0)),))
    found = printed(capsys, "--capability", "9.0", "--tier", "full")
    assert (list(found[gated]), found[full]["code"]) == (["problem"], "f" * 16)
    assert identity.identities([project.found[full]], (9, 0))[full].reference is not None
    (tmp_path / "changed").write_text("")
    unevaluated = printed(capsys, "--capability", "9.0", "--changed", str(tmp_path / "changed"))[gated]
    assert "reference" not in unevaluated
    assert unevaluated["code"] == "f" * 16
    (tmp_path / "changed").write_text("a.py\0b.py")
    assert list(printed(capsys, "--capability", "9.0", "--changed", str(tmp_path / "changed"))[gated]) == ["problem"]


def test_an_operation_of_the_device_is_identified_by_its_library(project, capsys, tmp_path, monkeypatch):
    gated, _ = project.ids
    case = project.found[gated].case
    stage = replace(case.stage, source=None, operation="cublas_sgemm")
    project.found[gated] = Listed(replace(case, stage=stage), ())
    monkeypatch.setattr(identity.driver, "library_behind", lambda operation: f"{operation} 1.2")
    found = printed(capsys, "--capability", "9.0")[gated]
    assert (found["operation"], found["library"], "code" in found) == ("cublas_sgemm", "cublas_sgemm 1.2", False)
    (tmp_path / "ids").write_text(gated)
    assert list(printed(capsys, "--capability", "9.0", "--built", str(tmp_path / "ids"))[gated]) == ["problem"]


def test_benchmark_tests_are_listed_beside_kernels(project, benchmark_tests, capsys, monkeypatch):
    gated = project.ids[0]
    first, second = benchmark_tests.benchmarks
    found = printed(capsys, "--capability", "9.0")
    assert list(found) == [gated, first, second]
    assert found[first] == {"operation": "callable"}
    monkeypatch.setattr("peakgate.run.collection.collected", None)  # called in vain, it would cost a second
    benchmark_tests.benchmarks = ()
    assert list(printed(capsys, "--capability", "9.0")) == [gated]


def test_builds_are_those_of_the_file_in_its_order(project, tmp_path, capsys, monkeypatch):
    made = SimpleNamespace(path=tmp_path / "k", entry="e", fingerprint="f", resources=ONE)
    monkeypatch.setattr(identity, "cubin", lambda stage, defines, capability: made if defines == () else stage.none)
    (tmp_path / "ids").write_text("\n".join((*reversed(project.ids), "no.such")))
    found = printed(capsys, "--capability", "9.0", "--built", str(tmp_path / "ids"))
    assert list(found) == list(reversed(project.ids))
    assert (found[project.ids[0]]["entry"], found[project.ids[0]]["fingerprint"]) == ("e", "f")
    assert found[project.ids[0]]["launch"]["block"] == [32, 1, 1]

    def broken(*_):
        raise BuildError("no")

    monkeypatch.setattr(identity, "cubin", broken)
    assert "no" in printed(capsys, "--capability", "9.0", "--built", str(tmp_path / "ids"))[project.ids[0]]["problem"]
    assert "code" not in printed(capsys, "--capability", "9.0")[project.ids[0]]


@pytest.mark.parametrize("text", ["9", "9,0", "x.0", "9.x", "", ".", "9.", "².0", "0.0", "1.0", "7.4"])
def test_a_capability_that_is_none_is_bad_input(text, capsys):
    assert identity.main(["--capability", text]) == 2
    assert "[PG101]" in capsys.readouterr().err


def test_without_a_gpu_the_capability_has_to_be_named(monkeypatch):
    monkeypatch.setattr(identity.driver, "gpu_capability", lambda index: None)
    with refuses(Code.NO_GPU):
        identity.parse_capability(None)
    monkeypatch.setattr(identity.driver, "gpu_capability", lambda index: (9, index))
    assert (identity.parse_capability(None), identity.parse_capability("12.1")) == ((9, 0), (12, 1))


@pytest.mark.parametrize(
    ("problem", "advised"),
    [
        ("ModuleNotFoundError: No module named 'refs' [PG301]", True),
        ("SyntaxError: invalid syntax", False),
        ("", False),
    ],
)
def test_a_missing_module_is_answered_by_where_it_has_to_be(problem, advised):
    assert ("`build`" in advice_on(problem) and "submodules" in advice_on(problem)) == advised
