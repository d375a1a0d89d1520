"""Pickles of arrays and plain containers, read without running anything that they ask for.

The class of an array is a name in a pickle, and a name is a function call: an ordinary unpickler runs any. This one
knows the few names that arrays consist of, and gives stand-ins for these that only take notes; what they noted is
checked, and then becomes an array.
"""

from __future__ import annotations

import io
import math
import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["UnsafePickleError", "load_arrays"]


class UnsafePickleError(ValueError):
    """The pickle names something else than arrays and plain containers."""


def load_arrays(content: bytes) -> Any:
    """Return the arrays, numbers, texts, lists, tuples and dictionaries of a pickle; texts of Python 2 as bytes.

    >>> load_arrays(pickle.dumps({"data": np.arange(3, dtype=np.uint8), "labels": [1, 2, 3]}))
    {'data': array([0, 1, 2], dtype=uint8), 'labels': [1, 2, 3]}

    Raises
    ------
    UnsafePickleError
        It names anything else.
    """
    return _finished(_Unpickler(io.BytesIO(content), encoding="bytes").load())


class _DType:
    """Notes what kind of numbers an array has; only whole numbers and floats are let through."""

    def __init__(self, code: object, *_: object) -> None:
        text = code.decode("ascii") if isinstance(code, bytes) else code
        if not isinstance(text, str) or text.lstrip("<>|=")[:1] not in ("u", "i", "f", "b"):
            raise UnsafePickleError(f"it holds an array of {code!r}; numbers alone are read")
        self.dtype = np.dtype(text)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1].decode("ascii") if isinstance(state[1], bytes) else state[1]
        if order in ("<", ">"):
            self.dtype = np.dtype(order + self.dtype.str[1:])


class _Array:
    """Notes the shape, the kind and the bytes of an array."""

    def __init__(self) -> None:
        self.state: tuple[Any, ...] | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def finished(self) -> NDArray[Any]:
        if self.state is None:
            raise UnsafePickleError("it holds an array without contents")
        *_, shape, kind, fortran, raw = self.state
        content = raw.encode("latin1") if isinstance(raw, str) else raw
        if not isinstance(kind, _DType) or not isinstance(content, bytes | bytearray):
            raise UnsafePickleError("it holds an array that is not made of numbers")
        sizes = tuple(int(size) for size in shape)
        if min(sizes, default=0) < 0 or math.prod(sizes) * kind.dtype.itemsize != len(content):
            raise UnsafePickleError(f"it holds an array of shape {sizes} that has {len(content)} bytes")
        return np.frombuffer(content, kind.dtype).reshape(sizes, order="F" if fortran else "C")


def _reconstruct(*_: object) -> _Array:
    return _Array()


def _from_buffer(content: object, kind: object, shape: tuple[int, ...], order: object) -> _Array:
    array = _Array()
    array.__setstate__((shape, kind, order in ("F", b"F"), content))
    return array


def _encode(text: object, encoding: object) -> bytes:
    """Bytes as Python 3 writes them for Python 2: a text, to be encoded."""
    if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
        raise UnsafePickleError("it encodes a text in another way than arrays do")
    return text.encode("latin1")


def _no_bytes(*contents: object) -> bytes:
    """How Python 3 writes no bytes at all for Python 2."""
    if contents:
        raise UnsafePickleError("it makes bytes in another way than arrays do")
    return b""


def _admitted() -> dict[tuple[str, str], Any]:
    names: dict[tuple[str, str], Any] = {("_codecs", "encode"): _encode, ("numpy", "dtype"): _DType}
    names["numpy", "ndarray"] = "numpy.ndarray"  # an argument of what follows, never called
    for builtin in ("__builtin__", "builtins"):
        names[builtin, "bytes"] = _no_bytes
    for core in ("numpy.core", "numpy._core"):
        names[f"{core}.multiarray", "_reconstruct"] = _reconstruct
        names[f"{core}.numeric", "_frombuffer"] = _from_buffer
    return names


class _Unpickler(pickle.Unpickler):
    _ADMITTED = _admitted()

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self._ADMITTED[module, name]
        except KeyError:
            raise UnsafePickleError(
                f"it asks for {module}.{name}, which arrays do not need; it may be an attack"
            ) from None


def _finished(value: Any) -> Any:
    if isinstance(value, _Array):
        return value.finished()
    if isinstance(value, dict):
        return {_finished(key): _finished(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_finished(inner) for inner in value)
    return value
