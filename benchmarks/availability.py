"""How long one round of availability takes in a large population.

    python benchmarks/availability.py [--clients 1000000] [--json FILE]

"next" is the round after the last one, "far" a round that was never near. The ratio compares the next round with one
plain draw of a uniform number per client, in the same run.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from fedcbs.availability import Availability, parse_availability
from fedcbs.partition import Case2

RULES = (
    "always",
    "uniform:0.3",
    "class-quota:{most},{least}",
    "bernoulli:0.3",
    "bernoulli-beta:1,3",
    "markov:0.1,0.3",
    "markov:0.01,0.03",
)


def milliseconds(rule: Availability, rounds: list[int], num_clients: int) -> float:
    start = time.perf_counter()
    for index in rounds:
        rule.available(index, num_clients=num_clients, seed=0)
    return 1e3 * (time.perf_counter() - start) / len(rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--clients", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    clients = options.clients // 10 * 10
    counts = Case2(clients // 10, examples_per_client=1).draw_balanced(clients, 10, np.random.default_rng(0))
    start = time.perf_counter()
    for seed in range(10):
        np.random.default_rng(seed).random(clients)
    plain = 1e2 * (time.perf_counter() - start)
    print(f"{clients} clients; a plain draw for each takes {plain:.2f} ms")
    print(f"{'':28}{'next':>10}{'far':>10}{'next / plain':>14}")
    rows = {}
    for form in RULES:
        text = form.format(most=clients * 9 // 200, least=clients * 3 // 200)
        rule = parse_availability(text).bind(counts)
        rule.available(0, num_clients=clients, seed=0)
        following = milliseconds(rule, list(range(1, 11)), clients)
        far = milliseconds(rule, [10_000], clients)
        rows[text] = {"next_ms": following, "far_ms": far, "next_over_plain": following / plain}
        print(f"{text:28}{following:7.2f} ms{far:7.0f} ms{following / plain:14.1f}", flush=True)
    if options.json:
        options.json.write_text(
            json.dumps({"clients": clients, "plain_ms": plain, "rules": rows}, indent=2) + "\n"
        )


if __name__ == "__main__":
    main()
