"""What the clients told about their data, checked when it arrives: label counts, sizes, or encrypted uploads."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedcbs import _checks
from fedcbs.errors import InvalidArgumentError
from fedcbs.flower._errors import WrongAnswerError

__all__ = ["Statement", "Statistics"]


@dataclasses.dataclass(frozen=True)
class Statement:
    """What one client told; what was not asked is None.

    Parameters
    ----------
    label_counts
        Examples of each class, in the clear.
    num_examples
        Number of examples.
    upload
        Label counts as the federation's privacy mode encodes them.
    durations
        Expected seconds of training and of upload.
    """

    label_counts: tuple[int, ...] | None = None
    num_examples: int | None = None
    upload: bytes | None = None
    durations: tuple[float, float] | None = None

    @property
    def size(self) -> int | None:
        """Number of examples, where it was told in the clear."""
        return self.num_examples if self.label_counts is None else sum(self.label_counts)


class Statistics:
    """Statements by name.

    Parameters
    ----------
    num_classes
        Length that label counts must have; None takes that of most clients in the first round.
    max_examples
        Most examples that a client is believed to have: it bounds how much one that lies can weigh.
    """

    def __init__(self, *, num_classes: int | None = None, max_examples: int | None = None) -> None:
        self.num_classes = num_classes
        self._max_examples = max_examples
        self.statements: dict[str, Statement] = {}
        self.version = 0

    def add(self, statements: Mapping[str, Statement]) -> dict[str, str]:
        """Keep what can be; return who was refused, and why."""
        refused = {}
        lengths = Counter(
            len(told.label_counts) for told in statements.values() if told.label_counts is not None
        )
        if self.num_classes is None and lengths:
            self.num_classes = lengths.most_common(1)[0][0]
        for name, told in statements.items():
            try:
                self.statements[name] = self._checked(told)
            except (InvalidArgumentError, WrongAnswerError) as error:
                refused[name] = str(error)
        self.version += len(statements) > len(refused)
        return refused

    def _checked(self, told: Statement) -> Statement:
        sizes = []
        if told.label_counts is not None:
            if len(told.label_counts) != self.num_classes:
                raise WrongAnswerError(
                    f"{len(told.label_counts)} label counts came for {self.num_classes} classes"
                )
            sizes.append(int(_checks.counts_matrix([told.label_counts]).sum()))
        if told.num_examples is not None:
            sizes.append(_checks.integer(told.num_examples, "num_examples", minimum=0))
        if self._max_examples is not None and max(sizes, default=0) > self._max_examples:
            raise WrongAnswerError(f"{max(sizes)} examples are more than max_examples={self._max_examples}")
        if told.durations is not None:
            for seconds in told.durations:
                _checks.real(seconds, "durations", minimum=0, open_minimum=True)
        return told

    def label_counts(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Label counts of these clients, zeros for those that told none."""
        counts = np.zeros((len(names), self.num_classes or 1), dtype=np.int64)
        for row, name in enumerate(names):
            told = self.statements.get(name)
            if told is not None and told.label_counts is not None:
                counts[row] = told.label_counts
        return counts

    def num_examples(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Sizes of these clients, from label counts where those are known; zero where nothing is."""
        told = (self.statements.get(name) for name in names)
        return np.array([0 if one is None else one.size or 0 for one in told], dtype=np.int64)
