"""A fixed number of clients of each class (Fed-CBS, Case 2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedcbs._checks import integers
from fedcbs.availability._base import Availability, round_rng
from fedcbs.errors import InvalidArgumentError

__all__ = ["ClassQuota"]


@final
@dataclass(frozen=True)
class ClassQuota(Availability):
    """Each round, a given number of the clients of each class, uniformly at random.

    Source: Fed-CBS, appendix, Case 2: 9 and 3 clients a class is its "3:1", 10 and 2 its "5:1". A client's class is
    the one it has most examples of, the lowest of them where several tie; a client without examples has none and is
    never available. :meth:`bind` the rule to label counts before use.

    Parameters
    ----------
    quotas
        Either two numbers, for each class of the first half and of the second half, or one number for each class.

    Examples
    --------
    >>> rule = ClassQuota((2, 1)).bind([[5, 0], [5, 0], [0, 5], [0, 5]])
    >>> rule.available(0, num_clients=4, seed=0)[:2]
    array([0, 1])
    """

    name: ClassVar[str] = "class-quota"

    quotas: tuple[int, ...]
    _clients: tuple[NDArray[np.int64], ...] = field(default=(), init=False, repr=False, compare=False)
    _num_clients: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        quotas = integers(self.quotas, "quotas", maximum=2**31)
        if not quotas.any():
            raise InvalidArgumentError(f"quotas={self.quotas} let nobody be available; raise one above 0")
        object.__setattr__(self, "quotas", tuple(quotas.tolist()))

    def _bound(self, label_counts: NDArray[np.int64]) -> ClassQuota:
        num_classes = label_counts.shape[1]
        main = np.where(label_counts.any(axis=1), label_counts.argmax(axis=1), num_classes)
        order = np.argsort(main, kind="stable")
        ends = np.cumsum(np.bincount(main, minlength=num_classes + 1))
        clients = tuple(np.split(order, ends[:-1])[:num_classes])
        quotas = self._quota_of_each(num_classes)
        for label, (quota, members) in enumerate(zip(quotas, clients, strict=True)):
            if quota > members.size:
                raise InvalidArgumentError(
                    f"quotas={self.quotas}: class {label} has {members.size} clients, fewer than its quota of {quota};"
                    " lower the quota, or use a partition with more clients of that class"
                )
        bound = ClassQuota(quotas)
        object.__setattr__(bound, "_clients", clients)
        object.__setattr__(bound, "_num_clients", len(label_counts))
        return bound

    def _quota_of_each(self, num_classes: int) -> tuple[int, ...]:
        if len(self.quotas) == num_classes:
            return self.quotas
        if len(self.quotas) == 2 and num_classes % 2 == 0:
            return tuple(quota for quota in self.quotas for _ in range(num_classes // 2))
        raise InvalidArgumentError(
            f"quotas={self.quotas} for {num_classes} classes; give {num_classes} numbers, one for each"
            + (", or two, for either half" if num_classes % 2 == 0 else "")
        )

    def _check_population(self, num_clients: int) -> None:
        if not self._clients:
            raise InvalidArgumentError(
                f"quotas={self.quotas} need each client's class; call bind(label_counts) and use what it returns"
            )
        if num_clients != self._num_clients:
            raise InvalidArgumentError(
                f"num_clients={num_clients}, but the rule is bound to {self._num_clients} clients; bind it anew"
            )

    def _available(self, round_index: int, num_clients: int, seed: int) -> NDArray[np.int64]:
        rng = round_rng(seed, self.name, round_index)
        chosen = np.zeros(num_clients, dtype=bool)
        for quota, members in zip(self.quotas, self._clients, strict=True):
            chosen[members[rng.choice(members.size, quota, replace=False, shuffle=False)]] = True
        return np.flatnonzero(chosen)
