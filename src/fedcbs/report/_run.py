"""Runs as a report reads them: whatever a run directory holds, be the run unfinished, diverged or somebody else's.

A directory with a ``rounds.jsonl`` is a run. Only that file is needed, and of its fields only ``round``; what is missing
is missing in the report too. ``config.json``, ``summary.json`` and ``population.npz`` are read where they are. A run that
ended before its first round, as one that diverges at once, has no ``rounds.jsonl``: a summary with a status, or a
configuration as runs write it, makes its directory a run too.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, final

import numpy as np
from numpy.typing import NDArray

from fedcbs.errors import InvalidArgumentError

__all__ = ["COLUMNS", "ENDED", "STAGES", "RunData", "find_runs", "load_run", "load_runs"]

Floats = NDArray[np.float64]

COLUMNS = (
    "accuracy",
    "test_loss",
    "loss",
    "worst_class_accuracy",
    "qcid",
    "available",
    "bytes_up",
    "bytes_down",
    "simulated_seconds",
)
"""Numbers of a round that are read as they are; NaN where a round does not have them."""

STAGES = ("select", "train", "evaluate", "checkpoint")
"""What the seconds of a round are divided into; the rest of ``total`` is called other."""

RECORDS, CONFIG, SUMMARY = "rounds.jsonl", "config.json", "summary.json"

ENDED = ("diverged", "failed")
"""How a run ends that gets no further, however many rounds it was to have."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class RunData:
    """One run. Arrays have one row for each round that was recorded; NaN stands for what was not.

    Parameters
    ----------
    path
        The run directory.
    config, versions, summary
        As they were written; empty where they were not.
    rounds
        Numbers of the rounds, ascending.
    columns
        The numbers of :data:`COLUMNS`, of :data:`STAGES` in seconds, ``total_seconds``, and ``asked``, by name.
    cohorts
        Who was selected in each round.
    failed
        How many of them did not answer.
    per_class
        Accuracy of each class, rounds x classes; None where no round has it.
    cohort_labels
        Pooled label counts of the cohorts, rounds x classes; None where nobody may know them.
    label_counts
        Label counts of the population, clients x classes; None likewise.
    """

    path: Path
    config: Mapping[str, Any]
    versions: Mapping[str, str]
    summary: Mapping[str, Any]
    rounds: NDArray[np.int64]
    columns: Mapping[str, Floats]
    cohorts: Sequence[NDArray[np.int64]]
    failed: NDArray[np.int64]
    per_class: Floats | None
    cohort_labels: Floats | None
    label_counts: NDArray[np.int64] | None

    @property
    def seed(self) -> int | None:
        """The seed, where the configuration has one."""
        for section in (self.config.get("run"), self.config):
            if isinstance(section, Mapping) and isinstance(section.get("seed"), int):
                return cast(int, section["seed"])
        return None

    @property
    def status(self) -> str:
        """How the run ended, or "unfinished"."""
        return _status(self.summary) or "unfinished"

    @property
    def last_round(self) -> int:
        """Number of the last round that was recorded; 0 where none was."""
        return int(self.rounds[-1]) if self.rounds.size else 0

    @property
    def num_clients(self) -> int:
        """Size of the population, or the least that it can have."""
        if self.label_counts is not None:
            return len(self.label_counts)
        return 1 + max((int(cohort.max()) for cohort in self.cohorts if cohort.size), default=-1)

    def first_round_with(self, accuracy: float) -> int | None:
        """Return the first round whose accuracy is at least that, if there is one."""
        reached = np.flatnonzero(self.columns["accuracy"] >= accuracy)
        return int(self.rounds[reached[0]]) if reached.size else None

    def times_selected(self) -> NDArray[np.int64]:
        """Return how many times each client was selected."""
        chosen = np.concatenate([np.zeros(0, dtype=np.int64), *self.cohorts])
        return np.bincount(chosen, minlength=self.num_clients)

    def up_to(self, round_index: int) -> RunData:
        """Return the run without the rounds after that one."""
        kept = int(np.searchsorted(self.rounds, round_index, side="right"))
        if kept == len(self.rounds):
            return self
        return dataclasses.replace(
            self,
            rounds=self.rounds[:kept],
            columns={name: values[:kept] for name, values in self.columns.items()},
            cohorts=self.cohorts[:kept],
            failed=self.failed[:kept],
            per_class=None if self.per_class is None else self.per_class[:kept],
            cohort_labels=None if self.cohort_labels is None else self.cohort_labels[:kept],
        )


def find_runs(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return the run directories at or under `paths`, each once, in the order given and then by name.

    >>> find_runs(["no-such-folder"])
    Traceback (most recent call last):
    ...
    fedcbs.errors.InvalidArgumentError: run 'no-such-folder' is no folder; name run directories, or folders that hold them
    """
    found: dict[Path, None] = {}
    for given in paths:
        folder = Path(given)
        if not folder.is_dir():
            raise InvalidArgumentError(
                f"run {str(given)!r} is no folder; name run directories, or folders that hold them"
            )
        inside = [folder] if (folder / RECORDS).is_file() else sorted(_runs_under(folder))
        if not inside:
            raise InvalidArgumentError(
                f"run {str(given)!r} holds no {RECORDS} and no {SUMMARY} that says how a run ended, nor does any folder"
                " in it; name a run directory"
            )
        found.update(dict.fromkeys(inside))
    if not found:
        raise InvalidArgumentError("runs=[] is empty; name at least one run directory")
    return list(found)


def _runs_under(folder: Path) -> Iterator[Path]:
    for place, _, files in os.walk(folder):
        if RECORDS in files or _began(Path(place), files):
            yield Path(place)


def _began(folder: Path, files: Sequence[str]) -> bool:
    """Whether a folder without rounds holds a run: files of these names may be anybody's, also such as are no JSON."""
    if SUMMARY in files and _status(_lenient(folder / SUMMARY)):
        return True
    config = _lenient(folder / CONFIG) if CONFIG in files else {}
    return isinstance(config.get("config"), dict) and isinstance(config.get("format"), int)


def _lenient(path: Path) -> dict[str, Any]:
    try:
        return _document(path)
    except InvalidArgumentError:
        return {}


def _status(summary: Mapping[str, Any]) -> str:
    status = summary.get("status")
    return status if isinstance(status, str) else ""


def load_runs(paths: Iterable[str | os.PathLike[str]]) -> list[RunData]:
    """Read all runs at or under `paths`."""
    return [load_run(path) for path in find_runs(paths)]


def load_run(path: str | os.PathLike[str]) -> RunData:
    """Read one run directory."""
    folder = Path(path)
    files = [file.name for file in folder.iterdir() if file.is_file()] if folder.is_dir() else []
    if RECORDS not in files and not _began(folder, files):
        raise InvalidArgumentError(f"run {str(folder)!r} has no {RECORDS}; name a run directory")
    records = list(_records(folder / RECORDS)) if RECORDS in files else []
    document = _document(folder / CONFIG)
    config = document.get("config", document)
    per_class = _rows(records, "per_class_accuracy")
    return RunData(
        path=folder,
        config=config if isinstance(config, dict) else {},
        versions={str(key): str(value) for key, value in _mapping(document.get("versions")).items()},
        summary=_document(folder / SUMMARY),
        rounds=np.array([record["round"] for record in records], dtype=np.int64),
        columns=_columns(records),
        cohorts=[_clients(record.get("cohort")) for record in records],
        failed=np.array([len(_clients(record.get("failed"))) for record in records], dtype=np.int64),
        per_class=per_class,
        cohort_labels=_rows(records, "cohort_label_counts"),
        label_counts=_label_counts(folder / "population.npz"),
    )


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rounds in ascending order. A last line that is still being written is left out."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    last = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            index = record["round"]
            if not isinstance(index, int) or isinstance(index, bool) or not last < index < 2**53:
                raise TypeError
        except (ValueError, TypeError, KeyError, RecursionError):
            if number == len(lines):
                return
            raise InvalidArgumentError(
                f"{str(path)!r}, line {number}: no record of a round after {last}; mend or remove that line"
            ) from None
        last = index
        yield record


def _columns(records: list[dict[str, Any]]) -> dict[str, Floats]:
    found = {name: np.array([_number(r.get(name)) for r in records]) for name in COLUMNS}
    seconds = [_mapping(record.get("seconds")) for record in records]
    for stage in STAGES:
        found[stage] = np.array([_number(s.get(stage)) for s in seconds])
    found["total_seconds"] = np.array([_number(s.get("total")) for s in seconds])
    asked = [_mapping(record.get("asked")) for record in records]
    found["asked"] = np.array([sum(_number(n, 0.0) for n in needs.values()) for needs in asked])
    for name in ("mean", "std", "worst", "p10"):
        clients = [_mapping(record.get("client_accuracy")) for record in records]
        found[f"client_{name}"] = np.array([_number(c.get(name)) for c in clients])
    return {name: values.reshape(-1) for name, values in found.items()}


def _rows(records: list[dict[str, Any]], name: str) -> Floats | None:
    """A list of each round as a row; rounds without one, or with one of another length, are NaN."""
    lists = [record.get(name) for record in records]
    lengths = [len(values) for values in lists if isinstance(values, list)]
    if not lengths or max(lengths) == 0:
        return None
    width = max(lengths)
    blank = [math.nan] * width
    rows = [
        [_number(value) for value in values] if isinstance(values, list) and len(values) == width else blank
        for values in lists
    ]
    return np.array(rows, dtype=np.float64)


def _number(value: object, default: float = math.nan) -> float:
    return float(value) if isinstance(value, int | float) and abs(value) < 1e300 else default


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _clients(value: object) -> NDArray[np.int64]:
    """Client indices; a federation may name its clients otherwise, and then there are none to draw."""
    if not isinstance(value, list) or not all(isinstance(c, int) and 0 <= c < 2**31 for c in value):
        return np.zeros(0, dtype=np.int64)
    return np.array(value, dtype=np.int64)


def _document(path: Path) -> dict[str, Any]:
    """An object of JSON, or nothing where the file is not there; one that cannot be read is an error."""
    if not path.is_file():
        return {}
    try:
        document = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (ValueError, RecursionError):
        raise InvalidArgumentError(f"{str(path)!r} is no JSON; mend or remove that file") from None
    return document if isinstance(document, dict) else {}


def _label_counts(path: Path) -> NDArray[np.int64] | None:
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as stored:
            counts = np.asarray(stored["label_counts"]) if "label_counts" in stored.files else None
    except (OSError, ValueError, zipfile.BadZipFile):
        raise InvalidArgumentError(f"{str(path)!r} cannot be read; mend or remove that file") from None
    if counts is None or counts.ndim != 2 or counts.size == 0 or counts.dtype.kind not in "iu":
        return None
    return counts.astype(np.int64)
