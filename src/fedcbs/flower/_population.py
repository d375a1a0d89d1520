"""Who is in the federation: clients by name, in a fixed order, and the nodes that they are behind today.

Flower's node ids change: in simulation with each run, in deployment when a node without a key of its own restarts. So a
client is known by a name: that which its operator gave (``fedcbs-name`` in the node's configuration), else its
``partition-id``, else the SuperNode's own name, else the node id. Indices of clients are those of the sorted names;
clients that join later are appended.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

__all__ = ["Arrival", "Population"]


@dataclasses.dataclass(frozen=True)
class Arrival:
    """A node that said who it is."""

    node_id: int
    name: str


class Population:
    """The clients seen so far.

    Examples
    --------
    >>> population = Population()
    >>> population.admit([Arrival(77, "b"), Arrival(12, "a")])
    >>> population.names, population.index_of("b"), population.node_of("b")
    (['a', 'b'], 1, 77)
    >>> population.conflicts([Arrival(5, "b")], online={77, 5})
    {5: "client 'b' is behind node 77 already"}
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self._indices: dict[str, int] = {}
        self._nodes: dict[str, int] = {}
        self._clients: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: str) -> bool:
        return name in self._indices

    def conflicts(self, arrivals: Iterable[Arrival], online: set[int]) -> dict[int, str]:
        """Nodes that claim a name which another node online has, and why they are refused."""
        refused: dict[int, str] = {}
        holders = {name: node for name, node in self._nodes.items() if node in online}
        for arrival in sorted(arrivals, key=lambda one: (one.name, one.node_id)):
            holder = holders.setdefault(arrival.name, arrival.node_id)
            if holder != arrival.node_id:
                refused[arrival.node_id] = f"client {arrival.name!r} is behind node {holder} already"
        return refused

    def admit(self, arrivals: Iterable[Arrival]) -> None:
        """Note who is behind which node; new names are appended in their order."""
        for arrival in sorted(arrivals, key=lambda one: (one.name, one.node_id)):
            self._bind(arrival)

    def remember(self, names: Iterable[str]) -> None:
        """Append clients known from before, in their order; nobody knows yet behind which nodes they are."""
        for name in names:
            if name not in self._indices:
                self._indices[name] = len(self.names)
                self.names.append(name)

    def _bind(self, arrival: Arrival) -> None:
        self.remember([arrival.name])
        self._clients.pop(self._nodes.get(arrival.name, -1), None)
        self._nodes[arrival.name] = arrival.node_id
        self._clients[arrival.node_id] = arrival.name

    def knows(self, node_id: int) -> bool:
        """Whether a node said who it is."""
        return node_id in self._clients

    def name_of(self, node_id: int) -> str | None:
        """The client behind a node."""
        return self._clients.get(node_id)

    def index_of(self, name: str) -> int:
        """Index of a client."""
        return self._indices[name]

    def node_of(self, name: str) -> int:
        """The node that a client is behind."""
        return self._nodes[name]

    def nodes(self) -> Mapping[int, str]:
        """All clients by node."""
        return self._clients
