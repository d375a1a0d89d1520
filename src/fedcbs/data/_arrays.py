"""Datasets from arrays: in memory, or in a file of NumPy's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs._checks import integer, integers, real
from fedcbs._files import existing_file
from fedcbs.data._archive import DAMAGED
from fedcbs.data._dataset import Dataset, Examples
from fedcbs.data._holdout import FRACTION, hold_out
from fedcbs.data._moments import moments
from fedcbs.errors import DataFileError, InvalidArgumentError

__all__ = ["Channels", "from_arrays", "load_npz"]

Channels = Literal["auto", "first", "last"]

_CHANNELS = (1, 3, 4)
_EXACT_FLOAT32 = 2**24


def from_arrays(
    train_features: ArrayLike,
    train_labels: ArrayLike,
    test_features: ArrayLike | None = None,
    test_labels: ArrayLike | None = None,
    *,
    name: str = "arrays",
    num_classes: int | None = None,
    train_owners: ArrayLike | None = None,
    test_owners: ArrayLike | None = None,
    class_names: Sequence[str] = (),
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    held_out: float = FRACTION,
    channels: Channels = "auto",
) -> Dataset:
    """Make a dataset of arrays.

    Parameters
    ----------
    train_features, test_features
        A row an example. uint8 is kept, and counts as numbers from 0 to 1 in training; all else becomes float32.
        Examples of two axes are grey images, and get a channel.
    train_labels, test_labels
        Class of each example, from 0.
    name
        What the dataset is called in results.
    num_classes
        Number of classes; as many as the labels show when left out.
    train_owners, test_owners
        Owner of each example, numbers or texts.
    class_names
        What the classes are called.
    mean, std
        Normalisation, one number a channel; computed from the train part when left out.
    held_out
        Share of the examples to hold out where no test part is given.
    channels
        Where the channel of an example of three axes is. ``auto`` takes the last axis of length 1, 3 or 4 if the
        first has another length.

    Examples
    --------
    >>> images = np.zeros((10, 28, 28), np.uint8)
    >>> dataset = from_arrays(images, np.arange(10) % 2, name="blank")
    >>> dataset.train.shape, len(dataset.train), len(dataset.test), dataset.num_classes
    ((1, 28, 28), 8, 2, 2)
    """
    if (test_features is None) != (test_labels is None):
        raise InvalidArgumentError("test_features and test_labels go together; give both or neither")
    owner_names, owners = _owner_indices(train_owners, test_owners)
    train = _examples(train_features, train_labels, owners[0], owner_names, "train", channels)
    held = None
    if test_features is not None:
        held = _examples(test_features, test_labels, owners[1], owner_names, "test", channels)
    elif test_owners is not None:
        raise InvalidArgumentError("test_owners is given without test_features; leave it out")
    if held is None:
        train, held = hold_out(train, held_out)
    return assemble(name, train, held, num_classes, class_names, mean, std)


def assemble(
    name: str,
    train: Examples,
    test: Examples,
    num_classes: int | None = None,
    class_names: Sequence[str] = (),
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Dataset:
    """Return the dataset, with what is left out found in the parts."""
    if len(train) == 0 or len(test) == 0:
        raise InvalidArgumentError(f"{name!r} has no {'test' if len(train) else 'train'} examples; give some")
    if num_classes is None:
        found = 1 + max(int(part.labels.max()) for part in (train, test))
        classes = max(found, len(class_names))
    else:
        classes = integer(num_classes, "num_classes", minimum=1)
    if class_names and len(class_names) != classes:
        raise InvalidArgumentError(
            f"class_names has {len(class_names)} names, but there are {classes} classes; give one for each"
        )
    if train.features.dtype != test.features.dtype:
        raise InvalidArgumentError(
            f"train has features of {train.features.dtype}, test of {test.features.dtype}; give both as the same"
        )
    if mean is None or std is None:
        computed = moments(train.features)
        mean, std = (computed[0] if mean is None else mean), (computed[1] if std is None else std)
    channels = train.shape[0] if len(train.shape) == 3 else 1
    means = tuple(real(value, f"mean[{c}]") for c, value in enumerate(mean))
    stds = tuple(real(value, f"std[{c}]", minimum=0, open_minimum=True) for c, value in enumerate(std))
    for argument, values in (("mean", means), ("std", stds)):
        if len(values) != channels:
            raise InvalidArgumentError(
                f"{argument} has {len(values)} numbers, but there are {channels} channels; give one for each"
            )
    return Dataset(name, train, test, classes, means, stds, tuple(map(str, class_names)))


def load_npz(path: str, name: str, held_out: float = FRACTION) -> Dataset:
    """Load the arrays of an ``.npz`` file, by the names that are customary for them."""
    file = existing_file(path, "dataset")
    try:
        # Opened here, because a file that NumPy opens stays open where it turns out to be no archive.
        with file.open("rb") as opened:
            archive = np.load(opened, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("it is a single array")
            names = list(archive.files)
            roles = _roles(names, file)
            arrays = {role: archive[key] for role, key in roles.items()}
    except DataFileError:
        raise
    except DAMAGED as error:
        raise DataFileError(
            f"{str(file)!r} cannot be read as arrays ({error}); write it with numpy.savez"
        ) from error
    return from_arrays(
        arrays["train_features"],
        arrays["train_labels"].squeeze(),
        arrays.get("test_features"),
        arrays["test_labels"].squeeze() if "test_labels" in arrays else None,
        train_owners=arrays.get("train_owners"),
        test_owners=arrays.get("test_owners"),
        class_names=arrays["class_names"].tolist() if "class_names" in arrays else (),
        name=name,
        held_out=held_out,
    )


_KEYS = {
    "features": ("features", "images", "x", "data"),
    "labels": ("labels", "y", "targets"),
    "owners": ("owners", "writers", "users"),
}


def _roles(names: Sequence[str], file: Path) -> dict[str, str]:
    """Which array is what: ``x_train``, ``train_images``, ``features`` and their like."""
    roles = {}
    for kind, words in _KEYS.items():
        for part in ("train", "test"):
            spellings = [s for word in words for s in (f"{word}_{part}", f"{part}_{word}")]
            if part == "train":
                spellings += words
            found = next((name for name in spellings if name in names), None)
            if found is not None:
                roles[f"{part}_{kind}"] = found
    if "class_names" in names:
        roles["class_names"] = "class_names"
    for role in ("train_features", "train_labels"):
        if role not in roles:
            raise DataFileError(
                f"{str(file)!r} has the arrays {', '.join(names) or 'none'}; it must have {role!r}, and should have"
                " train_features, train_labels, test_features, test_labels (or x_train, y_train, x_test, y_test)"
            )
    return roles


def _examples(
    features: ArrayLike,
    labels: ArrayLike | None,
    owners: NDArray[np.int64] | None,
    owner_names: tuple[str, ...],
    part: str,
    channels: Channels,
) -> Examples:
    array = as_features(features, f"{part}_features", channels)
    classes = integers(labels if labels is not None else (), f"{part}_labels", maximum=2**31)
    if len(array) != len(classes):
        raise InvalidArgumentError(
            f"{part}_features has {len(array)} examples, {part}_labels {len(classes)}; they must agree"
        )
    return Examples(array, classes, owners, owner_names)


def as_features(
    values: ArrayLike, argument: str, channels: Channels = "auto"
) -> NDArray[np.uint8] | NDArray[np.float32]:
    """Return features as uint8 or float32, channels first."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise InvalidArgumentError(
            f"{argument} must be a rectangular array; examples differ in shape"
        ) from None
    if array.ndim < 2 or 0 in array.shape:
        raise InvalidArgumentError(
            f"{argument} has shape {array.shape}; it must have a row an example, and at least one"
        )
    if channels not in ("auto", "first", "last"):
        raise InvalidArgumentError(f"channels={channels!r} must be 'auto', 'first' or 'last'")
    array = _numbers(array, argument)
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4 and _last(array.shape[1:], channels):
        array = np.moveaxis(array, -1, 1)
    return np.ascontiguousarray(array)


def _numbers(array: NDArray[Any], argument: str) -> NDArray[Any]:
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind not in "biuf":
        raise InvalidArgumentError(f"{argument} has dtype {array.dtype}; it must hold numbers")
    if array.dtype.kind in "iu" and (array.min() < -_EXACT_FLOAT32 or array.max() > _EXACT_FLOAT32):
        raise InvalidArgumentError(
            f"{argument} holds whole numbers beyond 2**24, which float32 cannot carry; scale them first"
        )
    with np.errstate(over="ignore"):
        numbers = array.astype(np.float32, copy=False)
    if not np.isfinite(numbers).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(numbers))[0])
        raise InvalidArgumentError(
            f"{argument}[{', '.join(map(str, where))}]={array[where]} is no finite float32; clean the data first"
        )
    return numbers


def _last(shape: tuple[int, ...], channels: str) -> bool:
    if channels != "auto":
        return channels == "last"
    return shape[-1] in _CHANNELS and shape[0] not in _CHANNELS


def _owner_indices(
    *parts: ArrayLike | None,
) -> tuple[tuple[str, ...], list[NDArray[np.int64] | None]]:
    """One numbering of the owners of all parts, in ascending order of what they are called."""
    arrays = [None if part is None else np.asarray(part) for part in parts]
    given = [array for array in arrays if array is not None]
    for array in given:
        if array.ndim != 1 or array.dtype.kind not in "iuU":
            raise InvalidArgumentError(
                f"owners of dtype {array.dtype} and shape {array.shape} must be one whole number or text an example"
            )
    if not given:
        return (), [None for _ in arrays]
    names, indices = np.unique(np.concatenate(given), return_inverse=True)
    cuts = np.cumsum([len(array) for array in given])[:-1]
    pieces = iter(np.split(indices.astype(np.int64), cuts))
    return tuple(map(str, names.tolist())), [None if array is None else next(pieces) for array in arrays]
