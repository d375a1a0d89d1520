"""Inner products of the clients' label counts, in three forms behind one interface.

Selection needs the sizes, the diagonal, and the columns of the clients that it has picked: nothing else is read.

- :class:`DenseGram`: the N x N matrix, as an encrypted protocol delivers it.
- :class:`FactorGram`: the label counts themselves, ``S = X X^T``; never forms N x N, and goes to millions of clients.
- :class:`RowsOnDemandGram`: asks a function for a row when selection first reads it, and remembers it.

All values are whole numbers held in float64. Where they stay below 2**53, all forms give the same bits.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs import _checks
from fedcbs.errors import InvalidArgumentError

__all__ = ["DenseGram", "FactorGram", "Gram", "RowsOnDemandGram"]


class Gram(abc.ABC):
    """Inner products of the clients' label counts, with their sizes.

    Parameters
    ----------
    num_examples
        Number of examples of each client.
    num_classes
        Number of classes.
    """

    def __init__(self, num_examples: ArrayLike, num_classes: int) -> None:
        self.num_examples: NDArray[np.int64] = _checks.integers(num_examples, "num_examples")
        self.num_classes = _checks.integer(num_classes, "num_classes", minimum=1)

    @property
    def num_clients(self) -> int:
        """Number of clients."""
        return len(self.num_examples)

    @property
    @abc.abstractmethod
    def diagonal(self) -> NDArray[np.float64]:
        """Inner product of each client with itself."""

    @abc.abstractmethod
    def add_column(self, client: int, out: NDArray[np.float64], *, start: int, scale: float) -> None:
        """Add `scale` times a client's column to `out`, which stands for the clients from `start` on."""

    @abc.abstractmethod
    def block(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Inner products of the clients `rows` with the clients `columns`."""

    @abc.abstractmethod
    def restrict(self, clients: NDArray[np.int64]) -> Gram:
        """Return the Gram of these clients alone, numbered from 0 in the order given."""

    def column(self, client: int) -> NDArray[np.float64]:
        """Inner products of everybody with one client."""
        out = np.zeros(self.num_clients)
        self.add_column(client, out, start=0, scale=1.0)
        return out


@final
class FactorGram(Gram):
    """The Gram of label counts that are at hand: a thin factor, N x B, instead of N x N.

    Parameters
    ----------
    label_counts
        Whole numbers, clients x classes. Copied, into the layout that is fastest to stream.

    Examples
    --------
    >>> gram = FactorGram([[3, 0], [1, 2]])
    >>> gram.column(0), gram.diagonal
    (array([9., 3.]), array([9., 5.]))
    """

    def __init__(self, label_counts: ArrayLike) -> None:
        counts = _checks.counts_matrix(label_counts)
        super().__init__(counts.sum(axis=1), counts.shape[1])
        # No inner product exceeds the largest size squared; where float32 holds that exactly, half the memory streams.
        small = int(self.num_examples.max(initial=0)) <= 2**12
        dtype: type[np.floating[Any]] = np.float32 if small else np.float64
        self._factor = np.ascontiguousarray(counts.T, dtype=dtype)  # classes x clients: rows stream
        self._diagonal: NDArray[np.float64] | None = None

    @property
    def diagonal(self) -> NDArray[np.float64]:
        """Inner product of each client with itself."""
        if self._diagonal is None:
            self._diagonal = np.einsum("bn,bn->n", self._factor, self._factor).astype(np.float64)
        return self._diagonal

    def add_column(self, client: int, out: NDArray[np.float64], *, start: int, scale: float) -> None:
        """Add `scale` times a client's column to `out`, which stands for the clients from `start` on."""
        column = np.dot(self._factor[:, client], self._factor[:, start : start + len(out)])
        out += np.multiply(column, scale, dtype=np.float64)

    def block(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Inner products of the clients `rows` with the clients `columns`."""
        product = self._factor[:, rows].T @ self._factor[:, columns]
        return np.asarray(product, dtype=np.float64)

    def restrict(self, clients: NDArray[np.int64]) -> FactorGram:
        """Return the Gram of these clients alone, numbered from 0 in the order given."""
        if len(clients) == self.num_clients and bool((clients == np.arange(len(clients))).all()):
            return self  # nobody is left out; a copy of the factor would double the memory
        part = FactorGram.__new__(FactorGram)
        part.num_examples = self.num_examples[clients]
        part.num_classes = self.num_classes
        part._factor = self._factor[:, clients]
        part._diagonal = None
        return part


@final
class DenseGram(Gram):
    """An N x N Gram matrix with sizes, as the encrypted protocol delivers it.

    Parameters
    ----------
    matrix
        Inner products: symmetric, whole numbers from 0 to 2**53.
    num_examples, num_classes
        Sizes of the clients, and the number of classes.

    Examples
    --------
    >>> gram = DenseGram([[9, 3], [3, 5]], num_examples=[3, 3], num_classes=2)
    >>> gram.column(1)
    array([3., 5.])
    >>> DenseGram([[9, 3], [4, 5]], num_examples=[3, 3], num_classes=2)
    Traceback (most recent call last):
    ...
    fedcbs.errors.InvalidArgumentError: matrix[0, 1]=3 but matrix[1, 0]=4; a Gram matrix is symmetric
    """

    def __init__(self, matrix: ArrayLike, *, num_examples: ArrayLike, num_classes: int) -> None:
        super().__init__(num_examples, num_classes)
        whole = _checks.integers(matrix, "matrix", ndim=2)
        size = self.num_clients
        if whole.shape != (size, size):
            raise InvalidArgumentError(
                f"matrix has shape {whole.shape} but num_examples names {size} clients; it must be {size} x {size}"
            )
        crooked = np.argwhere(whole != whole.T)
        if crooked.size:
            i, j = (int(k) for k in crooked[0])
            raise InvalidArgumentError(
                f"matrix[{i}, {j}]={whole[i, j]} but matrix[{j}, {i}]={whole[j, i]}; a Gram matrix is symmetric"
            )
        self._matrix = whole.astype(np.float64)
        self._diagonal = _checked_diagonal(
            self._matrix.diagonal().copy(), self.num_examples, self.num_classes
        )

    @property
    def diagonal(self) -> NDArray[np.float64]:
        """Inner product of each client with itself."""
        return self._diagonal

    def add_column(self, client: int, out: NDArray[np.float64], *, start: int, scale: float) -> None:
        """Add `scale` times a client's column to `out`, which stands for the clients from `start` on."""
        out += (
            self._matrix[client, start : start + len(out)] * scale
        )  # a row: it is symmetric, and contiguous

    def block(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Inner products of the clients `rows` with the clients `columns`."""
        return self._matrix[np.ix_(rows, columns)]

    def restrict(self, clients: NDArray[np.int64]) -> Gram:
        """Return the Gram of these clients alone, numbered from 0 in the order given."""
        return _RestrictedGram(self, clients)


@final
class RowsOnDemandGram(Gram):
    """A Gram whose rows are fetched when first read: a cohort of M costs M rows, not N.

    Parameters
    ----------
    fetch_row
        ``fetch_row(client)`` returns the client's inner products with everybody.
    diagonal
        Inner product of each client with itself.
    num_examples, num_classes
        Sizes of the clients, and the number of classes.

    Examples
    --------
    >>> counts = np.array([[3, 0], [1, 2], [0, 4]])
    >>> gram = RowsOnDemandGram(
    ...     lambda n: counts @ counts[n], diagonal=[9, 5, 16], num_examples=[3, 3, 4], num_classes=2
    ... )
    >>> gram.column(2), gram.fetched
    (array([ 0.,  8., 16.]), (2,))
    """

    def __init__(
        self,
        fetch_row: Callable[[int], ArrayLike],
        *,
        diagonal: ArrayLike,
        num_examples: ArrayLike,
        num_classes: int,
    ) -> None:
        super().__init__(num_examples, num_classes)
        whole = _checks.integers(diagonal, "diagonal").astype(np.float64)
        if len(whole) != self.num_clients:
            raise InvalidArgumentError(
                f"diagonal has {len(whole)} entries but num_examples names {self.num_clients} clients"
            )
        self._diagonal = _checked_diagonal(whole, self.num_examples, self.num_classes)
        self._fetch_row = fetch_row
        self._rows: dict[int, NDArray[np.float64]] = {}

    @property
    def diagonal(self) -> NDArray[np.float64]:
        """Inner product of each client with itself."""
        return self._diagonal

    @property
    def fetched(self) -> tuple[int, ...]:
        """The clients whose rows were fetched so far."""
        return tuple(self._rows)

    def add_column(self, client: int, out: NDArray[np.float64], *, start: int, scale: float) -> None:
        """Add `scale` times a client's column to `out`, which stands for the clients from `start` on."""
        out += self._row(client)[start : start + len(out)] * scale

    def block(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Inner products of the clients `rows` with the clients `columns`; fetches the shorter of the two."""
        if len(rows) < len(columns):
            return self.block(columns, rows).T
        block = np.empty((len(rows), len(columns)))
        for place, client in enumerate(columns.tolist()):
            block[:, place] = self._row(client)[rows]
        return block

    def restrict(self, clients: NDArray[np.int64]) -> Gram:
        """Return the Gram of these clients alone, numbered from 0 in the order given."""
        return _RestrictedGram(self, clients)

    def _row(self, client: int) -> NDArray[np.float64]:
        if client not in self._rows:
            row = _checks.integers(self._fetch_row(client), f"row of client {client}").astype(np.float64)
            if len(row) != self.num_clients or row[client] != self._diagonal[client]:
                raise InvalidArgumentError(
                    f"row of client {client} has {len(row)} entries, or contradicts the diagonal; "
                    f"fetch_row must return inner products with all {self.num_clients} clients"
                )
            self._rows[client] = row
        return self._rows[client]


@final
class _RestrictedGram(Gram):
    """Some clients of another Gram, renumbered; reads through to it and copies nothing large."""

    def __init__(self, whole: Gram, clients: NDArray[np.int64]) -> None:
        super().__init__(whole.num_examples[clients], whole.num_classes)
        self._whole, self._clients = whole, clients
        self._diagonal = whole.diagonal[clients]

    @property
    def diagonal(self) -> NDArray[np.float64]:
        """Inner product of each client with itself."""
        return self._diagonal

    def add_column(self, client: int, out: NDArray[np.float64], *, start: int, scale: float) -> None:
        """Add `scale` times a client's column to `out`, which stands for the clients from `start` on."""
        rows = self._clients[start : start + len(out)]
        out += self._whole.block(rows, self._clients[client : client + 1])[:, 0] * scale

    def block(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Inner products of the clients `rows` with the clients `columns`."""
        return self._whole.block(self._clients[rows], self._clients[columns])

    def restrict(self, clients: NDArray[np.int64]) -> Gram:
        """Return the Gram of these clients alone, numbered from 0 in the order given."""
        return _RestrictedGram(self._whole, self._clients[clients])


def _checked_diagonal(
    diagonal: NDArray[np.float64], num_examples: NDArray[np.int64], num_classes: int
) -> NDArray[np.float64]:
    """Refuse a diagonal that no label counts of these sizes can have: q**2 / B <= S[n, n] <= q**2."""
    squares = num_examples.astype(np.float64) ** 2
    slack = 1 + 1e-12
    wrong = np.flatnonzero((diagonal > squares * slack) | (diagonal * num_classes * slack < squares))
    if wrong.size:
        n = int(wrong[0])
        raise InvalidArgumentError(
            f"the inner product of client {n} with itself is {diagonal[n]:g}, which {num_examples[n]} examples in "
            f"{num_classes} classes cannot give; check num_examples, num_classes and the order of the clients"
        )
    return diagonal
