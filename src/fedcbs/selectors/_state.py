"""What a selector remembers between rounds: explicit, immutable, and saved as plain arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from fedcbs._rows import ClientRows
from fedcbs.errors import InvalidArgumentError

__all__ = ["State"]


@dataclasses.dataclass(frozen=True, eq=False)
class State:
    """Base of all states. Fields are arrays; a subclass adds its own.

    Parameters
    ----------
    times_selected
        How often each client was selected so far.

    Examples
    --------
    >>> state = State(times_selected=np.array([2, 0]))
    >>> arrays = state.to_arrays()  # np.savez(path, **arrays) keeps it
    >>> State.from_arrays(arrays).times_selected
    array([2, 0])
    """

    times_selected: NDArray[np.int64]

    @property
    def num_clients(self) -> int:
        """Number of clients in the population."""
        return len(self.times_selected)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as named arrays."""
        return {field.name: np.asarray(getattr(self, field.name)) for field in dataclasses.fields(self)}

    def on_disk(self) -> tuple[ClientRows, ...]:
        """Return what of the state is in a file; whoever holds it keeps it there."""
        return ()

    @final
    def check(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Refuse arrays whose kind or shape is not that of this state; where it has no rows yet, any number will do."""
        own = self.to_arrays()
        if set(own) != set(arrays):
            raise InvalidArgumentError(
                f"arrays holds {sorted(arrays)}, but a {type(self).__name__} is made of {sorted(own)}; "
                "was it saved by another selector?"
            )
        for name, wanted in own.items():
            given = np.asarray(arrays[name])
            fits = given.ndim == wanted.ndim and given.dtype.kind == wanted.dtype.kind
            if not fits or any(w not in (0, g) for g, w in zip(given.shape, wanted.shape, strict=True)):
                raise InvalidArgumentError(
                    f"{name} is {given.dtype} of shape {given.shape}, where a {type(self).__name__} of {self.num_clients} "
                    f"clients has {wanted.dtype} of shape {wanted.shape}; was it saved by another selector?"
                )

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Restore a state from what :meth:`to_arrays` returned."""
        names = {field.name for field in dataclasses.fields(cls)}
        if names != set(arrays):
            raise InvalidArgumentError(
                f"arrays holds {sorted(arrays)}, but a {cls.__name__} is made of {sorted(names)}; "
                "was it saved by another selector?"
            )
        return cls(**{name: np.asarray(arrays[name]) for name in names})

    def with_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return a state that keeps things where this one does, from what :meth:`to_arrays` returned."""
        return type(self).from_arrays(arrays)
