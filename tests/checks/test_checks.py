import math
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fedcbs import _checks
from fedcbs.errors import FedCBSError, InvalidArgumentError

ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.complex_numbers(),
    st.binary(max_size=3),
)
ARRAYS_OF_ANYTHING = st.recursive(ANYTHING, lambda inner: st.lists(inner, max_size=4), max_leaves=8)


def outcome(check: Callable[[], object]) -> tuple[object, str]:
    """What a check returns, or None and the message of its refusal; any other error is a failure."""
    try:
        return check(), ""
    except InvalidArgumentError as error:
        return None, str(error)


@given(ANYTHING)
def test_integer_returns_a_whole_number_in_bounds_or_names_argument_and_value(value: object) -> None:
    number, message = outcome(lambda: _checks.integer(value, "rounds", minimum=-5, maximum=10))
    if number is None:
        assert message == f"rounds={value!r} must be a whole number from -5 to 10"
    else:
        assert number == value
        assert number in range(-5, 11)
        assert type(number) is int


@given(ANYTHING)
def test_real_returns_a_finite_number_in_bounds_or_names_argument_and_value(value: object) -> None:
    number, message = outcome(lambda: _checks.real(value, "alpha", minimum=0, maximum=4, open_minimum=True))
    if number is None:
        assert message == f"alpha={value!r} must be a finite number above 0 and at most 4"
    else:
        assert isinstance(number, float)
        assert 0 < number <= 4


@given(ARRAYS_OF_ANYTHING)
def test_integers_takes_whole_numbers_and_refuses_all_else(values: Any) -> None:
    array, message = outcome(lambda: _checks.integers(values, "counts"))
    if array is None:
        assert message.startswith("counts")
    else:
        assert isinstance(array, np.ndarray)
        assert array.dtype == np.int64
        assert array.tolist() == values


@pytest.mark.parametrize("maximum", [None, 3])
@pytest.mark.parametrize("minimum", [None, 1])
def test_messages_of_integer_state_the_bounds_that_hold(minimum: int | None, maximum: int | None) -> None:
    with pytest.raises(InvalidArgumentError, match="n='x' must be a whole number") as caught:
        _checks.integer("x", "n", minimum=minimum, maximum=maximum)
    assert ("1" in str(caught.value)) == (minimum is not None)
    assert ("3" in str(caught.value)) == (maximum is not None)


@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"])
def test_every_numeric_dtype_is_taken(kind: str) -> None:
    assert _checks.integers(np.array([0, 7, 100], dtype=kind), "counts").tolist() == [0, 7, 100]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, -1], r"counts\[1\]=-1 must be a whole number from 0 to 9007199254740992"),
        ([1.5], r"counts\[0\]=1.5 must be"),
        ([math.nan], r"counts\[0\]=nan must be"),
        ([math.inf], r"counts\[0\]=inf must be"),
        ([-math.inf], r"counts\[0\]=-inf must be"),
        ([2**53 + 1], r"counts\[0\]=9007199254740993 must be"),
        ([2**63], r"counts\[0\]=9223372036854775808 must be"),
        ([2**80], r"counts\[...\]=1208925819614629174706176 must be"),
        ([None], r"counts\[...\]=None must be"),
        ([True], "counts holds true and false; it must hold whole numbers"),
        (["a"], "counts has dtype <U1; it must hold whole numbers"),
        ([1j], "counts has dtype complex128"),
        (7, "counts has 0 dimensions; it must have 1"),
        ([[1]], "counts has 2 dimensions; it must have 1"),
        ([[1], [2, 3]], "counts must be a rectangular array; its rows differ in length"),
    ],
)
def test_integers_names_place_and_value(values: object, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        _checks.integers(values, "counts")  # type: ignore[arg-type]


def test_whole_numbers_up_to_2_to_the_53_survive_unrounded() -> None:
    for number in (2**53, 2**53 - 1, 10**15 + 1):
        assert _checks.integers([number], "counts").tolist() == [number]
        assert _checks.integers(np.array([number], dtype=object), "counts").tolist() == [number]
        assert _checks.integers([float(number)], "counts").tolist() == [number]


def test_counts_whose_row_adds_up_to_more_than_2_to_the_53_are_refused() -> None:
    assert _checks.counts_matrix([[2**53 - 5, 5]]).sum() == 2**53
    with pytest.raises(InvalidArgumentError, match=r"label_counts\[1\] adds up to more than 2\*\*53"):
        _checks.counts_matrix([[1, 1], [2**53, 2]])


def test_a_row_sum_just_above_2_to_the_53_is_refused_too() -> None:
    with pytest.raises(InvalidArgumentError, match=r"label_counts\[0\] adds up to more than"):
        _checks.counts_matrix([[2**53, 1]])


def test_counts_without_classes_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="no classes"):
        _checks.counts_matrix(np.zeros((3, 0)))


@given(st.lists(st.integers(0, 9), unique=True), st.randoms())
def test_client_ids_come_back_ascending_and_leave_their_source_alone(ids: list[int], random: object) -> None:
    random.shuffle(ids)  # type: ignore[attr-defined]
    given_ids = np.array(ids, dtype=np.int64)
    before = given_ids.copy()
    assert _checks.client_ids(given_ids, "available", num_clients=10).tolist() == sorted(ids)
    assert np.array_equal(given_ids, before)


@pytest.mark.parametrize(
    ("ids", "num_clients", "message"),
    [
        ([3, 1, 3], 5, "available holds client 3 twice; name each client once"),
        ([5], 5, r"available\[0\]=5 must be a whole number from 0 to 4"),
        ([-1], 5, r"available\[0\]=-1 must be"),
        ([0.5], 5, r"available\[0\]=0.5 must be"),
        ([0], 0, "names client 0, but there are no clients"),
        ([True, False], 5, "available holds true and false; it must hold whole numbers"),
    ],
)
def test_client_ids_that_are_unknown_or_duplicated_are_refused(
    ids: list[int], num_clients: int, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        _checks.client_ids(ids, "available", num_clients=num_clients)


@pytest.mark.parametrize("value", [0, -0.1, 1.1, math.nan, "a", None])
def test_fraction_is_above_0_and_at_most_1(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match="fraction="):
        _checks.fraction(value, "fraction")
    assert _checks.fraction(1, "fraction") == 1.0
    assert _checks.fraction(0, "fraction", allow_zero=True) == 0.0


def test_every_error_can_be_caught_as_one_and_as_its_standard_kind() -> None:
    with pytest.raises(FedCBSError):
        _checks.integer("x", "n")
    with pytest.raises(ValueError, match="n='x'"):
        _checks.integer("x", "n")
