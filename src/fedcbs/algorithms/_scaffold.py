"""SCAFFOLD: control variates take out of each client's steps what pulls it away from the others.

Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", ICML 2020, Algorithm 1 with option II::

    client:  y <- y - lr * (gradient - c_n + c)                           K times, from y = w
             c_n' = c_n - c + (w - y) / (K lr)
    server:  w <- w + learning_rate * mean of (y - w)                     over those that answered
             c <- c + sum of (c_n' - c_n) / N                             N = all clients

Followed: the paper. The mean of updates is the server rule's: weighted by sizes, unless the selector says otherwise. Weight decay
counts as part of the gradient. Momentum on clients has no control variate (the last line of the client would not hold) and
is refused.

Memory: one vector a client that ever answered, in the stated precision; on disk if asked. Its own c_n' is what the next
round reads, so lower precision changes training a little, but the same in every repetition.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, cast, final

import numpy as np
import torch
from numpy.typing import NDArray

from fedcbs._rows import ClientRows
from fedcbs.algorithms._base import Follower, LocalMethod, LocalState, Monitor
from fedcbs.engine import LocalRule, Trained
from fedcbs.errors import InvalidArgumentError, UnknownNameError

__all__ = ["Scaffold", "ScaffoldState"]

FILE = "control-variates.bin"
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
"""What a client's control variate can be kept in."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class ScaffoldState(LocalState):
    """The server's control variate, and the clients'.

    Parameters
    ----------
    control
        The server's.
    rows
        The clients' own; a client that has none is still at zero.
    precision
        What those are kept in.
    """

    control: torch.Tensor
    rows: ClientRows
    precision: torch.dtype

    def own(self, clients: NDArray[np.int64]) -> torch.Tensor:
        """Return the control variates of these clients, in float32."""
        return torch.from_numpy(self.rows.get(clients)).view(self.precision).to(torch.float32)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as named arrays; of vectors on disk, only their places."""
        table, vectors = self.rows.to_arrays()
        arrays: dict[str, NDArray[Any]] = {"control": self.control.cpu().numpy(), "table": table}
        if not self.rows.on_disk:
            arrays["vectors"] = torch.from_numpy(vectors).view(self.precision).to(torch.float32).numpy()
        return arrays

    def on_disk(self) -> tuple[ClientRows, ...]:
        """Return what of the state is in a file."""
        return (self.rows,) if self.rows.on_disk else ()


@final
@dataclasses.dataclass(frozen=True)
class Scaffold(LocalMethod):
    """SGD with control variates.

    Parameters
    ----------
    precision
        What clients' control variates are kept in: ``float32``, ``bfloat16`` or ``float16``.
    on_disk
        Whether they are kept in a file of the run's folder instead of in memory.
    """

    name: ClassVar[str] = "scaffold"
    summary: ClassVar[str] = "SGD with control variates against drift"
    paper: ClassVar[str] = "Karimireddy et al. 2020 (ICML), SCAFFOLD"
    vectors: ClassVar[int] = 2
    carries_momentum: ClassVar[bool] = False
    precision: str = "float32"
    on_disk: bool = False

    def __post_init__(self) -> None:
        _precision(self.precision)
        if not isinstance(self.on_disk, bool):
            raise InvalidArgumentError(f"on_disk={self.on_disk!r} must be true or false")

    def init(self, num_clients: int, num_parameters: int, folder: Path | None = None) -> ScaffoldState:
        """Return the state before the first round; `folder` is where files may be kept."""
        precision, path = _precision(self.precision), None
        if self.on_disk:
            if folder is None:
                raise InvalidArgumentError(
                    "on_disk=true needs a folder to keep control variates in; give the run a directory"
                )
            path = folder / FILE
        own = ClientRows(num_clients, _raw(precision), path).with_kept({}, num_parameters)
        return ScaffoldState(torch.zeros(num_parameters), own, precision)

    def restore(self, fresh: LocalState, arrays: Mapping[str, NDArray[Any]]) -> ScaffoldState:
        """Return the state that :meth:`LocalState.to_arrays` saved; `fresh` is what :meth:`init` gave."""
        state = cast(ScaffoldState, fresh)
        control, table = torch.from_numpy(arrays["control"].copy()), arrays["table"].astype(np.int64)
        vectors = torch.from_numpy(arrays.get("vectors", np.zeros((0, state.rows.length), np.float32)))
        if len(vectors):  # saved in the order of clients
            table[table >= 0] = np.arange(len(vectors))
        return ScaffoldState(
            control, state.rows.from_arrays(table, _bits(vectors, state.precision)), state.precision
        )

    def rule(
        self,
        base: LocalRule,
        state: LocalState,
        clients: NDArray[np.int64],
        monitor: Monitor | None,  # noqa: ARG002
    ) -> LocalRule:
        """Return `base` with ``c - c_n`` for each client."""
        held = cast(ScaffoldState, state)
        own = held.own(clients).to(held.control.device)
        return dataclasses.replace(base, corrections=torch.sub(held.control, own, out=own))

    def follow(
        self, state: LocalState, rule: LocalRule, clients: NDArray[np.int64], steps: NDArray[np.int64]
    ) -> Follower:
        """Return who gathers the new control variates of a round."""
        return _Gatherer(cast(ScaffoldState, state), rule, clients, steps)


class _Gatherer(Follower):
    """Gathers new control variates; the state of before stays as it is."""

    def __init__(
        self, state: ScaffoldState, rule: LocalRule, clients: NDArray[np.int64], steps: NDArray[np.int64]
    ) -> None:
        super().__init__(state)
        self._before, self._rule, self._clients, self._steps = state, rule, clients, steps
        self._kept: dict[int, Any] = {}
        self._change = torch.zeros_like(state.control)

    def see(self, trained: Trained, start: torch.Tensor) -> None:
        """Take ``-(c - c_n) + (w - y) / (K lr)`` of each client, which is its new control variate."""
        corrections, rows = cast(torch.Tensor, self._rule.corrections), self._before.rows
        for row, place in enumerate(trained.clients):
            if not self._steps[place]:
                continue  # made no step, learnt nothing
            new = torch.sub(start, trained.parameters[row])
            new.div_(float(self._steps[place]) * self._rule.learning_rate).sub_(corrections[place])
            kept = _bits(new, self._before.precision)
            new = torch.from_numpy(kept).view(self._before.precision).to(new)  # as it will be read
            self._change.add_(new + corrections[place]).sub_(self._before.control)  # + (c - c_n) - c = - c_n
            self._kept[int(self._clients[place])] = rows.keep(kept)

    def state(self) -> ScaffoldState:
        """Return the state after the round."""
        before = self._before
        control = before.control + self._change / before.rows.num_clients
        return dataclasses.replace(
            before, control=control, rows=before.rows.with_kept(self._kept, before.rows.length)
        )


def _precision(name: str) -> torch.dtype:
    if name not in PRECISIONS:
        raise UnknownNameError("precision", name, PRECISIONS)
    return PRECISIONS[name]


def _raw(precision: torch.dtype) -> type[np.generic]:
    """What NumPy holds such numbers as; it has no bfloat16."""
    return np.float32 if precision == torch.float32 else np.int16


def _bits(vectors: torch.Tensor, precision: torch.dtype) -> NDArray[Any]:
    """Vectors as they are kept."""
    rounded = vectors.to("cpu", precision)
    bits: NDArray[Any] = (rounded if precision == torch.float32 else rounded.view(torch.int16)).numpy()
    return bits
