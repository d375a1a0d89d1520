"""What selection costs a Flower federation's server in each round, at 1,000 nodes.

A grid that answers at once and a selector in the process: what is left is the work of this package. Two yardsticks stand
beside it, measured in the same process: Flower's own FedAvg on the same grid, and the selector alone.

    python benchmarks/flower.py --json benchmarks/results/flower.json
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord
from flwr.serverapp.strategy import FedAvg, Strategy
from tests.flower.fake import FakeGrid, counts_of, model, partition, training_app

from fedcbs import LabelInformation, Round, make_selector
from fedcbs.flower import with_answers, with_selector

NODES, COHORT, ROUNDS, CLASSES = 1000, 30, 30, 10


def milliseconds(work: Callable[[int], Any], rounds: int = ROUNDS) -> float:
    """Median CPU time of one round; the first, in which nodes are met, is left out."""
    work(1)
    times = []
    for number in range(2, rounds + 2):
        start = time.process_time()
        work(number)
        times.append(1e3 * (time.process_time() - start))
    return float(np.median(times))


def configured(strategy: Strategy, grid: FakeGrid, arrays: ArrayRecord) -> Callable[[int], Any]:
    """One round up to the messages."""
    return lambda number: list(strategy.configure_train(number, arrays, ConfigRecord(), grid))


def whole(strategy: Strategy, grid: FakeGrid, arrays: ArrayRecord) -> Callable[[int], Any]:
    """One round with training and aggregation."""

    def work(number: int) -> None:
        messages = list(strategy.configure_train(number, arrays, ConfigRecord(), grid))
        strategy.aggregate_train(number, grid.send_and_receive(messages, timeout=60))

    return work


def measure() -> dict[str, float]:
    """Milliseconds of CPU time a round."""
    counts = counts_of(NODES, CLASSES)
    app = with_answers(training_app(counts), label_counts=lambda context: counts[partition(context)])
    grid, arrays = FakeGrid([app] * NODES), model()
    selector, information = make_selector("fedcbs-exact"), LabelInformation(counts)
    state = selector.init(NODES)
    plain = FedAvg(fraction_train=COHORT / NODES, min_train_nodes=COHORT)
    found = {
        "selector alone": milliseconds(
            lambda number: selector.select(
                state, Round(information, cohort_size=COHORT, round_index=number, seed=0)
            )
        ),
        "FedAvg: messages": milliseconds(configured(plain, grid, arrays)),
        "FedAvg: whole round": milliseconds(whole(plain, grid, arrays)),
    }
    for name in ("uniform", "fedcbs-paper", "fedcbs-exact"):
        hooked = with_selector(FedAvg(), name, cohort_size=COHORT)
        found[f"with_selector {name}: messages"] = milliseconds(configured(hooked, grid, arrays))
    with tempfile.TemporaryDirectory() as folder:
        hooked = with_selector(FedAvg(), "fedcbs-exact", cohort_size=COHORT, out=Path(folder, "run"))
        found["with_selector fedcbs-exact, checkpoint: whole round"] = milliseconds(
            whole(hooked, grid, arrays)
        )
    return found


def table(found: dict[str, float]) -> str:
    """The result as a Markdown table."""
    title = (
        f"CPU milliseconds a round on the server: {NODES} nodes, cohorts of {COHORT}, {CLASSES} classes.\n"
    )
    rows = [f"| {name} | {value:.2f} |" for name, value in found.items()]
    return "\n".join([title, "| | ms |", "|---|---|", *rows, ""])


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    logging.getLogger("flwr").setLevel(logging.ERROR)
    found = measure()
    print(table(found))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
        options.json.with_suffix(".md").write_text(table(found))


if __name__ == "__main__":
    main()
