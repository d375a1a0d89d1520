"""What can be said of a request without looking at anything else."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import sqlite3
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedcbs.errors import InvalidArgumentError, UnknownNameError
from fedcbs.private._wire import check_name
from fedcbs.selectors import Feedback, Need, parse_selector
from fedcbs.service import _codec as codec
from fedcbs.service._link import FederationOptions

__all__ = [
    "check_federation",
    "check_selector",
    "digest_of_outcome",
    "feedback_of",
    "first_digit",
    "options_of",
    "out_of_order",
]

COUNTING_MODES = ("sealed",)
"""Modes in which the selector opens label counts, in an order of the classes that the clients share."""


def options_of(row: sqlite3.Row) -> FederationOptions:
    return FederationOptions(**json.loads(row["options"]))


def check_federation(name: object) -> None:
    try:
        check_name(name)
    except InvalidArgumentError:
        raise InvalidArgumentError(
            f"federation={name!r} must be a name such as 'hospitals': 1 to 128 printable characters without / or \\"
        ) from None


def check_selector(options: FederationOptions) -> None:
    """Refuse a selector that wants label counts where the mode opens inner products only."""
    selector = parse_selector(options.selector)
    if Need.LABEL_COUNTS in selector.needs and options.mode not in COUNTING_MODES:
        raise InvalidArgumentError(
            f"selector={options.selector!r} looks at label counts, and mode={options.mode!r} opens inner products only;"
            f" choose mode {' or '.join(COUNTING_MODES)}, or another selector"
        )


def feedback_of(answered: list[int], failed: list[int], told: Mapping[str, NDArray[np.float64]]) -> Feedback:
    known = {field.name for field in dataclasses.fields(Feedback)} - {"answered", "failed"}
    for name in told:
        if name not in known:
            raise UnknownNameError("outcome", name, known)
    return Feedback(answered=answered, failed=failed, **told)


def digest_of_outcome(
    answered: Sequence[str], failed: Sequence[str], told: Mapping[str, NDArray[np.float64]]
) -> str:
    digest = hashlib.sha256(codec.canonical([list(answered), list(failed), sorted(told)]))
    for name in sorted(told):
        digest.update(repr(told[name].shape).encode() + np.ascontiguousarray(told[name]).tobytes())
    return digest.hexdigest()


def out_of_order(round_index: int, last: int, answered: bool) -> str:
    if answered:
        return (
            f"round {round_index} was answered already, to a request with other clients or another size;"
            " repeat that request, or say redo to forget it and all that followed"
        )
    return f"round {round_index} comes after round {last} was answered; go on, or say redo to go back"


def first_digit(value: float) -> float:
    """Round to one significant digit; a balanced cohort stays 0.

    >>> first_digit(0.0234), first_digit(0.0)
    (0.02, 0.0)
    """
    if value <= 0:
        return 0.0
    return round(value, -math.floor(math.log10(value)))
