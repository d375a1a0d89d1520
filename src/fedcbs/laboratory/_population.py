"""Populations without a dataset: a partition scheme, and how many clients and classes it is drawn for."""

from __future__ import annotations

import dataclasses
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs import _checks, _random
from fedcbs.partition import GivenCounts, PartitionScheme, parse_partition

__all__ = ["Population", "as_population", "population"]

CLIENTS, CLASSES, EXAMPLES = 200, 10, 250
"""The population of the Fed-CBS experiments on CIFAR-10, where nothing else is asked for."""


@final
@dataclasses.dataclass(frozen=True)
class Population:
    """A rule from which label counts are drawn, one set for each seed.

    Parameters
    ----------
    scheme
        How the examples are divided.
    num_clients, num_classes
        Shape of the label counts.

    Examples
    --------
    >>> from fedcbs.partition import Case2
    >>> Population(Case2(1, examples_per_client=4), num_clients=3, num_classes=3).label_counts(seed=0).tolist()
    [[4, 0, 0], [0, 4, 0], [0, 0, 4]]
    >>> Population(Case2(1, examples_per_client=4), num_clients=4, num_classes=3)
    Traceback (most recent call last):
    ...
    fedcbs.errors.InvalidArgumentError: num_clients=4, but 'case2' makes 3 clients of 3 classes; leave it out or say 3
    """

    scheme: PartitionScheme
    num_clients: int
    num_classes: int

    def __post_init__(self) -> None:
        self.scheme.pool(self.num_clients, self.num_classes)  # refuses whatever cannot be drawn

    def label_counts(self, seed: int) -> NDArray[np.int64]:
        """Draw label counts, clients x classes; a function of the seed."""
        number = _checks.integer(seed, "seed", minimum=0)
        rng = _random.generator("population", number)
        return self.scheme.draw_balanced(self.num_clients, self.num_classes, rng)


def population(
    partition: str | PartitionScheme,
    *,
    alpha: float | None = None,
    num_clients: int | None = None,
    num_classes: int | None = None,
    examples_per_client: int | None = None,
    min_examples: int | None = None,
) -> Population:
    """Make a population from the name of a partition scheme; what is left out gets a default.

    Parameters
    ----------
    partition
        A name that :func:`fedcbs.partition.parse_partition` takes, or a scheme.
    alpha, examples_per_client, min_examples
        Options of the scheme, where it is named. 250 examples each by default.
    num_clients
        As many as the scheme makes, where it fixes their number; 200 by default.
    num_classes
        As many as given label counts have; 10 by default.

    Examples
    --------
    >>> population("case1-5to1").num_clients
    120
    >>> population("shards:2", num_clients=50).scheme
    Shards(examples_per_client=250, shards_per_client=2)
    """
    options = {"alpha": alpha, "examples_per_client": examples_per_client, "min_examples": min_examples}
    scheme = parse_partition(partition, **options) if isinstance(partition, str) else partition  # type: ignore[arg-type]
    given = isinstance(scheme, GivenCounts)
    if not given and scheme.examples_per_client is None:
        scheme = dataclasses.replace(scheme, examples_per_client=EXAMPLES)
    if num_classes is None:
        num_classes = scheme.num_classes if isinstance(scheme, GivenCounts) else CLASSES
    if num_clients is None:
        num_clients = scheme.fixed_num_clients(num_classes) or CLIENTS
    return Population(scheme, num_clients, num_classes)


def as_population(given: Population | ArrayLike) -> Population:
    """Return a population as it is, and label counts as the population that always has them.

    >>> as_population([[3, 0], [0, 3]]).num_clients
    2
    """
    if isinstance(given, Population):
        return given
    return population(GivenCounts(_checks.counts_matrix(given)))
