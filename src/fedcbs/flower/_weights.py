"""Weights that a selector sets, and updates that it estimates, put into the replies that the strategy averages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from numpy.typing import NDArray

from fedcbs.flower._log import LOG
from fedcbs.flower._replies import first_metrics
from fedcbs.flower._vectors import moved

__all__ = ["estimated_replies", "set_weights"]


def set_weights(usable: Mapping[str, Message], weights: Mapping[str, float], key: str | None) -> bool:
    """Replace the metric that the strategy weighs by; return whether that was possible."""
    records = {name: first_metrics(reply.content) for name, reply in usable.items()}
    if key is None or any(record is None or key not in record for record in records.values()):
        LOG.warning(
            "the strategy averages without a weight that could be set; the selector's weights are not used"
        )
        return False
    for name, record in records.items():
        if record is not None:
            record[key] = float(weights[name])
    return True


def estimated_replies(
    estimates: Sequence[tuple[str, NDArray[np.float64], float]],
    usable: Mapping[str, Message],
    arrays: ArrayRecord,
    key: str,
) -> list[Message]:
    """Replies in the place of clients that send nothing but are averaged in all the same.

    Their other metrics are the weighted means of those that came, so that the means stay as they are.
    """
    if not usable:
        return []
    replies = list(usable.values())
    pattern = replies[0].content
    (array_name,) = pattern.array_records
    (metric_name,) = pattern.metric_records
    means = _means([record for reply in replies if (record := first_metrics(reply.content)) is not None], key)
    made = []
    for _, update, weight in estimates:
        content = RecordDict(
            {array_name: moved(arrays, update), metric_name: MetricRecord({**means, key: float(weight)})}
        )
        made.append(Message(content, reply_to=replies[0]))
    return made


def _means(records: Sequence[MetricRecord], key: str) -> dict[str, float | list[float]]:
    weights = np.array([float(record[key]) for record in records])  # type: ignore[arg-type]  # checked: a number
    shares = weights / weights.sum() if weights.sum() > 0 else np.full(len(records), 1 / len(records))
    means: dict[str, float | list[float]] = {}
    for name in records[0]:
        if name != key:
            mean = np.tensordot(shares, np.array([record[name] for record in records], dtype=np.float64), 1)
            means[name] = mean.tolist()
    return means
