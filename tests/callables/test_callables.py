"""``gpu_benchmark`` without a GPU: what it checks, what it calls a case, what a run of the project makes of it."""

import importlib.util
import json
from dataclasses import replace
from itertools import starmap

import ml_dtypes
import numpy as np
import pytest
from expecting import refuses
from hypothesis import given
from hypothesis import strategies as st
from runs import plain_pytest

from peakgate.base import config
from peakgate.base.errors import Code, PeakgateError
from peakgate.callables import arrays
from peakgate.callables.call import Call
from peakgate.callables.cpu_call import CpuCall
from peakgate.callables.fixture import GpuBenchmark, sized_input
from peakgate.callables.output_check import OutputCheck
from peakgate.callables.settings import Given, case_of
from peakgate.callables.values import NotAnArray
from peakgate.family import TOLERANCES
from peakgate.run.collection import collected
from peakgate.session.outcome import WrongResult
from peakgate.spec.case import Work
from peakgate.spec.recorded import ID_PATTERN, case_parts


def proving(call, **given_values):
    return OutputCheck(call, Given(**given_values))


def proven(call, **given_values):
    found = proving(call, **given_values)
    call.run()
    call.learn()
    return found, found.first()


def test_a_test_is_a_case_of_its_file_with_its_parameters_as_the_size():
    case = case_of("benchmarks/bench_ops.py::TestX::test_y[8192-f32/x]")
    assert case.id == "benchmarks-bench_ops.TestX.test_y-8192-f32_x"
    assert (case.family, case.size) == ("benchmarks-bench_ops", "8192-f32_x")


@given(st.text(min_size=1).filter(lambda text: "\x00" not in text), st.text())
def test_every_node_id_becomes_a_case_id_in_the_alphabet(name, parameters):
    assert ID_PATTERN.fullmatch(case_of(f"a/bench_b.py::test_{name}[{parameters}]").id)
    assert all(character not in "".join(case_parts(f"a.py::{name}")) for character in "/[] ")


def test_arguments_closures_and_partials_show_their_arrays():
    held, given_array, other = np.ones(3), np.ones(4), np.ones(5)
    seen = arrays.visible_arrays(lambda x, y: held + x, (given_array, [other]), {"z": {"deep": held}})
    assert {id(array) for array in seen} == {id(held), id(given_array), id(other)}


class Lazy:
    """A class whose objects show an array when they are asked for it, as a framework's tensors do."""

    @property
    def __cuda_array_interface__(self):
        raise AssertionError("nobody asks a class")


def test_a_class_that_a_callable_names_is_no_array():
    assert arrays.framework(Lazy) is None
    assert arrays.visible_arrays(lambda x: isinstance(x, Lazy), (1,), {}) == []


def test_outputs_are_what_is_declared_returned_or_changed():
    x, out = np.arange(4.0), np.zeros(4)

    def fill(target, source):
        target[...] = source + 1

    call = Call(fill, (out, x), {})
    call.run()
    call.learn()
    assert call.outputs() == [out] or call.outputs()[0] is out
    assert call.outputs(lambda target, source: source)[0] is x
    returning = Call(lambda: (x, {"a": 2.0}), (), {})
    returning.run()
    assert returning.outputs()[0] is x
    assert returning.outputs()[1] == 2.0


def test_an_array_that_holds_the_result_already_as_after_a_warm_up_is_found_to_be_written():
    x, out = np.arange(4.0), np.arange(4.0) + 1

    def fill(target, source):
        np.add(source, 1, out=target)

    found, _ = proven(Call(fill, (out, x), {}), reference=lambda target, source: source + 1)
    assert found.outputs()[0] is out
    assert x.tolist() == [0, 1, 2, 3]
    assert out.tolist() == [1, 2, 3, 4]
    with pytest.raises(PeakgateError):
        proven(Call(fill, (out, x), {}), reference=lambda target, source: source + 1, fresh=False)
    with pytest.raises(WrongResult):
        proven(Call(lambda target, source: None, (out, x), {}), reference=lambda target, source: source + 1)


def test_a_right_result_is_proven_with_its_error_and_a_wrong_one_named_by_element():
    x = np.arange(4.0, dtype="float32")
    _, proof = proven(Call(lambda a: a * 2, (x,), {}), reference=lambda a: a + a)
    assert proof.error == 0.0
    with pytest.raises(WrongResult, match=r"output 0: 3 of 4 elements are wrong"):
        proven(Call(lambda a: a, (x,), {}), reference=lambda a: a + a)


@pytest.mark.parametrize(
    ("x", "function"),
    [
        pytest.param(np.arange(1.0, 9.0), np.sum, id="a sum"),
        pytest.param(np.arange(64) % 7, np.bincount, id="a histogram, which a permutation leaves as it is"),
    ],
)
def test_a_cached_result_is_wrong_on_fresh_inputs_and_the_inputs_come_back(x, function):
    before, kept = x.copy(), {}
    call = Call(lambda a: kept.setdefault("result", function(a)), (x,), {})
    found, _ = proven(call, reference=function)
    with pytest.raises(WrongResult, match="on fresh inputs: "):
        found.on_fresh_inputs(call.run)
    assert (x == before).all()


def test_an_honest_callable_is_right_on_fresh_inputs():
    x, w = np.linspace(-1, 1, 30), np.arange(30) % 5
    call = Call(lambda a, b: a * b, (x, w), {})
    found, _ = proven(call, reference=lambda a, b: b * a)
    assert not found.on_fresh_inputs(call.run).startswith("not ")


def test_without_arrays_nothing_can_be_changed_and_the_record_says_so():
    call = Call(lambda: 3.0, (), {})
    found, _ = proven(call, reference=3.0)
    assert found.on_fresh_inputs(call.run).startswith("not ")


def test_a_changed_input_is_wrong_and_an_output_array_is_not():
    x, out = np.arange(4.0), np.empty(4)
    with pytest.raises(WrongResult, match="changes an array that its reference reads"):
        proven(Call(lambda a: np.add(a, 1, out=a), (x,), {}), reference=lambda a: a + 1)
    with pytest.raises(WrongResult, match="changes an array that its reference reads"):
        proven(Call(lambda a: (a + 1, a.fill(0))[0], (x,), {}), reference=lambda a: a + 1)
    proven(Call(lambda: np.add(x, 1, out=out), (), {}), reference=lambda: x + 1)
    proven(Call(lambda a: np.add(a, 1, out=a), (x,), {}), reference=lambda a: a + 1, outputs=lambda a: a)


def test_a_result_that_was_there_before_is_not_wrong():
    zeros, out = np.zeros(4, int), np.zeros(4)
    with pytest.raises(PeakgateError) as error:
        proven(Call(lambda a, b: b.__setitem__(..., a), (zeros, out), {}), reference=lambda a, b: a)
    assert error.value.code is Code.BENCHMARK_TEST
    proven(Call(lambda a, b: b.__setitem__(..., a), (np.zeros(4), out), {}), reference=lambda a, b: a)
    with pytest.raises(WrongResult):
        proven(Call(lambda a, b: None, (np.arange(4.0), out), {}), reference=lambda a, b: a + 1)


def test_a_callable_without_a_result_is_wrong():
    with pytest.raises(WrongResult, match="returns no array and changes none"):
        proven(Call(lambda x: None, (np.ones(4),), {}), reference=lambda x: 2 * x)


def test_what_a_kernel_style_callable_changes_besides_its_output_is_asked_for():
    x, out = np.arange(1.0, 5.0), np.empty(4)

    def kernel(target, source):
        target[...] = source + 1
        source.fill(0)

    with pytest.raises(WrongResult, match="2 outputs, but the reference gives 1; outputs= names"):
        proven(Call(kernel, (out, x), {}), reference=lambda target, source: source + 1)
    x[...] = 7
    with pytest.raises(WrongResult, match="changes an array that its reference reads"):
        proven(Call(kernel, (out, x), {}), reference=lambda t, s: s + 1, outputs=lambda t, s: t)


def test_a_result_of_another_type_is_not_read():
    call = Call(lambda: np.zeros(3).view(type("Lazy", (np.ndarray,), {})), (), {})
    call.run()
    with pytest.raises(NotAnArray, match="Lazy"):
        call.outputs()


def test_infinities_and_nan_have_to_stand_where_the_reference_has_them():
    wanted = np.array([np.inf, np.nan, 1.0])
    proven(Call(wanted.copy, (), {}), reference=wanted)
    for wrong in ([1.0, np.nan, 1.0], [-np.inf, np.nan, 1.0], [np.inf, 1.0, 1.0]):
        with pytest.raises(WrongResult):
            proven(Call(lambda wrong=wrong: np.array(wrong), (), {}), reference=wanted)
    with pytest.raises(WrongResult, match=r"output 0 has shape \(2,\), expected shape \(3,\)"):
        proven(Call(lambda: np.zeros(2), (), {}), reference=wanted)


def test_a_sum_that_cancels_is_right_in_another_order_and_wrong_without_a_term():
    x = np.random.default_rng(0).uniform(-1, 1, (64, 4096)).astype("float32")
    x[:, -1] = -x[:, :-1].astype("float64").sum(axis=1)
    reference = {"reference": lambda a: a.astype("float64").sum(axis=1)}
    proven(Call(lambda a: np.cumsum(a, axis=1)[:, -1], (x,), {}), **reference)
    with pytest.raises(WrongResult):
        proven(Call(lambda a: np.cumsum(a[:, 1:], axis=1)[:, -1], (x,), {}), **reference)


@given(st.sampled_from(["float16", "float32", "float64", "complex64", "int32", "uint8", "bool"]), st.integers(2, 200))
def test_renewed_elements_stay_within_their_own_bounds(dtype, count):
    array = (np.arange(count) + 1).astype(dtype)
    before = array.copy()
    assert arrays.renew(array, 3)
    if array.dtype.kind in "iub":
        assert sorted(array.tolist()) == sorted(before.tolist())
    else:
        assert np.abs(array).max() <= np.abs(before).max()
        assert np.abs(array).min() >= np.abs(before).min() / 2 * (1 - 1e-3)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4"])
def test_arrays_of_ml_dtypes_are_compared_and_renewed(dtype):
    array = (np.arange(1, 65) % 7 + 1).astype(getattr(ml_dtypes, dtype))
    before = array.copy()
    assert (arrays.comparable(array) == before.astype("float32")).all()
    assert arrays.renew(array, 3)
    assert arrays.differs(array, before)
    drawn, own = arrays.comparable(array), arrays.comparable(before)
    if "int" in dtype:
        assert sorted(drawn) == sorted(own)
    else:
        assert drawn.max() <= own.max()
        assert drawn.min() >= own.min() / 2


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_a_callable_on_narrow_floats_is_proven_and_a_cached_result_is_wrong(dtype):
    x = (np.arange(1, 65) / 16).astype(getattr(ml_dtypes, dtype))
    found, proof = proven(Call(lambda a: a + a, (x,), {}), reference=lambda a: 2 * a.astype("float64"))
    assert proof.error <= found.tolerance == TOLERANCES[dtype]
    assert not found.on_fresh_inputs(found._call.run).startswith("not ")
    kept = {}
    call = Call(lambda a: kept.setdefault("twice", a + a), (x,), {})
    found, _ = proven(call, reference=lambda a: 2 * a.astype("float64"))
    with pytest.raises(WrongResult, match="on fresh inputs: "):
        found.on_fresh_inputs(call.run)


def test_pedantic_is_a_call_with_the_arguments_of_its_setup():
    calls = []

    def benchmark(*given, **named):
        calls.append((given, named))

    def torn_down(*given, **named):
        calls.append(("torn down", given, named))

    GpuBenchmark.pedantic(benchmark, sum, ([1],), {"start": 1}, rounds=9, iterations=2, warmup_rounds=1)
    GpuBenchmark.pedantic(benchmark, sum, setup=lambda: (([2],), {"start": 3}), teardown=torn_down)
    GpuBenchmark.pedantic(benchmark, sum, ([4],), setup=lambda: None)
    assert calls == [
        ((sum, [1]), {"start": 1}),
        ((sum, [2]), {"start": 3}),
        ("torn down", ([2],), {"start": 3}),
        ((sum, [4]), {}),
    ]


@pytest.mark.parametrize("bad", [-1, 1.5, True, "many"])
def test_work_that_is_no_whole_number_is_refused(bad):
    with pytest.raises(PeakgateError, match="bytes is"):
        Given(bytes=bad).work(Call(int, (), {}))


def test_work_may_be_a_function_of_the_arguments():
    x = np.ones(8, "float32")
    assert Given(bytes=lambda a: 2 * a.nbytes, flops=8.0).work(Call(int, (x,), {})) == Work(64, 8)


def test_a_call_that_runs_once_starts_after_what_was_queued_before_it_and_ends_before_its_changes_are_read(monkeypatch):
    order = []
    monkeypatch.setattr("peakgate.callables.cpu_call.wait_for", lambda _: order.append("wait"))
    call = Call(lambda: order.append("call"), (), {})
    monkeypatch.setattr(call, "learn", lambda: order.append("learn"))
    CpuCall(case_of("x.py::test_x"), call).run()
    assert order == ["wait", "call", "wait", "learn"]


@pytest.mark.parametrize("dtypes", [("float16", "float16"), ("float16", "float32")])
def test_the_arrays_of_a_callable_suggest_the_type_of_its_operations(dtypes):
    call = Call(lambda a, b: a @ b, tuple(np.zeros((4, 4), dtype) for dtype in dtypes), {})
    arrays = tuple(starmap(sized_input, zip(call.arrays, call.nbytes, strict=True)))
    case = replace(case_of("bench_a.py::test_b"), work=Work(8, 8), arguments=arrays)
    assert case.math == ("fp16" if len(set(dtypes)) == 1 else "fp32")
    assert sum(buffer.nbytes for buffer in arrays) == sum(call.nbytes)


def test_a_test_says_the_type_of_its_operations_or_is_refused_for_one_that_is_none():
    assert Given(flops=8, math="fp8").work(Call(int, (), {})) == Work(0, 8, math="fp8")
    with refuses(Code.BENCHMARK_TEST):
        Given(flops=8, math="half").work(Call(int, (), {}))


TESTS = """
import numpy as np
import pytest


@pytest.mark.parametrize("n", [8, 16])
@pytest.mark.peakgate(bytes=lambda x: 2 * x.nbytes, reference=lambda x: 2 * x)
def bench_double(gpu_benchmark, n):
    gpu_benchmark.extra_info["mine"] = n
    assert gpu_benchmark(lambda x: x + x, gpu_benchmark.xp.ones(n)).shape == (n,)


def test_wrong(gpu_benchmark):
    gpu_benchmark.expect(lambda x: x + 1)(lambda x: x, np.ones(3))


def test_fails_later(gpu_benchmark):
    assert gpu_benchmark(lambda: 1) == 2


def test_never_calls(gpu_benchmark):
    pass


def test_needs_a_gpu(gpu_benchmark):
    import torch_that_is_not_there
"""


SAVED = "--benchmark-json=run.json"


def test_a_run_of_a_project_measures_its_benchmark_tests_and_names_what_is_wrong(benchmarks, bench):
    folder = benchmarks(TESTS.replace("torch_that_is_not_there", "cupy.nothing"))
    done = bench(folder, SAVED)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "not run" not in done.stdout  # every test has the fixture, and our own are none of the project's
    saved = json.loads((folder / "run.json").read_text())
    entries = {entry["extra_info"]["case"]: entry for entry in saved["benchmarks"]}
    assert sorted(entries) == ["benchmarks-bench_ops.bench_double-16", "benchmarks-bench_ops.bench_double-8"]
    first = entries["benchmarks-bench_ops.bench_double-8"]
    assert first["extra_info"]["verdict"] == "NO_FLOOR"
    assert first["extra_info"]["mine"] == 8
    assert first["extra_info"]["bytes"] == 128
    assert first["extra_info"]["tolerance"] == 1e-12  # that of its float64 output, by which readers judge its error
    assert first["group"] == "benchmarks-bench_ops"
    assert first["fullname"] == "peakgate::benchmarks-bench_ops.bench_double-8"
    wrong = {entry["case"].rpartition(".")[2]: entry for entry in saved["peakgate"]["not_measured"]}
    verdicts = {name: entry["verdict"] for name, entry in wrong.items()}
    assert verdicts == {"test_wrong": "WRONG", "test_fails_later": "WRONG", "test_never_calls": "INCONCLUSIVE"}
    assert "expected 2" in wrong["test_wrong"]["reason"]
    assert "after its measurement" in wrong["test_fails_later"]["reason"]
    assert "never calls gpu_benchmark" in wrong["test_never_calls"]["reason"]


METRICS = """
import numpy as np
import pytest


@pytest.mark.parametrize("n", [8])
@pytest.mark.peakgate(bytes=lambda x: 2 * x.nbytes, reference=lambda x: 2 * x, metric=["gpu", "launch"])
def bench_double(gpu_benchmark, n):
    gpu_benchmark(lambda x: 2 * x, np.arange(n, dtype="float32"))


@pytest.mark.peakgate(reference=lambda x: 2 * x, metric="launch")
def bench_wrong(gpu_benchmark):
    gpu_benchmark(lambda x: 3 * x, np.arange(8, dtype="float32"))
"""


def test_a_launch_is_a_case_of_its_own_and_checked_without_a_gpu(benchmarks, bench):
    folder = benchmarks(METRICS)
    done = bench(folder, SAVED)
    assert done.returncode == 1, done.stdout + done.stderr
    saved = json.loads((folder / "run.json").read_text())
    (on_gpu,) = [entry["extra_info"] for entry in saved["benchmarks"]]
    assert (on_gpu["case"], on_gpu["metric"]) == ("benchmarks-bench_ops.bench_double-8", "gpu")
    untimed = {entry["case"]: entry["verdict"] for entry in saved["peakgate"]["not_measured"]}
    assert untimed == {
        "benchmarks-bench_ops.bench_double-8-launch": "NO_FLOOR",
        "benchmarks-bench_ops.bench_wrong-launch": "WRONG",
    }
    assert "RIGHT" in next(line for line in done.stdout.splitlines() if "double-8-launch" in line)


HIDDEN = """
import numpy as np
import pytest

x = np.arange(4.0)


@pytest.fixture
def fails_at_its_end():
    yield
    raise RuntimeError("left open")


@pytest.mark.xfail
def bench_expected(gpu_benchmark):
    gpu_benchmark.expect(lambda x: 2 * x)(lambda x: 9 * x, x)


@pytest.mark.xfail
def bench_later(gpu_benchmark):
    assert gpu_benchmark(lambda: 1) == 2


def bench_skipped(gpu_benchmark):
    try:
        gpu_benchmark.expect(lambda x: 2 * x)(lambda x: 9 * x, x)
    except BaseException:
        pytest.skip("hidden")


def bench_right_and_skipped(gpu_benchmark):
    gpu_benchmark.expect(lambda x: 2 * x)(lambda x: x + x, x)
    pytest.skip("after all")


@pytest.mark.xfail(strict=True)
def bench_strict(gpu_benchmark):
    gpu_benchmark.expect(lambda x: 2 * x)(lambda x: x + x, x)


def bench_ends_badly(gpu_benchmark, fails_at_its_end):
    gpu_benchmark.expect(lambda x: 2 * x)(lambda x: x + x, x)


def bench_wrong_and_ends_badly(gpu_benchmark, fails_at_its_end):
    gpu_benchmark.expect(lambda x: 2 * x)(lambda x: 9 * x, x)


@pytest.mark.xfail
def bench_not_written(gpu_benchmark):
    raise NotImplementedError
"""


def hidden(folder, bench, *arguments):
    """The exit code of a run of ``HIDDEN``, its verdicts by the name of the test, the tests with figures."""
    done = bench(folder, SAVED, *arguments)
    cases = json.loads((folder / ".peakgate" / "out" / "bench.json").read_text())["cases"]
    timed = json.loads((folder / "run.json").read_text())["benchmarks"]
    verdicts = {case["case"].rpartition(".bench_")[2]: case["verdict"] for case in cases}
    return done.returncode, verdicts, {each["extra_info"]["case"].rpartition(".bench_")[2] for each in timed}


def test_what_the_fixture_found_is_the_verdict_whether_the_test_is_skipped_expected_to_fail_or_ends_badly(
    benchmarks, bench
):
    folder = benchmarks(HIDDEN)
    code, verdicts, timed = hidden(folder, bench)
    assert (code, timed) == (1, {"right_and_skipped"})
    assert verdicts == {
        "expected": "WRONG",
        "later": "WRONG",
        "skipped": "WRONG",
        "right_and_skipped": "NO_FLOOR",
        "strict": "INCONCLUSIVE",
        "ends_badly": "INCONCLUSIVE",
        "wrong_and_ends_badly": "WRONG",
    }
    for name in ("strict", "ends_badly"):
        assert hidden(folder, bench, "-k", f"bench_{name}")[:2] == (3, {name: "INCONCLUSIVE"})


ENDS = """
import numpy as np
import pytest


def bench_a(gpu_benchmark):
    gpu_benchmark.expect(lambda x: 2 * x)(lambda x: x + x, np.ones(4))


def bench_ends(gpu_benchmark):
    pytest.exit("bye", 0)
"""


def test_a_run_that_a_test_ends_before_its_last_case_passes_nothing(benchmarks, bench):
    folder = benchmarks(ENDS)
    for selected, cases in (("bench_ops", 1), ("bench_ends", 0)):
        done = bench(folder, "-k", selected)
        assert done.returncode == 3, done.stdout + done.stderr
        found = json.loads((folder / ".peakgate" / "out" / "bench.json").read_text())
        assert (len(found["cases"]), found["exit_code"], bool(found["partial"])) == (cases, 3, True)


def test_a_run_without_a_gpu_that_times_nothing_is_whole(benchmarks, bench):
    folder = benchmarks(ENDS)
    assert bench(folder, "-k", "bench_a", "--benchmark-disable").returncode == 0
    found = json.loads((folder / ".peakgate" / "out" / "bench.json").read_text())
    assert ([case["verdict"] for case in found["cases"]], found["partial"]) == (["NO_FLOOR"], None)


def test_cases_are_selected_by_id_from_a_file_and_by_k(benchmarks, bench):
    folder = benchmarks(TESTS)
    (folder / "ids").write_text("benchmarks-bench_ops.bench_double-8\n")
    for chosen in (["--peakgate-cases=ids"], ["-k", "bench_ops.bench_double-16"]):
        bench(folder, SAVED, *chosen)
        (measured,) = json.loads((folder / "run.json").read_text())["benchmarks"]
        assert measured["extra_info"]["case"].endswith(("-8", "-16")[chosen[0] == "-k"])
    saved = json.loads((folder / "run.json").read_text())
    assert saved["peakgate"]["whole"] is False
    (folder / "ids").write_text("benchmarks-bench_ops.bench_double-9\n")
    done = bench(folder, SAVED, "--peakgate-cases=ids")
    assert done.returncode == 2
    assert f"[{Code.SELECTION}]" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "import pytest\n@pytest.mark.parametrize('n', ['a/b', 'a_b'])\ndef test_x(gpu_benchmark, n): ...\n",
            "benchmarks-bench_ops.test_x-a_b",
        ),
    ],
    ids=["two ids alike"],
)
def test_bad_input_is_exit_2_in_one_line(benchmarks, text, said, bench):
    done = bench(benchmarks(text), SAVED)
    assert done.returncode == 2
    assert said in done.stdout + done.stderr
    assert f"[{Code.BENCHMARK_TEST}]" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("text", "case", "said"),
    [
        ("import nothing_of_that_name\n", "benchmarks-bench_bad.bench_bad.py", "'nothing_of_that_name'"),
        (
            "import pytest\n@pytest.mark.peakgate(byts=3)\ndef test_x(gpu_benchmark): ...\n",
            "benchmarks-bench_bad.test_x",
            "'bytes'",
        ),
    ],
    ids=["an import that fails", "a misspelt keyword"],
)
def test_a_bad_file_costs_its_own_cases(benchmarks, text, case, said, bench):
    folder = benchmarks("def test_fine(gpu_benchmark):\n    gpu_benchmark(lambda: 1)\n")
    (folder / "benchmarks" / "bench_bad.py").write_text(text)
    done = bench(folder)
    found = json.loads((folder / ".peakgate" / "out" / "bench.json").read_text())
    verdicts = {each["case"]: each["verdict"] for each in found["cases"]}
    assert verdicts == {"benchmarks-bench_ops.test_fine": "NO_FLOOR", case: "INCONCLUSIVE"}
    assert (done.returncode, said in done.stdout) == (3, True)


ENDINGS = {
    "division": "1 / 0",
    "syntax": "x = (",
    "exit": "raise SystemExit(0)",
    "exit of pytest": "import pytest; pytest.exit('x', 0)",
}


FILES = ("bench_ops.py", "conftest.py", "below/conftest.py")


@pytest.fixture
def ended_by(benchmarks, bench):
    """Measure a project of which this file of ``benchmarks`` ends with these statements."""

    def run(name, ending):
        folder = benchmarks("def bench_x(gpu_benchmark): ...\n")
        file = folder / "benchmarks" / name
        file.parent.mkdir(exist_ok=True)
        (file.parent / "bench_beside.py").write_text("")
        file.write_text(f"import json\n{ending}\n")
        return bench(folder, SAVED)

    return run


@pytest.mark.parametrize(
    ("name", "ending"),
    [
        *((FILES[0], ending) for ending in ENDINGS),
        *((FILES[1], ending) for ending in ("division", "exit of pytest")),
        (FILES[2], "exit"),
    ],
)
def test_a_file_that_does_not_import_is_bad_input_whose_line_is_named(ended_by, name, ending):
    done = ended_by(name, ENDINGS[ending])
    reported = [line for line in (done.stdout + done.stderr).splitlines() if f"[{Code.BENCHMARK_TEST}]" in line]
    code = 3 if name == "bench_ops.py" else 2  # a conftest.py costs every test
    assert (done.returncode, len(reported)) == (code, 1), done.stdout + done.stderr
    assert "INTERNALERROR" not in done.stdout + done.stderr
    assert f"benchmarks/{name}:2: " in reported[0]


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_ends_the_process_leaves_the_run_undecided(ended_by, name):
    done = ended_by(name, "import os; os._exit(0)")
    assert (done.returncode, f"[{Code.PROCESS}]" in done.stderr) == (3, True), done.stdout + done.stderr


def test_a_list_of_cases_needs_a_conftest_that_imports(benchmarks, monkeypatch):
    folder = benchmarks("def bench_x(gpu_benchmark): ...\n")
    (folder / "benchmarks" / "conftest.py").write_text("1 / 0\n")
    monkeypatch.chdir(folder)
    with refuses(Code.BENCHMARK_TEST):
        collected(config.current())


def test_a_project_without_a_case_is_not_told_of_an_option_that_was_not_given(benchmarks, bench):
    folder = benchmarks("def bench_x(): ...\n")
    for options in ([], ["-k", "bench"]):
        done = bench(folder, *options)
        assert (done.returncode, f"[{Code.SELECTION}]" in done.stderr) == (2, True)
        assert "-k" not in done.stderr
    (folder / "benchmarks" / "bench_ops.py").write_text("def bench_x(gpu_benchmark): ...\n")
    for option in ("-k", "-m"):
        done = bench(folder, option, "nothing_of_that_name")
        assert (done.returncode, f"[{Code.SELECTION}]" in done.stderr) == (2, True)
        assert f"{option} 'nothing_of_that_name'" in done.stderr


def test_a_run_of_which_all_is_skipped_is_bad_input_and_a_list_of_it_is_none(benchmarks, bench):
    folder = benchmarks("import pytest\n\ndef test_x(gpu_benchmark):\n    pytest.skip('not today')\n")
    done = bench(folder, SAVED)
    assert done.returncode == 2
    assert "not today" in done.stdout
    assert not (folder / "run.json").exists()
    assert bench(folder, SAVED, "--collect-only").returncode == 0


CRASHES = """
import os
import signal

import numpy as np


def test_a(gpu_benchmark):
    gpu_benchmark(lambda x: x + 1, np.ones(3))


def test_crashes(gpu_benchmark):
    gpu_benchmark(lambda: os.kill(os.getpid(), signal.SIGSEGV))


def test_b(gpu_benchmark):
    gpu_benchmark(lambda x: x + 1, np.ones(3))
"""


def test_a_callable_that_takes_its_process_with_it_costs_itself_alone(benchmarks, bench):
    folder = benchmarks(CRASHES)
    done = bench(folder, SAVED)
    assert done.returncode == 1, done.stdout + done.stderr
    saved = json.loads((folder / "run.json").read_text())
    assert len(saved["benchmarks"]) == 2
    assert [(entry["case"], entry["verdict"]) for entry in saved["peakgate"]["not_measured"]] == [
        ("benchmarks-bench_ops.test_crashes", "CRASHED")
    ]
    assert "SIGSEGV" in saved["peakgate"]["not_measured"][0]["reason"]


def test_full_memory_leaves_the_case_undecided(benchmarks, bench, tmp_path):
    text = (
        "def test_full(gpu_benchmark):\n    def full():\n        raise MemoryError('1 TB')\n    gpu_benchmark(full)\n"
    )
    done = bench(benchmarks(text), SAVED)
    assert done.returncode == 3, done.stdout + done.stderr
    (entry,) = json.loads((tmp_path / ".peakgate" / "out" / "bench.json").read_text())["cases"]
    assert (entry["verdict"], "1 TB" in entry["reason"]) == ("INCONCLUSIVE", True)


def test_an_error_of_a_thousand_words_is_a_reason_of_one_line(benchmarks, bench, tmp_path):
    text = "def test_long(gpu_benchmark):\n    raise ValueError('why\\n' * 1000)\n"
    assert bench(benchmarks(text), SAVED).returncode == 3
    (entry,) = json.loads((tmp_path / ".peakgate" / "out" / "bench.json").read_text())["cases"]
    assert (entry["verdict"], len(entry["reason"]) < 500, "\n" in entry["reason"]) == ("INCONCLUSIVE", True, False)


FREED = """
import gc, weakref
import numpy as np

KEPT = []

def bench_first(gpu_benchmark):
    x = np.ones(4)
    KEPT.append(weakref.ref(x))
    gpu_benchmark(lambda x: 2 * x, x)

def bench_second(gpu_benchmark):
    gc.collect()
    assert KEPT[0]() is None
    gpu_benchmark(abs, np.ones(4))
"""


def test_the_arrays_of_a_test_are_freed_when_it_ends(benchmarks, bench):
    done = bench(benchmarks(FREED))
    assert done.returncode == 0, done.stdout + done.stderr


STRANGER = ("-o", "python_functions=bench_* test_*", "benchmarks/bench_ops.py")


def test_in_a_strangers_run_a_callable_runs_once_and_is_checked(benchmarks):
    folder = benchmarks(TESTS)
    for more in ([], ["--benchmark-disable"]):
        done = plain_pytest(folder, *STRANGER, *more)
        assert "WRONG benchmarks-bench_ops.test_wrong on" in done.stdout
        assert "4 failed" in done.stdout  # one never calls the fixture


def test_a_test_that_a_gpu_framework_stops_is_skipped_with_what_it_said(benchmarks):
    if importlib.util.find_spec("torch"):
        pytest.skip("torch is installed here")
    done = plain_pytest(benchmarks("def test_x(gpu_benchmark):\n    import torch\n"), *STRANGER, "-rs")
    assert "No module named" in done.stdout
    assert done.returncode == 0
