"""From a configuration to a simulation that is ready to run. Whatever can be refused is refused here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, final

from fedcbs import _checks
from fedcbs._specs import split_spec
from fedcbs.algorithms import Algorithm, local_methods, parse_local, parse_server, server_rules
from fedcbs.availability import Availability, parse_availability
from fedcbs.data import Dataset, load_dataset
from fedcbs.engine import make_engine
from fedcbs.errors import InvalidArgumentError
from fedcbs.models import default_model, make_model
from fedcbs.partition import list_partitions, parse_partition
from fedcbs.runs._config import RunConfig
from fedcbs.selectors import Need, Selector, parse_selector
from fedcbs.simulation import (
    ClientTimes,
    EvaluationRule,
    Faults,
    Simulation,
    Training,
    check_privacy,
    collect_statistics,
    default_auxiliary,
    default_clients,
    last_layer,
    make_federation,
    parse_schedule,
)

__all__ = ["Built", "algorithm_summaries", "build", "check", "shared_auxiliary"]

Note = Callable[[str], None]

ALPHA, LEARNING_RATE, LEARNING_RATE_OF_DIGITS = 0.1, 0.01, 0.1
LARGE_TEST = 2_000


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Built:
    """A simulation, and the configuration with all that was open settled."""

    config: RunConfig
    simulation: Simulation


@dataclasses.dataclass(frozen=True, eq=False)
class _Parts:
    """What needs no data to be made."""

    selector: Selector[Any]
    algorithm: Algorithm
    availability: Availability
    faults: Faults
    times: ClientTimes | None
    training: Training


def build(config: RunConfig, *, folder: Path | None = None, note: Note | None = None) -> Built:
    """Check a configuration, load its data, settle what it leaves open, and make the simulation.

    Parameters
    ----------
    config
        What to run.
    folder
        Where the run may keep files.
    note
        Takes a line on what the user should know, such as an engine that is not the fastest.
    """
    _check_run(config)
    parts = _parts(config)
    if config.data.directory is not None:  # so that a run can be resumed from wherever
        directory = Path(config.data.directory).expanduser().absolute()
        config = config.with_options({"data.directory": str(directory)})
    dataset = load_dataset(config.data.dataset, data_dir=config.data.directory)
    config = _settled(config, dataset, parts)
    own = config.partition
    federation = make_federation(
        dataset,
        own.scheme,
        num_clients=own.clients,
        alpha=own.alpha,
        examples_per_client=own.examples_per_client,
        min_examples=own.min_examples,
        auxiliary=config.data.auxiliary or 0,
        seed=config.run.seed,
    )
    model = make_model(
        str(config.model.name),
        shape=dataset.train.shape,
        num_classes=dataset.num_classes,
        seed=config.run.seed,
        **config.model.options,
    )
    engine = make_engine(
        model,
        dataset,
        engine=config.training.engine,
        threads=config.training.threads,
        device=config.training.device,
        note=note,
    )
    statistics = collect_statistics(
        federation.label_counts,
        parts.selector,
        mode=config.privacy.mode,
        noise=_noise(config),
        seed=config.run.seed,
        folder=folder,
    )
    config = config.with_options(
        {"training.engine": engine.name, "partition.clients": federation.num_clients}
    )
    simulation = Simulation(
        federation=federation,
        engine=engine,
        statistics=statistics,
        algorithm=parts.algorithm,
        training=dataclasses.replace(
            parts.training, learning_rate=config.training.learning_rate or LEARNING_RATE
        ),
        selector=parts.selector,
        cohort_size=config.selector.cohort_size,
        availability=parts.availability,
        faults=parts.faults,
        times=parts.times,
        evaluation=EvaluationRule(config.evaluation.every or 1, config.evaluation.clients),
        layer=last_layer(model, dataset.num_classes) if parts.algorithm.local.monitors else None,
        seed=config.run.seed,
        folder=folder,
    )
    return Built(config, simulation)


def algorithm_summaries() -> tuple[dict[str, str], dict[str, str]]:
    """Return local methods and server rules, each with one line."""
    kinds = local_methods(), server_rules()
    local, server = ({name: kind.summary for name, kind in each.items()} for each in kinds)
    return local, server


def check(config: RunConfig) -> None:
    """Refuse what can be refused without the data."""
    _check_run(config)
    _parts(config)


def shared_auxiliary(config: RunConfig, selectors: Iterable[str]) -> int | None:
    """Return the server's examples of each class for runs that differ in their selector: all the same, if one needs any."""
    if config.data.auxiliary is not None:
        return config.data.auxiliary
    kinds = [parse_selector(name) for name in selectors]
    if not any(Need.CLASS_GRADIENTS in kind.learns for kind in kinds):
        return None
    return default_auxiliary(load_dataset(config.data.dataset, data_dir=config.data.directory))


def _check_run(config: RunConfig) -> None:
    _checks.integer(config.run.rounds, "run.rounds", minimum=1)
    _checks.integer(config.run.seed, "run.seed", minimum=0, maximum=2**63 - 1)
    _checks.real(config.run.stop_at, "run.stop_at", minimum=0, maximum=1)
    for name, value in (
        ("run.checkpoint_every", config.run.checkpoint_every),
        ("evaluation.every", config.evaluation.every),
        ("partition.clients", config.partition.clients),
        ("training.threads", config.training.threads),
    ):
        if value is not None:
            _checks.integer(value, name, minimum=1)
    if config.data.auxiliary is not None:
        _checks.integer(config.data.auxiliary, "data.auxiliary", minimum=0)
    for target in config.evaluation.targets:
        _checks.real(target, "evaluation.targets", minimum=0, maximum=1)


def _parts(config: RunConfig) -> _Parts:
    """Make, and so check, all that needs no data."""
    training, availability = config.training, config.availability
    times = None
    if availability.durations != "none":
        times = ClientTimes.parse(
            availability.durations, speed=availability.speed, bandwidth=availability.bandwidth
        )
    parts = _Parts(
        selector=parse_selector(config.selector.name),
        algorithm=Algorithm(parse_local(training.local), parse_server(config.server.rule)),
        availability=parse_availability(availability.rule),
        faults=Faults(availability.dropout, availability.deadline, availability.late),
        times=times,
        training=Training(
            schedule=parse_schedule(training.schedule),
            batch_size=training.batch_size,
            learning_rate=LEARNING_RATE if training.learning_rate is None else training.learning_rate,
            learning_rate_decay=training.learning_rate_decay,
            momentum=training.momentum,
            weight_decay=training.weight_decay,
        ),
    )
    parts.algorithm.check(parts.training.base(1))
    check_privacy(parts.selector, config.privacy.mode, _noise(config))
    if config.partition.scheme != "owner":
        parse_partition(
            config.partition.scheme,
            alpha=_alpha(config),
            examples_per_client=config.partition.examples_per_client,
            min_examples=config.partition.min_examples,
        )
    return parts


def _noise(config: RunConfig) -> str:
    return "" if config.privacy.noise == "none" else config.privacy.noise


def _alpha(config: RunConfig) -> float | None:
    """The concentration, where the scheme takes one and nothing says it."""
    name, value = split_spec(config.partition.scheme, "partition.scheme")
    takes = name.startswith("dirichlet") and name in {
        form.partition("[")[0].partition(":")[0] for form in list_partitions()
    }
    return ALPHA if config.partition.alpha is None and takes and value is None else config.partition.alpha


def _settled(config: RunConfig, dataset: Dataset, parts: _Parts) -> RunConfig:
    """Settle what is left open, now that the data is known."""
    settled: dict[str, object] = {"partition.alpha": _alpha(config)}
    if config.model.name is None:
        settled["model.name"] = default_model(dataset.train.shape)
    if config.training.learning_rate is None:
        digits = config.data.dataset == "digits"
        settled["training.learning_rate"] = LEARNING_RATE_OF_DIGITS if digits else LEARNING_RATE
    if config.evaluation.every is None:
        settled["evaluation.every"] = 5 if len(dataset.test) > LARGE_TEST else 1
    if config.data.auxiliary is None:
        needed = parts.algorithm.local.monitors or Need.CLASS_GRADIENTS in parts.selector.learns
        settled["data.auxiliary"] = default_auxiliary(dataset) if needed else 0
    if config.partition.clients is None and config.partition.scheme != "owner":
        scheme = parse_partition(config.partition.scheme, alpha=_alpha(config))
        fixed = scheme.fixed_num_clients(dataset.num_classes)
        settled["partition.clients"] = fixed or default_clients(dataset)
    if not len(dataset.test):
        raise InvalidArgumentError(
            f"dataset={dataset.name!r} has no test examples; there is nothing to evaluate on"
        )
    return config.with_options(settled)
