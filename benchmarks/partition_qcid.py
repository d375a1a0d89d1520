"""How imbalanced the populations are, beside what Fed-CBS prints.

    python benchmarks/partition_qcid.py [--seeds 20] [--rounds 300] [--write]

QCID is the squared distance of the pooled class shares from uniform, here in units of 1e-2: of everybody available,
and of 10 clients drawn from them at random. ``--write`` puts the numbers into ``benchmarks/results`` and the table
into ``docs/partitions.md``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from fedcbs.availability import parse_availability
from fedcbs.partition import parse_partition

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "partition_qcid.json"
PAGE = ROOT / "docs" / "partitions.md"
BEGIN, END = "<!-- qcid table: begin -->", "<!-- qcid table: end -->"

PAPER = {
    ("dirichlet", 0.1): (1.01, 8.20),
    ("dirichlet", 0.2): (0.93, 7.54),
    ("dirichlet", 0.5): (0.72, 5.87),
}
DIRICHLET = ("dirichlet-hsu", "dirichlet-fedcor", "dirichlet-classwise")
SETTINGS = [
    *(
        (f"{name}:{alpha}", "uniform:0.3", PAPER["dirichlet", alpha])
        for name in DIRICHLET
        for alpha in (0.1, 0.2, 0.5)
    ),
    ("case1-3to1", "uniform:0.3", (2.90, 9.33)),
    ("case1-16to8", "uniform:0.3", (2.90, 9.33)),
    ("case1-5to1", "uniform:0.3", (6.17, 12.36)),
    ("case2", "class-quota:9,3", (2.50, 9.91)),
    ("case2", "class-quota:10,2", (4.44, 11.70)),
]


def qcid(label_counts: np.ndarray) -> float:
    shares = label_counts.sum(axis=0) / label_counts.sum()
    return 100 * float(((shares - 1 / shares.size) ** 2).sum())


def measure(partition: str, availability: str, seeds: int, rounds: int) -> dict[str, list[float]]:
    """Mean QCID over the rounds, for each seed, of everybody available and of 10 at random."""
    scheme = parse_partition(partition, examples_per_client=250)
    num_clients = scheme.fixed_num_clients(10) or 200
    means = {"everyone": [], "random": [], "sizes_std": []}
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        counts = scheme.draw_balanced(num_clients, 10, rng)
        rule = parse_availability(availability).bind(counts)
        everyone, ten = [], []
        for index in range(1, rounds + 1):
            available = rule.available(index, num_clients=num_clients, seed=seed)
            everyone.append(qcid(counts[available]))
            ten.append(qcid(counts[rng.choice(available, 10, replace=False)]))
        means["everyone"].append(float(np.mean(everyone)))
        means["random"].append(float(np.mean(ten)))
        means["sizes_std"].append(float(counts.sum(axis=1).std()))
    return means


def cell(values: list[float]) -> str:
    return f"{np.mean(values):.2f} ± {np.std(values):.2f}"


def table(rows: list[dict[str, object]], seeds: int, rounds: int) -> str:
    lines = [
        f"Means of {rounds} rounds, ± standard deviation over {seeds} populations; 250 examples per client (mean).",
        "",
        "| partition | available | everyone | paper | 10 at random | paper | std of sizes |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        paper = row["paper"]
        lines.append(
            f"| `{row['partition']}` | `{row['availability']}` | {cell(row['everyone'])} | {paper[0]:.2f}"
            f" | {cell(row['random'])} | {paper[1]:.2f} | {np.mean(row['sizes_std']):.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows: list[dict[str, object]] = [
        {
            "partition": partition,
            "availability": availability,
            "paper": paper,
            **measure(partition, availability, options.seeds, options.rounds),
        }
        for partition, availability, paper in SETTINGS
    ]
    text = table(rows, options.seeds, options.rounds)
    print(text)
    if options.write:
        result = {"seeds": options.seeds, "rounds": options.rounds, "numpy": np.__version__, "rows": rows}
        RESULTS.write_text(json.dumps(result, indent=1) + "\n")
        page = PAGE.read_text(encoding="utf-8")
        head, rest = page.split(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
