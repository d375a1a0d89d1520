"""Label distributions as Fed-CUCB estimates them from gradients, beside the true ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedcbs.experiments._changes import changes_of_configs
from fedcbs.experiments._definition import Experiment, Scale, Setting
from fedcbs.experiments._labels import Told, write_json

__all__ = ["estimated_labels"]

SHOWN = 5
"""Clients that the paper's figure shows."""


def estimated_labels(
    experiment: Experiment,
    scale: Scale,
    out: Path,
    *,
    options: dict[str, Any],
    tell: Told,
    compute: bool = True,
) -> tuple[list[dict[str, Any]], int, list[dict[str, Any]]]:
    """Return a table of distances for each setting, with the shares of the first clients; how many are missing; changes."""
    rows, details, missing = [], [], 0
    configs = []
    for setting in experiment.settings_at(scale):
        file = out / experiment.runs / scale.name / f"{setting.name}.json"
        if compute and not file.is_file():
            tell(f"{experiment.name}: {setting.title}")
            write_json(file, _estimate(experiment, scale, setting, options))
        if not file.is_file():
            missing += 1
            continue
        found = json.loads(file.read_text(encoding="utf-8"))
        configs.append((setting.config, found.get("config", scale.config)))
        true, guessed = np.array(found["true"]), np.array(found["estimated"])
        distance = np.abs(true - guessed).sum(axis=1) / 2
        blind = np.abs(true - 1 / true.shape[1]).sum(axis=1) / 2
        right = (true.argmax(axis=1) == guessed.argmax(axis=1)).mean()
        rows.append(
            [
                setting.title,
                f"{found['known']} of {found['clients']}",
                f"{distance.mean():.3f}",
                f"{blind.mean():.3f}",
                f"{right:.0%}",
            ]
        )
        details.append(
            {"setting": setting.title, "true": true[:SHOWN].tolist(), "estimated": guessed[:SHOWN].tolist()}
        )
    table = {
        "title": "Distance between estimated and true label distributions",
        "header": [
            "setting",
            "clients seen",
            "mean distance",
            "the same, guessing uniform",
            "main class right",
        ],
        "rows": rows,
        "note": f"After {scale.rounds} rounds.",
        "shares": details,
    }
    return [table], missing, changes_of_configs(experiment, configs)


def _estimate(
    experiment: Experiment, scale: Scale, setting: Setting, options: dict[str, Any]
) -> dict[str, Any]:
    """Train with Fed-CUCB and return what it believes of the clients that it has seen."""
    from fedcbs.runs import RunConfig, build

    config = RunConfig.of(
        **{**experiment.config, **setting.config, **scale.config, **options, "run.rounds": scale.rounds}
    )
    built = build(config)
    simulation = built.simulation
    state = simulation.init()
    for _ in range(scale.rounds):
        state, _ = simulation.round(state)
    belief: Any = state.selector
    known = np.flatnonzero(belief.sum_weights > 0)
    counts = simulation.federation.label_counts[known]
    return {
        "config": config.to_dict(),
        "clients": simulation.federation.num_clients,
        "known": len(known),
        "true": (counts / counts.sum(axis=1, keepdims=True)).round(5).tolist(),
        "estimated": (belief.share_sums[known] / belief.sum_weights[known, None]).round(5).tolist(),
    }
