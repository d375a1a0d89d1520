"""Experiments on labels alone: nothing is trained."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from fedcbs._files import write_whole
from fedcbs.experiments._changes import changes_of_scale
from fedcbs.experiments._definition import Experiment, Scale, Setting
from fedcbs.experiments._results import document
from fedcbs.laboratory import balance, population

__all__ = ["label_document", "write_json"]

Told = Callable[[str], None]


def label_document(
    experiment: Experiment, scale: Scale, out: Path, *, tell: Told, compute: bool = True
) -> dict[str, Any]:
    """Return what an experiment on labels found; what was computed before is kept in `out` and not done again."""
    folder = out / experiment.runs / scale.name
    numbers: dict[tuple[str, str, str], list[float]] = {}
    missing = 0
    for setting in experiment.settings_at(scale):
        file = folder / f"{setting.name}.json"
        found = _kept(file, scale)
        if compute and not found:
            tell(f"{experiment.name}: {setting.title}")
            found = _measured(experiment, scale, setting)
            write_json(file, {"rounds": scale.rounds, "seeds": scale.seeds, "methods": found})
        missing += not found
        for method in experiment.methods_at(scale):
            for measure in experiment.measures:
                numbers[measure, setting.name, method.name] = found.get(method.name, {}).get(measure, [])
    rounds = {setting.name: scale.rounds for setting in experiment.settings_at(scale)}
    changed = changes_of_scale(experiment, scale)
    return document(experiment, scale, numbers, rounds=rounds, missing=missing, changed=changed)


def _kept(file: Path, scale: Scale) -> dict[str, dict[str, list[float]]]:
    """What was computed before, if it was computed for as many rounds and seeds."""
    if not file.is_file():
        return {}
    kept = json.loads(file.read_text(encoding="utf-8"))
    same = (kept.get("rounds"), kept.get("seeds")) == (scale.rounds, scale.seeds)
    methods: dict[str, dict[str, list[float]]] = kept["methods"] if same else {}
    return methods


def _measured(experiment: Experiment, scale: Scale, setting: Setting) -> dict[str, dict[str, list[float]]]:
    config = {**experiment.config, **setting.config, **scale.config}
    result = balance(
        [method.name for method in experiment.methods_at(scale)],
        population(
            config["partition.scheme"],
            alpha=config.get("partition.alpha"),
            num_clients=config.get("partition.clients"),
        ),
        availability=config["availability.rule"],
        cohort_size=config["selector.cohort_size"],
        rounds=scale.rounds,
        seeds=scale.seeds,
    )
    return {
        name: {
            "qcid": [100 * float(value) for value in found.qcid_of_seeds],
            "coverage": [100 * float(value) for value in found.coverage],
            "gini": [float(value) for value in found.gini],
        }
        for name, found in result.items()
    }


def write_json(file: Path, content: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    encoded = (json.dumps(content, indent=1) + "\n").encode()

    def write(part: BinaryIO) -> None:
        part.write(encoded)

    write_whole(file, write)
