"""What all label-based partition schemes share: the checks, and the way from counts to examples."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs._checks import integer, integers
from fedcbs.errors import FedCBSError, InvalidArgumentError
from fedcbs.partition._deal import check_rng, deal
from fedcbs.partition._partition import Partition

__all__ = ["PartitionScheme", "balanced_totals"]

_MOST_CELLS = 2**32
_MOST_DRAWN_FROM = 10**9
"""NumPy draws from a hypergeometric law of fewer objects than this."""


@dataclass(frozen=True)
class PartitionScheme(abc.ABC):
    """A rule that says how many examples of each class each client gets.

    Subclasses write :meth:`_draw_counts`; options are fields.

    Parameters
    ----------
    examples_per_client
        How many examples each client gets; their mean where the scheme makes sizes vary. Without it, all
        examples are dealt out.
    """

    name: ClassVar[str]

    examples_per_client: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.examples_per_client is not None:
            integer(self.examples_per_client, "examples_per_client", minimum=1)

    def fixed_num_clients(self, num_classes: int) -> int | None:  # noqa: ARG002 - subclasses use it
        """Return the only number of clients that the scheme can make, or None if any will do."""
        return None

    def pool(self, num_clients: int, num_classes: int) -> NDArray[np.int64]:
        """Return class totals that the scheme can be dealt from, for a population without a dataset.

        Balanced, and of ``num_clients * examples_per_client`` examples, unless the scheme needs other totals.

        >>> from fedcbs.partition import IID
        >>> IID(examples_per_client=5).pool(num_clients=3, num_classes=2)
        array([8, 7])
        """
        clients, classes = self._shape(num_clients, num_classes)
        return self._pool(clients, classes, self._stated_size())

    def draw_counts(
        self, class_totals: ArrayLike, num_clients: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Draw label counts, clients x classes, without replacement from the classes' examples.

        Parameters
        ----------
        class_totals
            How many examples of each class there are.
        num_clients
            How many clients to deal to.
        rng
            Source of randomness.
        """
        totals = integers(class_totals, "class_totals")
        clients, _ = self._shape(num_clients, totals.size)
        check_rng(rng)
        self._check_enough(totals, clients)
        counts = self._draw_counts(totals, clients, rng)
        self._verify(counts, totals, clients)
        return counts

    def draw_balanced(
        self, num_clients: int, num_classes: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Draw label counts for a population without a dataset: from :meth:`pool`.

        >>> from fedcbs.partition import ClassesPerClient
        >>> scheme = ClassesPerClient(1, examples_per_client=7)
        >>> scheme.draw_balanced(4, 2, np.random.default_rng(0)).sum(axis=0)
        array([14, 14])
        """
        return self.draw_counts(self.pool(num_clients, num_classes), num_clients, rng)

    def split(
        self,
        labels: ArrayLike,
        num_clients: int,
        rng: np.random.Generator,
        *,
        num_classes: int | None = None,
    ) -> Partition:
        """Split the examples with these labels: draw the counts, then deal out examples that realise them.

        >>> from fedcbs.partition import IID
        >>> partition = IID().split([0, 1, 0, 1, 1, 0], 3, np.random.default_rng(0))
        >>> sorted(partition.indices.tolist())
        [0, 1, 2, 3, 4, 5]
        """
        classes = integers(labels, "labels", maximum=2**31)
        if classes.size == 0:
            raise InvalidArgumentError("labels is empty; there is nothing to split")
        found = int(classes.max()) + 1
        if num_classes is not None:
            found = integer(num_classes, "num_classes", minimum=found)
        totals = np.bincount(classes, minlength=found)
        return deal(classes, self.draw_counts(totals, num_clients, rng), rng)

    @abc.abstractmethod
    def _draw_counts(
        self, totals: NDArray[np.int64], num_clients: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Draw the counts; the arguments are checked, and so is the result."""

    def _pool(self, num_clients: int, num_classes: int, size: int) -> NDArray[np.int64]:
        return balanced_totals(num_classes, num_clients * size)

    def _check_enough(self, totals: NDArray[np.int64], num_clients: int) -> None:
        """Refuse what cannot work before any work starts."""
        total = int(totals.sum())
        if total == 0:
            raise InvalidArgumentError("class_totals holds no example; there is nothing to deal out")
        size = self.examples_per_client
        if size is not None and num_clients * size > total:
            raise InvalidArgumentError(
                f"examples_per_client={size} for {num_clients} clients needs {num_clients * size} examples,"
                f" but class_totals adds up to {total}; lower it to {total // num_clients}, or deal to fewer clients"
            )

    def _thinned(
        self, totals: NDArray[np.int64], num_clients: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Leave a random part of the examples unused, so that the mean size is the one asked for."""
        if self.examples_per_client is None:
            return totals
        wanted = num_clients * self.examples_per_client
        return totals if wanted == totals.sum() else drawn_from(totals, wanted, rng)

    def _stated_size(self) -> int:
        if self.examples_per_client is None:
            raise InvalidArgumentError(
                f"examples_per_client=None, but without a dataset {self.name!r} must know it; give a number"
            )
        return self.examples_per_client

    def _shape(self, num_clients: int, num_classes: int) -> tuple[int, int]:
        classes = integer(num_classes, "num_classes", minimum=1)
        clients = integer(num_clients, "num_clients", minimum=1)
        fixed = self.fixed_num_clients(classes)
        if fixed is not None and clients != fixed:
            raise InvalidArgumentError(
                f"num_clients={clients}, but {self.name!r} makes {fixed} clients of {classes} classes;"
                f" leave it out or say {fixed}"
            )
        if clients * classes > _MOST_CELLS:
            raise InvalidArgumentError(
                f"num_clients={clients} with {classes} classes needs {clients * classes / 2**27:,.0f} GiB of counts;"
                " deal to fewer clients"
            )
        return clients, classes

    def _verify(self, counts: NDArray[np.int64], totals: NDArray[np.int64], num_clients: int) -> None:
        who = type(self).__name__
        if counts.shape != (num_clients, totals.size) or counts.dtype != np.int64:
            raise FedCBSError(
                f"{who} drew {counts.dtype} counts of shape {counts.shape}; they must be int64 of {(num_clients, totals.size)}"
            )
        if counts.min() < 0 or bool((counts.sum(axis=0) > totals).any()):
            raise FedCBSError(
                f"{who} drew counts below zero or beyond the class totals; that is a defect in it"
            )


def balanced_totals(num_classes: int, num_examples: int) -> NDArray[np.int64]:
    """Return class totals as equal as can be; the first classes get what does not divide.

    >>> balanced_totals(3, 10)
    array([4, 3, 3])
    """
    classes = integer(num_classes, "num_classes", minimum=1)
    examples = integer(num_examples, "num_examples", minimum=0, maximum=2**53)
    return examples // classes + (np.arange(classes) < examples % classes)


def drawn_from(totals: NDArray[np.int64], wanted: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Class counts of `wanted` examples drawn from all without replacement."""
    check_drawable(totals)
    drawn: NDArray[np.int64] = rng.multivariate_hypergeometric(totals, wanted, method="marginals")
    return drawn


def check_drawable(totals: NDArray[np.int64]) -> None:
    """Refuse pools that NumPy's hypergeometric law cannot be exact on."""
    if int(totals.sum()) >= _MOST_DRAWN_FROM:
        raise InvalidArgumentError(
            f"class_totals adds up to {int(totals.sum())}; drawing without replacement is exact below"
            f" {_MOST_DRAWN_FROM} examples, so give fewer"
        )
