"""A view of a Flower grid in which only some nodes exist.

Not a subclass of :class:`flwr.serverapp.Grid` but registered as one: what Flower adds to, renames in or removes from that
class reaches the real grid, whatever the version.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

from flwr.serverapp import Grid

__all__ = ["SelectedGrid"]


@final
class SelectedGrid:
    """The grid as a strategy sees it once the cohort is chosen.

    Parameters
    ----------
    grid
        The real one; everything but the lists of nodes is its own.
    node_ids
        The nodes that exist.
    """

    def __init__(self, grid: Grid, node_ids: Iterable[int]) -> None:
        self._grid = grid
        self._node_ids = list(node_ids)

    def get_node_ids(self) -> list[int]:
        """Nodes of the view."""
        return list(self._node_ids)

    def get_nodes(self) -> list[Any]:
        """What is known of the nodes of the view, where Flower tells it."""
        shown = set(self._node_ids)
        return [node for node in self._grid.get_nodes() if node.node_id in shown]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)


Grid.register(SelectedGrid)
