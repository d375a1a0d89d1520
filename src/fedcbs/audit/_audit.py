"""The audit: attacks as an honest-but-curious selector would run them, without noise and with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs import _checks
from fedcbs.audit._cost import CostSetting, noised, qcid_under_noise
from fedcbs.audit._factor import factorise
from fedcbs.audit._lattice import lattice_attack
from fedcbs.audit._recovery import Recovery
from fedcbs.audit._report import AuditReport, AuditRow, GramReport
from fedcbs.audit._score import Naming, named_by_insiders, named_by_totals, score
from fedcbs.audit._spectral import spectral_attack
from fedcbs.errors import InvalidArgumentError
from fedcbs.imbalance import FactorGram, Gram, label_shares
from fedcbs.private import parse_noise

__all__ = ["NOISES", "attack", "audit", "audit_gram"]

NOISES = tuple(f"laplace:epsilon={epsilon}" for epsilon in ("2", "1", "0.5", "0.1", "0.02"))
"""What is tried where nothing else is asked for."""

INSIDERS = (1, 2, 3, 5)
NOBODY = Naming(0.0, 0.0)

Progress = Callable[[int, int], None]


def attack(gram: Gram) -> tuple[Recovery | None, Recovery | None]:
    """Run the lattice attack and the spectral attack.

    >>> lattice, spectral = attack(FactorGram([[5, 1], [2, 7], [4, 4]]))
    >>> lattice.unique
    True
    """
    factor = factorise(gram, gram.num_classes)
    return lattice_attack(gram, factor), spectral_attack(gram, factor)


def audit(
    label_counts: ArrayLike,
    *,
    noises: Iterable[str] = NOISES,
    setting: CostSetting | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> AuditReport:
    """Attack a federation's own label statistics, and compare what comes out with the truth.

    Parameters
    ----------
    label_counts
        Clients x classes.
    noises
        Specs of noise to try beside none.
    setting
        How the cost of noise is measured; by default 10 of the 30% that are available, by ``fedcbs-exact``.
    seed
        Fixes noise, insiders and rounds.
    progress
        Called with the number of noises done, and their number.

    Examples
    --------
    >>> counts = [[30, 2, 0], [0, 25, 7], [9, 0, 31], [12, 13, 2], [5, 1, 17]]
    >>> setting = CostSetting(cohort_size=2, rounds=5, availability="always")
    >>> print(audit(counts, noises=(), setting=setting).sentences()[0])
    A selector that opens the Gram matrix recovers the label distribution of 5 of 5 clients (within 5%), 5 of 5 of them count by count, up to the names of the classes.
    """
    counts = _checks.counts_matrix(label_counts)
    if not counts.any():
        raise InvalidArgumentError("label_counts holds no examples; audit clients that have some")
    chosen = CostSetting() if setting is None else setting
    specs: list[str | None] = [None, *(parse_noise(text).spec for text in noises)]
    rows = []
    for done, spec in enumerate(specs):
        rows.append(_row(counts, spec, chosen, seed))
        if progress is not None:
            progress(done + 1, len(specs))
    return AuditReport(counts.shape[0], counts.shape[1], chosen, seed, tuple(rows))


def audit_gram(gram: Gram) -> GramReport:
    """Attack an opened Gram matrix whose label counts nobody has at hand.

    >>> audit_gram(FactorGram([[5, 1], [2, 7], [4, 4]])).unique
    True
    """
    lattice, spectral = attack(gram)
    return GramReport(
        num_clients=gram.num_clients,
        num_classes=gram.num_classes,
        rank=factorise(gram, gram.num_classes).rank,
        lattice=lattice is not None,
        spectral=spectral is not None and spectral.consistent,
        unique=any(one is not None and one.unique for one in (lattice, spectral)),
    )


def _row(counts: NDArray[np.int64], spec: str | None, setting: CostSetting, seed: int) -> AuditRow:
    seen = counts if spec is None else noised(counts, spec, seed)
    lattice, spectral = attack(FactorGram(seen))
    best = lattice if lattice is not None else spectral
    qcid = qcid_under_noise(counts, spec, setting, seed=seed)
    return AuditRow(
        noise=spec,
        lattice=score(lattice, counts),
        spectral=score(spectral, counts),
        consistent=any(one is not None and one.consistent for one in (lattice, spectral)),
        unique=any(one is not None and one.unique for one in (lattice, spectral)),
        insiders={
            number: NOBODY if best is None else named_by_insiders(best, seen, counts, number, seed=seed)
            for number in INSIDERS
            if number < len(counts)
        },
        totals=NOBODY if best is None else named_by_totals(best, counts),
        sybil=_sybil(counts, seen, seed),
        guess=_guess(counts),
        qcid={name: float(values.mean()) for name, values in qcid.items()},
    )


def _sybil(counts: NDArray[np.int64], seen: NDArray[np.int64], seed: int) -> Naming:
    """Add a client whose counts are all different, recover everybody anew, and give names by that client."""
    made_up = np.arange(1, counts.shape[1] + 1)[None]
    everybody, uploaded = np.vstack([made_up, counts]), np.vstack([made_up, seen])
    gram = FactorGram(uploaded)
    factor = factorise(gram, gram.num_classes)
    best = lattice_attack(gram, factor) or spectral_attack(gram, factor)
    if best is None:
        return NOBODY
    return named_by_insiders(best, uploaded, everybody, 1, seed=seed, who=np.array([0]))


def _guess(counts: NDArray[np.int64]) -> float:
    """Mean total variation distance of clients from the pool."""
    filled = counts[counts.sum(axis=1) > 0]
    shares = filled / filled.sum(axis=1, keepdims=True)
    return float(0.5 * np.abs(shares - label_shares(counts)).sum(axis=1).mean())
