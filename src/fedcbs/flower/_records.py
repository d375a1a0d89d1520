"""The record of a run: one object a round in ``rounds.jsonl``, beside ``config.json`` and ``summary.json``."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from flwr.app import MetricRecord
from numpy.typing import NDArray

from fedcbs._files import write_whole
from fedcbs.errors import InvalidArgumentError
from fedcbs.flower._errors import FederationStateError

__all__ = ["Records", "evaluation_fields", "mean_loss"]


class Records:
    """Writes the folder of a run.

    Parameters
    ----------
    folder
        Where; made where it does not exist.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidArgumentError(
                f"out={str(folder)!r} cannot be made ({error.strerror}); name a folder that this user may write"
            ) from None

    @property
    def rounds(self) -> Path:
        """File of the rounds."""
        return self._folder / "rounds.jsonl"

    def configure(self, config: Mapping[str, Any], versions: Mapping[str, str]) -> None:
        """Write what the run was started with."""
        self._write("config.json", {"format": 1, "config": config, "versions": versions})

    def describe(self, label_counts: NDArray[np.int64]) -> None:
        """Write who has what, where the server may know it."""

        def write(file: BinaryIO) -> None:
            np.savez(file, label_counts=label_counts, num_examples=label_counts.sum(axis=1))

        write_whole(self._folder / "population.npz", write)

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one round, so that it is on the disk when this returns."""
        with self.rounds.open("ab") as file:
            file.write(_line(record))
            file.flush()
            os.fsync(file.fileno())

    def read(self) -> list[dict[str, Any]]:
        """All rounds; a last line that was cut off by a crash is not one."""
        if not self.rounds.is_file():
            return []
        records = []
        lines = self.rounds.read_bytes().splitlines()
        for number, line in enumerate(lines, start=1):
            try:
                records.append(json.loads(line))
            except ValueError:
                if number < len(lines):
                    raise FederationStateError(
                        f"{str(self.rounds)!r}, line {number}, is no JSON; put a copy in its place"
                    ) from None
        return records

    def keep_until(self, round_index: int) -> None:
        """Forget the rounds after this one."""
        kept = [record for record in self.read() if record["round"] <= round_index]

        def write(file: BinaryIO) -> None:
            file.writelines(_line(record) for record in kept)

        write_whole(self.rounds, write)

    def summarise(self, status: str) -> None:
        """Write ``summary.json``."""
        records = self.read()
        scored = [one for one in records if one.get("accuracy") is not None]
        best = max(scored, key=lambda one: (one["accuracy"], -one["round"]), default=None)
        balances = [one["qcid"] for one in records if one.get("qcid") is not None]
        times = _times_selected(records)
        self._write(
            "summary.json",
            {
                "status": status,
                "rounds": records[-1]["round"] if records else 0,
                "best_accuracy": best["accuracy"] if best else None,
                "best_round": best["round"] if best else None,
                "final_accuracy": scored[-1]["accuracy"] if scored else None,
                "targets": {},
                "qcid_mean": sum(balances) / len(balances) if balances else None,
                "coverage": sum(count > 0 for count in times) / len(times) if times else None,
                "participation": {
                    "gini": _gini(times),
                    "min": min(times, default=0),
                    "max": max(times, default=0),
                },
                "bytes_up": sum(one["bytes_up"] for one in records),
                "bytes_down": sum(one["bytes_down"] for one in records),
                "seconds": _total_seconds(records),
            },
        )

    def _write(self, name: str, value: object) -> None:
        text = json.dumps(_finite(value), indent=2) + "\n"

        def write(file: BinaryIO) -> None:
            file.write(text.encode())

        write_whole(self._folder / name, write)


def evaluation_fields(metrics: MetricRecord | Mapping[str, Any]) -> dict[str, Any]:
    """The record's entries for what an evaluation measured, by the usual names of Flower's apps.

    >>> evaluation_fields({"eval_acc": 0.5, "eval_loss": 1.25, "other": 3.0})
    {'accuracy': 0.5, 'test_loss': 1.25}
    """
    fields: dict[str, Any] = {}
    for name, value in metrics.items():
        if not isinstance(value, int | float):
            continue
        for part, field in (("acc", "accuracy"), ("loss", "test_loss")):
            if part in name.lower():
                fields.setdefault(field, float(value))
    return fields


def mean_loss(metrics: MetricRecord | None) -> float | None:
    """Mean local loss of training, under the usual names."""
    named = {name: value for name, value in (metrics or {}).items() if "loss" in name.lower()}
    value = next((value for value in named.values() if isinstance(value, int | float)), None)
    return None if value is None else float(value)


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(_finite(record)).encode() + b"\n"


def _finite(value: Any) -> Any:
    """JSON has no infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {name: _finite(entry) for name, entry in value.items()}
    return [_finite(entry) for entry in value] if isinstance(value, list | tuple) else value


def _total_seconds(records: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for record in records:
        for name, seconds in record["seconds"].items():
            totals[name] = totals.get(name, 0.0) + (seconds or 0.0)
    return totals


def _times_selected(records: Sequence[Mapping[str, Any]]) -> list[int]:
    """How often each client was in a cohort."""
    times = [0] * max((record["clients"] for record in records), default=0)
    for record in records:
        for client in record["cohort"]:
            times[client] += 1
    return times


def _gini(counts: list[int]) -> float | None:
    total = sum(counts)
    if not total:
        return None
    ranked = sum((2 * rank - len(counts) - 1) * count for rank, count in enumerate(sorted(counts), start=1))
    return ranked / (len(counts) * total)
