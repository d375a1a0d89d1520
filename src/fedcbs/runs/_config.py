"""All that a run can be told, in sections; what is left open (None) is settled when the data is known."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import Any, Self, final

from fedcbs.errors import InvalidArgumentError
from fedcbs.runs._options import overridden, parse_assignment, read_toml, section_from
from fedcbs.selectors import DEFAULT_SELECTOR

__all__ = [
    "AvailabilitySection",
    "DataSection",
    "EvaluationSection",
    "ModelSection",
    "PartitionSection",
    "PrivacySection",
    "RunConfig",
    "RunSection",
    "SelectorSection",
    "ServerSection",
    "TrainingSection",
]


@final
@dataclasses.dataclass(frozen=True)
class DataSection:
    """What is learnt.

    Parameters
    ----------
    dataset
        A name, such as ``digits`` or ``cifar10``, or ``hf:...``, ``folder:...``, ``arrays:...``, ``package.module:callable``.
    directory
        Where the dataset's files are.
    auxiliary
        Train examples of each class that the server keeps for itself. By default 0, or a tenth of the rarest class and
        at most 32 where the selector or the local method needs some.
    """

    dataset: str = "digits"
    directory: str | None = None
    auxiliary: int | None = None


@final
@dataclasses.dataclass(frozen=True)
class PartitionSection:
    """Who holds which examples.

    Parameters
    ----------
    scheme
        A name, as ``fedcbs partition --help`` lists them, or ``owner`` for the dataset's own.
    alpha
        Concentration of a Dirichlet scheme; 0.1 by default.
    clients
        How many; by default as the scheme says, else 200, or 100 where there are fewer than 10,000 examples.
    examples_per_client
        Size of each client, or their mean where sizes vary.
    min_examples
        Size of the smallest client, where a scheme makes sizes vary.
    """

    scheme: str = "dirichlet-hsu"
    alpha: float | None = None
    clients: int | None = None
    examples_per_client: int | None = None
    min_examples: int | None = None


@final
@dataclasses.dataclass(frozen=True)
class AvailabilitySection:
    """Who can be picked, who fails, and how long clients take.

    Parameters
    ----------
    rule
        Who can be picked in a round, such as ``uniform:0.3``.
    dropout
        Probability that a selected client sends nothing.
    deadline
        Simulated seconds after which the server goes on without the rest; 0 for none.
    late
        What a client does that would miss it: ``drop``, or ``partial`` (as many steps as fit).
    durations
        How much clients differ in speed, and from round to round: ``lognormal:SIGMA,NOISE``; or ``none``.
    speed
        Examples a second that the median client trains on.
    bandwidth
        Megabits a second of the median client.
    """

    rule: str = "uniform:0.3"
    dropout: float = 0.0
    deadline: float = 0.0
    late: str = "drop"
    durations: str = "lognormal:0.5,0.1"
    speed: float = 20.0
    bandwidth: float = 1.0


@final
@dataclasses.dataclass(frozen=True)
class ModelSection:
    """What is trained.

    Parameters
    ----------
    name
        ``mlp``, ``cnn``, ``leaf-cnn``, ``linear``, or ``package.module:Callable``. By default what suits the data.
    options
        Of the model, such as ``{hidden = 128}``.
    """

    name: str | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@final
@dataclasses.dataclass(frozen=True)
class SelectorSection:
    """Who is picked.

    Parameters
    ----------
    name
        A selector with its options, such as ``fedcbs-exact:sweeps=10``.
    cohort_size
        How many clients a round has.
    """

    name: str = DEFAULT_SELECTOR
    cohort_size: int = 10


@final
@dataclasses.dataclass(frozen=True)
class TrainingSection:
    """How clients train.

    Parameters
    ----------
    local
        The local method with its options: ``plain``, ``fedprox:mu=0.01``, ``scaffold``, ``fedmax``, ``ratio-loss``.
    schedule
        ``equal-steps:5`` (every client as many steps as the largest needs for 5 epochs), ``epochs:E`` or ``steps:S``.
    batch_size
        Examples in a full batch.
    learning_rate
        Of the first round; 0.1 on digits, else 0.01 by default.
    learning_rate_decay
        Its factor from round to round.
    momentum, weight_decay
        Of the clients' SGD.
    engine
        ``auto``, ``kernel``, ``generic`` or ``loop``.
    threads
        Of the engine; by default one a core.
    device
        ``cpu``, ``cuda`` or ``auto``.
    """

    local: str = "plain"
    schedule: str = "equal-steps:5"
    batch_size: int = 50
    learning_rate: float | None = None
    learning_rate_decay: float = 0.9992
    momentum: float = 0.0
    weight_decay: float = 0.0005
    engine: str = "auto"
    threads: int | None = None
    device: str = "cpu"


@final
@dataclasses.dataclass(frozen=True)
class ServerSection:
    """How the server moves.

    Parameters
    ----------
    rule
        The server rule with its options: ``fedavg``, ``fednova``, ``fedavgm``, ``fedadam``, ``fedyogi``, ``fedadagrad``.
    """

    rule: str = "fedavg"


@final
@dataclasses.dataclass(frozen=True)
class PrivacySection:
    """How label statistics reach the selector.

    Parameters
    ----------
    mode
        ``plain``, ``sealed``, ``masked`` or ``fhe``; `fedcbs private --help` says who learns what.
    noise
        Noise that each client adds to its label counts, such as ``laplace:epsilon=1``; ``none`` by default.
    """

    mode: str = "plain"
    noise: str = "none"


@final
@dataclasses.dataclass(frozen=True)
class EvaluationSection:
    """When and how the global model is tested.

    Parameters
    ----------
    every
        After every so many rounds, and after the last one. By default 1, or 5 where there are over 2,000 test examples.
    clients
        Whether to report accuracy on the clients' own label distributions too.
    targets
        Accuracies of which the summary says when they were reached.
    """

    every: int | None = None
    clients: bool = False
    targets: tuple[float, ...] = ()


@final
@dataclasses.dataclass(frozen=True)
class RunSection:
    """How long, from which seed, and how often the state is saved.

    Parameters
    ----------
    rounds
        How many.
    seed
        Fixes everything random.
    checkpoint_every
        Rounds between checkpoints. By default as often as takes a hundredth of the time.
    stop_at
        Accuracy at which the run ends early; 0 for none.
    """

    rounds: int = 100
    seed: int = 0
    checkpoint_every: int | None = None
    stop_at: float = 0.0


@final
@dataclasses.dataclass(frozen=True)
class RunConfig:
    """A run's configuration.

    Parameters
    ----------
    data, partition, availability, model, selector, training, server, privacy, evaluation, run
        Its sections.

    Examples
    --------
    >>> config = RunConfig.of(selector="uniform", rounds=20, **{"training.learning_rate": 0.05})
    >>> config.selector.name, config.run.rounds, config.training.learning_rate
    ('uniform', 20, 0.05)
    >>> RunConfig.of(lerning_rate=0.1)
    Traceback (most recent call last):
    ...
    fedcbs.errors.UnknownNameError: option='lerning_rate' is not known; did you mean 'learning_rate'? Known: ...
    """

    data: DataSection = dataclasses.field(default_factory=DataSection)
    partition: PartitionSection = dataclasses.field(default_factory=PartitionSection)
    availability: AvailabilitySection = dataclasses.field(default_factory=AvailabilitySection)
    model: ModelSection = dataclasses.field(default_factory=ModelSection)
    selector: SelectorSection = dataclasses.field(default_factory=SelectorSection)
    training: TrainingSection = dataclasses.field(default_factory=TrainingSection)
    server: ServerSection = dataclasses.field(default_factory=ServerSection)
    privacy: PrivacySection = dataclasses.field(default_factory=PrivacySection)
    evaluation: EvaluationSection = dataclasses.field(default_factory=EvaluationSection)
    run: RunSection = dataclasses.field(default_factory=RunSection)

    @classmethod
    def of(cls, **options: object) -> Self:
        """Make a configuration from options by dotted key (``training.momentum``) or by a name that is clear alone."""
        return cls().with_options(options)

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str], overrides: Iterable[str] = ()) -> Self:
        """Read a TOML file whose tables are the sections, or the ``config.json`` of a run.

        Parameters
        ----------
        path
            The file.
        overrides
            Texts such as ``training.learning_rate=0.01``, which go before what the file says.
        """
        return cls.from_dict(read_toml(path)).with_texts(overrides)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Make a configuration from sections as mappings."""
        kinds = {field.name: field for field in dataclasses.fields(cls)}
        return cls(**{name: section_from(cls(), name, table, kinds) for name, table in document.items()})

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return the sections as plain values."""
        document = dataclasses.asdict(self)
        document["evaluation"]["targets"] = list(self.evaluation.targets)
        document["model"]["options"] = dict(self.model.options)
        return document

    def with_options(self, options: Mapping[str, object]) -> Self:
        """Return the configuration with these options changed; see :meth:`of`."""
        return overridden(self, options)

    def with_texts(self, assignments: Iterable[str]) -> Self:
        """Return the configuration with options changed by texts such as ``training.momentum=0.9``."""
        options: dict[str, object] = {}
        for text in assignments:
            key, value = parse_assignment(text)
            if key in options:
                raise InvalidArgumentError(f"option {key!r} is set twice; set it once")
            options[key] = value
        return self.with_options(options)
