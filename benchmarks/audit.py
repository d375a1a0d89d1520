"""What a selector recovers from the Gram matrix of label counts, for populations of many kinds, and under noise.

    python benchmarks/audit.py [--repeats R] [--out FOLDER]

Writes audit.json and audit.md, and the tables of docs/threat-model.md. The truth is known here, so "recovered" is a fact and
not the attacker's belief.
"""

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedcbs
from fedcbs._random import generator
from fedcbs.audit import NOISES, CostSetting, audit
from fedcbs.audit._factor import factorise
from fedcbs.audit._lattice import lattice_attack
from fedcbs.audit._score import score
from fedcbs.audit._spectral import spectral_attack
from fedcbs.imbalance import FactorGram

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "threat-model.md"

Counts = NDArray[np.int64]


def dirichlet(
    rng: np.random.Generator, clients: int, classes: int, alpha: float, low: int = 50, high: int = 500
) -> Counts:
    """Clients of different sizes, each with shares from Dir(alpha, ..., alpha)."""
    shares = rng.dirichlet(np.full(classes, alpha), clients)
    return rng.multinomial(rng.integers(low, high, clients), shares)


def few_classes(rng: np.random.Generator, clients: int, classes: int, held: int) -> Counts:
    """Clients with equally many examples of a few classes."""
    counts = np.zeros((clients, classes), dtype=np.int64)
    for row in counts:
        row[rng.choice(classes, held, replace=False)] = rng.integers(50, 500) // held
    return counts


KINDS: dict[str, tuple[int, Callable[[np.random.Generator], Counts]]] = {
    "200 clients, 10 classes, alpha 0.1": (100, lambda rng: dirichlet(rng, 200, 10, 0.1)),
    "200 clients, 10 classes, alpha 1": (100, lambda rng: dirichlet(rng, 200, 10, 1.0)),
    "200 clients, 10 classes, alpha 10": (100, lambda rng: dirichlet(rng, 200, 10, 10.0)),
    "200 clients of 250 examples, alpha 0.1": (100, lambda rng: dirichlet(rng, 200, 10, 0.1, 250, 251)),
    "200 clients of one class": (100, lambda rng: few_classes(rng, 200, 10, 1)),
    "200 clients of two classes, equal shares": (100, lambda rng: few_classes(rng, 200, 10, 2)),
    "200 clients of three classes, equal shares": (100, lambda rng: few_classes(rng, 200, 10, 3)),
    "12 clients, 10 classes, alpha 0.5": (100, lambda rng: dirichlet(rng, 12, 10, 0.5)),
    "8 clients, 10 classes, alpha 0.5": (100, lambda rng: dirichlet(rng, 8, 10, 0.5)),
    "500 clients, 100 classes, alpha 0.3": (3, lambda rng: dirichlet(rng, 500, 100, 0.3)),
    "3,500 clients, 62 classes, alpha 0.3": (5, lambda rng: dirichlet(rng, 3500, 62, 0.3)),
    "100,000 clients, 10 classes, alpha 0.1": (3, lambda rng: dirichlet(rng, 100_000, 10, 0.1)),
}
"""Kinds of populations, and how many of each are drawn."""


def attacks(repeats: float) -> list[dict[str, Any]]:
    """Run both attacks on populations of each kind."""
    rows = []
    for kind, (number, draw) in KINDS.items():
        times = max(round(number * repeats), 1)
        found: dict[str, list[float]] = {name: [] for name in ("lattice", "spectral")}
        exact: dict[str, list[float]] = {name: [] for name in found}
        seconds: dict[str, list[float]] = {name: [] for name in found}
        unique = 0
        for index in range(times):
            counts = draw(generator(f"benchmark of attacks {kind}", index))
            gram = FactorGram(counts)
            factor = factorise(gram, counts.shape[1])
            proven = False
            for name, attack in (("lattice", lattice_attack), ("spectral", spectral_attack)):
                start = time.process_time()
                recovery = attack(gram, factor)
                seconds[name].append(time.process_time() - start)
                result = score(recovery, counts)
                found[name].append(0.0 if result is None else result.close)
                exact[name].append(0.0 if result is None else result.exact)
                proven |= recovery is not None and recovery.unique
            unique += proven
        rows.append(
            {
                "kind": kind,
                "populations": times,
                "unique": unique,
                "recovered": {name: float(np.mean(values)) for name, values in found.items()},
                "exact": {name: float(np.mean(values)) for name, values in exact.items()},
                "cpu_seconds": {name: float(np.mean(values)) for name, values in seconds.items()},
            }
        )
        print(rows[-1], flush=True)
    return rows


def under_noise(seeds: int) -> list[dict[str, Any]]:
    """Audit populations of 200 clients under each noise; means over populations."""
    setting = CostSetting(rounds=20)
    reports = [
        audit(dirichlet(generator("benchmark of noise", seed), 200, 10, 0.1), setting=setting, seed=seed)
        for seed in range(seeds)
    ]
    rows = []
    for place, noise in enumerate((None, *NOISES)):
        row = [report.rows[place] for report in reports]
        rows.append(
            {
                "noise": noise,
                "recovered": mean(one.best.close for one in row),
                "exact": mean(one.best.exact for one in row),
                "distance": mean(one.best.mean_distance for one in row),
                "guess": mean(one.guess for one in row),
                "insiders": {
                    str(number): mean(one.insiders[number].clients for one in row)
                    for number in row[0].insiders
                },
                "totals": mean(one.totals.classes for one in row),
                "sybil": mean(one.sybil.clients for one in row),
                "qcid": {name: mean(one.qcid[name] for one in row) for name in setting.selectors},
            }
        )
    return rows


def mean(values: Any) -> float:
    return float(np.mean(list(values)))


def attack_table(result: dict[str, Any]) -> str:
    """What the attacks recover, as Markdown."""
    lines = [
        "| populations | how many | lattice: exact | proven unique | spectral: exact | within 5% | CPU seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in result["attacks"]:
        seconds = " + ".join(
            f"{value:.2g}" if (value := row["cpu_seconds"][name]) >= 1e-3 else "0"
            for name in ("lattice", "spectral")
        )
        lines.append(
            f"| {row['kind']} | {row['populations']} | {row['exact']['lattice']:.0%} | {row['unique']} |"
            f" {row['exact']['spectral']:.0%} | {row['recovered']['spectral']:.0%} | {seconds} |"
        )
    return "\n".join(lines)


def noise_table(result: dict[str, Any]) -> str:
    """What is left under noise and what it costs, as Markdown."""
    lines = [
        "| noise | recovered | exact | mean distance | by name: 1 insider | 3 insiders | 1 made-up client"
        " | QCID fedcbs-exact | uniform |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in result["noise"]:
        named = [row["insiders"]["1"], row["insiders"]["3"], row["sybil"]]
        qcid = [f"{100 * row['qcid'][name]:.3f}" for name in ("fedcbs-exact", "uniform")]
        cells = [f"{row['recovered']:.1%}", f"{row['exact']:.1%}", f"{row['distance']:.3f}"]
        cells += [f"{value:.1%}" for value in named] + qcid
        lines.append(f"| {row['noise'] or 'none'} | {' | '.join(cells)} |")
    return "\n".join(lines)


TABLES = {"attacks": attack_table, "noise": noise_table}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=float, default=1.0, help="times the usual number of populations")
    parser.add_argument("--seeds", type=int, default=10, help="populations under noise")
    parser.add_argument("--only", choices=list(TABLES), help="measure this; the other stays as it was")
    parser.add_argument("--out", type=Path, help="write there, and leave the page alone")
    options = parser.parse_args()
    result: dict[str, Any] = {}
    if options.only is not None:
        result = json.loads(((options.out or RESULTS) / "audit.json").read_text())
    result["versions"] = {"fedcbs": fedcbs.__version__, "numpy": np.__version__}
    if options.only != "noise":
        result["attacks"] = attacks(options.repeats)
    if options.only != "attacks":
        result["seeds"], result["noise"] = options.seeds, under_noise(options.seeds)
    write(result, options.out)


def write(result: dict[str, Any], out: Path | None) -> None:
    """Write the results, and their tables into the page where no other place was named."""
    made = {name: table(result) for name, table in TABLES.items()}
    print("\n\n".join(made.values()))
    folder = out or RESULTS
    (folder / "audit.json").write_text(json.dumps(result, indent=1) + "\n")
    (folder / "audit.md").write_text("\n\n".join(made.values()) + "\n")
    if out is not None:
        return
    page = PAGE.read_text(encoding="utf-8")
    for name, table in made.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        page = re.sub(
            f"({begin}\n).*?({end})",
            lambda match, table=table: f"{match[1]}{table}\n{match[2]}",
            page,
            flags=re.DOTALL,
        )
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
