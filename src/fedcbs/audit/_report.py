"""What an audit found, as numbers and in plain words."""

from __future__ import annotations

import dataclasses
from typing import Any

from fedcbs.audit._cost import CostSetting
from fedcbs.audit._score import Naming, Score

__all__ = ["AuditReport", "AuditRow", "GramReport"]


@dataclasses.dataclass(frozen=True)
class AuditRow:
    """What an honest-but-curious selector recovers under one noise, and what that noise costs.

    Parameters
    ----------
    noise
        Spec of the noise; None without.
    lattice, spectral
        The attacks against the truth; None where an attack finds nothing.
    consistent, unique
        Whether an attack finds whole counts that explain the matrix, and whether it is proven that nothing else does.
    insiders
        Names by insiders, for each number of them.
    totals
        Names by the classes' totals in the whole federation.
    sybil
        Names by one made-up client with 1, 2, ..., B examples of the classes.
    guess
        Mean total variation distance of the guess that every client is like the pool.
    qcid
        Mean QCID of each selector's cohorts.
    """

    noise: str | None
    lattice: Score | None
    spectral: Score | None
    consistent: bool
    unique: bool
    insiders: dict[int, Naming]
    totals: Naming
    sybil: Naming
    guess: float
    qcid: dict[str, float]

    @property
    def best(self) -> Score:
        """The better of the two attacks."""
        tried = [one for one in (self.lattice, self.spectral) if one is not None]
        return max(tried, key=lambda one: (one.close, -one.mean_distance), default=Score(0.0, 0.0, 1.0))


@dataclasses.dataclass(frozen=True)
class AuditReport:
    """The audit of a federation whose label counts are at hand.

    Parameters
    ----------
    num_clients, num_classes
        Its size.
    setting
        How the cost of noise was measured.
    rows
        One for each noise; the first is without.
    """

    num_clients: int
    num_classes: int
    setting: CostSetting
    seed: int
    rows: tuple[AuditRow, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "num_clients": self.num_clients,
            "num_classes": self.num_classes,
            "seed": self.seed,
            "setting": dataclasses.asdict(self.setting),
            "rows": [
                {
                    **dataclasses.asdict(row),
                    "insiders": {str(k): dataclasses.asdict(v) for k, v in row.insiders.items()},
                }
                for row in self.rows
            ],
        }

    def sentences(self) -> list[str]:
        """Return the findings in plain words."""
        row = self.rows[0]
        people, best = self.num_clients, row.best
        said = [
            f"A selector that opens the Gram matrix recovers the label distribution of {_of(best.close, people)} clients"
            f" (within {0.05:.0%}), {_of(best.exact, people)} of them count by count, up to the names of the classes.",
            _how(row),
        ]
        for number, naming in row.insiders.items():
            who = "one client that tells it its own counts" if number == 1 else f"{number} such clients"
            said.append(
                f"With {who} it names {naming.classes:.0%} of the classes, and knows {_of(naming.clients, people)}"
                " clients by name of class."
            )
        said.append(
            f"With the pooled totals of the classes it names {row.totals.classes:.0%} of them; with one made-up client of"
            f" 1, 2, ..., {self.num_classes} examples of the classes, {row.sybil.classes:.0%}."
        )
        return said + [self._noise_sentence(row, other) for other in self.rows[1:]]

    def _noise_sentence(self, without: AuditRow, row: AuditRow) -> str:
        costs = ", ".join(
            f"{name} {value * 100:.3f} instead of {without.qcid[name] * 100:.3f}"
            for name, value in row.qcid.items()
            if value != without.qcid[name]  # some do not look at label counts
        )
        return (
            f"Noise {row.noise}: it still recovers {_of(row.best.close, self.num_clients)} clients within {0.05:.0%}"
            f" (mean distance {row.best.mean_distance:.3f}; a blind guess has {row.guess:.3f}); QCID in 1e-2: {costs or 'unchanged'}."
        )


@dataclasses.dataclass(frozen=True)
class GramReport:
    """The audit of an opened Gram matrix, where the truth is not at hand.

    Parameters
    ----------
    num_clients, num_classes, rank
        Its size, and how many classes its clients have between them.
    lattice, spectral
        Whether an attack found whole counts that explain the matrix.
    unique
        Whether it is proven that nothing else does.
    """

    num_clients: int
    num_classes: int
    rank: int
    lattice: bool
    spectral: bool
    unique: bool

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return dataclasses.asdict(self)

    def sentences(self) -> list[str]:
        """Return the findings in plain words."""
        if self.unique:
            return [
                f"The label counts of all {self.num_clients} clients follow from this Gram matrix, exactly, up to the names"
                f" of the {self.num_classes} classes: whoever opens it can compute them. There is no other solution."
            ]
        if self.lattice or self.spectral:
            way = "lattice" if self.lattice else "spectral"
            return [
                f"The {way} attack found label counts of all {self.num_clients} clients that explain this Gram matrix exactly."
                " It is not proven that they are the only ones; they usually are."
            ]
        return [
            f"Neither attack found whole label counts that explain this Gram matrix ({self.num_clients} clients, rank"
            f" {self.rank}). The spectral attack still gives estimates; how good they are only the label counts can"
            " tell: audit those."
        ]


def _of(share: float, people: int) -> str:
    return f"{round(share * people)} of {people}"


def _how(row: AuditRow) -> str:
    which = "lattice" if row.lattice is not None else "spectral"
    if row.unique:
        return f"The {which} attack succeeds, and no other label counts fit, which can be proven: encryption does not hide them."
    if row.consistent:
        return (
            f"The {which} attack finds counts that explain the matrix exactly; that none other do is not proven, and only"
            " a comparison such as this one shows whether they are right."
        )
    if row.spectral is None:
        return "Neither attack finds anything."
    return (
        "The lattice attack finds nothing here; the spectral attack gives the label distributions with a mean total"
        f" variation distance of {row.spectral.mean_distance:.3f} (a blind guess has {row.guess:.3f})."
    )
