"""Label counts that are known already, from an array or a file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedcbs._checks import counts_matrix
from fedcbs._files import existing_file
from fedcbs.errors import InvalidArgumentError
from fedcbs.partition._scheme import PartitionScheme

__all__ = ["GivenCounts", "load_label_counts"]

_LONGEST_NUMBER = 16
_NO_NAMES = ("nan", "inf", "infinity")


@final
@dataclass(frozen=True, eq=False)
class GivenCounts(PartitionScheme):
    """Every draw is the given label counts.

    Parameters
    ----------
    label_counts
        How many examples of each class each client has.

    Examples
    --------
    >>> scheme = GivenCounts(np.array([[3, 0], [1, 2]]))
    >>> scheme.pool(num_clients=2, num_classes=2)
    array([4, 2])
    >>> scheme.draw_balanced(2, 2, np.random.default_rng(0))
    array([[3, 0], [1, 2]])
    """

    name: ClassVar[str] = "counts"

    label_counts: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.examples_per_client is not None:
            raise InvalidArgumentError(
                f"examples_per_client={self.examples_per_client}, but 'counts' has its sizes; leave it out"
            )
        counts = counts_matrix(self.label_counts).copy()
        if len(counts) == 0:
            raise InvalidArgumentError("label_counts has no clients; give a row for each")
        counts.flags.writeable = False
        object.__setattr__(self, "label_counts", counts)

    @property
    def num_classes(self) -> int:
        """How many classes the counts have."""
        return int(self.label_counts.shape[1])

    def draw_balanced(
        self,
        num_clients: int,
        num_classes: int,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> NDArray[np.int64]:
        """Return the given label counts. They need no pool, so a class may have more examples than can be dealt from."""
        self._shape(num_clients, num_classes)
        return self.label_counts.copy()

    def fixed_num_clients(self, num_classes: int) -> int | None:
        if num_classes != self.num_classes:
            raise InvalidArgumentError(
                f"num_classes={num_classes}, but label_counts has {self.num_classes} columns; say {self.num_classes}"
            )
        return len(self.label_counts)

    def _stated_size(self) -> int:
        return 0

    def _pool(self, num_clients: int, num_classes: int, size: int) -> NDArray[np.int64]:  # noqa: ARG002
        totals: NDArray[np.int64] = self.label_counts.sum(axis=0)
        return totals

    def _check_enough(self, totals: NDArray[np.int64], num_clients: int) -> None:  # noqa: ARG002
        needed = self.label_counts.sum(axis=0)
        short = np.flatnonzero(needed > totals)
        if short.size:
            raise InvalidArgumentError(
                f"class_totals[{short[0]}]={totals[short[0]]}, but label_counts deals out {needed[short[0]]} of that class;"
                " give a dataset that has them"
            )

    def _draw_counts(
        self,
        totals: NDArray[np.int64],  # noqa: ARG002
        num_clients: int,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
    ) -> NDArray[np.int64]:
        return self.label_counts.copy()


def load_label_counts(path: str | os.PathLike[str]) -> NDArray[np.int64]:
    """Read label counts, clients x classes, from a ``.csv`` or ``.npy`` file.

    In a ``.csv`` each line is a client and each cell the whole number of its examples of one class; a first line of
    names (each beginning with a letter) may stand above, empty lines are skipped.

    Raises
    ------
    InvalidArgumentError
        The file is missing or holds anything else; the message says what, and in which line.
    """
    file = existing_file(path, "path")
    readers = {".csv": _read_csv, ".npy": _read_npy}
    if file.suffix.lower() not in readers:
        raise InvalidArgumentError(
            f"path={str(file)!r} must end in .csv or .npy; save the label counts as one of them"
        )
    counts = counts_matrix(readers[file.suffix.lower()](file), f"label counts in {str(file)!r}")
    if len(counts) == 0:
        raise InvalidArgumentError(f"path={str(file)!r} has no clients; write a line for each")
    return counts


def _read_npy(file: Path) -> NDArray[Any]:
    try:
        # Mapped, so that a header that promises more than the file holds is refused before memory is asked for.
        return np.array(np.load(file, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, EOFError, MemoryError, OverflowError) as error:
        raise InvalidArgumentError(
            f"path={str(file)!r} holds no array ({error}); write it with numpy.save"
        ) from error


def _read_csv(file: Path) -> NDArray[np.int64]:
    rows: list[list[int]] = []
    try:
        with file.open(encoding="utf-8-sig", newline=None) as lines:
            for number, line in enumerate(lines, start=1):
                cells = [cell.strip() for cell in line.split(",")]
                if cells == [""] or (not rows and _is_heading(cells)):
                    continue
                rows.append(_whole_numbers(cells, file, number))
                if len(rows[-1]) != len(rows[0]):
                    raise InvalidArgumentError(
                        f"path={str(file)!r} line {number} has {len(rows[-1])} cells, the lines before it"
                        f" {len(rows[0])}; give every client each class"
                    )
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"path={str(file)!r} is no text ({error}); write it as UTF-8") from error
    return np.array(rows, dtype=np.int64).reshape(len(rows), -1 if rows else 1)


def _is_heading(cells: list[str]) -> bool:
    """Tell names, which begin with a letter, from numbers gone wrong."""
    return all(cell.lstrip('"')[:1].isalpha() and cell.lower() not in _NO_NAMES for cell in cells)


def _whole_numbers(cells: list[str], file: Path, number: int) -> list[int]:
    for column, cell in enumerate(cells, start=1):
        if not (cell.isascii() and cell.isdecimal() and len(cell) <= _LONGEST_NUMBER):
            raise InvalidArgumentError(
                f"path={str(file)!r} line {number}, column {column}: {cell[:40]!r} is no whole number from 0 to 2**53;"
                " write counts alone"
            )
    return [int(cell) for cell in cells]
