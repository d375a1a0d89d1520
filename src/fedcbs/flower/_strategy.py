"""What can be said of any Flower strategy without knowing it: the strategies that it wraps, and how many nodes it takes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from fedcbs.flower._errors import SelectionNotHonouredError
from fedcbs.flower._grid import SelectedGrid

__all__ = ["Configure", "addressed_to", "layers", "own_class", "preview", "trains", "weight_key"]

Configure = Callable[[int, ArrayRecord, ConfigRecord, Grid], Iterable[Message]]


def layers(strategy: object) -> Iterator[Any]:
    """The strategy and those that it wraps, whatever their attributes are called."""
    seen: set[int] = set()
    waiting = [strategy]
    while waiting:
        layer = waiting.pop(0)
        if id(layer) not in seen:
            seen.add(id(layer))
            yield layer
            waiting += [value for value in vars(layer).values() if isinstance(value, Strategy)]


def own_class(strategy: object) -> type:
    """The strategy's own class, not the one that was made to put selection before it."""
    return next(kind for kind in type(strategy).__mro__ if not kind.__dict__.get("_fedcbs_made", False))


def trains(strategy: object) -> bool:
    """Whether the strategy trains at all."""
    return all(getattr(layer, "fraction_train", 1.0) != 0.0 for layer in layers(strategy))


def weight_key(strategy: object) -> str | None:
    """Name of the metric that the strategy weighs updates by."""
    for layer in layers(strategy):
        key = getattr(layer, "weighted_by_key", None)
        if isinstance(key, str):
            return key
    return None


def addressed_to(
    configure: Configure,
    strategy: object,
    server_round: int,
    arrays: ArrayRecord,
    config: ConfigRecord,
    grid: Grid,
    node_ids: Sequence[int],
) -> list[Message]:
    """Let a strategy make its messages of training for these nodes, and see that it addressed exactly them."""
    with _everyone(strategy, len(node_ids)):
        view: Any = SelectedGrid(grid, node_ids)
        # A list: the grid goes through the messages twice.
        messages = list(configure(server_round, arrays, config, view))
    addressed = sorted(message.metadata.dst_node_id for message in messages)
    if addressed != sorted(node_ids):
        raise SelectionNotHonouredError(
            f"{own_class(strategy).__name__} addressed the nodes {addressed} instead of {sorted(node_ids)}; "
            "it chooses its nodes otherwise than from the grid that it is given, so no selector can be put before it"
        )
    return messages


def preview(
    strategy: Strategy,
    configure: Callable[[Strategy], Configure],
    server_round: int,
    arrays: ArrayRecord,
    config: ConfigRecord,
    grid: Grid,
    node_ids: Sequence[int],
) -> list[Message]:
    """Make the messages that training these nodes would take, on a copy of the strategy: the original sees nothing."""
    twin = _twin(strategy)
    own_config = ConfigRecord(dict(config))
    return addressed_to(configure(twin), twin, server_round, arrays, own_config, grid, node_ids)


def _twin(strategy: Strategy) -> Strategy:
    twin = copy.copy(strategy)
    for name, value in vars(strategy).items():
        if isinstance(value, Strategy):
            setattr(twin, name, _twin(value))
    if hasattr(twin, "accountant"):
        twin.accountant = None  # a question is no release
    return twin


@contextmanager
def _everyone(strategy: object, count: int) -> Iterator[None]:
    """Make strategies that take a fraction of the nodes take every node that they are shown."""
    wanted = {"fraction_train": 1.0, "min_train_nodes": count, "min_available_nodes": count}
    saved: list[tuple[Any, str, Any]] = []
    for layer in layers(strategy):
        for name, value in wanted.items():
            if name in vars(layer):
                saved.append((layer, name, vars(layer)[name]))
                setattr(layer, name, value)
    try:
        yield
    finally:
        for layer, name, value in saved:
            setattr(layer, name, value)
