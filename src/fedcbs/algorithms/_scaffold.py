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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast, final

import numpy as np
import torch
from numpy.typing import NDArray

from fedcbs.algorithms._base import Follower, LocalMethod, LocalState, Monitor
from fedcbs.algorithms._rows import DiskRows, MemoryRows, Rows, precision_of
from fedcbs.engine import LocalRule, Trained
from fedcbs.errors import InvalidArgumentError

__all__ = ["Scaffold", "ScaffoldState"]

FILE = "control-variates.bin"


@final
@dataclasses.dataclass(frozen=True, eq=False)
class ScaffoldState(LocalState):
    """The server's control variate, and where each client's is.

    Parameters
    ----------
    control
        The server's.
    table
        Place of each client's in `rows`; -1 where it is still zero.
    rows
        The clients' own.
    """

    control: torch.Tensor
    table: NDArray[np.int64]
    rows: Rows

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as named arrays; of vectors on disk, only their places."""
        self.rows.flush()
        arrays: dict[str, NDArray[Any]] = {"control": self.control.cpu().numpy(), "table": self.table}
        if isinstance(self.rows, MemoryRows):
            arrays["vectors"] = self.rows.get(self.table[self.table >= 0]).numpy()
        return arrays

    def settle(self, saved: Sequence[LocalState]) -> None:
        """Let go of what neither this state nor those `saved` refer to; other states are void from then on."""
        tables = [self.table]
        if isinstance(self.rows, DiskRows):  # what was in memory, a checkpoint holds itself
            tables += [state.table for state in saved if isinstance(state, ScaffoldState)]
        self.rows.keep_only(tables)


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
        precision_of(self.precision)
        if not isinstance(self.on_disk, bool):
            raise InvalidArgumentError(f"on_disk={self.on_disk!r} must be true or false")

    def init(self, num_clients: int, num_parameters: int, folder: Path | None = None) -> ScaffoldState:
        """Return the state before the first round; `folder` is where files may be kept."""
        dtype = precision_of(self.precision)
        rows: Rows = MemoryRows(num_parameters, dtype)
        if self.on_disk:
            if folder is None:
                raise InvalidArgumentError(
                    "on_disk=true needs a folder to keep control variates in; give the run a directory"
                )
            rows = DiskRows(num_parameters, dtype, folder / FILE)
        return ScaffoldState(torch.zeros(num_parameters), np.full(num_clients, -1, dtype=np.int64), rows)

    def restore(self, fresh: LocalState, arrays: Mapping[str, NDArray[Any]]) -> ScaffoldState:
        """Return the state that :meth:`LocalState.to_arrays` saved; `fresh` is what :meth:`init` gave."""
        state = cast(ScaffoldState, fresh)
        control, table = torch.from_numpy(arrays["control"].copy()), arrays["table"].astype(np.int64)
        if isinstance(state.rows, DiskRows):
            rows = DiskRows(state.rows.length, state.rows.dtype, state.rows.path, table)
            return ScaffoldState(control, table, rows)
        table = table.copy()
        table[table >= 0] = state.rows.put(torch.from_numpy(arrays["vectors"]))
        return ScaffoldState(control, table, state.rows)

    def rule(
        self,
        base: LocalRule,
        state: LocalState,
        clients: NDArray[np.int64],
        monitor: Monitor | None,  # noqa: ARG002
    ) -> LocalRule:
        """Return `base` with ``c - c_n`` for each client."""
        held = cast(ScaffoldState, state)
        own = held.rows.get(held.table[clients]).to(held.control.device)
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
        self._table = state.table.copy()
        self._change = torch.zeros_like(state.control)

    def see(self, trained: Trained, start: torch.Tensor) -> None:
        """Take ``-(c - c_n) + (w - y) / (K lr)`` of each client, which is its new control variate."""
        corrections, rows = cast(torch.Tensor, self._rule.corrections), self._before.rows
        for row, place in enumerate(trained.clients):
            if not self._steps[place]:
                continue  # made no step, learnt nothing
            client = self._clients[place]
            new = torch.sub(start, trained.parameters[row])
            new.div_(float(self._steps[place]) * self._rule.learning_rate).sub_(corrections[place])
            new = new.to(rows.dtype).to(torch.float32)  # as it will be read, so that c stays their mean
            self._change.add_(new + corrections[place]).sub_(self._before.control)  # + (c - c_n) - c = - c_n
            self._table[client] = rows.put(new[None])[0]

    def state(self) -> ScaffoldState:
        """Return the state after the round."""
        control = self._before.control + self._change / len(self._table)
        return ScaffoldState(control, self._table, self._before.rows)
