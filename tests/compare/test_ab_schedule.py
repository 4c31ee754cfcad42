from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peakgate.compare.ab.schedule import FEWEST_PAIRS, PAIRS_ALPHA, Side, looks, order, seconds_left


def test_pairs_alternate_which_side_goes_first() -> None:
    assert [order(pair)[0] for pair in range(4)] == [Side.BASE, Side.HEAD, Side.BASE, Side.HEAD]
    assert all(set(order(pair)) == set(Side) for pair in range(4))


@given(st.integers(2, 500))
def test_looks_spend_the_error_of_the_gate_once_and_keep_both_orders_even(confirm_pairs: int) -> None:
    planned = looks(confirm_pairs)
    assert sum(look.alpha for look in planned) == pytest.approx(PAIRS_ALPHA)
    assert all(look.pairs % 2 == 0 and look.pairs >= FEWEST_PAIRS for look in planned)
    assert [look.pairs for look in planned] == sorted({look.pairs for look in planned})
    assert planned[-1].final


def test_what_was_asked_for_is_the_first_final_look_and_open_suspects_get_twice_as_many() -> None:
    planned = looks(20)
    assert [(look.pairs, look.final) for look in planned] == [(4, False), (10, False), (20, True), (40, True)]


def test_the_time_left_is_unknown_before_the_first_pair() -> None:
    assert seconds_left(5, []) is None
    assert seconds_left(5, [2.0, 4.0]) == 15.0
