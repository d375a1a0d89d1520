"""The hook: a strategy whose cohorts are chosen by a selector.

A subclass of the strategy's own class is made on the spot that overrides the public methods only. So the strategy stays
what it was: `isinstance` holds, a `start` of its own is kept, wrappers for differential privacy count as before, whether
they are inside or outside. Inside `configure_train` the strategy sees a grid in which only the chosen nodes exist, and
takes all of them; afterwards it is checked that it addressed exactly those.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeVar, cast

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from numpy.typing import ArrayLike

from fedcbs.errors import InvalidArgumentError
from fedcbs.flower._chooser import Chooser
from fedcbs.flower._director import Director
from fedcbs.flower._own import OwnSelector
from fedcbs.flower._party import PartyChooser, SelectorParty
from fedcbs.flower._settings import Settings
from fedcbs.flower._strategy import Configure
from fedcbs.selectors import Need, Selector, parse_selector

__all__ = ["with_selector"]

StrategyT = TypeVar("StrategyT", bound=Strategy)


def with_selector(
    strategy: StrategyT,
    selector: Selector[Any] | str | SelectorParty,
    *,
    cohort_size: int,
    seed: int = 0,
    min_clients: int | None = None,
    wait: float = 600.0,
    query_timeout: float = 120.0,
    pause: int = 2,
    loss_batch: int = 50,
    num_classes: int | None = None,
    max_examples: int | None = None,
    check_replies: bool = True,
    class_gradients: Callable[[ArrayRecord], ArrayLike] | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = True,
) -> StrategyT:
    """Return the strategy with its choice of training nodes replaced by a selector's.

    Parameters
    ----------
    strategy
        Any strategy of Flower's message API, built in or the user's own. It is not changed.
    selector
        A selector, its name with options (``fedcbs-exact:sweeps=10``), or the party that holds the key of a private mode.
    cohort_size
        How many clients train in a round.
    seed
        With the number of the round, fixes every random choice; a party has a seed of its own.
    min_clients
        How many clients the first round waits for; at least `cohort_size`.
    wait
        Seconds that a round waits for clients before it goes on with those that are there.
    query_timeout
        Seconds that a question to a node may take.
    pause
        Rounds that a client which did not answer is left out, twice as many after each further miss.
    loss_batch
        Examples of one batch, for selectors that ask for the loss on one.
    num_classes
        Number of classes; by default what most clients tell.
    max_examples
        Most examples that a client is believed to have.
    check_replies
        Whether replies to training that cannot be used are kept from the strategy.
    class_gradients
        For ``fed-cucb``: ``class_gradients(arrays)`` tells the mean squared gradient of a trained model on each class of
        an auxiliary set that the server holds.
    out
        Folder for the record of the run and its checkpoint. A run whose folder holds a checkpoint goes on from it.
    resume
        False refuses a folder that holds a run.
    """
    settings = Settings(
        cohort_size=cohort_size,
        seed=seed,
        min_clients=min_clients,
        wait=wait,
        query_timeout=query_timeout,
        pause=pause,
        loss_batch=loss_batch,
        num_classes=num_classes,
        max_examples=max_examples,
        check_replies=check_replies,
        class_gradients=class_gradients,
        out=out,
        resume=resume,
    )
    if not isinstance(strategy, Strategy):
        raise InvalidArgumentError(
            f"strategy={strategy!r} must be a strategy of Flower's message API, such as flwr.serverapp.strategy.FedAvg()"
        )
    if isinstance(strategy, Selecting):
        raise InvalidArgumentError("strategy has a selector already; put one before it only")
    chooser = _chooser(selector, settings)
    kind = type(strategy)
    combined = type(f"Selecting{kind.__name__}", (Selecting, kind), {"_fedcbs_made": True})
    selecting: Any = object.__new__(combined)
    selecting.__dict__.update(strategy.__dict__)
    selecting.__dict__["_fedcbs"] = Director(settings, chooser)
    return cast(StrategyT, selecting)


class Selecting(Strategy):
    """What is put in front of the strategy's own class."""

    _fedcbs: Director
    _fedcbs_made: ClassVar[bool] = True

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Choose the cohort, and let the strategy make the messages of its training."""
        return self._fedcbs.configure(self, _own_configure, server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Let the strategy aggregate what can be used, and the selector learn from it."""
        return self._fedcbs.aggregate(self, super().aggregate_train, server_round, replies)  # type: ignore[safe-super]

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Let the strategy choose whom it evaluates on, among the clients."""
        configure = super().configure_evaluate  # type: ignore[safe-super]
        return self._fedcbs.evaluate(configure, server_round, arrays, config, grid)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Aggregate as the strategy does, and record the result."""
        return self._fedcbs.evaluated(super().aggregate_evaluate, server_round, replies)  # type: ignore[safe-super]

    def start(self, grid: Grid, initial_arrays: ArrayRecord, *args: Any, **kwargs: Any) -> Result:
        """Run as the strategy does, from the last checkpoint on where there is one."""
        return self._fedcbs.start(self, super().start, grid, initial_arrays, *args, **kwargs)


def _own_configure(strategy: Strategy) -> Configure:
    """The wrapped class's own method, of this strategy or of a copy of it."""
    bound: Any = super(Selecting, cast("Selecting", strategy))
    return cast(Configure, bound.configure_train)


def _chooser(selector: Selector[Any] | str | SelectorParty, settings: Settings) -> Chooser:
    if isinstance(selector, SelectorParty):
        return PartyChooser(selector, settings)
    made = parse_selector(selector) if isinstance(selector, str) else selector
    if not isinstance(made, Selector):
        raise InvalidArgumentError(f"selector={selector!r} must be a selector, or the name of one")
    if Need.CLASS_GRADIENTS in made.learns and settings.class_gradients is None:
        raise InvalidArgumentError(
            f"class_gradients=None, but {made.name} learns from the gradients on each class of an auxiliary set; give a "
            "function of the trained arrays that computes them"
        )
    return OwnSelector(made, loss_batch=settings.loss_batch)
