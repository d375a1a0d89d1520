"""Checks of arguments, written once. Every message names the argument, the value and the remedy."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import SupportsIndex, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs.errors import InvalidArgumentError

__all__ = ["EXACT", "boolean", "client_ids", "counts_matrix", "fraction", "integer", "integers", "real"]

EXACT = 2**53
"""Whole numbers up to here are exact in float64, which is what selection computes in."""


def boolean(value: object, name: str) -> bool:
    """Return `value` as a bool.

    >>> boolean("yes", "weigh_by_represented")
    Traceback (most recent call last):
    ...
    fedcbs.errors.InvalidArgumentError: weigh_by_represented='yes' must be true or false
    """
    if not isinstance(value, bool | np.bool_):
        raise InvalidArgumentError(f"{name}={value!r} must be true or false")
    return bool(value)


def integer(value: object, name: str, *, minimum: int | None = None, maximum: int | None = None) -> int:
    """Return `value` as an int inside the bounds.

    >>> integer(3, "cohort_size", minimum=1)
    3
    >>> integer(0, "cohort_size", minimum=1)
    Traceback (most recent call last):
    ...
    fedcbs.errors.InvalidArgumentError: cohort_size=0 must be a whole number of at least 1
    """
    bounds = _bounds(minimum, maximum)
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        number = operator.index(cast(SupportsIndex, value))
    except TypeError:
        raise InvalidArgumentError(f"{name}={value!r} must be a whole number{bounds}") from None
    if (minimum is not None and number < minimum) or (maximum is not None and number > maximum):
        raise InvalidArgumentError(f"{name}={number} must be a whole number{bounds}")
    return number


def real(
    value: object,
    name: str,
    *,
    minimum: float = -math.inf,
    maximum: float = math.inf,
    open_minimum: bool = False,
) -> float:
    """Return `value` as a finite float inside the bounds.

    >>> real(0.0, "alpha", minimum=0, open_minimum=True)
    Traceback (most recent call last):
    ...
    fedcbs.errors.InvalidArgumentError: alpha=0.0 must be a finite number above 0
    """
    low = f" above {minimum:g}" if open_minimum else f" of at least {minimum:g}"
    text = (low if minimum > -math.inf else "") + (f" and at most {maximum:g}" if maximum < math.inf else "")
    error = InvalidArgumentError(f"{name}={value!r} must be a finite number{text}")
    try:
        number = float(value)  # type: ignore[arg-type]  # any object may come; what is no number is refused
    except (TypeError, ValueError):
        raise error from None
    if not math.isfinite(number) or number > maximum or number < minimum:
        raise error
    if open_minimum and number == minimum:
        raise error
    return number


def fraction(value: object, name: str, *, allow_zero: bool = False) -> float:
    """Return `value` as a float in (0, 1], or in [0, 1] with `allow_zero`.

    >>> fraction(0.3, "fraction")
    0.3
    """
    return real(value, name, minimum=0.0, maximum=1.0, open_minimum=not allow_zero)


def integers(
    values: ArrayLike, name: str, *, minimum: int = 0, maximum: int = EXACT, ndim: int = 1
) -> NDArray[np.int64]:
    """Return `values` as an int64 array; floats are taken where they are whole numbers below 2**53.

    >>> integers([3.0, 4.0], "num_examples")
    array([3, 4])
    >>> integers([3, float("nan")], "num_examples")
    Traceback (most recent call last):
    ...
    fedcbs.errors.InvalidArgumentError: num_examples[1]=nan must be a whole number from 0 to 9007199254740992
    """
    try:
        array = np.asarray(values)
    except ValueError:
        raise InvalidArgumentError(f"{name} must be a rectangular array; its rows differ in length") from None
    if array.ndim != ndim:
        form = ": clients x classes" if name == "label_counts" else ""
        raise InvalidArgumentError(
            f"{name} has {array.ndim} dimension{'s' * (array.ndim != 1)}; it must have {ndim}{form}"
        )
    if array.size == 0:
        return np.zeros(array.shape, dtype=np.int64)
    if array.dtype.kind not in "iuf":
        array = _from_objects(array, name, minimum, maximum)
    if array.dtype == np.float16:
        array = array.astype(np.float64)  # the bounds overflow a half
    bad = ~((array >= minimum) & (array <= maximum))
    if array.dtype.kind == "f":
        bad |= array != np.trunc(array)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        place = ", ".join(map(str, where))
        raise InvalidArgumentError(
            f"{name}[{place}]={array[where]} must be a whole number from {minimum} to {maximum}"
        )
    return array.astype(np.int64, copy=False)


def counts_matrix(label_counts: ArrayLike, name: str = "label_counts") -> NDArray[np.int64]:
    """Return label counts, clients x classes, as int64.

    >>> counts_matrix([[3, 0], [1, 2]]).tolist()
    [[3, 0], [1, 2]]
    >>> counts_matrix([[3, -1]])
    Traceback (most recent call last):
    ...
    fedcbs.errors.InvalidArgumentError: label_counts[0, 1]=-1 must be a whole number from 0 to 9007199254740992
    """
    counts = integers(label_counts, name, ndim=2)
    if counts.shape[1] == 0:
        raise InvalidArgumentError(
            f"{name} has no classes (shape {counts.shape}); it must be clients x classes"
        )
    # A sum in int64 sees one example too many, and a sum in float64 those that overflow int64.
    too_many = np.flatnonzero((counts.sum(axis=1) > EXACT) | (counts.sum(axis=1, dtype=np.float64) > EXACT))
    if too_many.size:
        raise InvalidArgumentError(
            f"{name}[{too_many[0]}] adds up to more than 2**53 examples; such counts are not exact in float64"
        )
    return counts


def client_ids(clients: ArrayLike, name: str, *, num_clients: int) -> NDArray[np.int64]:
    """Return distinct client indices, in ascending order.

    >>> client_ids([4, 1], "available", num_clients=5)
    array([1, 4])
    >>> client_ids([4, 4], "available", num_clients=5)
    Traceback (most recent call last):
    ...
    fedcbs.errors.InvalidArgumentError: available holds client 4 twice; name each client once
    """
    ids = integers(clients, name, minimum=0, maximum=max(num_clients - 1, 0))
    if ids.size and num_clients == 0:
        raise InvalidArgumentError(f"{name} names client {ids[0]}, but there are no clients")
    if ids.size < 2 or bool((ids[1:] > ids[:-1]).all()):
        return ids
    ids = np.sort(ids)
    twice = np.flatnonzero(ids[1:] == ids[:-1])
    if twice.size:
        raise InvalidArgumentError(f"{name} holds client {ids[twice[0]]} twice; name each client once")
    return ids


def _bounds(minimum: int | None, maximum: int | None) -> str:
    if minimum is not None and maximum is not None:
        return f" from {minimum} to {maximum}"
    if minimum is not None:
        return f" of at least {minimum}"
    return f" of at most {maximum}" if maximum is not None else ""


def _from_objects(array: NDArray[np.generic], name: str, minimum: int, maximum: int) -> NDArray[np.generic]:
    """Whole numbers that NumPy keeps as objects (they may be huge), or a clear refusal."""
    if array.dtype.kind == "b":
        raise InvalidArgumentError(
            f"{name} holds true and false; it must hold whole numbers (numpy.flatnonzero gives the places that are true)"
        )
    if array.dtype.kind != "O":
        raise InvalidArgumentError(f"{name} has dtype {array.dtype}; it must hold whole numbers")
    flat = cast(Sequence[object], array.ravel().tolist())
    checked = [integer(value, f"{name}[...]", minimum=minimum, maximum=maximum) for value in flat]
    return np.array(checked, dtype=np.int64).reshape(array.shape)
