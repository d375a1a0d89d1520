"""What travels between the server app and the nodes: names of queries, of records and of their entries."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from fedcbs.flower._errors import WrongAnswerError

__all__ = ["RECORD", "Query", "blob", "content_bytes", "first_arrays", "packed", "values"]

RECORD = "fedcbs"
"""Name of the record with our entries, in queries, answers, and training messages."""
BLOBS = "fedcbs.blobs"


class Query(enum.StrEnum):
    """Questions that a node can be asked; the last part of the message's type."""

    HELLO = "fedcbs_hello"
    """Who are you?"""
    STATISTICS = "fedcbs_statistics"
    """Who are you, and what may the federation know about your data?"""
    LOSSES = "fedcbs_losses"
    """Your loss at this model."""
    UPDATES = "fedcbs_updates"
    """The update that training on this message would give, or its norm."""
    RELAY = "fedcbs_relay"
    """Pass this on to the selector; asked only of a node that its organisation runs."""

    @property
    def message_type(self) -> str:
        """Type of the message."""
        return f"query.{self.value}"


def packed(entries: Mapping[str, Any], blobs: Mapping[str, bytes] | None = None) -> RecordDict:
    """Return the content of a message; large bytes travel as arrays, which Flower cuts into chunks.

    >>> content = packed({"name": "a"}, {"upload": b"xyz"})
    >>> values(content)["name"], blob(content, "upload")
    ('a', b'xyz')
    """
    content = RecordDict({RECORD: ConfigRecord(dict(entries))})
    if blobs:
        content[BLOBS] = ArrayRecord(
            {name: Array(np.frombuffer(data, dtype=np.uint8)) for name, data in blobs.items()}
        )
    return content


def values(content: RecordDict) -> Mapping[str, Any]:
    """Our entries of a message; empty where it has none."""
    record = content.get(RECORD)
    return record if isinstance(record, ConfigRecord) else {}


def blob(content: RecordDict, name: str) -> bytes:
    """Bytes that :func:`packed` put into a message."""
    record = content.get(BLOBS)
    if not isinstance(record, ArrayRecord) or name not in record:
        raise WrongAnswerError(f"the message has no {name!r}")
    array = record[name].numpy()
    if array.dtype != np.uint8 or array.ndim != 1:
        raise WrongAnswerError(f"{name!r} holds {array.dtype} of {array.ndim} dimensions; it must be bytes")
    return array.tobytes()


def first_arrays(content: RecordDict) -> ArrayRecord:
    """The model in a message of training, under whatever name it goes."""
    for name, record in content.array_records.items():
        if name != BLOBS:
            return record
    raise WrongAnswerError("the message has no arrays")


def content_bytes(content: RecordDict) -> int:
    """Bytes of a message's content: its arrays, and its entries without what frames them."""
    total = sum(len(array.data) for record in content.array_records.values() for array in record.values())
    entries: list[Mapping[str, object]] = [
        *(dict(record) for record in content.config_records.values()),
        *(dict(record) for record in content.metric_records.values()),
    ]
    return total + sum(len(name) + _size(value) for record in entries for name, value in record.items())


def _size(value: object) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    return sum(_size(item) for item in value) if isinstance(value, list) else 8
