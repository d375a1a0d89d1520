"""From what a sweep varies to its jobs."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, final

from fedcbs import _checks
from fedcbs._files import existing_file
from fedcbs.errors import InvalidArgumentError, UnknownNameError
from fedcbs.sweeps._job import Job, folder_name

__all__ = ["Plan", "parse_values"]

_KEYS = ("seeds", "selectors", "vary", "config")


@final
@dataclasses.dataclass(frozen=True)
class Plan:
    """What a sweep varies: every combination of it is a run.

    Parameters
    ----------
    config
        What all runs share: options by dotted key, or by a name that is clear alone.
    vary
        Values by such a key.
    seeds
        The seeds.

    Examples
    --------
    >>> plan = Plan(vary={"selector": ["uniform", "fedcbs-exact"], "training.learning_rate": [0.01, 0.1]}, seeds=(0, 1))
    >>> len(plan.jobs("runs"))
    8
    >>> plan.jobs("runs")[0].folder.name
    'uniform,learning_rate=0.01,seed=0'
    """

    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    vary: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)
    seeds: Sequence[int] = (0,)

    def __post_init__(self) -> None:
        for key, values in self.vary.items():
            if not values:
                raise InvalidArgumentError(f"{key}=[] has no values to vary over; give at least one")
            if len({_text(value) for value in values}) < len(values):
                raise InvalidArgumentError(f"{key}={list(values)!r} names a value twice; name each once")
        if not self.seeds:
            raise InvalidArgumentError("seeds=[] is empty; give at least one seed")
        for seed in self.seeds:
            _checks.integer(seed, "seeds", minimum=0)
        if len(set(self.seeds)) < len(self.seeds):
            raise InvalidArgumentError(f"seeds={list(self.seeds)!r} names a seed twice; name each once")
        if "seed" in self.vary or "run.seed" in self.vary:
            raise InvalidArgumentError("seed is no key to vary; give seeds")

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Plan:
        """Read a plan: ``seeds``, ``selectors``, values under ``[vary]``, and what is shared under ``[config.SECTION]``."""
        file = existing_file(path, "sweep")
        try:
            document = tomllib.loads(file.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidArgumentError(
                f"sweep={str(file)!r} is no TOML file that can be read: {error}"
            ) from None
        for key in document:
            if key not in _KEYS:
                raise UnknownNameError("key of a sweep", key, _KEYS)
        vary = {key: _as_list(values) for key, values in _flat(document.get("vary", {})).items()}
        if "selectors" in document:
            vary = {"selector": _as_list(document["selectors"]), **vary}
        return cls(_flat(document.get("config", {})), vary, _seeds(document.get("seeds", 1)))

    def changed(
        self,
        *,
        config: Mapping[str, Any] | None = None,
        vary: Mapping[str, Sequence[Any]] | None = None,
        seeds: Sequence[int] | None = None,
    ) -> Plan:
        """Return it with some of it changed; a key that varied and is now shared varies no more, and the other way round."""
        shared = {key: value for key, value in self.config.items() if key not in (vary or {})} | dict(
            config or {}
        )
        varied = {key: value for key, value in self.vary.items() if key not in (config or {})} | dict(
            vary or {}
        )
        return Plan(shared, varied, self.seeds if seeds is None else seeds)

    def jobs(self, out: str | os.PathLike[str], *, threads: int = 0) -> list[Job]:
        """Return a run for every combination, seeds last; each is checked as far as that goes without data."""
        from fedcbs.availability import parse_availability
        from fedcbs.runs import RunConfig
        from fedcbs.selectors import parse_selector

        jobs: list[Job] = []
        for values in itertools.product(*self.vary.values()):
            chosen = dict(zip(self.vary, values, strict=True))
            # refuses unknown keys, and values of the wrong kind
            shared = RunConfig.of(**{**self.config, **chosen})
            parse_selector(shared.selector.name)
            parse_availability(shared.availability.rule)
            for seed in self.seeds:
                parts = {_short(key, self.vary): value for key, value in chosen.items()} | {"seed": seed}
                name = folder_name(parts)
                options = _explicit(shared.with_options({"run.seed": seed}).to_dict())
                jobs.append(Job(name, Path(out) / name, options, threads))
        return jobs


def parse_values(text: str) -> tuple[str, list[Any]]:
    """Return a key and its values from ``key=value,value`` or ``key=[value, value]``, which allows commas in texts.

    >>> parse_values("training.learning_rate=0.01,0.1")
    ('training.learning_rate', [0.01, 0.1])
    >>> parse_values("availability=['class-quota:9,3', 'uniform:0.3']")
    ('availability', ['class-quota:9,3', 'uniform:0.3'])
    """
    from fedcbs.runs import parse_assignment

    key, value = parse_assignment(text)
    if isinstance(value, list):
        return key, value
    if not isinstance(value, str):
        return key, [value]
    return key, [parse_assignment(f"{key}={part}")[1] for part in value.split(",")]


def _explicit(document: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A configuration by dotted key, without what it leaves open."""
    return {
        f"{section}.{key}": value
        for section, values in document.items()
        for key, value in values.items()
        if value is not None
    }


def _short(key: str, keys: Iterable[str]) -> str:
    """The last part of a key, where that is clear; `selector.name` is the selector."""
    if key == "selector.name":
        return "selector"
    last = key.rpartition(".")[2]
    return last if sum(other.rpartition(".")[2] == last for other in keys) == 1 else key


def _flat(table: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(table, Mapping):
        raise InvalidArgumentError(f"{prefix.rstrip('.') or 'config'}={table!r} must be a table of options")
    found: dict[str, Any] = {}
    for key, value in table.items():
        inside = isinstance(value, Mapping) and f"{prefix}{key}" != "model.options"
        found |= _flat(value, f"{prefix}{key}.") if inside else {f"{prefix}{key}": value}
    return found


def _as_list(values: Any) -> list[Any]:
    return list(values) if isinstance(values, list) else [values]


def _seeds(value: Any) -> tuple[int, ...]:
    """Seeds as a list, or how many.

    >>> _seeds(3), _seeds([4, 7])
    ((0, 1, 2), (4, 7))
    """
    if isinstance(value, list):
        return tuple(value)
    return tuple(range(_checks.integer(value, "seeds", minimum=1)))


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
