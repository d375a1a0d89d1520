"""What came back from a round."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs import _checks
from fedcbs.errors import InvalidArgumentError
from fedcbs.selectors._information import Need

__all__ = ["Feedback"]

DIMENSIONS = {"losses": 1, "rms_losses": 1, "durations": 1, "updates": 2, "class_gradients": 2}
NOT_NEGATIVE = {"rms_losses", "durations", "class_gradients"}


@dataclasses.dataclass(frozen=True, eq=False)
class Feedback:
    """Who answered, and what was learnt from them. Arrays are aligned with `answered`.

    Parameters
    ----------
    answered
        Clients of the cohort whose update arrived.
    failed
        Clients of the cohort from whom nothing usable arrived.
    losses, rms_losses
        Mean loss, and root of the mean squared loss, of each client at the model it received.
    updates
        Model update of each client, one flat row each.
    durations
        Measured seconds from request to answer.
    class_gradients
        Mean squared gradient of each client's trained model on each class of an auxiliary set.

    Examples
    --------
    >>> Feedback(answered=[4, 7], failed=[2], losses=[0.3, float("nan")])
    Traceback (most recent call last):
    ...
    fedcbs.errors.InvalidArgumentError: losses[1] (client 7) is nan; leave clients that diverged to `failed`
    """

    answered: ArrayLike
    failed: ArrayLike = ()
    losses: ArrayLike | None = None
    rms_losses: ArrayLike | None = None
    updates: ArrayLike | None = None
    durations: ArrayLike | None = None
    class_gradients: ArrayLike | None = None

    def __post_init__(self) -> None:
        for name in ("answered", "failed"):
            ids = _checks.integers(getattr(self, name), name)
            ascending = bool((ids[1:] > ids[:-1]).all())
            if not ascending and len(np.unique(ids)) < len(ids):
                raise InvalidArgumentError(
                    f"{name}={ids.tolist()} names a client twice; name each client once"
                )
            object.__setattr__(self, name, ids)
        both = np.intersect1d(self.answered_ids, self.failed_ids) if self.failed_ids.size else self.failed_ids
        if both.size:
            raise InvalidArgumentError(
                f"client {both[0]} is in answered and in failed; it can be in one of them only"
            )
        for name, ndim in DIMENSIONS.items():
            self._check(name, ndim)

    @property
    def answered_ids(self) -> NDArray[np.int64]:
        """Clients whose update arrived."""
        return np.asarray(self.answered, dtype=np.int64)

    @property
    def failed_ids(self) -> NDArray[np.int64]:
        """Clients from whom nothing usable arrived."""
        return np.asarray(self.failed, dtype=np.int64)

    def of(self, need: Need, selector: str) -> NDArray[np.float64]:
        """Return what was learnt about `need`, aligned with :attr:`answered_ids`; nothing where nobody answered."""
        name = need.value.replace("-", "_")
        value = getattr(self, name)
        if value is None and len(self.answered_ids) == 0:
            return np.zeros((0,) * DIMENSIONS[name])
        if value is None:
            raise InvalidArgumentError(
                f"feedback has no {need}, which {selector} learns from; pass it after each round"
            )
        return np.asarray(value)

    def _check(self, name: str, ndim: int) -> None:
        given = getattr(self, name)
        if given is None:
            return
        array = np.asarray(given)
        if array.size == 0 and array.ndim != ndim and len(self.answered_ids) == 0:
            array = np.zeros((0,) * ndim)
        if array.dtype.kind != "f":
            array = array.astype(np.float64)
        if array.ndim != ndim or len(array) != len(self.answered_ids):
            raise InvalidArgumentError(
                f"{name} has shape {array.shape}; it must have {ndim} dimension{'s' * (ndim > 1)} "
                f"and one entry for each of the {len(self.answered_ids)} clients in answered"
            )
        wrong = np.argwhere(~np.isfinite(array))
        if wrong.size:
            row = int(wrong[0][0])
            raise InvalidArgumentError(
                f"{name}[{row}] (client {self.answered_ids[row]}) is {array[tuple(wrong[0])]}; "
                "leave clients that diverged to `failed`"
            )
        if name in NOT_NEGATIVE and array.size and array.min() < 0:
            place = tuple(int(i) for i in np.argwhere(array < 0)[0])
            raise InvalidArgumentError(
                f"{name}[{place[0]}] (client {self.answered_ids[place[0]]}) is {array[place]}; it cannot be negative"
            )
        object.__setattr__(self, name, array)
