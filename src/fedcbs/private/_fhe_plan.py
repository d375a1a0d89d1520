"""What is computed from what in mode ``fhe``, and under which keys it is kept: new clients cost only what is new.

Clients have slots. A batch of slots is taken in at once and gives groups; groups give spans; a span and a right group give a
result. The key of each of these is a digest of the uploads that it depends on.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from fedcbs._files import write_whole
from fedcbs.errors import InvalidArgumentError
from fedcbs.private._blocks import Blocks
from fedcbs.private._fhe_parameters import FheParameters

__all__ = ["Plan", "assign_slots", "forget", "write_index"]

SLOTS_FILE, INDEX_FILE = "slots.json", "index.json"


def assign_slots(clients: Iterable[str], state: Path | None) -> dict[str, int]:
    """Return a slot for each client: those of the state for whom it knows, the lowest free ones for others."""
    names = list(clients)
    known = _known_slots(state, set(names))
    free = _free(set(known.values()))
    slots = {name: known[name] if name in known else next(free) for name in names}
    if state is not None:
        _write(state / SLOTS_FILE, slots)
    return slots


def _known_slots(state: Path | None, names: set[str]) -> dict[str, int]:
    if state is None:
        return {}
    return {name: slot for name, slot in _read(state / SLOTS_FILE).items() if name in names}


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

    def stretches_of(self) -> dict[str, list[tuple[int, int]]]:
        """Return the stretches of slots that each block depends on."""
        parameters = self.parameters
        spans = self.stretches("span", parameters.span)
        both = parameters.left * parameters.right
        sizes = {"batch": parameters.batch, "span": parameters.span, "sizes": both}
        found = {
            key: [(number * size, (number + 1) * size)]
            for kind, size in sizes.items()
            for number, key in self.stretches(kind, size).items()
        }
        for (span, right), key in self.pairs().items():
            stretch = (right * parameters.right, (right + 1) * parameters.right)
            found[key] = [*found[spans[span]], stretch]
        return found


def write_index(state: Path, plan: Plan) -> None:
    """Write down which blocks depend on which slots, for :func:`forget`."""
    _write(state / INDEX_FILE, plan.stretches_of())


def forget(state: str | os.PathLike[str], client: str) -> int:
    """Delete all blocks in a folder that a client's upload went into; return how many."""
    folder = Path(state)
    if not folder.is_dir():
        raise InvalidArgumentError(f"state={str(state)!r} is no folder of finished blocks")
    kept: set[str] = set()
    if (folder / SLOTS_FILE).is_file():  # else all blocks depend on all clients
        slot = _known_slots(folder, {client}).get(client, -1)
        for key, stretches in _read(folder / INDEX_FILE).items():
            if not any(start <= slot < stop for start, stop in stretches):
                kept.add(key)
    blocks = Blocks(folder)
    with blocks.locked():
        return blocks.keep_only(kept)


def _write(path: Path, document: object) -> None:
    def write(file: BinaryIO) -> None:
        file.write(json.dumps(document).encode())

    write_whole(path, write)


def _read(path: Path) -> dict[str, Any]:
    with contextlib.suppress(ValueError, OSError):
        found = json.loads(path.read_bytes())
        return found if isinstance(found, dict) else {}
    return {}
