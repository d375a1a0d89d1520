"""How fast label counts are drawn, and how much faster than example by example.

    python benchmarks/partition.py [--clients 1000000] [--examples-per-client 250] [--json FILE]

The first table is absolute and holds for one machine. The second is ratios, both sides measured in the same run: how
many times longer the plain loops of ``fedcbs.partition._reference`` take for a small population.
"""

from __future__ import annotations

import argparse
import json
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedcbs.partition import (
    IID,
    Case2,
    ClassesPerClient,
    DirichletClasswise,
    DirichletFedCor,
    DirichletHsu,
    PartitionScheme,
    Shards,
)
from fedcbs.partition._reference import hsu_by_example, iid_by_shuffling, shards_by_sorting

CLASSES = 10


def schemes(size: int, num_clients: int) -> dict[str, PartitionScheme]:
    return {
        "dirichlet-hsu, alpha 0.1": DirichletHsu(0.1, examples_per_client=size),
        "dirichlet-hsu, alpha 10": DirichletHsu(10.0, examples_per_client=size),
        "dirichlet-fedcor, alpha 0.1": DirichletFedCor(0.1, examples_per_client=size),
        "dirichlet-classwise, alpha 0.5": DirichletClasswise(0.5, examples_per_client=size, min_examples=0),
        "classes:2": ClassesPerClient(2, examples_per_client=size),
        "shards:2": Shards(2, examples_per_client=size),
        "iid": IID(examples_per_client=size),
        "case2": Case2(num_clients // CLASSES, examples_per_client=size),
    }


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """Return the least of a few timings: the one that other work disturbed least."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def peak_mib(work: Callable[[], object]) -> float:
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def large(num_clients: int, size: int) -> dict[str, dict[str, float]]:
    rows = {}
    for name, scheme in schemes(size, num_clients).items():

        def draw(scheme: PartitionScheme = scheme) -> object:
            return scheme.draw_balanced(num_clients, CLASSES, np.random.default_rng(0))

        rows[name] = {"seconds": seconds(draw), "peak_mib": peak_mib(draw)}
        print(f"{name:32}{rows[name]['seconds']:10.2f} s{rows[name]['peak_mib']:10.0f} MiB", flush=True)
    return rows


def ratios(num_clients: int, size: int, *, names: tuple[str, ...]) -> dict[str, float]:
    totals = np.full(CLASSES, num_clients * size // CLASSES)
    rng = np.random.default_rng(0)
    pairs: dict[str, tuple[PartitionScheme, Callable[[], object]]] = {
        "dirichlet-hsu": (
            DirichletHsu(0.5, examples_per_client=size),
            lambda: hsu_by_example(totals, num_clients, size, 0.5, rng),
        ),
        "iid": (IID(), lambda: iid_by_shuffling(totals, num_clients, size, rng)),
        "shards": (Shards(2), lambda: shards_by_sorting(totals, num_clients, 2, rng)),
    }
    rows = {}
    for name in names:
        scheme, slow = pairs[name]
        fast = seconds(lambda scheme=scheme: scheme.draw_counts(totals, num_clients, rng), repeats=10)
        rows[name] = seconds(slow, repeats=2) / fast
        print(f"{name:32}{num_clients:10}{rows[name]:10.1f} times", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--clients", type=int, default=1_000_000)
    parser.add_argument("--examples-per-client", type=int, default=250)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    size = options.examples_per_client
    print(f"{options.clients} clients, {CLASSES} classes, {size} examples per client")
    result: dict[str, object] = {
        "clients": options.clients,
        "classes": CLASSES,
        "examples_per_client": size,
        "numpy": np.__version__,
        "schemes": large(options.clients, size),
    }
    print(f"\nplain loops / vectorised, by number of clients, {size} examples per client")
    result["loops_over_fast"] = {
        "200": ratios(200, size, names=("dirichlet-hsu", "iid", "shards")),
        # A loop over 20,000 clients x 250 draws from a Dirichlet would take minutes.
        "20000": ratios(20_000, size, names=("iid", "shards")),
    }
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
