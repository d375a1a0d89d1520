"""What noise on label counts costs in balance.

    python benchmarks/noise.py [--seeds S] [--rounds R] [--out FOLDER]

Clients draw discrete Laplace noise of several epsilons onto their label counts, once. Selectors see noised counts and sizes;
QCID is that of the cohorts' true labels.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import fedcbs
from fedcbs._random import generator
from fedcbs.audit import CostSetting, qcid_under_noise
from fedcbs.private import parse_noise

RESULTS = Path(__file__).parent / "results"
EPSILONS = ("2", "1", "0.5", "0.2", "0.1", "0.05", "0.02")
NOISES = (
    None,
    *(f"laplace:epsilon={epsilon}" for epsilon in EPSILONS),
    "gaussian:epsilon=1,delta=1e-6",
    "gaussian:epsilon=0.1,delta=1e-6",
)
ALPHAS = (0.1, 0.5)
SETTING = {
    "clients": 200,
    "classes": 10,
    "sizes": [50, 500],
    "availability": "uniform:0.3",
    "cohort_size": 10,
}
SELECTORS = ("fedcbs-exact", "fedcbs-sharp", "fedcbs-paper", "uniform")


def label_counts(alpha: float, seed: int) -> Any:
    """Clients of different sizes, each with shares from Dir(alpha, ..., alpha)."""
    rng = generator("benchmark of noise", seed)
    sizes = rng.integers(*SETTING["sizes"], SETTING["clients"])
    shares = rng.dirichlet(np.full(SETTING["classes"], alpha), SETTING["clients"])
    return rng.multinomial(sizes, shares)


def measure(alpha: float, noise: str | None, seeds: int, rounds: int) -> dict[str, Any]:
    """Mean QCID of each selector, for each seed."""
    setting = CostSetting(
        selectors=SELECTORS,
        cohort_size=SETTING["cohort_size"],
        rounds=rounds,
        availability=SETTING["availability"],
    )
    found = [qcid_under_noise(label_counts(alpha, seed), noise, setting, seed=seed) for seed in range(seeds)]
    return {
        "alpha": alpha,
        "noise": noise,
        "rho": None if noise is None else float(parse_noise(noise).rho),
        "qcid": {name: [float(one[name].mean()) for one in found] for name in SELECTORS},
    }


def table(rows: list[dict[str, Any]], seeds: int, rounds: int) -> str:
    """The rows as Markdown."""
    lines = [
        f"Mean QCID in units of 1e-2 over {rounds} rounds and {seeds} populations: {SETTING['clients']} clients of"
        f" {SETTING['sizes'][0]} to {SETTING['sizes'][1]} examples, {SETTING['classes']} classes, 30% available,"
        f" {SETTING['cohort_size']} picked.",
        "",
        "| alpha | noise | " + " | ".join(SELECTORS) + " |",
        "|---|---|" + "---|" * len(SELECTORS),
    ]
    for row in rows:
        cells = " | ".join(f"{100 * np.mean(row['qcid'][name]):.3f}" for name in SELECTORS)
        lines.append(f"| {row['alpha']} | {row['noise'] or 'none'} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows = [measure(alpha, noise, options.seeds, options.rounds) for alpha in ALPHAS for noise in NOISES]
    text = table(rows, options.seeds, options.rounds)
    print(text)
    result = {
        "setting": {**SETTING, "seeds": options.seeds, "rounds": options.rounds},
        "versions": {"fedcbs": fedcbs.__version__, "numpy": np.__version__},
        "rows": rows,
    }
    (options.out / "noise.json").write_text(json.dumps(result, indent=1) + "\n")
    (options.out / "noise.md").write_text(text + "\n")


if __name__ == "__main__":
    main()
