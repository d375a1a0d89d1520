"""Values as bytes: keys and messages in the frame of the private protocol, arrays as NumPy writes them, never pickled."""

from __future__ import annotations

import base64
import binascii
import io
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcbs.errors import InvalidArgumentError, ProtocolError
from fedcbs.private import PublicKeys, SecretKeys
from fedcbs.private._wire import Buffer, check_name, pack, unpack
from fedcbs.service._link import Cohort

__all__ = [
    "array_from_json",
    "array_to_json",
    "arrays_from_bytes",
    "arrays_to_bytes",
    "canonical",
    "cohort_from_json",
    "cohort_to_json",
    "named_from_bytes",
    "named_to_bytes",
    "public_from_bytes",
    "public_to_bytes",
    "secret_from_bytes",
    "secret_to_bytes",
]

HEADER = 1 << 26
"""Largest header of a message with many names."""


def public_to_bytes(keys: PublicKeys) -> bytes:
    """Public keys as a message."""
    header = {
        "mode": keys.mode,
        "parameters": dict(keys.parameters),
        "parts": list(keys.parts),
        "retired": list(keys.retired),
    }
    return pack("public", header, *(keys.parts[name] for name in keys.parts))


def public_from_bytes(data: Buffer) -> PublicKeys:
    """Public keys from a message; pin their fingerprint before using them."""
    message = unpack(data, "public", largest_header=HEADER)
    header = message.header
    parts = header.get("parts")
    good = (
        isinstance(header.get("mode"), str)
        and isinstance(header.get("parameters"), dict)
        and all(type(value) is int for value in header["parameters"].values())
        and isinstance(parts, list)
        and all(isinstance(name, str) and name.isidentifier() for name in parts)
        and len(parts) == len(message.sections) == len(set(parts))
        and isinstance(header.get("retired"), list)
    )
    if not good:
        raise ProtocolError("these bytes describe no public keys")
    return PublicKeys(
        header["mode"],
        header["parameters"],
        {name: bytes(section) for name, section in zip(header["parts"], message.sections, strict=True)},
        tuple(str(item) for item in header["retired"]),
    )


def secret_to_bytes(keys: SecretKeys) -> bytes:
    """Secret keys as a message, for the selector's own file."""
    header = {
        "mode": keys.mode,
        "parameters": dict(keys.parameters),
        "fingerprint": keys.fingerprint,
        "parts": list(keys.parts),
    }
    return pack("secret", header, *keys.parts.values())


def secret_from_bytes(data: Buffer) -> SecretKeys:
    """Secret keys from the selector's own file."""
    message = unpack(data, "secret", largest_header=HEADER)
    header = message.header
    parts = {name: bytes(part) for name, part in zip(header["parts"], message.sections, strict=True)}
    return SecretKeys(header["mode"], header["parameters"], header["fingerprint"], parts)


def named_to_bytes(kind: str, values: Mapping[str, Buffer]) -> bytes:
    """Bytes by name of client, as a message."""
    return pack(kind, {"clients": list(values)}, *values.values())


def named_from_bytes(kind: str, data: Buffer) -> dict[str, bytes]:
    """Bytes by name of client, from a message."""
    message = unpack(data, kind, largest_header=HEADER)
    names = message.header.get("clients")
    if not isinstance(names, list) or len(names) != len(message.sections):
        raise ProtocolError(f"the {kind} do not name one client each")
    try:
        checked = [check_name(name) for name in names]
    except InvalidArgumentError as error:
        raise ProtocolError(str(error)) from None
    if len(set(checked)) != len(checked):
        raise ProtocolError(f"the {kind} name a client twice")
    return {name: bytes(part) for name, part in zip(checked, message.sections, strict=True)}


def arrays_to_bytes(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Named arrays, compressed."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]  # the stub fears for an argument allow_pickle
    return buffer.getvalue()


def arrays_from_bytes(data: bytes) -> dict[str, NDArray[Any]]:
    """Named arrays, from the selector's own file."""
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def array_to_json(array: NDArray[np.floating[Any]]) -> dict[str, Any]:
    """An array of floats as a JSON object; its bits stay as they are.

    >>> array_from_json(array_to_json(np.array([[0.5, 0.1]])), "losses")
    array([[0.5, 0.1]])
    """
    values = np.ascontiguousarray(array, dtype="<f4" if array.dtype == np.float32 else "<f8")
    return {
        "type": values.dtype.str,
        "shape": list(values.shape),
        "data": base64.b64encode(values.tobytes()).decode(),
    }


def array_from_json(value: object, name: str) -> NDArray[np.float64]:
    """An array of floats from a JSON object, or from a list of numbers."""
    problem = InvalidArgumentError(
        f"{name} must be a list of numbers, or an object with type, shape and data"
    )
    if isinstance(value, list):
        try:
            return np.array(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise problem from None
    if not isinstance(value, dict) or value.get("type") not in ("<f4", "<f8"):
        raise problem
    shape, data = value.get("shape"), value.get("data")
    if not (
        isinstance(shape, list)
        and len(shape) <= 2
        and all(type(size) is int and size >= 0 for size in shape)
        and isinstance(data, str)
    ):
        raise problem
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise problem from None
    dtype = np.dtype(value["type"])
    if len(content) != dtype.itemsize * math.prod(shape):
        raise problem
    return np.frombuffer(content, dtype=dtype).reshape(shape).astype(np.float64)


def cohort_to_json(cohort: Cohort) -> dict[str, Any]:
    """A cohort as a JSON object."""

    def maybe(array: NDArray[np.float64] | None) -> dict[str, Any] | None:
        return None if array is None else array_to_json(array)

    return {
        "clients": list(cohort.clients),
        "weights": maybe(cohort.weights),
        "qcid": cohort.qcid,
        "asked": dict(cohort.asked),
        "estimated": list(cohort.estimated),
        "estimated_updates": maybe(cohort.estimated_updates),
        "estimated_weights": maybe(cohort.estimated_weights),
    }


def cohort_from_json(value: Mapping[str, Any]) -> Cohort:
    """A cohort from a JSON object."""

    def maybe(name: str) -> NDArray[np.float64] | None:
        return None if value[name] is None else array_from_json(value[name], name)

    return Cohort(
        clients=tuple(value["clients"]),
        weights=maybe("weights"),
        qcid=value["qcid"],
        asked=dict(value["asked"]),
        estimated=tuple(value["estimated"]),
        estimated_updates=maybe("estimated_updates"),
        estimated_weights=maybe("estimated_weights"),
    )


def canonical(document: object) -> bytes:
    """JSON with one spelling, to be digested."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
