"""What the selector learns from the clients that trained; computed only where it says so."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray

from fedcbs.engine import Engine, Trained
from fedcbs.selectors import Feedback, Need, Selector
from fedcbs.simulation._faults import Fate
from fedcbs.simulation._information import SimulatedInformation

__all__ = ["Lessons"]


@final
class Lessons:
    """Gathers, while clients finish, what the selector wants to learn.

    Parameters
    ----------
    selector
        Whose `learns` decides.
    engine, auxiliary
        For gradients on the server's own examples.
    num_answers
        How many clients will answer.
    """

    def __init__(
        self,
        selector: Selector[Any],
        engine: Engine,
        auxiliary: tuple[NDArray[np.int64], ...],
        num_answers: int,
    ) -> None:
        self._learns, self._engine, self._auxiliary = selector.learns, engine, auxiliary
        self._updates = np.zeros((0, 0), dtype=np.float32)
        if Need.UPDATES in self._learns:
            self._updates = np.zeros((num_answers, engine.num_parameters), dtype=np.float32)
        self._gradients = np.zeros((num_answers, len(auxiliary)))

    def watch(self, trained: Trained, start: torch.Tensor) -> None:
        """Look at some clients after their training."""
        rows = slice(trained.clients.start, trained.clients.stop)
        if Need.UPDATES in self._learns:
            torch.sub(trained.parameters, start, out=torch.from_numpy(self._updates[rows]))
        if Need.CLASS_GRADIENTS in self._learns:
            self._gradients[rows] = self._engine.class_gradients(
                trained.parameters, trained.buffers, self._auxiliary
            )

    def feedback(self, fate: Fate, information: SimulatedInformation) -> Feedback:
        """Return what came back from the round."""
        losses = rms_losses = None
        if self._learns & {Need.LOSSES, Need.RMS_LOSSES}:
            moments = information.loss_moments(fate.answered)
            losses, rms_losses = moments[:, 0], np.sqrt(moments[:, 1])
        return Feedback(
            answered=fate.answered,
            failed=fate.failed,
            losses=losses if Need.LOSSES in self._learns else None,
            rms_losses=rms_losses if Need.RMS_LOSSES in self._learns else None,
            updates=self._updates if Need.UPDATES in self._learns else None,
            durations=fate.durations if Need.DURATIONS in self._learns else None,
            class_gradients=self._gradients if Need.CLASS_GRADIENTS in self._learns else None,
        )
