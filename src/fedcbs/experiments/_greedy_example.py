"""The paper's example of four clients: which three a greedy choice takes, and which a sampled one."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np

from fedcbs import LabelInformation, Round, make_selector, qcid
from fedcbs.experiments._definition import Experiment, Scale

__all__ = ["CLIENTS", "greedy_example"]

CLIENTS = np.array(
    [
        [5, 5, 5, 5, 5, 5],
        [6, 6, 6, 6, 6, 0],
        [0, 0, 0, 10, 10, 10],
        [10, 10, 10, 0, 0, 0],
    ]
)
"""Label counts of the paper's four clients."""

SELECTORS = ("astraea", "fedcbs-paper", "fedcbs-sharp", "fedcbs-exact")


def greedy_example(experiment: Experiment, scale: Scale) -> list[dict[str, Any]]:
    """Return how often each selector takes each three of the four clients, beside the law that the paper states."""
    del experiment
    cohorts = list(itertools.combinations(range(4), 3))
    imbalance = [float(qcid(CLIENTS, list(cohort))) for cohort in cohorts]
    floor = 1e-20
    weights = np.array([max(value, floor) ** -3.0 for value in imbalance])
    stated = weights / weights.sum()
    information = LabelInformation(CLIENTS)
    rows = [["the stated law", *(f"{share:.1%}" for share in stated)]]
    for name in SELECTORS:
        selector = make_selector(name)
        taken: Counter[tuple[int, ...]] = Counter()
        for seed in range(scale.rounds):
            chosen = selector.select(selector.init(4), Round(information, cohort_size=3, seed=seed))
            taken[tuple(chosen.cohort.tolist())] += 1
        rows.append([name, *(f"{taken[cohort] / scale.rounds:.1%}" for cohort in cohorts)])
    header = ["", *(_title(cohort, value) for cohort, value in zip(cohorts, imbalance, strict=True))]
    return [
        {
            "title": "How often three of the four clients are chosen together",
            "header": header,
            "rows": rows,
            "note": f"{scale.rounds:,} draws each, in round 1, where nobody explores. The optimum is {{1, 3, 4}}.",
        }
    ]


def _title(cohort: tuple[int, ...], imbalance: float) -> str:
    members = ", ".join(str(client + 1) for client in cohort)
    return f"{{{members}}}, QCID {100 * imbalance:.2f}e-2"
