"""The numbers behind the theorems: mean QCID falls as the exponent grows; cost grows with N and M."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np

from fedcbs import LabelInformation, Round, make_selector, qcid
from fedcbs.experiments._definition import Experiment, Scale
from fedcbs.laboratory import balance, population

__all__ = ["theorems"]

EXPONENTS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
FLOOR = 1e-20


def theorems(experiment: Experiment, scale: Scale) -> list[dict[str, Any]]:
    """Return a table for each theorem."""
    del experiment
    return [_exact(), _sampled(scale), _cost(scale)]


def _exact() -> dict[str, Any]:
    """Mean QCID under P(C) ~ QCID(C)^-beta, over all cohorts of a population small enough to list them."""
    rows = []
    for seed in range(3):
        counts = population("dirichlet-hsu:0.5", num_clients=14, num_classes=5).label_counts(seed)
        values = np.array([float(qcid(counts, list(c))) for c in itertools.combinations(range(14), 4)])
        logs = np.log(np.maximum(values, FLOOR))
        means = []
        for exponent in EXPONENTS:
            weights = np.exp(-exponent * (logs - logs.min()))
            means.append(float(values @ weights / weights.sum()))
        falls = all(a > b for a, b in itertools.pairwise(means))
        rows.append(
            [f"population {seed}", *(f"{100 * mean:.3f}" for mean in means), "yes" if falls else "no"]
        )
    return {
        "title": "Theorem 3, exactly: mean QCID (1e-2) of the stated law",
        "header": ["", *(f"β = {exponent:g}" for exponent in EXPONENTS), "falls throughout"],
        "rows": rows,
        "note": "All 1,001 cohorts of 4 among 14 clients with 5 classes. β = 0 is random selection.",
    }


SWEEPS = (3, 30)
"""Gibbs sweeps of a cohort: the default, and enough for steep laws."""


def _sampled(scale: Scale) -> dict[str, Any]:
    """The same in the paper's setting, sampled by Gibbs sweeps."""
    exponents = [exponent for exponent in EXPONENTS if exponent > 0]
    rows = []
    for alpha, sweeps in itertools.product((0.1, 0.5), SWEEPS):
        names = [f"fedcbs-exact:exponent={e:g}:exploration=0:sweeps={sweeps}" for e in exponents]
        found = balance(
            ["uniform", *names],
            population("dirichlet-hsu", alpha=alpha),
            rounds=scale.rounds,
            seeds=scale.seeds,
        )
        means = [100 * found[name].qcid_mean for name in ("uniform", *names)]
        falls = all(a > b for a, b in itertools.pairwise(means))
        title = f"Dirichlet {alpha:g}, {sweeps} sweeps"
        rows.append([title, *(f"{mean:.3f}" for mean in means), "yes" if falls else "no"])
    return {
        "title": "Theorem 3 in the paper's setting: mean QCID (1e-2), sampled",
        "header": [
            "",
            "β = 0 (uniform)",
            *(f"β = {exponent:g}" for exponent in exponents),
            "falls throughout",
        ],
        "rows": rows,
        "note": f"200 clients, 60 available, 10 selected; {scale.rounds} rounds of {scale.seeds} seeds. A chain that redraws one seat"
        " at a time does not leave a good cohort that it has found, where the law is steep.",
    }


def _cost(scale: Scale) -> dict[str, Any]:
    """Time of a cohort as available clients, and its size, double."""
    repeats = 3 if scale.name == "smoke" else 15
    sizes = [(1000, 10), (2000, 10), (4000, 10), (1000, 20), (1000, 40)]
    if scale.name != "smoke":
        sizes += [(16000, 10), (1000, 80)]
    selector = make_selector("fedcbs-paper")
    seconds = {}
    for number, size in sizes:
        counts = population("dirichlet-hsu:0.5", num_clients=number).label_counts(0)
        information, state = LabelInformation(counts), selector.init(number)
        spent = []
        for seed in range(repeats):
            begun = time.process_time()
            for inner in range(5):
                round_ = Round(information, cohort_size=size, round_index=2, seed=5 * seed + inner)
                selector.select(state, round_)
            spent.append(time.process_time() - begun)
        seconds[number, size] = float(np.median(spent))
    base = seconds[1000, 10]
    rows = [
        [
            f"{number:,}",
            str(size),
            f"{found / base:.2f}",
            f"{number * size / 10_000:g}",
            f"{number * size**2 / 1e5:g}",
        ]
        for (number, size), found in sorted(seconds.items())
    ]
    return {
        "title": "Theorem 4: time of one cohort, as a multiple of that with N = 1,000 and M = 10",
        "header": ["available N", "selected M", "measured", "N·M", "N·M² (the theorem)"],
        "rows": rows,
        "note": "The sequential sampler, fedcbs-paper. Sums over the cohort are kept from member to member, so the cost grows"
        " as N·M, within the theorem's N·M².",
    }
