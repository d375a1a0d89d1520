"""What a selector may need to know, and where it comes from.

A selector declares its needs. What it is handed is a view of the round that answers just those, when asked; a need that
is not declared is refused, so a declared need is also a statement of what the strategy learns about the clients.
"""

from __future__ import annotations

import abc
import enum
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs import _checks
from fedcbs.errors import InformationError, InvalidArgumentError, NeedsTrainingError
from fedcbs.imbalance import FactorGram, Gram

__all__ = ["GramInformation", "Information", "LabelInformation", "Need"]


class Need(enum.StrEnum):
    """Something that a selector wants to know about clients."""

    GRAM = "gram"
    """Inner products of label counts, and sizes. The server need not see any label counts for it."""
    LABEL_COUNTS = "label-counts"
    """The label counts themselves (up to a common order of the classes)."""
    NUM_EXAMPLES = "num-examples"
    """Sizes of the clients."""
    DURATIONS = "durations"
    """Seconds that clients take: expected ones before a round, measured ones after it."""
    LOSSES = "losses"
    """Mean loss on the client's data at the current global model."""
    BATCH_LOSSES = "batch-losses"
    """Mean loss on one batch of the client's data at the current global model."""
    RMS_LOSSES = "rms-losses"
    """Root of the mean squared loss over the client's examples."""
    UPDATES = "updates"
    """Model update (local model minus global model) as one flat vector a client."""
    UPDATE_NORMS = "update-norms"
    """Euclidean norm of the update."""
    CLASS_GRADIENTS = "class-gradients"
    """Mean squared gradient of the client's trained model on each class of an auxiliary set that the server holds."""


NEEDS_TRAINING = frozenset(
    {Need.LOSSES, Need.BATCH_LOSSES, Need.RMS_LOSSES, Need.UPDATES, Need.UPDATE_NORMS, Need.CLASS_GRADIENTS}
)
"""Needs that only a federation with a model can answer."""


class Information(abc.ABC):
    """Where answers come from: label counts, a simulator, or a real federation.

    A subclass overrides what it can answer. Per-client answers are aligned with the `clients` that were asked.
    """

    @property
    @abc.abstractmethod
    def num_clients(self) -> int:
        """Number of clients in the population."""

    def gram(self) -> Gram:
        """Inner products of label counts, and sizes, of the whole population."""
        raise self._lacks(Need.GRAM)

    def label_counts(self) -> NDArray[np.int64]:
        """Label counts of the whole population."""
        raise self._lacks(Need.LABEL_COUNTS)

    def num_examples(self) -> NDArray[np.int64]:
        """Sizes of the whole population."""
        raise self._lacks(Need.NUM_EXAMPLES)

    def durations(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Expected seconds of (local training, upload) of each client, shape (clients, 2)."""
        raise self._lacks(Need.DURATIONS)

    def losses(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Mean loss of each client at the current global model."""
        raise self._lacks(Need.LOSSES)

    def batch_losses(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Mean loss of each client on one batch at the current global model."""
        raise self._lacks(Need.BATCH_LOSSES)

    def updates(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Model update of each client, one flat row each."""
        raise self._lacks(Need.UPDATES)

    def update_norms(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Norm of each client's model update."""
        raise self._lacks(Need.UPDATE_NORMS)

    def _lacks(self, need: Need) -> InformationError:
        if need in NEEDS_TRAINING:
            return NeedsTrainingError(
                f"{need} cannot be had from {type(self).__name__}, which trains no model; run a simulation instead"
            )
        return InformationError(
            f"{need} cannot be had from {type(self).__name__}; give it, or choose a selector without it"
        )


@final
class LabelInformation(Information):
    """Label statistics at hand, and expected durations if given: enough for every strategy without a model.

    Parameters
    ----------
    label_counts
        Whole numbers, clients x classes.
    durations
        Expected seconds of (local training, upload) of each client, shape (clients, 2).
    """

    def __init__(self, label_counts: ArrayLike, *, durations: ArrayLike | None = None) -> None:
        self._counts = _checks.counts_matrix(label_counts)
        self._gram: FactorGram | None = None
        self._durations = None if durations is None else _checked_durations(durations, len(self._counts))

    @property
    def num_clients(self) -> int:
        """Number of clients in the population."""
        return len(self._counts)

    def gram(self) -> Gram:
        """Inner products of label counts, and sizes, of the whole population."""
        if self._gram is None:
            self._gram = FactorGram(self._counts)
        return self._gram

    def label_counts(self) -> NDArray[np.int64]:
        """Label counts of the whole population."""
        return self._counts

    def num_examples(self) -> NDArray[np.int64]:
        """Sizes of the whole population."""
        return self.gram().num_examples

    def durations(self, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Expected seconds of (local training, upload) of each client, shape (clients, 2)."""
        if self._durations is None:
            raise self._lacks(Need.DURATIONS)
        return self._durations[clients]


@final
class GramInformation(Information):
    """A Gram matrix and sizes, and nothing else: what an encrypted protocol reveals to its selector.

    Parameters
    ----------
    gram
        Inner products of label counts, with sizes.
    """

    def __init__(self, gram: Gram) -> None:
        self._gram = gram

    @property
    def num_clients(self) -> int:
        """Number of clients in the population."""
        return self._gram.num_clients

    def gram(self) -> Gram:
        """Inner products of label counts, and sizes, of the whole population."""
        return self._gram

    def num_examples(self) -> NDArray[np.int64]:
        """Sizes of the whole population."""
        return self._gram.num_examples


def _checked_durations(durations: ArrayLike, num_clients: int) -> NDArray[np.float64]:
    seconds = np.array(durations, dtype=np.float64)
    if seconds.shape != (num_clients, 2):
        raise InvalidArgumentError(
            f"durations has shape {seconds.shape}; it must be ({num_clients}, 2): seconds of training and of upload"
        )
    wrong = np.argwhere(~(np.isfinite(seconds) & (seconds > 0)))
    if wrong.size:
        i, j = (int(k) for k in wrong[0])
        raise InvalidArgumentError(
            f"durations[{i}, {j}]={seconds[i, j]} must be a finite number of seconds above 0"
        )
    return seconds
