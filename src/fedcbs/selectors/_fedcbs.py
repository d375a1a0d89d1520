"""Fed-CBS: cohorts whose pooled labels are balanced, sampled by their QCID.

Zhang et al., "Fed-CBS: A Heterogeneity-Aware Client Sampling Mechanism for Federated Learning via Class-Imbalance
Reduction", ICML 2023, section 3.3 and Algorithm 1. Three presets, which are three different laws:

``fedcbs-paper``
    The algorithm as printed. The first member has weight ``QCID({n})**-1 + 10 * sqrt(3 ln k / (2 T_n))``, the m-th
    ``QCID(C + n)**-m``, with QCID floored at 1e-20; ``T_n`` starts at 1 and the round ``k`` at 1.
``fedcbs-sharp``
    The same with a steeper schedule, ``QCID**-(slope * m)``. The default: it needs the fewest rounds of the three, because
    it begins with a client that is balanced by itself, as far as there is one (docs/reproduction.md).
``fedcbs-exact``
    The law that the paper states and proves theorems about, ``P(C) ~ QCID(C)**-M``. The sequential algorithm does not
    have it (its normalisers depend on the history); Gibbs sweeps after it do.

How we differ from the text: the paper counts rounds from 0, where ``ln k`` has no value; from 1 here. Its numerators and
the exploration term of later members do not depend on the candidate and cancel. QCIDs are computed in whole numbers, so
that a balanced cohort has QCID 0 and not 1e-17. Clients without examples are left out.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedcbs import _checks
from fedcbs.imbalance import Gram, qcid_resolution
from fedcbs.selectors._base import Draw
from fedcbs.selectors._baselines import Memoryless
from fedcbs.selectors._fedcbs_law import GibbsChain, sequential_cohort
from fedcbs.selectors._information import Need
from fedcbs.selectors._round import RoundView
from fedcbs.selectors._sampling import categorical
from fedcbs.selectors._state import State

__all__ = ["FedCBSExact", "FedCBSPaper", "FedCBSSharp"]

_PAPER = "Zhang et al. 2023 (ICML), Fed-CBS"


class _FedCBS(Memoryless, abc.ABC):
    """What the presets share."""

    paper: ClassVar[str] = _PAPER
    needs: ClassVar[frozenset[Need]] = frozenset({Need.GRAM})
    skips_empty: ClassVar[bool] = True


class _Sequential(_FedCBS, abc.ABC):
    """Algorithm 1: members one after another, the m-th with exponent ``slope * m``."""

    slope: float
    exploration: float
    floor: float

    def __post_init__(self) -> None:
        _checks.real(self.slope, "slope", minimum=0, open_minimum=True)
        _checks.real(self.exploration, "exploration", minimum=0)
        _checks.real(self.floor, "floor", minimum=0, open_minimum=True)

    def _select(self, state: State, view: RoundView) -> Draw[State]:
        times = 1 + state.times_selected[view.available]  # the paper's T_n, which starts at 1
        bonus = self.exploration * np.sqrt(3 * math.log(view.round_index) / (2 * times))
        exponents = self.slope * np.arange(1.0, view.cohort_size + 1)
        places = sequential_cohort(
            view.available_gram(), exponents, view.rng, floor=self.floor, first_bonus=bonus
        )
        return Draw(view.available[places], state)


@final
@dataclasses.dataclass(frozen=True)
class FedCBSPaper(_Sequential):
    """Fed-CBS as printed: sequential, exponent m for the m-th member.

    Parameters
    ----------
    exploration
        Weight of the exploration term of the first member.
    floor
        QCIDs below it count as it.
    slope
        The m-th member has exponent ``slope * m``.
    """

    name: ClassVar[str] = "fedcbs-paper"
    summary: ClassVar[str] = "Fed-CBS as printed: sequential, the m-th member by QCID**-m"
    slope: float = 1.0
    exploration: float = 10.0
    floor: float = 1e-20


@final
@dataclasses.dataclass(frozen=True)
class FedCBSSharp(_Sequential):
    """Fed-CBS with a steeper schedule than printed.

    Parameters
    ----------
    exploration
        Weight of the exploration term of the first member.
    floor
        QCIDs below it count as it.
    slope
        The m-th member has exponent ``slope * m``.
    """

    name: ClassVar[str] = "fedcbs-sharp"
    summary: ClassVar[str] = "Fed-CBS with a steeper schedule: sequential, the m-th member by QCID**-(3 m)"
    slope: float = 3.0
    exploration: float = 10.0
    floor: float = 1e-20


@final
@dataclasses.dataclass(frozen=True)
class FedCBSExact(_FedCBS):
    r"""Fed-CBS with the law that the paper states: a cohort has probability proportional to ``QCID**-M``.

    The law of the cohort C among the available clients A is a mixture::

        P(C) = (1 - e) * p(C)  +  e * sum over f in C of  w(f) * p(C | f in C)

        p(C) ~ max(QCID(C) + own * mean over n in C of QCID({n}), floor) ** -exponent
        w(f) = T_f**-1/2 / sum over A of T**-1/2

    That is: with probability e (`exploration`) one seat goes to an explorer f, in proportion to the paper's exploration
    term ``sqrt(3 ln k / (2 T_f))``, and the other seats are drawn from the stated law given that f is in. So every
    available client n is selected with probability at least ``e * w(n)`` in every round, whatever its labels. In round 1,
    where the paper's term is zero, e is zero too. (The paper adds its term to the weight of the first member, which gives
    such a bound only while no client is balanced by itself.)

    Beyond the paper, `own` lets clients count that are unbalanced by themselves: their models drift apart before they are
    averaged, however well their labels add up. It needs a larger exponent than the paper's to have an effect.

    The cohort starts from the sequential choice and goes through `sweeps` Gibbs sweeps, each of which leaves p
    invariant. Where more than `panel` clients are available, a sweep redraws the seats among the cohort and a uniformly
    drawn panel of others: given the panel, that is Gibbs sampling of p restricted to it, so p stays invariant.

    Parameters
    ----------
    exploration
        Probability that a seat goes to an explorer, from round 2 on.
    sweeps
        Gibbs sweeps after the sequential choice.
    floor
        QCIDs below it count as it.
    exponent
        Power of the law; 0 stands for the cohort size, as in the paper.
    own
        Weight of the members' own QCID beside the cohort's.
    panel
        How many clients a sweep considers at most, beside the cohort.
    """

    name: ClassVar[str] = "fedcbs-exact"
    summary: ClassVar[str] = "Fed-CBS with the law the paper states: sequential start, then Gibbs sweeps"
    exploration: float = 0.05
    sweeps: int = 3
    floor: float = 1e-20
    exponent: float = 0.0
    own: float = 0.0
    panel: int = 256

    def __post_init__(self) -> None:
        _checks.fraction(self.exploration, "exploration", allow_zero=True)
        _checks.integer(self.sweeps, "sweeps", minimum=0)
        _checks.real(self.floor, "floor", minimum=0, open_minimum=True)
        _checks.real(self.exponent, "exponent", minimum=0)
        _checks.real(self.own, "own", minimum=0)
        _checks.integer(self.panel, "panel", minimum=1)

    def _select(self, state: State, view: RoundView) -> Draw[State]:
        gram, rng, size = view.available_gram(), view.rng, view.cohort_size
        explorer = None
        if view.round_index > 1 and rng.random() < self.exploration:
            weights = (1.0 + state.times_selected[view.available]) ** -0.5
            explorer = categorical(weights, rng.random())
        exponent = self.exponent or float(size)
        schedule = exponent / size * np.arange(1.0, size + 1)
        places = sequential_cohort(gram, schedule, rng, floor=self.floor, first=explorer)
        if size == gram.num_clients:
            return Draw(view.available, state)
        resolution = qcid_resolution(gram, size)
        if gram.num_clients <= self.panel + size:
            chain = GibbsChain(
                gram,
                places,
                exponent,
                floor=self.floor,
                own=self.own,
                resolution=resolution,
                fixed=explorer,
            )
            for _ in range(self.sweeps):
                chain.sweep(rng)
            return Draw(view.available[chain.members], state)
        for _ in range(self.sweeps):
            places = self._sweep_among_panel(gram, places, exponent, resolution, explorer, rng)
        return Draw(view.available[places], state)

    def _sweep_among_panel(
        self,
        gram: Gram,
        places: NDArray[np.int64],
        exponent: float,
        resolution: float,
        explorer: int | None,
        rng: np.random.Generator,
    ) -> NDArray[np.int64]:
        """One sweep in which the seats go to the cohort or to a uniformly drawn panel of others."""
        others = rng.choice(gram.num_clients - len(places), self.panel, replace=False, shuffle=False)
        for place in np.sort(places):  # number those outside the cohort as if its members were not there
            others += others >= place
        ids = np.concatenate([places, others])
        fixed = None if explorer is None else int(np.flatnonzero(places == explorer)[0])
        chain = GibbsChain(
            gram.restrict(ids),
            np.arange(len(places)),
            exponent,
            floor=self.floor,
            own=self.own,
            resolution=resolution,
            fixed=fixed,
        )
        chain.sweep(rng)
        return ids[chain.members]
