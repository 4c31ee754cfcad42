"""What a callable and its reference give is compared for what it is: by key, exactly, and never as nothing."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from expecting import refuses

from peakgate.base.errors import Code
from peakgate.callables.call import Call
from peakgate.callables.output_check import OutputCheck
from peakgate.callables.settings import Given
from peakgate.session.outcome import WrongResult


def proven(function, reference, *args, **given):
    """Run a callable once and compare it with its reference."""
    call = Call(function, args, {})
    proving = OutputCheck(call, Given(reference=reference, **given))
    call.run()
    call.learn()
    return proving.first(), proving.on_fresh_inputs(call.run)


X = np.arange(1.0, 5.0)


def test_dictionaries_are_compared_by_key_whatever_their_order():
    proven(lambda x: {"b": 3 * x, "a": x}, lambda x: {"a": x, "b": 3 * x}, X)
    proven(lambda x: ({"b": [3 * x], "a": (x, 1)}, x), lambda x: ({"a": (x, 1), "b": [3 * x]}, x), X)
    proven(lambda x: {"b": 3 * x, "a": x}, lambda x: (3 * x, x), X)
    with pytest.raises(WrongResult):
        proven(lambda x: {"a": 3 * x, "b": x}, lambda x: {"b": 3 * x, "a": x}, X)
    with pytest.raises(WrongResult):
        proven(lambda x: [{"a": 3 * x, "b": x}], lambda x: [{"b": 3 * x, "a": x}], X)


@pytest.mark.parametrize("keys", ["a", "ac", "abc", ""])
def test_missing_and_other_keys_are_wrong_and_named(keys):
    with pytest.raises(WrongResult, match="'a', 'b'"):
        proven(lambda x: dict.fromkeys(keys, x), lambda x: dict.fromkeys("ab", x), X)


@pytest.mark.parametrize("launched", [type("CompiledKernel", (), {"__module__": "triton.compiler.compiler"}), list])
def test_what_a_launch_of_triton_or_tilelang_returns_is_no_result(launched):
    def double(out, x):
        out[:] = 2 * x
        return launched()

    proven(double, lambda out, x: 2 * x, np.zeros(4), X)
    with pytest.raises(WrongResult):
        proven(double, lambda out, x: 3 * x, np.zeros(4), X)


def test_outputs_that_a_test_names_by_other_keys_than_its_reference_are_its_mistake():
    with refuses(Code.BENCHMARK_TEST):
        proven(lambda x: None, lambda x: {"b": x}, X, outputs=lambda x: {"a": x})


@pytest.mark.parametrize("number", [0, 7, 2**53, 2**63, -(2**63) - 1, 2**64, 10**50])
def test_integers_of_python_are_equal_or_wrong_and_named_in_full(number):
    proven(lambda: number, lambda: number)
    proven(lambda: (number, np.int64(3)), (number, 3))
    with pytest.raises(WrongResult, match=f"{number + 1}.*{number}"):
        proven(lambda: number + 1, lambda: number)
    with pytest.raises(WrongResult):
        proven(lambda: [number], lambda: [-number - 1])


def test_an_integer_may_be_off_by_a_tolerance_that_is_given_and_a_float_by_that_of_its_type():
    proven(lambda: 1000, 1001, tolerance=1e-2)
    proven(lambda: 1.0 + 1e-14, 1)
    proven(lambda: True, 1)
    proven(lambda: 3, 3.0)
    proven(lambda: (10**50, 3), (1e50, 3 + 1e-14))
    with pytest.raises(WrongResult):
        proven(lambda: True, False)
    with pytest.raises(WrongResult):
        proven(lambda: np.int64(2**53), np.int64(2**53 + 1))


@pytest.mark.parametrize("nothing", [(), [], {}, ((), [{}]), np.empty(0), (np.empty((0, 4)), np.empty(0, "int32"))])
def test_a_comparison_of_no_element_is_no_pass(nothing):
    with refuses(Code.BENCHMARK_TEST):
        proven(lambda: nothing, lambda: nothing)
    proven(lambda: (nothing, 1), lambda: (nothing, 1))


def test_a_result_of_another_number_of_elements_than_none_is_wrong():
    for result, reference in (([], X), (X, []), (X[:0], X)):
        with pytest.raises(WrongResult):
            proven(lambda result=result: result, reference)


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "array",
    [np.frombuffer(X.tobytes()), read_only(X), np.broadcast_to(X[:1], (3, 4)), read_only(np.arange(4))],
    ids=["of bytes", "floats", "broadcast", "integers"],
)
def test_an_array_that_no_call_can_write_is_left_as_it_is(array):
    before = array.copy()
    _, alone = proven(lambda x: 2 * x, lambda x: x + x, array)
    assert alone.startswith("not checked on")
    _, beside = proven(lambda x, y: 2 * x * y[0], lambda x, y: (x + x) * y[0], array, X.copy())
    assert not beside.startswith("not ")
    assert (array == before).all()
    with pytest.raises(WrongResult):
        proven(lambda x: 2 * x + 1, lambda x: x + x, array)


def test_a_view_that_cannot_be_written_shows_what_a_call_writes_beside_it():
    x = X.copy()
    view = x.view()
    view.flags.writeable = False
    with pytest.raises(WrongResult, match="changes an array"):
        proven(lambda seen, own: np.add(own, 1, out=own), lambda seen, own: seen + 1, view, x)
    assert (x == X).all()


def test_complex_elements_are_counted_once_and_the_part_that_is_wrong_is_named():
    z = (X * (1 + 2j)).astype("complex64")
    proven(lambda x: 2 * x, lambda x: x + x, z)
    with pytest.raises(WrongResult, match=r"4 of 4 elements.*\[\d\] is -.*\(imaginary part\)"):
        proven(lambda x: x.conj(), lambda x: 1 * x, z)
    grid = np.tile(z, (2, 1))
    with pytest.raises(WrongResult, match="4 of 8 elements are wrong, all of row 1"):
        proven(lambda x: x * np.array([[1], [2]]), lambda x: 1 * x, grid)


ROWS = np.random.default_rng(1).uniform(0, 1, (64, 200)).astype("float32")
COUNTS = np.random.default_rng(2).integers(0, 2**30, (50, 400)).astype("int32")


def softmax_without_maximum(x):
    with np.errstate(over="ignore", invalid="ignore"):
        return np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)


def softmax(x):
    exponentials = np.exp(x - x.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


WRONG_BEYOND_ITS_INPUTS = [
    pytest.param(softmax_without_maximum, lambda x: softmax(x.astype("float64")), ROWS, id="overflow"),
    pytest.param(lambda x: x.shape[1] - 1 - x[:, ::-1].argmax(axis=1), lambda x: x.argmax(axis=1), ROWS, id="ties"),
    pytest.param(lambda x: np.sort(x.view("uint32")).view("int32"), np.sort, COUNTS, id="signs"),
    pytest.param(lambda x: np.minimum(x, 1e4), lambda x: x.astype("float64"), ROWS, id="limit"),
]


@pytest.mark.parametrize(("function", "reference", "array"), WRONG_BEYOND_ITS_INPUTS)
def test_numbers_that_no_input_has_show_what_fails_on_them(function, reference, array):
    given = {"fresh": "any", "tolerance": 1e-3 if array is ROWS else None}
    with pytest.raises(WrongResult, match="pattern"):
        proven(function, reference, array.copy(), **given)
    proven(function, reference, array.copy(), tolerance=given["tolerance"])


@pytest.mark.parametrize("between", ["any", (-5, 5), (0.25, 300)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "bool", "int8", "int64", "uint16"])
def test_a_right_callable_is_right_on_every_pattern(dtype, between):
    array = np.random.default_rng(3).integers(0, 2, (40, 60)).astype(dtype)
    before = array.copy()
    _, said = proven(lambda x: x.copy(), lambda x: x, array, fresh=between)
    assert "patterns" in said
    assert (array == before).all()


def test_patterns_of_a_range_stay_within_it():
    seen = []
    kept = np.zeros(3, "uint8")
    kept.flags.writeable = False
    proven(lambda *x: seen.append(x[0].copy()) or x[0] + 0, lambda *x: x[0], ROWS.copy(), kept, fresh=(-2, 3.5))
    found = np.concatenate([each.ravel() for each in seen])
    assert found.min() < -1.5
    assert 3 < found.max() < 3.5
    assert found.min() >= -2


def test_a_result_that_is_given_is_for_the_inputs_that_are_there():
    _, said = proven(lambda x: 2 * x, 2 * ROWS, ROWS.copy())
    assert said.startswith("not checked")


@pytest.mark.parametrize("fresh", ["all", (1, 1), (0, float("inf")), (1,), ("a", "b"), None, 3])
def test_other_inputs_that_cannot_be_drawn_are_refused(fresh):
    with refuses(Code.BENCHMARK_TEST):
        Given(fresh=fresh).refuse_invalid()


def test_arrays_that_hold_the_result_within_its_tolerance_compare_nothing():
    def nearly(out, x):
        out[:] = x

    with refuses(Code.BENCHMARK_TEST):
        proven(nearly, lambda out, x: x + 1e-30, np.zeros(4), np.zeros(4), atol=1e-20, fresh=False)
    with pytest.raises(WrongResult):
        proven(nearly, lambda out, x: x + 1, np.zeros(4), np.zeros(4))


@pytest.mark.parametrize(
    ("given", "to"), [("float32", "float16"), ("float64", "float32"), ("int64", "float16"), ("complex128", "complex64")]
)
def test_an_output_shorter_than_reference_and_inputs_is_wrong(given, to):
    x = X.astype(given)
    with pytest.raises(WrongResult, match=to):
        proven(lambda x: (2 * x).astype(to), lambda x: 2.0 * x, x)
    proven(lambda x: (2 * x).astype(to), lambda x: 2.0 * x, x, tolerance=1e-3)
    proven(lambda x: (2 * x).astype(to), lambda x: (2.0 * x).astype(to), x)


def test_a_reference_may_be_finer_than_inputs_and_output():
    x = X.astype("float16")
    proven(lambda x: 2 * x, lambda x: 2 * x.astype("float64"), x)
    proven(lambda n: n.astype("float32") / 3, lambda n: n / 3, np.arange(1, 5))


@pytest.mark.parametrize("bound", [{"atol": 0.1}, {"tolerance": 1.0}, {"rtol": 1.0}])
def test_a_bound_that_zeros_satisfy_compares_nothing(bound):
    small = np.full(8, 0.01)
    with refuses(Code.REFERENCE):
        proven(lambda x: x.copy(), lambda x: x, small, **bound)
    proven(lambda x: x.copy(), lambda x: x, small, atol=0.001)


@pytest.mark.parametrize("zeros", [np.zeros((8, 8), "float32"), np.zeros(8, "int32"), np.zeros(8, bool)])
def test_a_result_of_zeros_alone_compares_nothing(zeros):
    for fresh in (False,) if zeros.dtype.kind == "f" else (True, False):
        with refuses(Code.REFERENCE):
            proven(lambda x: 0 * x, lambda x: x + x, zeros.copy(), fresh=fresh)
    with refuses(Code.REFERENCE):
        proven(lambda x: 0 * x, lambda x: x - x, zeros.astype("float32"))
    proven(lambda x: x.fill(0), np.zeros_like, zeros + 1)


def added_to(out, x):
    out += x


def larger_into(out, x):
    np.maximum(out, x, out=out)


def positive_into(out, x):
    out[x > 0] = x[x > 0]


SIGNED = np.array([3.0, -1.0, 2.0, -5.0, 4.0, -2.0, 1.0, -3.0])


@pytest.mark.parametrize(
    ("function", "reference", "x"),
    [
        (added_to, lambda out, x: x, SIGNED),
        (added_to, lambda out, x: x, SIGNED.astype("int32")),
        (larger_into, lambda out, x: x, abs(SIGNED)),
        (positive_into, lambda out, x: np.maximum(x, 0), SIGNED),
    ],
    ids=["adds", "adds integers", "takes the larger", "leaves out"],
)
@pytest.mark.parametrize("given", [{}, {"outputs": lambda out, x: out}, {"fresh": "any"}], ids=["", "outputs", "any"])
def test_a_result_that_needs_zeros_in_its_output_is_wrong(function, reference, x, given):
    with pytest.raises(WrongResult, match="second call"):
        proven(function, reference, np.zeros_like(x), x.copy(), **given)


@pytest.mark.parametrize("result", [lambda total: total, lambda total: total.copy()], ids=["itself", "a copy"])
@pytest.mark.parametrize("fresh", [True, False])
def test_a_sum_that_goes_on_in_the_next_call_is_wrong(result, fresh):
    total = np.zeros(1)

    def summed(x):
        total[0] += x.sum()
        return result(total)

    with pytest.raises(WrongResult, match="second call"):
        proven(summed, lambda x: x.sum(), X.copy(), fresh=fresh)


def test_what_a_reference_reads_may_be_added_to():
    proven(added_to, lambda out, x: out + x, np.zeros(4), X.copy())
    proven(added_to, lambda out, x: out + x, np.zeros(4), X.copy(), outputs=lambda out, x: out)
    proven(lambda x: np.exp(x, out=x), np.exp, X.copy(), outputs=lambda x: x)


def test_a_scatter_into_an_array_that_its_reference_reads_is_right():
    def scattered(out, at, x):
        out[at] = x

    def by_reference(out, at, x):
        found = out.copy()
        found[at] = x
        return found

    at = np.array([5, 0, 3, 1])
    proven(scattered, by_reference, np.zeros(8), at.copy(), X.copy())
    with pytest.raises(WrongResult, match="second call"):
        proven(scattered, lambda out, at, x: by_reference(0 * out, at, x), np.zeros(8), at.copy(), X.copy())


def test_a_workspace_is_found_as_the_call_before_left_it():
    flags = np.zeros(2, "int32")

    def turned(x):
        assert sorted(flags) in ([0, 0], [0, 1])  # not in other places, nor other numbers
        flags[:] = 1 - flags[0], 0
        return 2 * x

    for fresh in (True, False):
        proven(turned, lambda x: x + x, X.copy(), fresh=fresh)


def test_a_step_in_place_is_right_beside_an_output_written_anew():
    def stepped(weights, moments, out, gradients):
        moments *= 0.5
        moments += gradients
        weights -= moments
        out[:] = 2 * gradients

    def by_reference(weights, moments, out, gradients):
        after = 0.5 * moments + gradients
        return weights - after, after, gradients + gradients

    arrays = [X.copy(), X.copy(), np.zeros(4), X.copy()]
    proven(stepped, by_reference, *arrays, outputs=lambda weights, moments, out, gradients: (weights, moments, out))

    def added(weights, moments, out, gradients):
        kept = out.copy()
        stepped(weights, moments, out, gradients)
        out += kept

    with pytest.raises(WrongResult, match=r"number 2 .*output 2"):
        proven(added, by_reference, *arrays, outputs=lambda weights, moments, out, gradients: (weights, moments, out))


ZEROS = np.zeros((4, 4), "float32")
NUMBERS = np.arange(1.0, 17.0, dtype="float32").reshape(4, 4)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
def test_an_input_of_zeros_gets_other_numbers(dtype):
    zeros = ZEROS.astype(dtype)
    proven(lambda x: x + x, lambda x: 2 * x, zeros)
    assert not zeros.any()
    for wrong in (lambda x: 3 * x, lambda x: x * x):
        with pytest.raises(WrongResult):
            proven(wrong, lambda x: 2 * x, zeros)


def test_zeros_beside_numbers_are_read_or_wrong():
    proven(lambda x, bias: bias + 2 * x, lambda x, bias: 2 * x + bias, NUMBERS.copy(), ZEROS[0].copy())
    proven(np.matmul, lambda a, b: a @ b, ZEROS.copy(), ZEROS.copy())
    with pytest.raises(WrongResult):
        proven(lambda x, bias: 2 * x, lambda x, bias: 2 * x + bias, NUMBERS.copy(), ZEROS[0].copy())
    with pytest.raises(WrongResult):
        proven(lambda x, w: 7 * (x @ w), lambda x, w: x @ w, NUMBERS.copy(), ZEROS.copy())
    with pytest.raises(WrongResult):
        proven(lambda a, b: b @ a, lambda a, b: a @ b, ZEROS.copy(), ZEROS.copy())


def test_a_workspace_that_each_call_leaves_cleared_keeps_its_zeros():
    def summed(x, bias, work):
        work += x + bias
        found = work.copy()
        work[:] = 0
        return found

    _, checked = proven(summed, lambda x, bias, work: x + bias, NUMBERS.copy(), ZEROS.copy(), ZEROS.copy())
    assert checked == "checked on fresh inputs"


def test_zeros_that_the_reference_refuses_to_change_stay():
    def reference(x, none):
        if none.any():
            raise ValueError(none)
        return 2 * x + none

    proven(lambda x, none: x + x, reference, NUMBERS.copy(), ZEROS.copy())


def test_an_output_of_zeros_beside_others_is_said():
    _, checked = proven(lambda x: (x, x - x), lambda x: (x, 0 * x), NUMBERS.copy())
    assert "output 1 zero" in checked
    _, checked = proven(lambda x: (x, x - 2), lambda x: (x, x - 2), NUMBERS.copy())
    assert "zero" not in checked


@pytest.mark.parametrize(
    ("given", "reference"), [({"fresh": False}, lambda x: 2 * x), ({}, 2 * X)], ids=["off", "value"]
)
def test_without_other_inputs_a_stored_result_is_not_excluded(given, reference):
    _, checked = proven(lambda x: x + x, reference, X.copy(), **given)
    assert checked.endswith(": a stored result is not excluded")


MANY = np.random.default_rng(3).standard_normal((64, 64))


def in_double(x):
    return x.astype("float64")


@pytest.mark.parametrize(
    ("result", "reference"),
    [
        (lambda x: x.sum().item(), lambda x: float(in_double(x).sum())),
        (lambda x: float(x.mean()), lambda x: in_double(x).mean()),
        (lambda x: x.mean(1).tolist(), lambda x: in_double(x).mean(1).tolist()),
        (lambda x: {"loss": float((x * x).mean())}, lambda x: {"loss": float((in_double(x) ** 2).mean())}),
        (lambda x: float(x.sum(dtype="float64")), lambda x: float(x.sum())),
    ],
    ids=["item", "float", "list", "dictionary", "more precise"],
)
def test_a_number_of_python_is_as_precise_as_the_inputs(result, reference):
    proven(result, reference, MANY.astype("float32"))
    proven(result, reference, MANY.copy())


def test_a_number_of_python_beyond_the_bound_of_the_inputs_is_wrong():
    for result in (lambda x: float(x.mean(dtype="float32")), lambda x: float(x.astype("float32").mean())):
        with pytest.raises(WrongResult):
            proven(result, lambda x: float(x.mean()), MANY.copy())
    with pytest.raises(WrongResult):
        proven(lambda x: float(x.mean() * 1.01), lambda x: float(in_double(x).mean()), MANY.astype("float32"))
    with pytest.raises(WrongResult):
        proven(lambda x: float(x.sum() + 1), lambda x: int(x.sum()), np.full(64, 1 << 20))


@pytest.mark.parametrize("dtype", ["int32", "float16", "complex64"])
def test_a_number_of_python_has_a_type_for_every_type_of_inputs(dtype):
    x = (100 * MANY).astype(dtype)
    proven(lambda x: complex(x.sum(dtype="complex64")), lambda x: complex(x.sum(dtype="complex128")), x)


def kept_in_double(x):
    found = np.empty(64)
    found[:] = x.mean(1)
    return found


def test_float32_arithmetic_in_a_float64_array_needs_a_tolerance():
    x = MANY.astype("float32")
    with refuses(Code.BENCHMARK_TEST):
        proven(kept_in_double, lambda x: in_double(x).mean(1), x)
    proven(kept_in_double, lambda x: in_double(x).mean(1), x, tolerance=1e-5)
    proven(kept_in_double, lambda x: x.mean(1), x)
    proven(lambda x: in_double(x).mean(1), lambda x: x.mean(1), x)
    with pytest.raises(WrongResult):
        proven(lambda x: 1.01 * kept_in_double(x), lambda x: in_double(x).mean(1), x)
    with pytest.raises(WrongResult):
        proven(lambda x: kept_in_double(x.astype("float32")), lambda x: x.mean(1), MANY.copy())


@pytest.mark.parametrize("fresh", [True, False, "any"])
def test_outputs_that_the_callable_does_not_write_compare_nothing(fresh):
    def nothing(out, x):
        out[:4] = 2 * x[:4]

    with refuses(Code.BENCHMARK_TEST):
        proven(nothing, lambda out, x: 2 * x, np.ones(8), SIGNED.copy(), outputs=lambda out, x: 2 * x, fresh=fresh)
    proven(lambda x: np.maximum(x, -2, out=x), lambda x: np.maximum(x, -2), SIGNED.copy(), outputs=lambda x: x)


def test_outputs_that_are_right_on_some_inputs_are_compared():
    x = X.copy()
    proven(lambda out, x: np.multiply(x, 2, out=out), lambda out, x: x + x, 2 * x, x, outputs=lambda out, x: out)
    with refuses(Code.BENCHMARK_TEST):
        proven(lambda out: None, abs, x, outputs=lambda out: out)


def test_outputs_that_exist_after_the_call_are_compared():
    holder = SimpleNamespace()

    def kept(x):
        holder.out = 2 * x

    for fresh in (True, False):
        vars(holder).clear()
        proven(kept, lambda x: x + x, X.copy(), outputs=lambda x: holder.out, fresh=fresh)


@dataclass
class Layer:
    """Arguments as a dataclass, which may contain itself."""

    weights: object
    inner: object = None


def stored(function):
    """A function that returns its first result again."""
    kept = []

    def again(*args):
        if not kept:
            kept.append(function(*args))
        return kept[0].copy()

    return again


@pytest.mark.parametrize(
    ("within", "found"),
    [
        (lambda layer: layer, lambda layer: layer.weights),
        (lambda layer: [{"a": layer}], lambda held: held[0]["a"].weights),
        (lambda layer: Layer(None, layer), lambda outer: outer.inner.weights),
    ],
    ids=["itself", "in others", "in a dataclass"],
)
def test_a_stored_result_of_a_dataclass_is_wrong(within, found):
    layer = Layer(X.copy())
    layer.inner = layer
    proven(lambda held: found(held) + found(held), lambda held: 2 * found(held), within(layer))
    assert (layer.weights == X).all()
    with pytest.raises(WrongResult):
        proven(stored(lambda held: found(held) + found(held)), lambda held: 2 * found(held), within(layer))


@pytest.mark.parametrize("dtype", [">f4", ">f8", ">i4", ">c8"])
def test_a_stored_result_of_the_other_byte_order_is_wrong(dtype):
    x = np.array([3, 1, 4, 2]).astype(dtype)
    proven(lambda x: x + x, lambda x: 2 * x, x)
    with pytest.raises(WrongResult):
        proven(stored(lambda x: x + x), lambda x: 2 * x, x)
