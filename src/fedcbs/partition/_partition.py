"""Which examples each client holds: one flat array of indices, cut at offsets."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs._checks import integer, integers
from fedcbs._files import existing_file, write_whole
from fedcbs.errors import InvalidArgumentError

__all__ = ["Partition"]

_FORMAT, _FORMAT_OWNED = "fedcbs-partition-1", "fedcbs-partition-1-owned"
_MEMBERS = {_FORMAT: {"indices", "offsets"}, _FORMAT_OWNED: {"indices", "offsets", "owners"}}
_UNREADABLE = (
    *(OSError, EOFError, ValueError, KeyError, MemoryError, zipfile.BadZipFile, zlib.error, struct.error),
    RuntimeError,  # a damaged flag makes zipfile believe in encryption
    *(AttributeError, TypeError),  # a bare array has no members to ask for
)


@dataclass(frozen=True, eq=False)
class Partition:
    """The example indices of every client; each example belongs to one client at most.

    Parameters
    ----------
    indices
        Indices of examples, all clients' one after the other.
    offsets
        Client n holds ``indices[offsets[n]:offsets[n + 1]]``; one entry more than there are clients.
    owners
        What the dataset calls each client (numbers or texts), where it has natural owners.

    Examples
    --------
    >>> partition = Partition(np.array([4, 0, 2]), np.array([0, 1, 3]))
    >>> len(partition), partition[1], partition.num_examples
    (2, array([0, 2]), array([1, 2]))
    >>> partition.label_counts([0, 0, 1, 1, 1])
    array([[0, 1], [1, 1]])
    """

    indices: NDArray[np.int64]
    offsets: NDArray[np.int64]
    owners: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        indices = integers(self.indices, "indices")
        offsets = integers(self.offsets, "offsets")
        _check_offsets(offsets, indices.size)
        _check_distinct(indices)
        # Views, so that freezing them leaves the caller's own arrays as they were.
        for name, array in (("indices", indices), ("offsets", offsets)):
            object.__setattr__(self, name, _frozen(array))
        if self.owners is not None:
            object.__setattr__(self, "owners", _frozen(_checked_owners(self.owners, len(self))))

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __getitem__(self, client: int) -> NDArray[np.int64]:
        n = integer(client, "client", minimum=0, maximum=len(self) - 1)
        return self.indices[self.offsets[n] : self.offsets[n + 1]]

    def __iter__(self) -> Iterator[NDArray[np.int64]]:
        for n in range(len(self)):
            yield self.indices[self.offsets[n] : self.offsets[n + 1]]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Partition):
            return NotImplemented
        return (
            np.array_equal(self.indices, other.indices)
            and np.array_equal(self.offsets, other.offsets)
            and (self.owners is None) == (other.owners is None)
            and (self.owners is None or other.owners is None or np.array_equal(self.owners, other.owners))
        )

    __hash__ = None  # type: ignore[assignment]  # arrays inside, compared by value

    @property
    def num_examples(self) -> NDArray[np.int64]:
        """How many examples each client holds."""
        return np.diff(self.offsets)

    def take(self, clients: ArrayLike) -> Partition:
        """Return the partition of these clients alone, in this order.

        >>> Partition(np.array([4, 0, 2]), np.array([0, 1, 3])).take([1]).indices
        array([0, 2])
        """
        chosen = integers(clients, "clients", maximum=max(len(self) - 1, 0))
        if chosen.size and not len(self):
            raise InvalidArgumentError(f"clients names client {chosen[0]}, but there are no clients")
        offsets = np.concatenate(([0], np.cumsum(self.num_examples[chosen])))
        parts = [self[int(n)] for n in chosen]
        owners = None if self.owners is None else self.owners[chosen]
        return Partition(np.concatenate([np.empty(0, np.int64), *parts]), offsets, owners)

    def label_counts(self, labels: ArrayLike, num_classes: int | None = None) -> NDArray[np.int64]:
        """Count each client's examples of each class: an array clients x classes.

        Parameters
        ----------
        labels
            The class of every example of the dataset, not only of those in the partition.
        num_classes
            Columns of the result; as many as `labels` shows when left out.
        """
        classes = integers(labels, "labels", maximum=2**31)
        if self.indices.size and int(self.indices.max()) >= classes.size:
            raise InvalidArgumentError(
                f"labels has {classes.size} entries, but the partition holds example {int(self.indices.max())};"
                " give the labels of the dataset that was split"
            )
        found = int(classes.max(initial=-1)) + 1
        if num_classes is not None:
            found = integer(num_classes, "num_classes", minimum=max(found, 1))
        client = np.repeat(np.arange(len(self)), self.num_examples)
        flat = np.bincount(client * found + classes[self.indices], minlength=len(self) * found)
        return flat.reshape(len(self), found)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the partition to an ``.npz`` file, whole or not at all."""
        arrays: dict[str, NDArray[Any]] = {"indices": self.indices, "offsets": self.offsets}
        arrays["format"] = np.array(_FORMAT if self.owners is None else _FORMAT_OWNED)
        if self.owners is not None:
            arrays["owners"] = self.owners

        def write(file: BinaryIO) -> None:
            # NumPy 1.26 would save an allow_pickle argument as one more array, so there is none.
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]  # the stub fears for that argument

        write_whole(path, write)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Partition:
        """Read what :meth:`save` wrote; anything else is refused with the reason."""
        file = existing_file(path, "path")
        try:
            with file.open("rb") as opened, np.load(opened, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            kind = str(arrays.pop("format"))
            if arrays.keys() != _MEMBERS.get(kind):
                raise ValueError(
                    f"it holds {', '.join(sorted(arrays)) or 'nothing'}, or is of another format"
                )
            return cls(**arrays)
        except _UNREADABLE as error:
            raise InvalidArgumentError(
                f"path={str(file)!r} holds no partition ({error}); write one with Partition.save"
            ) from error


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


def _check_offsets(offsets: NDArray[np.int64], num_indices: int) -> None:
    if offsets.size == 0 or offsets[0] != 0 or offsets[-1] != num_indices:
        raise InvalidArgumentError(
            f"offsets must start at 0 and end at the number of indices, {num_indices}; it is {offsets}"
        )
    back = np.flatnonzero(np.diff(offsets) < 0)
    if back.size:
        at = int(back[0]) + 1
        raise InvalidArgumentError(f"offsets[{at}]={offsets[at]} lies below the entry before it; sort them")


def _check_distinct(indices: NDArray[np.int64]) -> None:
    if indices.size == 0:
        return
    ordered = np.sort(indices)
    twice = np.flatnonzero(ordered[1:] == ordered[:-1])
    if twice.size:
        raise InvalidArgumentError(
            f"indices holds example {ordered[twice[0]]} twice; give each example to one client at most"
        )


def _checked_owners(owners: ArrayLike, num_clients: int) -> NDArray[Any]:
    names = np.asarray(owners)
    if names.dtype.kind not in "iuU":
        raise InvalidArgumentError(f"owners has dtype {names.dtype}; it must hold whole numbers or texts")
    if names.shape != (num_clients,):
        raise InvalidArgumentError(
            f"owners has shape {names.shape}; it must name each of {num_clients} clients"
        )
    return names
