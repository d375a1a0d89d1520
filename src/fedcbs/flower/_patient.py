"""A view of a grid that sends again what a restart of the SuperLink interrupted.

Flower itself waits for a SuperLink that is away for a moment, except where it went while messages were being handed over:
their parts belong to a session that the new SuperLink does not know, and the run would end.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, final

from flwr.app import Message
from flwr.serverapp import Grid

from fedcbs.flower._log import LOG

__all__ = ["PatientGrid"]

TIMES, PAUSE = 5, 3.0
INTERRUPTED = "ObjectPushError"
"""Flower's error for a lost session, which has no public name."""


@final
class PatientGrid:
    """The grid of a run.

    Parameters
    ----------
    grid
        The real one; everything but the sending is its own.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Send and receive as the grid does; messages whose handing over was interrupted are handed over again.

        They are the same messages, so the SuperLink takes only what it lacks of them, and nobody gets one twice.
        """
        sent = list(messages)
        for _ in range(TIMES - 1):
            try:
                return self._grid.send_and_receive(sent, timeout=timeout)
            except Exception as error:
                if type(error).__name__ != INTERRUPTED:
                    raise
                LOG.warning("sending %d messages was interrupted (%s); sending them again", len(sent), error)
            time.sleep(PAUSE)
        return self._grid.send_and_receive(sent, timeout=timeout)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)


Grid.register(PatientGrid)
