"""A function of tensors recorded once as a CUDA graph: afterwards a GPU does all of it at one word from Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import torch

__all__ = ["Recorded"]

WARM_UPS = 2
"""Calls before recording, in which the libraries behind PyTorch set themselves up."""


@final
class Recorded:
    """A function whose launches were recorded, with memory of its own for what goes in and what comes out.

    Small kernels wait for Python, which takes longer to name one than a GPU to run it; a recording has named them all.
    Python itself does not run again, so that the function must depend on its arguments alone.

    Parameters
    ----------
    function
        Takes tensors on one GPU and returns tensors; it may change its arguments.
    arguments
        An example, which stays as it is.
    """

    def __init__(
        self,
        function: Callable[..., tuple[torch.Tensor, ...]],
        arguments: tuple[torch.Tensor, ...],
    ) -> None:
        self._arguments = tuple(each.clone() for each in arguments)
        beside = torch.cuda.Stream(self._arguments[0].device)  # type: ignore[no-untyped-call]  # PyTorch says no types
        beside.wait_stream(torch.cuda.current_stream(beside.device))
        with torch.cuda.stream(beside):
            for _ in range(WARM_UPS):
                function(*self._arguments)
        torch.cuda.current_stream(beside.device).wait_stream(beside)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=beside):
            self._results = function(*self._arguments)

    def __call__(self, *arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """What the function returns for the arguments, until the next call; its changes to them are not seen."""
        for own, given in zip(self._arguments, arguments, strict=True):
            own.copy_(given)
        self._graph.replay()
        return self._results
