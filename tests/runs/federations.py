"""Small runs for tests, and what must be equal between two of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedcbs.runs import RunConfig

SMALL = RunConfig.of(
    dataset="digits",
    clients=30,
    availability="uniform:0.5",
    cohort_size=4,
    batch_size=20,
    rounds=40,
    seed=3,
    schedule="steps:6",
    checkpoint_every=7,
    dropout=0.1,
    threads=1,
    engine="auto",
)

VARIANTS = {
    "fedavg": {"selector": "fedcbs-exact"},
    "remembering": {
        "selector": "oort",
        "algorithm": "scaffold:on_disk=true:precision=bfloat16+fedadam",
        "evaluation.every": 3,
    },
    "updates": {"selector": "ou", "algorithm": "scaffold+fedavgm"},
    "on disk": {"selector": "divfl:on_disk=true", "algorithm": "scaffold:on_disk=true"},
}


def arguments(config: RunConfig) -> list[str]:
    """Options of the command line that describe the configuration."""
    return [
        f"--set={section}.{key}={json.dumps(value)}"
        for section, values in config.to_dict().items()
        for key, value in values.items()
        if value is not None and value not in ({}, [])
    ]


def rounds_of(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (path / "rounds.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


def assert_same_end(one: Path, other: Path) -> None:
    assert rounds_of(one) == rounds_of(other)
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    with np.load(one / "checkpoint.npz") as first, np.load(other / "checkpoint.npz") as second:
        assert set(first.files) == set(second.files)
        for name in first.files:
            if name not in (
                "algorithm.local.table",
                "selector.rows",
            ):  # which free place a vector got is no one's business
                assert np.array_equal(first[name], second[name]), name
