"""Nested plain data and arrays in one file, without pickles: what is read back can run no code."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import BadZipFile

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord
from numpy.typing import NDArray

from fedcbs._files import write_whole
from fedcbs.flower._errors import FederationStateError

__all__ = ["NotPlainError", "digest", "read_plain", "write_plain"]

RECORDS: dict[str, type[ConfigRecord] | type[MetricRecord]] = {
    "config": ConfigRecord,
    "metrics": MetricRecord,
}
Arrays = list[NDArray[Any]]


class NotPlainError(TypeError):
    """A value that is neither a number, a text, bytes, an array, nor made of such."""


def write_plain(path: Path, value: object) -> None:
    """Write a value whole or not at all.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_plain(Path(folder, "state.npz"), {"moments": {"w": np.ones(2)}, "round": 3, 5: b"x"})
    ...     read_plain(Path(folder, "state.npz"))
    {'moments': {'w': array([1., 1.])}, 'round': 3, 5: b'x'}
    """
    arrays: Arrays = []
    text = json.dumps(_encode(value, arrays))
    named = {f"a{number}": array for number, array in enumerate(arrays)}

    def write(file: BinaryIO) -> None:
        np.savez(file, text=np.frombuffer(text.encode(), dtype=np.uint8), **named)  # type: ignore[arg-type]

    write_whole(path, write)


def read_plain(path: Path) -> Any:
    """Read what :func:`write_plain` wrote."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            text = stored["text"].tobytes().decode()
            arrays = [stored[f"a{number}"] for number in range(len(stored.files) - 1)]
        return _decode(json.loads(text), arrays)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, BadZipFile) as error:
        raise FederationStateError(
            f"{str(path)!r} cannot be read ({error}); put a copy in its place, or start in another folder"
        ) from error


def digest(value: object) -> str | None:
    """What tells equal values from others; None for what is not plain."""
    arrays: Arrays = []
    try:
        text = json.dumps(_encode(value, arrays))
    except NotPlainError:
        return None
    total = hashlib.sha256(text.encode())
    for array in arrays:
        total.update(f"{array.dtype}{array.shape}".encode())
        total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def _encode(value: object, arrays: Arrays) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return (
            value if type(value) in (bool, int, float, str, type(None)) else _encode_subclass(value, arrays)
        )
    if isinstance(value, bytes):
        return {"bytes": _kept(np.frombuffer(value, dtype=np.uint8), arrays)}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufUS":
        return {"array": _kept(value, arrays)}
    if isinstance(value, np.generic) and value.dtype.kind in "biufUS":
        return {"scalar": _kept(np.asarray(value), arrays)}
    if isinstance(value, list | tuple):
        return (
            {type(value).__name__: [_encode(item, arrays) for item in value]}
            if type(value) in (list, tuple)
            else _refuse(value)
        )
    return _encode_mapping(value, arrays)


def _encode_mapping(value: object, arrays: Arrays) -> Any:
    if isinstance(value, ArrayRecord):
        pairs = [[name, _encode(array.numpy(), arrays)] for name, array in value.items()]
        return {"arrays": pairs}
    for name, kind in RECORDS.items():
        if isinstance(value, kind):
            return {name: [[key, _encode(entry, arrays)] for key, entry in value.items()]}
    if type(value) is dict:
        return {"dict": [[_encode(key, arrays), _encode(entry, arrays)] for key, entry in value.items()]}
    return _refuse(value)


def _encode_subclass(value: object, arrays: Arrays) -> Any:
    """NumPy's float64 is a float, and an enumeration may be a text: only the first comes back as it was."""
    if isinstance(value, np.generic):
        return {"scalar": _kept(np.asarray(value), arrays)}
    return _refuse(value)


def _refuse(value: object) -> Any:
    raise NotPlainError(f"{type(value).__name__} is no plain data")


def _kept(array: NDArray[Any], arrays: Arrays) -> int:
    arrays.append(array)
    return len(arrays) - 1


def _decode(value: Any, arrays: Arrays) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "bytes":
        return arrays[inner].tobytes()
    if kind == "array":
        return arrays[inner]
    if kind == "scalar":
        return arrays[inner][()]
    if kind in ("list", "tuple"):
        items = [_decode(item, arrays) for item in inner]
        return items if kind == "list" else tuple(items)
    pairs = [(_decode(key, arrays), _decode(entry, arrays)) for key, entry in inner]
    if kind == "arrays":
        return ArrayRecord({name: Array(array) for name, array in pairs})
    return RECORDS[kind](dict(pairs)) if kind in RECORDS else dict(pairs)
