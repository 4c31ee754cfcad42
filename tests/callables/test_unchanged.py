"""Arrays keep their elements where others would be no input: of autograd's graphs, and integers in order."""

import gc
import json
import pathlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from peakgate.callables.call import Call
from peakgate.callables.output_check import OutputCheck
from peakgate.callables.settings import Given
from peakgate.callables.unchanged import AUTOGRAD, BESIDE, EQUAL, IN_ORDER, unchanged
from peakgate.inspect.emulate import check_case
from peakgate.measure.refill import KEY_WORDS, ROUNDS, exchange, pairs_of, round_keys
from peakgate.session.outcome import WrongResult
from peakgate.spec.case import Buffer, Case, Launch, Role, Scalar, Stage, Work


def proven(call, **given_values):
    found = OutputCheck(call, Given(**given_values))
    call.run()
    call.learn()
    found.first()
    return found


OFFSETS = np.array([0, 3, 3, 7, 8], np.int32)
IN_ROWS = np.array([[0, 2, 5], [1, 1, 4]])


@pytest.mark.parametrize("array", [OFFSETS, OFFSETS[::-1], IN_ROWS, np.arange(6).reshape(2, 3)])
def test_integers_in_order_are_left(array):
    assert unchanged([array]) == {0: IN_ORDER}


@pytest.mark.parametrize("array", [np.zeros(4, "uint8"), np.full((2, 3), 7), np.ones(4, bool), np.zeros((2, 2), bool)])
def test_equal_integers_and_booleans_are_left(array):
    assert unchanged([array]) == {0: EQUAL}


@pytest.mark.parametrize(
    "array",
    [
        np.array([3, 1, 2]),
        np.array([2, 1, 0]),
        np.array([7]),
        np.array([], int),
        np.arange(4.0),
        np.array([False, True]),
    ],
)
def test_other_integers_and_what_is_no_integer_are_not(array):
    assert unchanged([array]) == {}


def test_a_view_of_what_is_left_is_left_too():
    whole = np.array([0, 3, 7, 5, 1], np.int32)
    assert unchanged([whole, whole[:3], np.arange(4.0)]) == {0: IN_ORDER, 1: IN_ORDER}


def test_lengths_beside_offsets_are_left_and_indices_are_not():
    lengths, indices = np.diff(OFFSETS), np.array([5, 1, 3, 7, 2, 0, 4, 6])
    assert unchanged([OFFSETS, lengths, indices]) == {0: IN_ORDER, 1: BESIDE}


def test_a_right_function_of_offsets_is_right_on_fresh_inputs():
    x = np.arange(8.0)

    def sums(values, offsets):
        assert (np.diff(offsets) >= 0).all()
        return np.add.reduceat(values, offsets[:-1])

    found = proven(Call(sums, (x, OFFSETS), {}), reference=sums)
    assert found.on_fresh_inputs(found._call.run).startswith("checked")
    assert list(found._call.left.values()) == [IN_ORDER]


INTEGERS = arrays_of.arrays(st.sampled_from(["int8", "uint16", "int32", "int64"]), st.integers(0, 6000))
SOURCE = pathlib.Path(unchanged.__code__.co_filename).parents[1] / "device" / "elements.cu"
WORDS = {"uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int", "uint64": "unsigned long long"}
KEPT_KEYS = round_keys((5, 1 << 31, 0, 1))
KEYS = st.tuples(*[st.integers(0, 2**32 - 1)] * KEY_WORDS).map(round_keys)


@given(INTEGERS, KEYS)
def test_integers_that_change_places_stay_the_same_ones(array, keys):
    before = array.copy()
    exchange(array, 7, keys)
    assert (np.sort(array) == np.sort(before)).all()
    assert np.count_nonzero(array != before) <= 2 * pairs_of(array.size, array.itemsize)


@given(st.integers(2, 20_000), KEYS)
def test_a_permutation_has_an_element_in_every_4_kib_elsewhere(count, keys):
    array = np.arange(count, dtype=np.int32)
    exchange(array, 7, keys)
    places = np.flatnonzero(array != np.arange(count))
    assert len(places) == 2 * pairs_of(count, 4) >= count * 4 / 4096
    assert np.diff(places, prepend=0, append=count).max() * 4 <= 2 * 4096


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(("word", "count"), [("uint8", 5), ("uint16", 9001), ("uint32", 2), ("uint64", 3000)])
def test_the_kernel_of_the_gpu_changes_the_places_that_numpy_does(word, count):
    def changed(_, inputs):
        found = inputs[0].copy()
        exchange(found, 7, KEPT_KEYS)
        return [found]

    words, given = Buffer(Role.INOUT, (count,), word), (pairs_of(count, np.dtype(word).itemsize), 7)
    keys = Buffer(Role.IN, (ROUNDS,), "uint32", data=lambda xp, _: xp.asarray(KEPT_KEYS))
    case = Case(
        family="own",
        stage=Stage("exchange", "", SOURCE),
        launch=Launch((2, 1, 1), (32, 1, 1)),
        arguments=(words, Scalar(count, "uint64"), *(Scalar(each, "uint32") for each in given), keys),
        work=Work(0),
        reference=changed,
        defines=(("EXCHANGED", WORDS[word]),),
        dtype=word,
        tolerance=0.0,
    )
    assert check_case(case, (0, 2)) == [[], []]


def test_an_exception_of_a_callable_is_undecided_with_its_cause_and_an_assertion_of_a_test_is_wrong(benchmarks, bench):
    folder = benchmarks(
        "def raising(error):\n    raise error\n"
        "def bench_value(gpu_benchmark): gpu_benchmark.expect(2)(raising, ValueError('no such shape'))\n"
        "def bench_assertion(gpu_benchmark): gpu_benchmark.expect(2)(raising, AssertionError('contiguous'))\n"
        "def bench_later(gpu_benchmark): gpu_benchmark(lambda: 1)['x']\n"
        "def bench_compared(gpu_benchmark): assert gpu_benchmark(lambda: 1) == 2\n"
    )
    done = bench(folder)
    cases = json.loads((folder / ".peakgate" / "out" / "bench.json").read_text())["cases"]
    found = {case["case"].rpartition(".bench_")[2]: case for case in cases}
    verdicts = {name: case["verdict"] for name, case in found.items()}
    undecided = dict.fromkeys(("value", "assertion", "later"), "INCONCLUSIVE")
    assert (done.returncode, verdicts) == (1, undecided | {"compared": "WRONG"})
    assert "no such shape" in found["value"]["reason"]
    assert bench(folder, "-k", "not compared").returncode == 3


class TestAutograd:
    """With PyTorch, on the CPU: graphs that were made before the call."""

    @pytest.fixture
    def torch(self):
        return pytest.importorskip("torch")

    def test_a_backward_pass_is_right_and_what_its_graph_saved_is_left(self, torch):
        x = torch.linspace(-1, 1, 64, requires_grad=True)
        scale = torch.linspace(1, 2, 64)
        y = x.exp() * scale
        gradient = torch.ones(64)
        call = Call(lambda g: torch.autograd.grad(y, x, g, retain_graph=True)[0], (gradient,), {})
        names = {id(x): "x", id(y): "y", id(gradient): "gradient"}
        assert {names[id(call.arrays[at])]: why for at, why in call.left.items()} == dict.fromkeys("xy", AUTOGRAD)
        found = proven(call, reference=lambda g: g.double() * scale * x.detach().double().exp())
        assert found.on_fresh_inputs(call.run).startswith("checked")

    def test_a_tensor_that_a_graph_saved_is_left_though_it_requires_no_gradient(self, torch):
        x, scale = torch.ones(8, requires_grad=True), torch.linspace(1, 2, 8)
        y = x * scale
        assert set(unchanged([y, scale, x, scale.clone()])) == {0, 1, 2}
        assert set(unchanged([y, scale[2:4]])) == {0, 1}

    def test_a_graph_is_found_among_objects_that_somebody_froze(self, torch):
        x = torch.ones(8, requires_grad=True)
        y = x.exp()
        gc.freeze()  # as a framework or a test runner does: such objects are not listed
        try:
            assert set(unchanged([y, x])) == {0, 1}
        finally:
            gc.unfreeze()

    def test_what_a_function_of_the_users_saved_is_left(self, torch):
        class Scaled(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, scale):
                ctx.save_for_backward(scale)
                return x * scale

            @staticmethod
            def backward(ctx, gradient):
                return gradient * ctx.saved_tensors[0], None

        x, scale = torch.ones(8, requires_grad=True), torch.linspace(1, 2, 8)
        assert set(unchanged([scale, Scaled.apply(x, scale)])) == {0, 1}

    def test_a_graph_made_in_the_call_leaves_its_inputs_open_to_change(self, torch):
        weight, x = torch.linspace(0, 1, 8, requires_grad=True), torch.linspace(1, 2, 8)

        def step(w, inputs):
            return torch.autograd.grad((w * inputs).square().sum(), w)[0]

        kept = {}
        found = proven(Call(step, (weight, x), {}), reference=lambda w, inputs: 2 * w.detach() * inputs**2)
        assert found.on_fresh_inputs(found._call.run).startswith("checked")
        cached = Call(lambda w, inputs: kept.setdefault("it", step(w, inputs)), (weight, x), {})
        wrong = proven(cached, reference=lambda w, inputs: 2 * w.detach() * inputs**2)
        with pytest.raises(WrongResult, match="on fresh inputs"):
            wrong.on_fresh_inputs(cached.run)

    def test_a_graph_that_the_call_shows_no_tensor_of_is_found(self, torch):
        x = torch.linspace(-1, 1, 64, requires_grad=True)

        class Held:
            def __init__(self):
                self.loss = (x.exp() * 2).sum()

            def backward(self, of):
                return torch.autograd.grad(self.loss, of, retain_graph=True)[0]

        call = Call(Held().backward, (x,), {})
        found = proven(call, reference=lambda a: 2 * a.detach().exp())
        assert found.on_fresh_inputs(call.run).startswith("not checked")
        assert call.left == {0: AUTOGRAD}

    def test_tensors_of_inference_mode_and_repeated_ones_are_put_back_or_left(self, torch):
        with torch.inference_mode():
            x = torch.linspace(-1, 1, 8)
        repeated = torch.ones(1).expand(8)
        found = proven(Call(lambda a, b: a + b, (x, repeated), {}), reference=lambda a, b: a.double() + b)
        assert found.on_fresh_inputs(found._call.run).startswith("checked")
        assert x[0] == -1
