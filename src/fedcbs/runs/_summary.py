"""What came of a run, in a few numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fedcbs.laboratory import gini
from fedcbs.simulation import RoundRecord

__all__ = ["STATUSES", "summarise"]

STATUSES = ("finished", "diverged", "interrupted")


def summarise(
    records: Iterable[RoundRecord], *, status: str, num_clients: int, targets: Sequence[float] = ()
) -> dict[str, Any]:
    """Return the summary of a run from its rounds.

    Parameters
    ----------
    records
        All rounds, in their order.
    status
        ``finished``, ``diverged`` or ``interrupted``.
    num_clients
        Size of the population.
    targets
        Accuracies of which to say when they were reached.

    Examples
    --------
    >>> one = RoundRecord(1, 4, (0, 2), (0, 2), (), 0.25, (3, 1), 1.2, {}, 80, 80, accuracy=0.5)
    >>> found = summarise([one], status="finished", num_clients=4, targets=[0.4, 0.9])
    >>> found["targets"], found["coverage"], found["best_accuracy"]
    ({'0.4': 1, '0.9': None}, 0.5, 0.5)
    """
    times_selected = np.zeros(num_clients, dtype=np.int64)
    reached: dict[str, int | None] = {f"{target:g}": None for target in targets}
    best: RoundRecord | None = None
    last: RoundRecord | None = None
    qcids: list[float] = []
    seconds: dict[str, float] = {}
    bytes_up = bytes_down = failed = 0
    simulated: float | None = None
    rounds = 0
    for record in records:
        rounds = record.round
        times_selected[list(record.cohort)] += 1
        bytes_up, bytes_down = bytes_up + record.bytes_up, bytes_down + record.bytes_down
        failed += len(record.failed)
        if record.qcid is not None:
            qcids.append(record.qcid)
        if record.simulated_seconds is not None:
            simulated = (simulated or 0.0) + record.simulated_seconds
        for part, value in record.seconds.items():
            seconds[part] = seconds.get(part, 0.0) + value
        if record.accuracy is None:
            continue
        last = record
        if best is None or record.accuracy > (best.accuracy or 0.0):
            best = record
        for target in targets:
            if reached[f"{target:g}"] is None and record.accuracy >= target:
                reached[f"{target:g}"] = record.round
    return {
        "status": status,
        "rounds": rounds,
        "best_accuracy": None if best is None else best.accuracy,
        "best_round": None if best is None else best.round,
        "final_accuracy": None if last is None else last.accuracy,
        "targets": reached,
        "qcid_mean": float(np.mean(qcids)) if qcids else None,
        "coverage": float((times_selected > 0).mean()),
        "participation": {
            "gini": gini(np.bincount(times_selected)),
            "min": int(times_selected.min()),
            "max": int(times_selected.max()),
        },
        "failed": failed,
        "bytes_up": bytes_up,
        "bytes_down": bytes_down,
        "simulated_seconds": simulated,
        "seconds": seconds,
    }
