"""Results as small files that can be kept in a repository: numbers, settings, thinned rounds, a page and figures."""

from __future__ import annotations

import csv
import importlib.util
import io
import itertools
import json
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

import fedcbs
from fedcbs._files import write_whole
from fedcbs.experiments._definition import Experiment, Scale
from fedcbs.experiments._found import Found
from fedcbs.experiments._render import markdown
from fedcbs.report import RunData

__all__ = ["export"]

POINTS = 40
"""Rows of a run in the table of rounds; each is the mean of the rounds since the one before."""

_FILES = ("results.json", "README.md", "rounds.csv", "curves.png", "figure.png", "qcid.png", "shares.png")
"""All names that are ever written; nothing else in the folder is touched."""

_COLUMNS = ("accuracy", "worst_class_accuracy", "test_loss", "loss", "qcid")


def export(
    experiment: Experiment, scale: Scale, document: Mapping[str, Any], found: Found | None, folder: Path
) -> None:
    """Write the results of an experiment into a folder, each file whole or not at all; files of earlier results go.

    Parameters
    ----------
    experiment, scale
        Which.
    document
        What it found.
    found
        Its runs, where it has any.
    folder
        Made where it is not there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    runs = [] if found is None else list(_runs(found))
    own = experiment.runs == experiment.name  # or the runs are written down where they belong
    settings = {"runs": [_settings(*run) for run in runs]} if own else {"runs_of": experiment.runs}
    whole = {**document, "versions": _versions(runs), **settings}
    _write(folder / "results.json", json.dumps(whole, indent=1, allow_nan=False) + "\n")
    if runs and own:
        _write(folder / "rounds.csv", _rounds(runs))
    figures: dict[str, str] = {}
    if importlib.util.find_spec("matplotlib") is not None:
        from fedcbs.experiments._figures import draw

        figures = draw(experiment, scale, document, found, folder)
    _write(folder / "README.md", markdown(document, figures=figures))
    written = {"results.json", "README.md", *(["rounds.csv"] if runs and own else []), *figures}
    for name in set(_FILES) - written:
        (folder / name).unlink(missing_ok=True)


def _runs(found: Found) -> Iterator[tuple[str, str, RunData]]:
    for (setting, method), runs in found.runs.items():
        for run in runs:
            yield setting, method, run


def _versions(runs: list[tuple[str, str, RunData]]) -> dict[str, list[str]]:
    """Versions of what computed it; several where runs are of several machines."""
    found: dict[str, set[str]] = {}
    for _, _, run in runs:
        for name, version in run.versions.items():
            found.setdefault(name, set()).add(version)
    if not found:
        found = {
            "fedcbs": {fedcbs.__version__},
            "numpy": {np.__version__},
            "python": {platform.python_version()},
        }
    return {name: sorted(versions) for name, versions in sorted(found.items())}


_HIDDEN = ("data.directory", "training.threads")
"""What says nothing about a run but where it was computed."""


def _settings(setting: str, method: str, run: RunData) -> dict[str, Any]:
    """A run's configuration, its seed, and its summary, without what is only about the machine."""
    config = {
        section: {k: v for k, v in values.items() if f"{section}.{k}" not in _HIDDEN}
        for section, values in run.config.items()
    }
    scheme = str(config.get("partition", {}).get("scheme", ""))
    if scheme.startswith("counts:"):
        config["partition"]["scheme"] = f"counts:{Path(scheme.partition(':')[2]).name}"
    return {
        "setting": setting,
        "method": method,
        "seed": run.seed,
        "status": run.status,
        "rounds": int(run.rounds[-1]) if run.rounds.size else 0,
        "config": config,
        "summary": {key: value for key, value in run.summary.items() if key != "status"},
    }


def _rounds(runs: list[tuple[str, str, RunData]]) -> str:
    """Every run in about :data:`POINTS` rows."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["setting", "method", "seed", "round", *_COLUMNS, "megabytes"])
    for setting, method, run in runs:
        edges = np.unique(np.linspace(0, len(run.rounds), POINTS + 1).round().astype(int))
        sent = np.cumsum(np.nan_to_num(run.columns["bytes_up"] + run.columns["bytes_down"])) / 1e6
        for first, last in itertools.pairwise(edges.tolist()):
            values = [_mean(run.columns[name][first:last]) for name in _COLUMNS]
            row = [setting, method, run.seed, int(run.rounds[last - 1]), *values, f"{sent[last - 1]:.6g}"]
            writer.writerow(row)
    return out.getvalue()


def _mean(values: np.ndarray) -> str:
    held = values[np.isfinite(values)]
    return f"{held.mean():.5g}" if held.size else ""


def _write(file: Path, text: str) -> None:
    encoded = text.encode()

    def write(part: BinaryIO) -> None:
        part.write(encoded)

    write_whole(file, write)
