"""How long a selection takes, beside two yardsticks measured in the same run.

    python benchmarks/selection.py [--json FILE] [--quick]

Yardsticks: `naive` is the sequential pass with QCID recomputed from the Gram matrix for every candidate, as the algorithm is
written; `streams` is reading the label counts through memory once for each member of the cohort, which no pass that looks
at every candidate for every seat can undercut. Each case runs in a process of its own, on one thread, so that its peak
memory is its own. Times are the processor's: other work on the machine then counts little.
"""

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import json
import multiprocessing
import platform
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedcbs
from fedcbs.selectors import LabelInformation, Round, make_selector

CASES = [
    {"available": 60, "cohort_size": 10},
    {"available": 10_000, "cohort_size": 100},
    {"available": 1_000_000, "cohort_size": 100},
]
SELECTORS = ["uniform", "clustered-size", "astraea", "fedcbs-paper", "fedcbs-sharp", "fedcbs-exact"]


def label_counts(num_clients: int, num_classes: int = 10, num_examples: int = 250) -> NDArray[np.int64]:
    """Skewed label counts, made in chunks so that making them is not the peak of memory."""
    rng = np.random.default_rng(0)
    counts = np.empty((num_clients, num_classes), dtype=np.int64)
    for start in range(0, num_clients, 50_000):
        size = min(50_000, num_clients - start)
        shares = rng.dirichlet(np.full(num_classes, 0.05), size)
        counts[start : start + size] = rng.multinomial(num_examples, shares)
    return counts


def fastest(function: Callable[[], object], *, at_least: float = 0.5, repeats: int = 3) -> float:
    """Least processor seconds of a call, over enough calls to be sure of it."""
    times: list[float] = []
    while len(times) < repeats or sum(times) < at_least:
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def naive(counts: NDArray[np.int64], cohort_size: int) -> None:
    """The sequential pass as it is written: O(N M^2), QCID anew for every candidate."""
    gram, sizes = counts @ counts.T, counts.sum(axis=1)
    rng = np.random.default_rng(0)
    cohort: list[int] = []
    for member in range(1, cohort_size + 1):
        log_weights = np.full(len(counts), -np.inf)
        for candidate in range(len(counts)):
            if candidate not in cohort:
                ids = [*cohort, candidate]
                value = gram[np.ix_(ids, ids)].sum() / sizes[ids].sum() ** 2 - 1 / counts.shape[1]
                log_weights[candidate] = -member * np.log(max(value, 1e-20))
        weights = np.exp(log_weights - log_weights.max())
        cohort.append(int(rng.choice(len(counts), p=weights / weights.sum())))


def measure(case: dict[str, int], pipe: Any) -> None:
    """Time all selectors on one case."""
    counts = label_counts(case["available"])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    information = LabelInformation(counts)
    start = time.process_time()
    gram = information.gram()
    _ = gram.diagonal
    result: dict[str, Any] = {**case, "seconds_setup": time.process_time() - start, "selectors": {}}
    for name in SELECTORS:
        selector = make_selector(name)
        state = selector.init(len(counts))
        round_ = Round(information, cohort_size=case["cohort_size"], round_index=5)
        seconds = fastest(lambda s=selector, t=state, r=round_: s.select(t, r))
        qcid = fedcbs.qcid_from_gram(gram, selector.select(state, round_).cohort)
        result["selectors"][name] = {"seconds": seconds, "qcid": qcid}
        if name == "fedcbs-exact" or case["available"] < 1_000_000:
            result["peak_megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    result["megabytes_before"] = before / 1e3
    factor = np.ascontiguousarray(counts.T, dtype=np.float32)
    result["seconds_streams"] = fastest(factor.max) * case["cohort_size"]
    if case["available"] <= 60:
        result["seconds_naive"] = fastest(lambda: naive(counts, case["cohort_size"]))
    pipe.send(result)


def table(results: list[dict[str, Any]]) -> str:
    """The results as a table to read."""
    lines = [
        "| available | pick | selector | ms | of streaming | naive / this | QCID |",
        "|---|---|---|---|---|---|---|",
    ]
    for result in results:
        for name, row in result["selectors"].items():
            streams = row["seconds"] / result["seconds_streams"]
            naive_ratio = (
                f"{result['seconds_naive'] / row['seconds']:.0f}x" if "seconds_naive" in result else ""
            )
            lines.append(
                f"| {result['available']:,} | {result['cohort_size']} | {name} | {row['seconds'] * 1e3:.2f} "
                f"| {streams:.1f}x | {naive_ratio} | {row['qcid']:.2e} |"
            )
    lines.extend(
        f"\n{result['available']:,} available: peak memory {result['peak_megabytes']:.0f} MB "
        f"({result['megabytes_before']:.0f} MB of it before the Gram was made), "
        f"streaming the factor {result['cohort_size']} times {result['seconds_streams'] * 1e3:.2f} ms."
        for result in results
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the results there, and a table beside it")
    parser.add_argument("--quick", action="store_true", help="leave out the case of a million clients")
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    results = []
    for case in CASES[:2] if options.quick else CASES:
        receive, send = context.Pipe(duplex=False)
        process = context.Process(target=measure, args=(case, send))
        process.start()
        results.append(receive.recv())
        process.join()
    print(table(results))
    if options.json:
        versions = {
            "fedcbs": fedcbs.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"versions": versions, "cases": results}, indent=1) + "\n")
        options.json.with_suffix(".md").write_text(table(results) + "\n")


if __name__ == "__main__":
    main()
