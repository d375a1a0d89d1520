"""Datasets of PyTorch's kind: anything with a length and pairs of (example, class) to ask for by index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedcbs._checks import integer
from fedcbs.data._arrays import assemble
from fedcbs.data._dataset import Dataset, Examples
from fedcbs.data._holdout import FRACTION, hold_out
from fedcbs.errors import InvalidArgumentError

__all__ = ["Pairs", "from_torch"]

_Features: TypeAlias = NDArray[np.uint8] | NDArray[np.float32]


class Pairs(Protocol):
    """What ``torch.utils.data.Dataset`` promises, where it has a length."""

    def __len__(self) -> int:
        """Return the number of examples."""

    def __getitem__(self, index: int, /) -> Any:
        """Return an example and its class."""


def from_torch(
    train: Pairs,
    test: Pairs | None = None,
    *,
    name: str = "torch",
    num_classes: int | None = None,
    class_names: Sequence[str] = (),
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    held_out: float = FRACTION,
) -> Dataset:
    """Decode datasets of PyTorch's kind once, by asking for each example once.

    Floats that are bytes divided by 255, as ``ToTensor`` makes them, are kept as bytes. Other floats are taken as they
    are: no normalisation is added to that of the dataset's own transform, unless `mean` and `std` are given.

    Parameters
    ----------
    train, test
        Datasets whose items are pairs of an example (tensor, array or image) and its class. Without `test` a share of
        `train` is held out.
    name
        What the dataset is called in results.
    num_classes
        Number of classes; as many as the labels show when left out.
    class_names
        What the classes are called.
    mean, std
        Normalisation, one number a channel.
    held_out
        Share of the examples to hold out where there is no `test`.

    Examples
    --------
    >>> pairs = [(np.full((1, 4, 4), k / 255, np.float32), k % 2) for k in range(10)]
    >>> dataset = from_torch(pairs)
    >>> dataset.train.features.dtype, len(dataset.train), len(dataset.test)
    (dtype('uint8'), 8, 2)
    """
    names = tuple(class_names) or tuple(map(str, getattr(train, "classes", ())))
    first = _examples(train, "train")
    if test is None:
        first, second = hold_out(first, held_out)
    else:
        second = _examples(test, "test")
    if first.features.dtype != second.features.dtype:
        first, second = (Examples(_as_floats(part.features), part.labels) for part in (first, second))
    if first.features.dtype != np.uint8:
        channels = first.shape[0] if len(first.shape) == 3 else 1
        mean = (0.0,) * channels if mean is None else mean
        std = (1.0,) * channels if std is None else std
    return assemble(name, first, second, num_classes, names, mean, std)


def _examples(pairs: Pairs, argument: str) -> Examples:
    total = _length(pairs, argument)
    _check_repeatable(pairs, argument)
    features: _Features | None = None
    labels = np.empty(total, np.int64)
    for at, (example, label) in enumerate(_items(pairs, total, argument)):
        where = f"{argument}[{at}]"
        values = _array(example, where)
        if features is None:
            kind = np.uint8 if _bytes_of(values) is not None else np.float32
            features = np.empty((total, *values.shape), kind)
        if values.shape != features.shape[1:]:
            raise InvalidArgumentError(
                f"{where} has shape {values.shape}, the ones before {features.shape[1:]}; let the transform make them alike"
            )
        if features.dtype == np.uint8:
            whole = _bytes_of(values)
            if whole is None:
                features = _as_floats(features)
            else:
                values = whole
        features[at] = values
        labels[at] = _label(label, where)
    if features is None:
        raise InvalidArgumentError(f"{argument} has no examples; give some")
    return Examples(features, labels)


def _length(pairs: Pairs, argument: str) -> int:
    try:
        return len(pairs)
    except TypeError as error:
        raise InvalidArgumentError(
            f"{argument}={type(pairs).__name__} has no length; give a dataset whose examples have indices"
        ) from error


def _items(pairs: Pairs, total: int, argument: str) -> Iterator[tuple[Any, Any]]:
    for at in range(total):
        item = pairs[at]
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise InvalidArgumentError(
                f"{argument}[{at}] is {type(item).__name__}, and no pair of an example and its class"
            )
        yield item[0], item[1]


def _check_repeatable(pairs: Pairs, argument: str) -> None:
    """Refuse random transforms: what is decoded once would never change again."""
    if not len(pairs):
        return
    draws = [_array(next(_items(pairs, 1, argument))[0], f"{argument}[0]") for _ in range(3)]
    if any(draw.shape != draws[0].shape or not np.array_equal(draw, draws[0]) for draw in draws):
        raise InvalidArgumentError(
            f"{argument}[0] differs each time it is asked for; examples are decoded once, so leave random transforms out"
        )


def _array(example: Any, where: str) -> NDArray[Any]:
    """Channels first; an image of Pillow's has them last, where it has any."""
    is_image = hasattr(example, "getbands")
    detach = getattr(example, "detach", None)
    try:
        values = np.asarray(example if detach is None else detach().cpu().numpy())
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidArgumentError(
            f"{where} is {type(example).__name__}, which is no tensor, array or image ({error})"
        ) from error
    if values.dtype.kind not in "biuf":
        raise InvalidArgumentError(
            f"{where} is {type(example).__name__}, which holds no numbers; add a transform"
        )
    if values.dtype != np.uint8:
        values = values.astype(np.float32)
        if not np.isfinite(values).all():
            raise InvalidArgumentError(f"{where} holds a number that is not finite; clean the data first")
    if is_image and values.ndim == 3:
        values = np.moveaxis(values, -1, 0)
    return values[None] if values.ndim == 2 else values


def _bytes_of(values: NDArray[Any]) -> NDArray[np.uint8] | None:
    """The bytes that these numbers are, or were before a division by 255."""
    if values.dtype == np.uint8:
        return values
    whole = np.rint(values * np.float32(255))
    if whole.size == 0 or whole.min() < 0 or whole.max() > 255:
        return None
    found = whole.astype(np.uint8)
    return found if np.array_equal(_as_floats(found), values) else None


def _as_floats(features: NDArray[Any]) -> NDArray[np.float32]:
    if features.dtype != np.uint8:
        return features.astype(np.float32, copy=False)
    return features.astype(np.float32) / np.float32(255)


def _label(label: Any, where: str) -> int:
    value = label.item() if hasattr(label, "item") and getattr(label, "ndim", 0) == 0 else label
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return integer(value, f"the class of {where}", minimum=0, maximum=2**31)
