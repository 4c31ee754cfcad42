"""What a callable and its reference give is compared for what it is: by key, exactly, and never as nothing."""

import numpy as np
import pytest
from expecting import refuses
from peakgate.core.errors import Code
from peakgate.device.call import Call
from peakgate.run.marker import Given, Proving
from peakgate.run.session import WrongResult


def proven(function, reference, *args, **given):
    """Run a callable once and compare it with its reference."""
    call = Call(function, args, {})
    proving = Proving(call, Given(reference=reference, **given))
    call.run()
    call.learn()
    return proving.first()


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


def test_outputs_that_a_test_names_by_other_keys_than_its_reference_are_its_mistake():
    with refuses(Code.BENCHMARK_TEST):
        proven(lambda x: None, lambda x: {"b": x}, X, outputs=lambda x: {"a": x})
