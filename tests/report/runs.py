"""Run directories without training: real selectors choose real cohorts, and accuracy follows a made-up curve."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from fedcbs import LabelInformation, Round, qcid
from fedcbs._random import generator
from fedcbs.laboratory import population
from fedcbs.selectors import Feedback, parse_selector

METHODS = ("everyone", "uniform", "astraea", "fedcbs-paper", "fedcbs-exact")


def write_run(
    folder: Path,
    selector: str = "uniform",
    *,
    seed: int = 0,
    rounds: int = 60,
    num_clients: int = 40,
    cohort_size: int = 5,
    num_classes: int = 10,
    evaluate_every: int = 1,
    status: str | None = "finished",
    extra: dict[str, Any] | None = None,
) -> Path:
    """Write a run; `extra` goes into the sections of its configuration."""
    folder.mkdir(parents=True)
    clients = population("dirichlet-hsu:0.1", num_clients=num_clients, num_classes=num_classes)
    counts = clients.label_counts(seed)
    config: dict[str, Any] = {
        "data": {"name": "mnist"},
        "partition": {"name": "dirichlet-hsu", "alpha": 0.1, "num_clients": num_clients},
        "selector": {"name": selector, "cohort_size": cohort_size},
        "training": {"learning_rate": 0.01},
        "run": {"seed": seed, "rounds": rounds},
    }
    for section, values in (extra or {}).items():
        config[section] = {**config.get(section, {}), **values}
    document = {"format": 1, "config": config, "versions": {"fedcbs": "0.1.0", "numpy": np.__version__}}
    (folder / "config.json").write_text(json.dumps(document))
    np.savez(folder / "population.npz", label_counts=counts, num_examples=counts.sum(axis=1))
    records = list(_records(selector, counts, seed, rounds, cohort_size, evaluate_every))
    (folder / "rounds.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    if status is not None:
        accuracies = [record["accuracy"] for record in records if record["accuracy"] is not None]
        summary = {"status": status, "rounds": rounds, "best_accuracy": max(accuracies, default=None)}
        (folder / "summary.json").write_text(json.dumps(summary))
    return folder


def _records(
    name: str, counts: np.ndarray, seed: int, rounds: int, cohort_size: int, evaluate_every: int
) -> Any:
    selector = parse_selector(name)
    information, state = LabelInformation(counts), selector.init(len(counts))
    rng = generator("made-up accuracy", seed)
    progress = 0.0
    for index in range(1, rounds + 1):
        available = np.sort(rng.choice(len(counts), max(cohort_size, len(counts) * 3 // 10), replace=False))
        selection = selector.select(
            state,
            Round(information, cohort_size=cohort_size, round_index=index, available=available, seed=seed),
        )
        state = selector.observe(selection.state, Feedback(answered=selection.cohort))
        imbalance = float(qcid(counts, selection.cohort))
        progress += 1 / (1 + 8 * imbalance)
        accuracy = 0.85 * (1 - math.exp(-progress / (0.4 * rounds))) - 0.6 * imbalance * rng.random()
        pooled = counts[selection.cohort].sum(axis=0)
        shares = pooled / pooled.sum()
        per_class = np.clip(accuracy + 0.8 * (shares - 1 / len(shares)), 0, 1)
        evaluated = index % evaluate_every == 0 or index == rounds
        mine = 0.02 * len(selection.cohort)
        yield {
            "round": index,
            "available": len(available),
            "cohort": selection.cohort.tolist(),
            "answered": selection.cohort.tolist(),
            "failed": [],
            "qcid": imbalance,
            "cohort_label_counts": pooled.tolist(),
            "loss": 2.3 * math.exp(-progress / rounds),
            "accuracy": float(per_class.mean()) if evaluated else None,
            "test_loss": 2.4 * math.exp(-progress / rounds) if evaluated else None,
            "per_class_accuracy": per_class.tolist() if evaluated else None,
            "worst_class_accuracy": float(per_class.min()) if evaluated else None,
            "asked": {},
            "bytes_up": 62_000 * 4 * len(selection.cohort),
            "bytes_down": 62_000 * 4 * len(selection.cohort),
            "seconds": {
                "select": 0.001,
                "train": mine,
                "evaluate": 0.01,
                "checkpoint": 0.002,
                "total": mine + 0.015,
            },
            "simulated_seconds": None,
        }


def write_runs(folder: Path, methods: tuple[str, ...] = METHODS, *, seeds: int = 2, **options: Any) -> Path:
    """Write a run for each method and seed."""
    for method in methods:
        for seed in range(seeds):
            write_run(folder / f"{method.replace(':', '-')}-{seed}", method, seed=seed, **options)
    return folder
