"""What the service's selectors know: opened statistics of everybody ever seen, and answers that the server brought."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fedcbs.errors import AnswersNeededError, InvalidArgumentError
from fedcbs.imbalance import DenseGram, Gram
from fedcbs.private import OpenedGram
from fedcbs.selectors import GramInformation, Information, LabelInformation, Need, Selector

__all__ = ["ToldInformation", "grown_state", "population_information"]

Answers = Mapping[str, tuple[tuple[str, ...], NDArray[np.float64]]]


def population_information(opened: OpenedGram, population: Sequence[str]) -> Information:
    """Opened statistics in the order of the population; whoever has none has no examples.

    >>> opened = OpenedGram(("b",), np.array([3]), 2, label_counts=np.array([[1, 2]]))
    >>> population_information(opened, ["a", "b"]).num_examples()
    array([0, 3])
    """
    if tuple(population) == opened.clients:
        return opened.information()
    place = {name: number for number, name in enumerate(population)}
    rows = np.array([place[name] for name in opened.clients], dtype=np.int64)
    if opened.label_counts is not None:
        counts = np.zeros((len(population), opened.num_classes), dtype=np.int64)
        counts[rows] = opened.label_counts
        return LabelInformation(counts)
    matrix = np.zeros((len(population), len(population)), dtype=np.int64)
    matrix[np.ix_(rows, rows)] = opened.gram
    sizes = np.zeros(len(population), dtype=np.int64)
    sizes[rows] = opened.num_examples
    return GramInformation(DenseGram(matrix, num_examples=sizes, num_classes=opened.num_classes))


@final
class ToldInformation(Information):
    """Statistics, and what clients said this round; what is missing is asked for by an error.

    Parameters
    ----------
    statistics
        What the label statistics answer.
    names
        The population.
    answers
        Clients and rows, by a key whose first word is the need.
    """

    def __init__(self, statistics: Information, names: Sequence[str], answers: Answers) -> None:
        self._statistics, self._names = statistics, names
        self._told: dict[Need, dict[str, NDArray[np.float64]]] = {}
        for key, (clients, values) in answers.items():
            need = _need(key.split(" ")[0])
            if len(clients) != len(values):
                raise InvalidArgumentError(
                    f"answers: {len(values)} rows of {need} for {len(clients)} clients; give one row for each"
                )
            self._told.setdefault(need, {}).update(zip(clients, values, strict=True))

    @property
    def num_clients(self) -> int:
        """Number of clients in the population."""
        return self._statistics.num_clients

    def gram(self) -> Gram:
        """Inner products of label counts, and sizes, of the whole population."""
        return self._statistics.gram()

    def label_counts(self) -> NDArray[np.int64]:
        """Label counts of the whole population, where the mode gives them."""
        return self._statistics.label_counts()

    def num_examples(self) -> NDArray[np.int64]:
        """Sizes of the whole population."""
        return self._statistics.num_examples()

    def durations(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Expected seconds, as the server knows them."""
        return self._of(Need.DURATIONS, clients)

    def losses(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Losses, as the clients said."""
        return self._of(Need.LOSSES, clients)

    def batch_losses(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Losses on one batch, as the clients said."""
        return self._of(Need.BATCH_LOSSES, clients)

    def updates(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Updates, as the clients sent them."""
        return self._of(Need.UPDATES, clients)

    def update_norms(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Norms of updates, as the clients said."""
        return self._of(Need.UPDATE_NORMS, clients)

    def _of(self, need: Need, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        told = self._told.get(need, {})
        names = [self._names[client] for client in clients]
        missing = [name for name in names if name not in told]
        if missing:
            raise AnswersNeededError(str(need), missing)
        try:
            return np.array([told[name] for name in names], dtype=np.float64)
        except ValueError:
            raise InvalidArgumentError(
                f"answers: the rows of {need} differ in length; give all clients the same number of values"
            ) from None


def grown_state(selector: Selector[Any], arrays: Mapping[str, NDArray[Any]], num_clients: int) -> Any:
    """A saved state in which clients have joined at the end: as if they had been there, unselected.

    >>> from fedcbs.selectors import make_selector
    >>> grown_state(make_selector("uniform"), {"times_selected": np.array([2, 1])}, 3).times_selected
    array([2, 1, 0])
    """
    before = len(arrays["times_selected"])
    if before == num_clients:
        return selector.restore(arrays)
    fresh = selector.init(num_clients).to_arrays()
    grown: dict[str, NDArray[Any]] = {}
    for name, new in fresh.items():
        old = arrays[name]
        per_client = new.ndim > 0 and len(new) == num_clients and old.ndim == new.ndim and len(old) == before
        if not per_client:
            grown[name] = old
        elif old.shape[1:] == new.shape[1:]:
            grown[name] = np.concatenate([old, new[before:].astype(old.dtype)])
        else:  # its width became known with the first answers
            grown[name] = np.concatenate([old, np.zeros((num_clients - before, *old.shape[1:]), old.dtype)])
    return selector.restore(grown)


def _need(text: str) -> Need:
    try:
        return Need(text)
    except ValueError:
        raise InvalidArgumentError(f"answers: {text[:40]!r} is nothing that selectors ask for") from None
