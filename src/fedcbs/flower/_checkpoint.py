"""The server's state on disk: written whole after each round, read once when a run goes on.

``checkpoint.npz`` holds what changes with each round. What clients told when they joined (their encrypted uploads are
large) goes to numbered files of its own, ``statistics-000001.npz`` and so on, one each time somebody joins.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord

from fedcbs.flower._errors import FederationStateError
from fedcbs.flower._plain import read_plain, write_plain
from fedcbs.flower._population import Population
from fedcbs.flower._statistics import Statement, Statistics

__all__ = ["Checkpoints", "Saved"]

FORMAT = 1


@dataclasses.dataclass(frozen=True, eq=False)
class Saved:
    """State after a round.

    Parameters
    ----------
    identity
        What must be the same in the run that goes on: seed, cohort size, selector, privacy mode.
    round_index
        The last round that was aggregated.
    arrays
        The global model after it.
    strategy, chooser, absences, durations
        Memories of the parts.
    record
        The round's record, which is written to the file of rounds once the round has been evaluated.
    """

    identity: Mapping[str, Any]
    round_index: int
    arrays: ArrayRecord
    strategy: list[dict[str, Any]]
    chooser: Mapping[str, Any]
    absences: Mapping[str, Any]
    durations: Mapping[str, Any]
    record: Mapping[str, Any]


class Checkpoints:
    """Saves to, and loads from, the folder of a run.

    Parameters
    ----------
    folder
        Where; it exists.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept = 0

    @property
    def path(self) -> Path:
        """File of the state after the last round."""
        return self._folder / "checkpoint.npz"

    def save(self, saved: Saved) -> None:
        """Replace the checkpoint."""
        fields = {field.name: getattr(saved, field.name) for field in dataclasses.fields(saved)}
        write_plain(self.path, {"format": FORMAT, **fields})

    def load(self, identity: Mapping[str, Any]) -> Saved | None:
        """The checkpoint, if there is one; it must be of a run like this."""
        if not self.path.is_file():
            return None
        fields = read_plain(self.path)
        if fields.pop("format") != FORMAT:
            raise FederationStateError(
                f"{str(self.path)!r} has another format; finish the run with the fedcbs that began it"
            )
        saved = Saved(**fields)
        for name, value in identity.items():
            if saved.identity.get(name) != value:
                raise FederationStateError(
                    f"{name}={value!r}, but the checkpoint in {str(self._folder)!r} has {saved.identity.get(name)!r}; "
                    "use that, or another folder"
                )
        return saved

    def keep_statistics(self, population: Population, statistics: Statistics) -> None:
        """Write what those told who joined since the last call."""
        names = population.names[self._kept :]
        if not names:
            return
        told = {name: dataclasses.asdict(statistics.statements[name]) for name in names}
        write_plain(self._segment(), {"num_classes": statistics.num_classes, "told": told})
        self._kept = len(population.names)

    def load_statistics(self, population: Population, statistics: Statistics) -> None:
        """Read all of it back."""
        for path in sorted(self._folder.glob("statistics-*.npz")):
            segment = read_plain(path)
            statistics.num_classes = segment["num_classes"]
            statistics.statements |= {name: Statement(**told) for name, told in segment["told"].items()}
            population.remember(segment["told"])
        self._kept = len(population.names)
        statistics.version += 1

    def _segment(self) -> Path:
        """The next file's path; the number has room for as many joinings as a run can have."""
        return self._folder / f"statistics-{len(list(self._folder.glob('statistics-*.npz'))) + 1:06d}.npz"
