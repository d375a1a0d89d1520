"""The runs of an experiment, and what they cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, final

from fedcbs.errors import InvalidArgumentError, UnknownNameError
from fedcbs.experiments._definition import Experiment, Method, Scale, Setting
from fedcbs.sweeps import Job
from fedcbs.sweeps._job import folder_name

__all__ = ["Choice", "Place", "core_seconds", "job_of", "places"]


@final
@dataclasses.dataclass(frozen=True)
class Choice:
    """A part of an experiment.

    Parameters
    ----------
    settings, methods
        Names; all where none are given.
    seeds
        Seeds, each counted once; those of the scale where none are given.
    """

    settings: Sequence[str] = ()
    methods: Sequence[str] = ()
    seeds: Sequence[int] = ()

    @classmethod
    def of(cls, texts: Iterable[str], seeds: Sequence[int] = ()) -> Choice:
        """Read a choice from texts such as ``setting=alpha-0.1`` and ``selector=uniform,fedcbs-exact``.

        >>> Choice.of(["selector=uniform,fedcbs-exact"])
        Choice(settings=(), methods=('uniform', 'fedcbs-exact'), seeds=())
        """
        found: dict[str, list[str]] = {"settings": [], "methods": []}
        kinds = {"setting": "settings", "method": "methods", "selector": "methods"}
        for text in texts:
            kind, equals, names = text.partition("=")
            if kind not in kinds or not equals:
                raise InvalidArgumentError(
                    f"only={text!r} must have the form setting=NAME or method=NAME, several with commas between them"
                )
            found[kinds[kind]] += [name.strip() for name in names.split(",") if name.strip()]
        return cls(tuple(found["settings"]), tuple(found["methods"]), tuple(seeds))

    def check(self, experiment: Experiment) -> None:
        """Refuse names that the experiment does not have."""
        for kind, names, known in (
            ("setting", self.settings, [s.name for s in experiment.settings]),
            ("method", self.methods, [m.name for m in experiment.methods]),
        ):
            for name in names:
                if name not in known:
                    raise UnknownNameError(f"{kind} of {experiment.name}", name, known)


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Place:
    """A run's place in an experiment."""

    setting: Setting
    method: Method
    seed: int


def places(experiment: Experiment, scale: Scale, choice: Choice | None = None) -> list[Place]:
    """Return all runs of an experiment at a scale: the first seed of everything first, so that all has some result soon."""
    choice = choice or Choice()
    choice.check(experiment)
    found = []
    for setting in experiment.settings_at(scale):
        for method in experiment.methods_at(scale):
            if (choice.settings and setting.name not in choice.settings) or (
                choice.methods and method.name not in choice.methods
            ):
                continue
            seeds = choice.seeds or range(scale.seeds_of.get(method.name, scale.seeds))
            found += [Place(setting, method, seed) for seed in dict.fromkeys(seeds)]
    return sorted(found, key=lambda place: place.seed)


def job_of(
    experiment: Experiment,
    scale: Scale,
    place: Place,
    out: Path,
    *,
    options: Mapping[str, Any] | None = None,
    threads: int = 0,
    rounds: int | None = None,
) -> Job:
    """Return the run at a place.

    Parameters
    ----------
    experiment, scale, place
        Which.
    out
        Folder of all experiments; those that share runs find each other's there.
    options
        Options that go before all others, such as where datasets are.
    threads
        Threads of the run, where no option says.
    rounds
        Rounds to do for now, where fewer than the scale says; the run can go on later.
    """
    config = {**experiment.config, **place.setting.config, **place.method.config, **scale.config}
    target = place.setting.target
    config |= {"run.rounds": min(rounds or scale.rounds, scale.rounds), "run.seed": place.seed}
    if target is not None:
        config["evaluation.targets"] = [target]
        if scale.stop_at_target:
            config["run.stop_at"] = target
    folder = (
        out / experiment.runs / scale.name / place.setting.name / folder_name({"selector": place.method.name})
    )
    name = f"{place.setting.name}, {place.method.name}, seed {place.seed}"
    return Job(name, folder / f"seed-{place.seed}", {**config, **(options or {})}, threads)


def core_seconds(experiment: Experiment, scale: Scale) -> float:
    """Return about how many seconds of one core all its runs take; a run that stops early takes less."""
    total = float(experiment.cost.get(scale.name, 0.0))
    for place in places(experiment, scale):
        if scale.name == "smoke":
            total += 0.2
            continue
        clients = _clients({**experiment.config, **place.setting.config, **place.method.config})
        total += scale.rounds * (experiment.cost["round"] + clients * experiment.cost["client"])
    return total


def _clients(config: Mapping[str, Any]) -> float:
    """Clients that train in a round."""
    if str(config.get("selector.name", "")).partition(":")[0] != "everyone":
        return int(config.get("selector.cohort_size", 10))
    number = 120 if str(config.get("partition.scheme", "")).startswith("case1-") else 200
    rule, _, value = str(config.get("availability.rule", "")).partition(":")
    if rule == "uniform":
        return number * float(value)
    return 60 if rule == "class-quota" else 100
