"""Who wrote each digit of MNIST: QMNIST's labels, which follow MNIST's order and name the writer of each image.

Source: C. Yadav and L. Bottou, "Cold case: the lost MNIST digits", 2019. A row has eight whole numbers; the first is the
digit, the third the writer. The rows of its 60,000 test images begin with MNIST's 10,000. No writer is in both parts.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedcbs.data._dataset import Examples
from fedcbs.data._idx import read_idx
from fedcbs.data._layout import Parts, first_file
from fedcbs.errors import DataFileError, MissingDataError

__all__ = ["with_writers"]

_DIGIT, _WRITER = 0, 2


def with_writers(parts: Parts, folders: Iterable[Path]) -> Parts:
    """Return MNIST with its writers as owners.

    Parameters
    ----------
    parts
        MNIST without owners.
    folders
        Where to look for QMNIST's labels: there, and in `qmnist` below.
    """
    if parts.test is None:
        return parts
    looked = list(folders)
    rows = [_rows(part, name, looked) for name, part in (("train", parts.train), ("test", parts.test))]
    numbers, owners = np.unique(np.concatenate([table[:, _WRITER] for table in rows]), return_inverse=True)
    names = tuple(map(str, numbers.tolist()))
    train, test = np.split(owners.astype(np.int64), [len(parts.train)])
    return Parts(
        Examples(parts.train.features, parts.train.labels, train, names),
        Examples(parts.test.features, parts.test.labels, test, names),
        parts.class_names,
    )


def _rows(part: Examples, name: str, folders: list[Path]) -> NDArray[np.generic]:
    stem = f"qmnist-{name}-labels-idx2-int"
    places = [place for folder in folders for place in (folder, folder / "qmnist", folder / "QMNIST" / "raw")]
    path = next((p for place in places if (p := first_file(place, (stem, f"{stem}.gz"))) is not None), None)
    if path is None:
        where = ", ".join(repr(str(folder)) for folder in folders)
        raise MissingDataError(
            f"owner=qmnist needs {stem}[.gz], which is in none of {where} nor in their 'qmnist'; copy it there"
        )
    rows = read_idx(path, axes=2)
    if rows.shape[1] <= _WRITER or not np.array_equal(rows[: len(part), _DIGIT], part.labels):
        raise DataFileError(
            f"{str(path)!r} does not have MNIST's digits in its first column; get it again, or leave owner=qmnist out"
        )
    return rows[: len(part)]
