"""What an operator sets, checked before the first message is sent."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

from flwr.app import ArrayRecord
from numpy.typing import ArrayLike

from fedcbs import _checks
from fedcbs.errors import InvalidArgumentError

__all__ = ["Settings"]


@dataclasses.dataclass(frozen=True)
class Settings:
    """Options of :func:`fedcbs.flower.with_selector`; its docstring says what they mean."""

    cohort_size: int
    seed: int = 0
    min_clients: int | None = None
    wait: float = 600.0
    query_timeout: float = 120.0
    pause: int = 2
    loss_batch: int = 50
    num_classes: int | None = None
    max_examples: int | None = None
    check_replies: bool = True
    class_gradients: Callable[[ArrayRecord], ArrayLike] | None = None
    out: str | os.PathLike[str] | None = None
    resume: bool = True

    def __post_init__(self) -> None:
        _checks.integer(self.cohort_size, "cohort_size", minimum=1)
        _checks.integer(self.seed, "seed", minimum=0)
        _checks.integer(self.pause, "pause", minimum=0)
        _checks.integer(self.loss_batch, "loss_batch", minimum=1)
        _checks.real(self.wait, "wait", minimum=0)
        _checks.real(self.query_timeout, "query_timeout", minimum=0, open_minimum=True)
        for name in ("min_clients", "num_classes", "max_examples"):
            if getattr(self, name) is not None:
                _checks.integer(getattr(self, name), name, minimum=1)
        if self.class_gradients is not None and not callable(self.class_gradients):
            raise InvalidArgumentError(
                f"class_gradients={self.class_gradients!r} must be a function of the trained arrays"
            )

    @property
    def first_clients(self) -> int:
        """How many clients the first round waits for."""
        return max(self.min_clients or 0, self.cohort_size)

    @property
    def folder(self) -> Path | None:
        """Where the run is recorded and checkpointed."""
        return None if self.out is None else Path(self.out)
