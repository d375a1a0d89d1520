"""What is computed from what in mode ``fhe``, and under which keys it is kept: new clients cost only what is new.

Clients have slots. A batch of slots is taken in at once and gives groups; groups give spans; a span and a right group give a
result. The key of each of these is a digest of the uploads that it depends on.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fedcbs._files import write_whole
from fedcbs.private._fhe_parameters import FheParameters

__all__ = ["Plan", "assign_slots"]

SLOTS_FILE = "slots.json"


def assign_slots(clients: Iterable[str], state: Path | None) -> dict[str, int]:
    """Return a slot for each client: those of the state for whom it knows, the lowest free ones for others."""
    names = list(clients)
    known = _known_slots(state, set(names))
    free = _free(set(known.values()))
    slots = {name: known[name] if name in known else next(free) for name in names}
    if state is not None:

        def write(file: BinaryIO) -> None:
            file.write(json.dumps(slots).encode())

        write_whole(state / SLOTS_FILE, write)
    return slots


def _known_slots(state: Path | None, names: set[str]) -> dict[str, int]:
    if state is None or not (state / SLOTS_FILE).is_file():
        return {}
    with contextlib.suppress(ValueError):
        found = json.loads((state / SLOTS_FILE).read_bytes())
        return {name: slot for name, slot in found.items() if name in names}
    return {}


def _free(taken: set[int]) -> Iterator[int]:
    slot = 0
    while True:
        if slot not in taken:
            yield slot
        slot += 1


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything that is to be computed for some clients.

    Parameters
    ----------
    parameters
        Those of the mode.
    slots
        Of each client.
    digests
        Of each client's upload.
    fingerprint
        Of the keys.
    """

    parameters: FheParameters
    slots: Mapping[str, int]
    digests: Mapping[str, bytes]
    fingerprint: str

    def members(self, size: int) -> dict[int, dict[int, str]]:
        """Return the clients of each stretch of `size` slots, by their place in it."""
        found: dict[int, dict[int, str]] = {}
        for client, slot in sorted(self.slots.items(), key=lambda item: item[1]):
            found.setdefault(slot // size, {})[slot % size] = client
        return found

    def key(self, kind: str, members: Mapping[int, str], *others: str) -> str:
        """Return the key of what depends on these clients at these places, and on other keys."""
        digest = hashlib.sha256(f"{kind}\0{self.fingerprint}\0{self.parameters}\0{others}\0".encode())
        for place, client in members.items():
            digest.update(place.to_bytes(8, "little") + self.digests[client])
        return digest.hexdigest()[:40]

    def stretches(self, kind: str, size: int) -> dict[int, str]:
        """Return the keys of all stretches of `size` slots that have clients."""
        return {number: self.key(kind, members) for number, members in self.members(size).items()}

    def pairs(self) -> dict[tuple[int, int], str]:
        """Return the keys of the results that are needed: (span, right group), so that each two clients meet once."""
        spans = self.stretches("span", self.parameters.span)
        rights = self.stretches("right", self.parameters.right)
        last = {number: max(members) for number, members in self.members(self.parameters.right).items()}
        return {
            (span, right): self.key("product", {}, spans[span], rights[right])
            for right in rights
            for span in spans
            if right * self.parameters.right + last[right] >= span * self.parameters.span
        }
