"""What the selector gets in the end, in every mode."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fedcbs._checks import counts_matrix, integers
from fedcbs._files import existing_file, write_whole
from fedcbs.errors import InvalidArgumentError
from fedcbs.imbalance import DenseGram
from fedcbs.private._plausible import impossible_clients, impossible_counts
from fedcbs.selectors import GramInformation, Information, LabelInformation

__all__ = ["OpenedGram"]

LARGEST_MATRIX = 10_000
"""Above this many clients a file holds label counts only, where they are known: the matrix would not fit."""


@dataclass(frozen=True, eq=False)
class OpenedGram:
    """Inner products of the clients' label counts, opened and checked.

    Parameters
    ----------
    clients
        Names, in their order; rows and columns follow it.
    num_examples
        Examples of each client.
    num_classes
        Number of classes.
    matrix
        Inner products, or nothing where the mode gives label counts.
    label_counts
        Label counts in the order that clients share, where the mode gives them.
    refused
        Clients that were left out, with the reason.

    Examples
    --------
    >>> opened = OpenedGram(("a", "b"), np.array([3, 2]), 2, label_counts=np.array([[3, 0], [1, 1]]))
    >>> opened.gram
    array([[9, 3],
           [3, 2]])
    """

    clients: tuple[str, ...]
    num_examples: NDArray[np.int64]
    num_classes: int
    matrix: NDArray[np.int64] | None = None
    label_counts: NDArray[np.int64] | None = None
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def gram(self) -> NDArray[np.int64]:
        """Inner products, clients x clients."""
        if self.matrix is not None:
            return self.matrix
        assert self.label_counts is not None
        return self.label_counts @ self.label_counts.T

    def information(self) -> Information:
        """Return what selectors read; clients are numbered in the order of their names."""
        if self.label_counts is not None:
            return LabelInformation(self.label_counts)
        return GramInformation(
            DenseGram(self.gram, num_examples=self.num_examples, num_classes=self.num_classes)
        )

    def without_impossible(self, max_examples: int, refused: Mapping[str, str]) -> OpenedGram:
        """Leave out the clients whose entries no label counts can give; add those that were refused before."""
        if self.label_counts is not None:
            found = impossible_counts(self.label_counts, max_examples)
        else:
            found = impossible_clients(self.gram, self.num_examples, self.num_classes, max_examples)
        found_names = {self.clients[n]: why for n, why in found.items()}
        return self.without({**refused, **found_names})

    def without(self, refused: Mapping[str, str]) -> OpenedGram:
        """Leave out some clients, and keep the reasons."""
        reasons = {**self.refused, **refused}
        stay = [n for n, client in enumerate(self.clients) if client not in reasons]
        matrix, counts = self.matrix, self.label_counts
        return OpenedGram(
            tuple(self.clients[n] for n in stay),
            self.num_examples[stay],
            self.num_classes,
            matrix if matrix is None or len(stay) == len(matrix) else matrix[np.ix_(stay, stay)],
            None if counts is None else counts[stay],
            reasons,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an ``.npz`` file with `gram`, `num_examples`, `clients`; whole or not at all."""
        arrays: dict[str, NDArray[Any]] = {
            "num_examples": self.num_examples,
            "clients": np.array(self.clients, dtype=np.str_),
            "num_classes": np.array(self.num_classes),
            "refused": np.array([f"{name}: {why}" for name, why in self.refused.items()], dtype=np.str_),
        }
        if self.label_counts is not None:
            arrays["label_counts"] = self.label_counts
        if self.matrix is not None or len(self.clients) <= LARGEST_MATRIX:
            arrays["gram"] = self.gram

        def write(file: BinaryIO) -> None:
            np.savez(file, **arrays)  # type: ignore[arg-type]  # the stub fears for an argument allow_pickle

        write_whole(path, write)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> OpenedGram:
        """Read what :meth:`save` wrote."""
        file = existing_file(path, "path")
        try:
            with file.open("rb") as opened, np.load(opened, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            return _from_arrays(arrays)
        except _UNREADABLE as error:
            raise InvalidArgumentError(
                f"path={str(file)!r} holds no opened Gram ({error}); write one with fedcbs private open"
            ) from error


_UNREADABLE = (
    *(KeyError, ValueError, TypeError, IndexError, OSError, EOFError),
    *(MemoryError, OverflowError, NotImplementedError, RuntimeError, SyntaxError, struct.error),
    *(zipfile.BadZipFile, zlib.error, AttributeError),
)
"""What NumPy and zipfile raise on damaged files."""


def _from_arrays(arrays: Mapping[str, NDArray[Any]]) -> OpenedGram:
    clients = tuple(str(name) for name in arrays["clients"].tolist())
    sizes = integers(arrays["num_examples"], "num_examples")
    counts = counts_matrix(arrays["label_counts"]) if "label_counts" in arrays else None
    matrix = None if counts is not None else integers(arrays["gram"], "gram", ndim=2)
    number = len(clients)
    rows = counts if counts is not None else matrix
    assert rows is not None
    if (
        len(sizes) != number
        or len(rows) != number
        or (matrix is not None and matrix.shape != (number, number))
    ):
        raise ValueError("its arrays differ in length")
    reasons = dict(str(line).split(": ", 1) for line in arrays["refused"].tolist())
    return OpenedGram(clients, sizes, int(arrays["num_classes"]), matrix, counts, reasons)
