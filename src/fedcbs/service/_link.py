"""What a federation's server asks of its selector, wherever that runs.

::

    link.create("hospitals", FederationOptions(mode="fhe", num_classes=10))
    keys = link.public_keys("hospitals")                       # to the clients, who pin keys.fingerprint
    link.put_statistics("hospitals", mode.gram(keys, uploads))   # what the server computed from their uploads
    cohort = link.select("hospitals", round_index=1, cohort_size=10, available=names)
    ...                                                        # train
    link.observe("hospitals", round_index=1, answered=cohort.clients)

Every request can be sent again: asked twice, it is done once, and answered twice the same.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs.errors import AnswersNeededError, RowNeededError
from fedcbs.private import PublicKeys
from fedcbs.private._mode import DEFAULT_MAX_EXAMPLES
from fedcbs.selectors import DEFAULT_SELECTOR, Need

__all__ = ["Ask", "Cohort", "FederationOptions", "FederationStatus", "FetchRow", "Membership", "SelectorLink"]

Ask = Callable[[Need, tuple[str, ...]], ArrayLike]
"""Called with what the selector wants to know and of which clients; returns one row for each, in that order."""

FetchRow = Callable[[str], bytes]
"""Called with the name of a client; returns its row, as the server computes it in mode ``fhe``."""

MOST_QUESTIONS = 16


@dataclasses.dataclass(frozen=True)
class FederationOptions:
    """How a federation's clients are protected and chosen. They are fixed when it is created.

    Parameters
    ----------
    num_classes
        Classes that counts have.
    mode
        Name of the private mode.
    max_examples
        Most examples that a client may claim.
    selector
        Name of the selector, with options as in ``fedcbs-exact:sweeps=5``.
    seed
        Fixes the selector's random choices. Where none is given, the selector draws one that nobody else knows.

    Examples
    --------
    >>> FederationOptions(num_classes=10).selector
    'fedcbs-sharp'
    """

    num_classes: int
    mode: str = "fhe"
    max_examples: int = DEFAULT_MAX_EXAMPLES
    selector: str = DEFAULT_SELECTOR
    seed: int | None = None


@dataclasses.dataclass(frozen=True)
class Membership:
    """Who takes part after statistics came in.

    Parameters
    ----------
    clients
        Names of those who can be selected.
    refused
        Names of those who cannot, with the reason.
    """

    clients: tuple[str, ...]
    refused: Mapping[str, str]


@dataclasses.dataclass(frozen=True, eq=False)
class Cohort:
    """The answer to one round.

    Parameters
    ----------
    clients
        Names of the selected clients, in ascending order of name.
    weights
        Weights of their updates where the strategy sets them; aligned with `clients`.
    qcid
        QCID of the cohort, where the selector's operator lets the server know it.
    asked
        How many clients were asked for what.
    estimated, estimated_updates, estimated_weights
        Updates that are to be averaged in although nobody sent them, where a strategy makes such.
    """

    clients: tuple[str, ...]
    weights: NDArray[np.float64] | None = None
    qcid: float | None = None
    asked: Mapping[str, int] = dataclasses.field(default_factory=dict)
    estimated: tuple[str, ...] = ()
    estimated_updates: NDArray[np.float64] | None = None
    estimated_weights: NDArray[np.float64] | None = None


@dataclasses.dataclass(frozen=True)
class FederationStatus:
    """What anyone may know who may use a federation.

    Parameters
    ----------
    name, mode, selector, num_classes, fingerprint
        What it is.
    clients
        How many can be selected.
    last_round
        The last round that was answered; 0 before the first.
    observed_round
        The last round whose outcome was told; 0 before the first.
    """

    name: str
    mode: str
    selector: str
    num_classes: int
    fingerprint: str
    clients: int
    last_round: int
    observed_round: int


class SelectorLink(abc.ABC):
    """A selector that holds the secret keys: :class:`LocalSelector` in this process, :class:`SelectorClient` elsewhere."""

    @abc.abstractmethod
    def create(self, federation: str, options: FederationOptions) -> FederationStatus:
        """Make a federation and its keys; one that exists with the same options stays as it is."""

    @abc.abstractmethod
    def status(self, federation: str) -> FederationStatus:
        """Say how a federation stands."""

    @abc.abstractmethod
    def federations(self) -> tuple[str, ...]:
        """Names of the federations that the caller may use."""

    @abc.abstractmethod
    def public_keys(self, federation: str) -> PublicKeys:
        """Return what clients encrypt with, and what the server computes with."""

    @abc.abstractmethod
    def masks(self, federation: str, seeds: Mapping[str, bytes]) -> bytes:
        """Return the masks for these clients' sealed seeds, in a mode that exchanges masks."""

    @abc.abstractmethod
    def put_statistics(self, federation: str, gram: bytes) -> Membership:
        """Hand in what the server computed from the uploads; it takes the place of what was there."""

    @abc.abstractmethod
    def put_rows(self, federation: str, setup: bytes) -> Membership:
        """Hand in sizes and diagonal instead of the whole matrix, in mode ``fhe``; `select` then asks for single rows."""

    @abc.abstractmethod
    def put_row(self, federation: str, client: str, row: bytes) -> None:
        """Hand in one row, which is kept."""

    @abc.abstractmethod
    def put_upload(self, federation: str, client: str, upload: bytes) -> None:
        """Hand in one client's upload, where the selector does the server's computation too (see the docs on enclaves)."""

    @abc.abstractmethod
    def remove_upload(self, federation: str, client: str) -> None:
        """Forget a client's upload; from then on it cannot be selected."""

    @abc.abstractmethod
    def observe(
        self,
        federation: str,
        round_index: int,
        *,
        answered: Sequence[str],
        failed: Sequence[str] = (),
        **learnt: ArrayLike | None,
    ) -> None:
        """Tell the outcome of a round.

        Parameters
        ----------
        federation, round_index
            Which round.
        answered, failed
            Clients whose update arrived, and those from whom nothing usable came.
        learnt
            `losses`, `rms_losses`, `durations`, `updates`, `class_gradients`: aligned with `answered`, as in
            :class:`fedcbs.Feedback`.
        """

    def select(
        self,
        federation: str,
        *,
        round_index: int,
        cohort_size: int,
        available: Sequence[str],
        ask: Ask | None = None,
        fetch_row: FetchRow | None = None,
        redo: bool = False,
    ) -> Cohort:
        """Choose the cohort of a round.

        Parameters
        ----------
        federation
            Its name.
        round_index
            Number of the round, from 1.
        cohort_size
            How many clients to pick.
        available
            Names of the clients that can be picked.
        ask
            Gets from clients what the selector wants to know beside label statistics: losses, updates, durations.
        fetch_row
            Computes a row of the Gram, where rows come on demand. Each is asked for once, and kept.
        redo
            Whether to forget this round and all that followed, where another answer was given before.
        """
        answers: dict[str, Any] = {}
        while True:
            try:
                return self._select(
                    federation,
                    round_index=round_index,
                    cohort_size=cohort_size,
                    available=tuple(available),
                    answers=answers,
                    redo=redo,
                )
            except AnswersNeededError as question:
                if ask is None or len(answers) == MOST_QUESTIONS:
                    raise
                told = np.asarray(ask(Need(question.need), question.clients), dtype=np.float64)
                answers[f"{question.need} {len(answers)}"] = (question.clients, told)
            except RowNeededError as question:
                if fetch_row is None:
                    raise
                self.put_row(federation, question.client, fetch_row(question.client))

    @abc.abstractmethod
    def _select(
        self,
        federation: str,
        *,
        round_index: int,
        cohort_size: int,
        available: tuple[str, ...],
        answers: Mapping[str, tuple[tuple[str, ...], NDArray[np.float64]]],
        redo: bool,
    ) -> Cohort: ...

    def close(self) -> None:  # noqa: B027  # most have something to let go of
        """Let go of files and connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
