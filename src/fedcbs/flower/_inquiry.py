"""Questions of one round to single clients: their loss at the current model, their update or its norm."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedcbs.flower._ask import Traffic, ask
from fedcbs.flower._errors import WrongAnswerError
from fedcbs.flower._population import Population
from fedcbs.flower._wire import RECORD, Query, blob, packed, values

__all__ = ["Inquiry", "UnansweredError"]

Preview = Callable[[Sequence[int]], list[Message]]


class UnansweredError(Exception):
    """Some clients did not answer; the round is chosen anew without them."""

    def __init__(self, reasons: dict[str, str]) -> None:
        super().__init__(", ".join(f"{name}: {why}" for name, why in reasons.items()))
        self.reasons = reasons


class Inquiry:
    """Asks, and remembers the answers while the round lasts.

    Parameters
    ----------
    grid, population
        Where the clients are.
    arrays
        The current global model.
    preview
        Makes the training messages that the strategy would send to these nodes.
    timeout
        Seconds to wait for answers; those to `updates` may take `training_timeout`, since the nodes train for them.
    """

    def __init__(
        self,
        grid: Grid,
        population: Population,
        arrays: ArrayRecord,
        preview: Preview,
        *,
        timeout: float,
        training_timeout: float,
    ) -> None:
        self._grid = grid
        self._population = population
        self._arrays = arrays
        self._preview = preview
        self._timeout = timeout
        self._training_timeout = training_timeout
        self._known: dict[tuple[str, str], Any] = {}
        self.traffic = Traffic()

    def losses(self, names: Sequence[str], limit: int | None) -> NDArray[np.float64]:
        """Mean loss of each client at the current model, on `limit` examples where that is not None."""

        def question(nodes: list[int]) -> dict[int, RecordDict]:
            content = packed({} if limit is None else {"limit": limit})
            content["arrays"] = self._arrays
            return dict.fromkeys(nodes, content)

        told = self._all(names, f"loss of {limit}", question, Query.LOSSES, _loss, self._timeout)
        return np.array(told, dtype=np.float64)

    def norms(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Norm of the update that each client would send."""
        told = self._trained(names, norm=True)
        return np.array(told, dtype=np.float64)

    def updates(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Update that each client would send, one flat row each."""
        told = self._trained(names, norm=False)
        lengths = sorted({len(row) for row in told})
        if len(lengths) > 1:
            raise WrongAnswerError(f"updates of {lengths} parameters came for one model")
        return np.stack(told).astype(np.float64)

    def _trained(self, names: Sequence[str], *, norm: bool) -> list[Any]:
        def question(nodes: list[int]) -> dict[int, RecordDict]:
            contents: dict[int, RecordDict] = {}
            shared: dict[int, RecordDict] = {}
            for message in self._preview(nodes):
                if id(message.content) not in shared:
                    entries = {"norm": norm, "train": message.metadata.message_type}
                    extended = RecordDict(dict(message.content))
                    extended[RECORD] = ConfigRecord(entries)  # type: ignore[arg-type]  # a dict of scalars
                    shared[id(message.content)] = extended
                contents[message.metadata.dst_node_id] = shared[id(message.content)]
            return contents

        read = _norm if norm else _update
        kind = "norm" if norm else "update"
        return self._all(names, kind, question, Query.UPDATES, read, self._training_timeout)

    def _all(
        self,
        names: Sequence[str],
        kind: str,
        question: Callable[[list[int]], dict[int, RecordDict]],
        query: Query,
        read: Callable[[RecordDict], Any],
        timeout: float,
    ) -> list[Any]:
        """Answers of all `names`, asking those not asked before; or an error that names those without one."""
        new = {self._population.node_of(name): name for name in names if (kind, name) not in self._known}
        answers = ask(self._grid, question(list(new)) if new else {}, query, timeout=timeout)
        self.traffic.add(answers.traffic)
        reasons = {new[node]: why for node, why in answers.failed.items()}
        for node, content in answers.contents.items():
            try:
                self._known[kind, new[node]] = read(content)
            except (WrongAnswerError, KeyError, TypeError, ValueError) as error:
                reasons[new[node]] = f"{type(error).__name__}: {error}"
        if reasons:
            raise UnansweredError(reasons)
        return [self._known[kind, name] for name in names]


def _loss(content: RecordDict) -> float:
    return _finite(values(content)["loss"], "loss")


def _norm(content: RecordDict) -> float:
    norm = _finite(values(content)["norm"], "norm")
    if norm < 0:
        raise WrongAnswerError(f"norm={norm} is negative")
    return norm


def _update(content: RecordDict) -> NDArray[np.float32]:
    update = np.frombuffer(blob(content, "update"), dtype="<f4")
    if not update.size or not np.isfinite(update).all():
        raise WrongAnswerError("the update is empty or not finite")
    return update


def _finite(value: object, name: str) -> float:
    number = float(value)  # type: ignore[arg-type]  # what is no number raises, and is caught where it is read
    if not math.isfinite(number):
        raise WrongAnswerError(f"{name}={number} is not finite")
    return number
