"""Opened Gram matrices from files, for the audit."""

from __future__ import annotations

import os
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcbs import _checks
from fedcbs._files import existing_file
from fedcbs.errors import InvalidArgumentError
from fedcbs.imbalance import DenseGram

__all__ = ["load_opened_gram"]


def load_opened_gram(
    path: str | os.PathLike[str], *, num_classes: int | None = None
) -> DenseGram | NDArray[np.int64]:
    """Read a Gram matrix from an ``.npz`` file, or the label counts where the file has those.

    Parameters
    ----------
    path
        A file with `gram` and `num_examples`, as ``fedcbs private open`` writes it.
    num_classes
        Number of classes, where the file does not say; as many as the matrix's rank otherwise.
    """
    arrays = _arrays(path)
    if "label_counts" in arrays:
        return _checks.counts_matrix(arrays["label_counts"])
    for name in ("gram", "num_examples"):
        if name not in arrays:
            raise InvalidArgumentError(
                f"path={str(path)!r} has no array {name!r}; write one with fedcbs private open"
            )
    gram = _checks.integers(arrays["gram"], "gram", ndim=2)
    if num_classes is None and "num_classes" in arrays:
        num_classes = int(
            _checks.integers(arrays["num_classes"].reshape(-1)[:1], "num_classes", minimum=1)[0]
        )
    if num_classes is None:
        num_classes = max(int(np.linalg.matrix_rank(gram.astype(np.float64), hermitian=True)), 1)
    return DenseGram(gram, num_examples=arrays["num_examples"], num_classes=num_classes)


def _arrays(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    file = existing_file(path, "path")
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("it holds one array, not several")
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, MemoryError) as error:
        raise InvalidArgumentError(
            f"path={str(file)!r} holds no opened Gram ({error}); write one with fedcbs private open"
        ) from error
