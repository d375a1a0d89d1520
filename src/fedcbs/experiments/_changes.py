"""What runs have otherwise than their experiment declares, because the scale or the user said so."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from fedcbs.experiments._definition import Experiment, Scale, dotted
from fedcbs.experiments._found import Found
from fedcbs.sweeps._work import _plain as plain

__all__ = ["changed_dataset", "changes_of_configs", "changes_of_runs", "changes_of_scale"]

_OF_THE_MACHINE = ("data.directory", "training.threads", "training.engine", "training.device")
"""Where and how a run is computed; not what it is."""

_OF_THE_SCALE = ("run.", "evaluation.targets")


def changes_of_runs(experiment: Experiment, scale: Scale, found: Found) -> list[dict[str, Any]]:
    """Return every option that runs have otherwise than declared, with both values and how many runs have it so."""
    settings = {setting.name: setting.config for setting in experiment.settings_at(scale)}
    methods = {method.name: method.config for method in experiment.methods_at(scale)}
    return changes_of_configs(
        experiment,
        (
            ({**settings[setting], **methods[method]}, run.config)
            for (setting, method), runs in found.runs.items()
            for run in runs
        ),
    )


def changes_of_configs(
    experiment: Experiment, configs: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]
) -> list[dict[str, Any]]:
    """Return the same of whole configurations, each beside what is declared on top of the experiment's."""
    defaults = _defaults()
    tally: Counter[tuple[str, str, str]] = Counter()
    for own, used in configs:
        tally.update(_differing({**defaults, **experiment.config, **own}, dotted(used)))
    return _listed(tally)


def changes_of_scale(experiment: Experiment, scale: Scale) -> list[dict[str, Any]]:
    """Return every option that a scale has otherwise than the experiment declares it, where nothing else can change it."""
    tally: Counter[tuple[str, str, str]] = Counter()
    for setting in experiment.settings_at(scale):
        tally.update(_differing({**experiment.config, **setting.config}, scale.config))
    return _listed(tally)


def changed_dataset(found: Mapping[str, Any]) -> str | None:
    """Return the dataset that was used instead of the declared one, of a document; None where it was that one."""
    names = [change["used"] for change in found.get("changed", ()) if change["key"] == "data.dataset"]
    return ", ".join(dict.fromkeys(names)) or None


def _defaults() -> dict[str, Any]:
    """Values of options that nobody gives; none where the extra of runs is not installed, and only tables are made."""
    if importlib.util.find_spec("torch") is None:
        return {}
    from fedcbs.runs import RunConfig

    return dotted(RunConfig.of().to_dict())


def _differing(own: Mapping[str, Any], used: Mapping[str, Any]) -> Iterable[tuple[str, str, str]]:
    """What is left open (None) is settled by the run, and differs from nothing."""
    for key, value in own.items():
        there = used.get(key)
        if value is None or there is None or key in _OF_THE_MACHINE or key.startswith(_OF_THE_SCALE):
            continue
        if plain(value) != plain(there):
            yield key, _text(value), _text(there)


def _listed(tally: Counter[tuple[str, str, str]]) -> list[dict[str, Any]]:
    return [
        {"key": key, "own": own, "used": used, "runs": number} for (key, own, used), number in tally.items()
    ]


def _text(value: Any) -> str:
    """A value as a command line has it.

    >>> _text(True), _text([0.4, 0.5]), _text("counts:/home/me/two.csv")
    ('true', '0.4,0.5', 'counts:two.csv')
    """
    known = plain(value)
    if isinstance(known, bool):
        return str(known).lower()
    return ",".join(map(_text, known)) if isinstance(known, list) else str(known)
