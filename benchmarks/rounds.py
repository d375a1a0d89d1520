"""What a round's processor time goes to, and memory over many rounds.

Time is the process's processor time, so that other work on the machine does not count. A round is split into local training
(drawing batches and the mean of updates included), evaluation, and the rest: availability, selection, faults, what the
selector learns, the record, its line in the file, and checkpoints. Without a folder of Fashion-MNIST, digits are used.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import json
import multiprocessing
import platform
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcbs.algorithms import Algorithm
from fedcbs.cli._console import versions
from fedcbs.data import Dataset, Examples
from fedcbs.runs import RunConfig, simulate, start
from fedcbs.runs._directory import RunDirectory
from fedcbs.selectors import Selector
from fedcbs.simulation import RoundRecord, _simulation

RESULTS = Path(__file__).parent / "results" / "rounds.json"
sys.path.append(str(Path(__file__).parent.parent))  # where the datasets below are found by their import path
PARTS = ("training", "evaluation", "selection", "record", "checkpoint", "other")


class Clock:
    """Processor time by part; a part inside another does not count there."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inner = [0.0]

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, with its time counted under a part."""

        def wrapper(*args: Any, **options: Any) -> Any:
            begun = time.process_time()
            self._inner.append(0.0)
            try:
                return function(*args, **options)
            finally:
                took = time.process_time() - begun
                own = took - self._inner.pop()
                self._inner[-1] += took
                self.seconds[part] = self.seconds.get(part, 0.0) + own

        return wrapper


def measure(config: RunConfig, rounds: int) -> dict[str, Any]:
    """Run once, and say where the time went and how memory stood."""
    clock, memory = Clock(), {}
    patched = [
        (Algorithm, "round", "training"),
        (_simulation, "draw_plan", "training"),
        (_simulation, "evaluate", "evaluation"),
        (Selector, "select", "selection"),
        (RunDirectory, "append", "record"),
        (RunDirectory, "checkpoint", "checkpoint"),
    ]
    originals = [getattr(owner, name) for owner, name, _ in patched]
    for (owner, name, part), original in zip(patched, originals, strict=True):
        setattr(owner, name, clock.timed(part, original))
    marks: dict[str, float] = {}
    looks = {max(1, rounds // 10), rounds // 3, rounds}

    def watch(record: RoundRecord) -> None:
        if record.round == 1:
            clock.seconds.clear()
            marks["begun"] = time.process_time()
        if record.round in looks:
            memory[record.round] = _resident()
        if record.round == rounds:
            marks["ended"] = time.process_time()

    folder = Path(tempfile.mkdtemp())
    try:
        found = start(config.with_options({"rounds": rounds}), folder / "run", watch=watch)
    finally:
        shutil.rmtree(folder)
        for (owner, name, _), original in zip(patched, originals, strict=True):
            setattr(owner, name, original)
    total = marks["ended"] - marks["begun"]
    clock.seconds["other"] = total - sum(clock.seconds.values())
    shares = {part: clock.seconds.get(part, 0.0) / total for part in PARTS}
    return {
        "dataset": config.data.dataset,
        "selector": config.selector.name,
        "engine": found.config["training"]["engine"],
        "rounds": rounds,
        "milliseconds_per_round": 1e3 * total / (rounds - 1),
        "shares": shares,
        "beside_training_and_evaluation": 1 - shares["training"] - shares["evaluation"],
        "resident_megabytes_after": memory,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "accuracy": (found.summary or {})["final_accuracy"],
    }


def femnist_like() -> Dataset:
    """As many writers and images as LEAF's FEMNIST has, and 10,000 to test on; the pixels are noise."""
    rng = np.random.default_rng(0)
    sizes = rng.normal(227, 88, 3500).clip(19, 584).astype(np.int64)
    owners = np.repeat(np.arange(3500), sizes)
    names = tuple(f"writer-{number}" for number in range(3500))
    return Dataset(
        "femnist-like",
        _noise(rng, len(owners), (1, 28, 28), 62, owners, names),
        _noise(rng, 10_000, (1, 28, 28), 62),
        62,
    )


def cifar_like() -> Dataset:
    """As many images as CIFAR-10 has; the pixels are noise."""
    rng = np.random.default_rng(0)
    return Dataset(
        "cifar-like", _noise(rng, 50_000, (3, 32, 32), 10), _noise(rng, 10_000, (3, 32, 32), 10), 10
    )


def _noise(
    rng: np.random.Generator,
    size: int,
    shape: tuple[int, ...],
    num_classes: int,
    owners: NDArray[np.int64] | None = None,
    names: tuple[str, ...] = (),
) -> Examples:
    features = rng.integers(0, 256, (size, *shape), dtype=np.uint8)
    return Examples(features, rng.integers(0, num_classes, size), owners, names)


FEMNIST = {"dataset": "benchmarks.rounds:femnist_like", "partition": "owner", "model": "leaf-cnn"}
REMEMBERS = {
    **FEMNIST,
    "cohort_size": 10,
    "schedule": "steps:1",
    "rounds": 20,
    "availability": "uniform:0.005",
}
MEMORY: dict[str, dict[str, object]] = {
    "3,500 clients of FEMNIST's size, LEAF CNN, M = 120": {
        **FEMNIST, "cohort_size": 120, "schedule": "steps:2", "rounds": 3, "evaluation.every": 3
    },
    "200 clients of CIFAR-10's size, CNN, M = 60": {
        "dataset": "benchmarks.rounds:cifar_like", "model": "cnn", "clients": 200, "cohort_size": 60, "rounds": 3,
        "examples_per_client": 250, "availability": "uniform:0.5",
    },
    "clustered-similarity, LEAF CNN, updates in memory": {**REMEMBERS, "selector": "clustered-similarity"},
    "clustered-similarity, LEAF CNN, updates in memory, float16": {
        **REMEMBERS, "selector": "clustered-similarity:precision=float16"
    },
    "clustered-similarity, LEAF CNN, updates on disk": {
        **REMEMBERS, "selector": "clustered-similarity:on_disk=true"
    },
}  # fmt: skip


def memory(name: str, pipe: Any) -> None:
    """Run a case of MEMORY in this process, and tell what it took."""
    config = RunConfig.of(seed=1, threads=1, **MEMORY[name])
    after: list[float] = []
    if "on_disk" in config.selector.name:
        with tempfile.TemporaryDirectory() as folder:
            start(
                config.with_options({"checkpoint_every": 10}),
                Path(folder) / "run",
                watch=lambda _: after.append(_resident()),
            )
    else:
        after = [_resident() for _ in simulate(config)]
    pipe.send(
        {
            "case": name,
            "rounds": len(after),
            "cpu_seconds": time.process_time(),
            "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
            "resident_megabytes_after": {
                1: after[0],
                len(after) // 2 or 1: after[len(after) // 2 - 1],
                len(after): after[-1],
            },
        }
    )


def memory_of(name: str) -> dict[str, Any]:
    """Run a case of MEMORY in a process of its own."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=memory, args=(name, send))
    process.start()
    send.close()
    found: dict[str, Any] = receive.recv()
    process.join()
    return found


def table(document: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    lines = [
        "# What a round's time goes to",
        "",
        "One thread, processor time. `make bench-rounds` makes this again.",
        "",
        "| dataset, selector | engine | rounds | ms a round | " + " | ".join(PARTS) + " | memory, MB |",
        "|---|---|---|---|" + "---|" * (len(PARTS) + 1),
    ]
    for row in document["runs"]:
        memory = ", ".join(f"{value:.0f} ({key})" for key, value in row["resident_megabytes_after"].items())
        shares = " | ".join(f"{row['shares'][part]:.1%}" for part in PARTS)
        lines.append(
            f"| {row['dataset']}, {row['selector']} | {row['engine']} | {row['rounds']} |"
            f" {row['milliseconds_per_round']:.2f} | {shares} | {memory} |"
        )
    lines += ["", "Memory: resident, with the number of the round it was read after."]
    if document["memory"]:
        lines += [
            "",
            "Whole runs in processes of their own, data and evaluation included:",
            "",
            "| run | rounds | processor seconds | peak, MB | resident, MB |",
            "|---|---|---|---|---|",
        ]
    for row in document["memory"]:
        resident = ", ".join(
            f"{value:,.0f} ({key})" for key, value in row["resident_megabytes_after"].items()
        )
        lines.append(
            f"| {row['case']} | {row['rounds']} | {row['cpu_seconds']:.0f} | {row['peak_megabytes']:,.0f} | {resident} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", help="folder of Fashion-MNIST (default: where fedcbs keeps datasets)")
    parser.add_argument("--rounds", type=int, default=3000)
    parser.add_argument("--selectors", default="fedcbs-exact,uniform,pow-d")
    parser.add_argument("--memory", default="", help="only cases of memory whose name holds this")
    parser.add_argument("--json", default=str(RESULTS))
    args = parser.parse_args()
    base = RunConfig.of(algorithm="fednova", threads=1, seed=1, rounds=1)
    fashion = {"dataset": "fashion-mnist", "data_dir": args.data_dir, "examples_per_client": 250}
    try:
        list_of_one = base.with_options(fashion)
        from fedcbs.runs import build

        build(list_of_one)
        base = list_of_one
    except LookupError as error:
        print(f"{error}\nusing digits instead")
    runs = []
    for number, selector in enumerate(filter(None, args.selectors.split(","))):
        rounds = args.rounds if number == 0 else max(args.rounds // 10, 10)
        runs.append(measure(base.with_options({"selector": selector}), rounds))
        print(json.dumps(runs[-1]))
    cases = [memory_of(name) for name in MEMORY if args.memory in name]
    document = {"versions": versions(), "machine": platform.machine(), "runs": runs, "memory": cases}
    Path(args.json).write_text(json.dumps(document, indent=2) + "\n")
    Path(args.json).with_suffix(".md").write_text(table(document))


def _resident() -> float:
    """Megabytes that the process has in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


if __name__ == "__main__":
    main()
