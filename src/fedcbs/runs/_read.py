"""A run that was written down, as others read it."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fedcbs.errors import RunError
from fedcbs.runs._directory import CONFIG, DAMAGED, POPULATION, SUMMARY, RunDirectory
from fedcbs.simulation import RoundRecord

__all__ = ["Run", "read_run"]


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """What is in a run directory; a run that is still going on has the rounds done so far, and no summary.

    Parameters
    ----------
    path
        Where it is.
    config
        The settled configuration, by section.
    versions
        Versions of what computed it.
    records
        Its rounds.
    summary
        What came of it; None before it ended.
    label_counts, num_examples
        Of the clients; None where the server may not know them.
    """

    path: Path
    config: dict[str, dict[str, Any]]
    versions: dict[str, str]
    records: tuple[RoundRecord, ...]
    summary: dict[str, Any] | None
    label_counts: NDArray[np.int64] | None = None
    num_examples: NDArray[np.int64] | None = None


def read_run(path: str | os.PathLike[str]) -> Run:
    """Read a run directory.

    Parameters
    ----------
    path
        What ``fedcbs run --out`` made.
    """
    directory = RunDirectory.existing(path)
    document = directory.read_json(CONFIG)
    if not isinstance(document.get("config"), dict):
        raise RunError(f"{directory.path / CONFIG} holds no configuration; the run is damaged")
    population = _population(directory.path / POPULATION)
    return Run(
        path=directory.path,
        config=document["config"],
        versions=document.get("versions", {}),
        records=tuple(directory.records()),
        summary=directory.read_json(SUMMARY) if (directory.path / SUMMARY).exists() else None,
        label_counts=population.get("label_counts"),
        num_examples=population.get("num_examples"),
    )


def _population(path: Path) -> dict[str, NDArray[np.int64]]:
    if not path.exists():
        return {}
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except DAMAGED as error:
        raise RunError(f"{path} cannot be read ({error}); the run is damaged") from error
