"""Runs that differ in nothing but the seed are one group, which a report draws as one line with a band."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, final

from fedcbs.report._run import RunData

__all__ = ["BASELINE", "Group", "baselines", "differences", "flat", "group_runs", "method_of"]

_NOT_THE_METHOD = frozenset(
    {
        "data.directory",
        "evaluation.targets",
        "run.checkpoint_every",
        "run.rounds",
        "run.seed",
        "run.stop_at",
        "training.device",
        "training.engine",
        "training.threads",
    }
)
"""What says how, and how long, a run was carried out, and not what was run."""

_FOLLOW = ("data.auxiliary",)
"""What a run settles by its selector, where nobody says otherwise."""

BASELINE = "uniform"
"""What others are compared with, where it is among the groups; the first group otherwise."""

LONGEST = 48
"""Characters of a label in a chart; tables show all of it."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Group:
    """Runs of one configuration.

    Parameters
    ----------
    label
        What tells it from the other groups of a report.
    settings
        Its configuration, flat, without the seed.
    runs
        Its runs, by seed.
    """

    label: str
    settings: Mapping[str, Any]
    runs: Sequence[RunData]

    @property
    def method(self) -> str:
        """Name of the selector, without its options."""
        return method_of(self.runs[0])

    @property
    def short(self) -> str:
        """The label, cut where it is too long for a chart."""
        return self.label if len(self.label) <= LONGEST else self.label[: LONGEST - 1] + "…"


def group_runs(runs: Iterable[RunData]) -> list[Group]:
    """Put runs into groups, in the order in which their configurations first come."""
    members: dict[str, list[RunData]] = {}
    for run in runs:
        settings = _settings(run)
        key = json.dumps(settings, sort_keys=True, default=str) if settings else f"path {run.path}"
        members.setdefault(key, []).append(run)
    groups = list(members.values())
    settings_of = [_settings(group[0]) for group in groups]
    labels = _labels([method_of(group[0]) for group in groups], settings_of)
    return [
        Group(label, settings, sorted(group, key=lambda run: (run.seed is None, run.seed or 0)))
        for label, settings, group in zip(labels, settings_of, groups, strict=True)
    ]


def method_of(run: RunData) -> str:
    """Return the name of a run's selector; that of its folder where it does not say.

    A selector is told as a text, or as a section with its name.
    """
    section = run.config.get("selector")
    for found in (section, *(section.get(key) for key in _NAMES if isinstance(section, Mapping))):
        if isinstance(found, str) and found:
            return found
    return run.path.name


_NAMES = ("name", "selector", "spec", "kind")

_SELECTORS = frozenset({"selector", *(f"selector.{name}" for name in _NAMES)})
"""Where a flat configuration names the selector."""


def differences(groups: Sequence[Group]) -> dict[str, list[Any]]:
    """Return the settings in which groups differ, with the value of each group; None where one has none.

    >>> differences([])
    {}
    """
    return _differing([group.settings for group in groups])


def baselines(groups: Sequence[Group]) -> list[int | None]:
    """Return, for each group, the place of the one that it is compared with.

    That is uniform selection with otherwise the same settings; None where there is none, or more than one. Where no
    group selects uniformly it is the first group, for those whose other settings are the same.
    """
    bases = [place for place, group in enumerate(groups) if group.method == BASELINE] or [0]
    found: list[int | None] = []
    for place, group in enumerate(groups):
        alike = [base for base in bases if _otherwise_alike(groups[base].settings, group.settings)]
        closest = [base for base in alike if _follow_alike(groups[base].settings, group.settings)] or alike
        only = closest[0] if len(closest) == 1 else None
        found.append(place if place in bases else only)
    return found


def _otherwise_alike(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Whether nothing differs but the selector, its own options, and what follows from it."""
    both = first.keys() & second.keys()
    compared = {key for key in first.keys() | second.keys() if key in both or not key.startswith("selector.")}
    return all(first.get(key) == second.get(key) for key in compared - _SELECTORS - {*_FOLLOW})


def _follow_alike(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    return all(first.get(key) == second.get(key) for key in _FOLLOW)


def _settings(run: RunData) -> dict[str, Any]:
    return {key: value for key, value in flat(run.config).items() if key not in _NOT_THE_METHOD}


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a nested configuration by dotted keys.

    >>> flat({"run": {"seed": 3}, "model": "mlp"})
    {'run.seed': 3, 'model': 'mlp'}
    """
    found: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            found.update(flat(value, f"{prefix}{key}."))
        else:
            found[f"{prefix}{key}"] = value
    return found


def _differing(settings: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    keys = dict.fromkeys(key for group in settings for key in group)
    columns = {key: [group.get(key) for group in settings] for key in keys}
    return {key: values for key, values in columns.items() if len({_text(v) for v in values}) > 1}


def _labels(methods: Sequence[str], settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The selector, and each further setting that divides the groups in a way that those before it do not."""
    known = [methods]
    parts: list[list[str]] = [[method] for method in methods]
    for key, values in _differing(settings).items():
        if key in _SELECTORS:
            continue
        texts = [_text(value) for value in values]
        if any(_same_division(texts, division) for division in known):
            continue
        if key.startswith("selector.") or key in _FOLLOW:  # only where groups of that selector differ in it
            texts = _among_namesakes(methods, texts)
            if not any(texts):
                continue
        known.append(texts)
        name = key.rpartition(".")[2]
        for part, text, value in zip(parts, texts, values, strict=True):
            if text and value is not None:
                part.append(f"{name}={_text(value)}")
    return _distinct([", ".join(part) for part in parts])


def _among_namesakes(methods: Sequence[str], texts: Sequence[str]) -> list[str]:
    several = {m for m in methods if len({t for n, t in zip(methods, texts, strict=True) if n == m}) > 1}
    return [text if method in several else "" for method, text in zip(methods, texts, strict=True)]


def _same_division(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether two settings tell the same groups apart.

    >>> _same_division(["a", "b", "a"], ["x", "y", "x"]), _same_division(["a", "b", "a"], ["x", "y", "z"])
    (True, False)
    """
    pairs = len(set(zip(first, second, strict=True)))
    return len(set(first)) == len(set(second)) == pairs


def _distinct(labels: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    found = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        found.append(label if seen[label] == 1 else f"{label} #{seen[label]}")
    return found


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
