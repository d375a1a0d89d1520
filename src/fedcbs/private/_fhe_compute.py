"""The server's long computation in mode ``fhe``: what is missing is computed by several processes, and kept at once."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, final

import numpy as np

from fedcbs.errors import ProtocolError
from fedcbs.private._blocks import Blocks
from fedcbs.private._fhe_intake import SYNDROMES, Intake
from fedcbs.private._fhe_parameters import FheParameters
from fedcbs.private._fhe_plan import Plan, assign_slots
from fedcbs.private._fhe_release import released_size
from fedcbs.private._fhe_server import FheServer
from fedcbs.private._keys import PublicKeys
from fedcbs.private._mode import Accepted, Work
from fedcbs.private._wire import Message, Section, unpack
from fedcbs.private._workers import Pool

__all__ = ["Computation"]

LARGEST_HEADER = 1 << 20


@final
class Computation:
    """One run over some uploads.

    Parameters
    ----------
    parameters, public
        Those of the mode, and the selector's public keys.
    uploads
        Payloads; those that turn out to be of no use are refused there.
    work
        How it is done.
    """

    def __init__(self, parameters: FheParameters, public: PublicKeys, uploads: Accepted, work: Work) -> None:
        self.parameters = parameters
        self._uploads, self._work = uploads, work
        self._parts = {name: public.parts[name] for name in ("encryption", "relinearisation", "splitting")}
        self.blocks = Blocks(work.state)
        digests = dict(uploads.digests)
        self.plan = Plan(parameters, assign_slots(uploads, work.state), digests, public.fingerprint)
        self._batches = self.plan.stretches("batch", parameters.batch)
        self._read = functools.lru_cache(maxsize=2)(self._read_batch)
        self._done, self._total = 0, len(self._batches)

    def take_in(self) -> None:
        """Check all uploads and put them into groups; whoever is refused is left out from then on."""
        members = self.plan.members(self.parameters.batch)
        tasks = {
            number: self._payloads(members[number])
            for number, key in self._batches.items()
            if key not in self.blocks
        }
        self._run(Intake, (self.parameters, self._parts), "batch", tasks, self._batches)
        for number in self._batches:
            for place, reason in self._read(number).header["refused"].items():
                error = self._uploads.refuse(members[number][int(place)], reason)
                self._work.on_refusal(error)
        if not self._uploads:
            raise ProtocolError("no upload can be used; see the reasons for which each was refused")

    def gram(self) -> list[Section]:
        """Compute all results, and return the sections of the message to the selector."""
        parameters = self.parameters
        spans, sizes = self._spans(), self._sizes()
        pairs = {
            pair: key for pair, key in self.plan.pairs().items() if pair[0] in spans and self._right(pair[1])
        }
        rights = sorted({right for _, right in pairs})
        self._total = len(self._batches) + len(spans) + len(sizes) + len(rights)
        groups = {
            **{("span", n): key for n, key in spans.items()},
            **{("sizes", n): key for n, key in sizes.items()},
        }
        for kind in ("span", "sizes"):
            keys = {n: key for (found, n), key in groups.items() if found == kind}
            tasks = {n: self._groups(kind, n) for n, key in keys.items() if key not in self.blocks}
            self._run(FheServer, (parameters, self._parts), kind, tasks, keys)
        missing = {
            right: [s for s in spans if (s, right) in pairs and pairs[s, right] not in self.blocks]
            for right in rights
        }
        self._products(pairs, {right: found for right, found in missing.items() if found}, spans)
        self._work.progress(self._total, self._total)
        self.blocks.keep_only({*self._batches.values(), *spans.values(), *sizes.values(), *pairs.values()})
        meta = {"batches": self._orders(), "sizes": list(sizes), "pairs": [list(pair) for pair in pairs]}
        return [*self.head(meta), self._section(sizes.values()), self._section(pairs.values())]

    def head(self, meta: dict[str, Any]) -> list[Section]:
        """Return what every message begins with: slots, what follows, and the checks of all batches."""
        slots = np.array([self.plan.slots[client] for client in self._uploads], dtype="<i8").tobytes()
        text = json.dumps(meta).encode()
        checks = [part for number in self.present() for part in self._read(number).sections[-SYNDROMES:]]
        return [
            Section(len(slots), [slots]),
            Section(len(text), [text]),
            Section(released_size(self.parameters) * len(checks), checks),
        ]

    def present(self) -> list[int]:
        """Return the batches in which somebody was accepted."""
        return [number for number in self._batches if self._read(number).header["left"]]

    def _orders(self) -> list[list[Any]]:
        return [[number, self._read(number).header["order"]] for number in self.present()]

    # Parts of batches.

    def _read_batch(self, number: int) -> Message:
        return unpack(self.blocks[self._batches[number]], "batch", largest_header=LARGEST_HEADER)

    def left(self, group: int) -> bytes | None:
        """Return a left group, if somebody in it was accepted."""
        return self._part("left", group * self.parameters.left, self.parameters.left)

    def _right(self, group: int) -> bytes | None:
        return self._part("right", group * self.parameters.right, self.parameters.right)

    def _part(self, side: str, slot: int, size: int) -> bytes | None:
        batch, place = divmod(slot, self.parameters.batch)
        if batch not in self._batches:
            return None
        found = self._read(batch)
        groups = found.header[side]
        if place // size not in groups:
            return None
        start = 0 if side == "left" else len(found.header["left"])
        return bytes(found.sections[start + groups.index(place // size)])

    def _groups_in(self, kind: str, number: int) -> dict[int, bytes]:
        """The left groups of a span, or of a result with sizes."""
        count = self.parameters.columns if kind == "span" else self.parameters.right
        found = {place: self.left(number * count + place) for place in range(count)}
        return {place: group for place, group in found.items() if group is not None}

    def _spans(self) -> dict[int, str]:
        keys = self.plan.stretches("span", self.parameters.span)
        return {number: key for number, key in keys.items() if self._groups_in("span", number)}

    def _sizes(self) -> dict[int, str]:
        keys = self.plan.stretches("sizes", self.parameters.left * self.parameters.right)
        return {number: key for number, key in keys.items() if self._groups_in("sizes", number)}

    # Tasks.

    def _payloads(self, members: dict[int, str]) -> Callable[[], tuple[Any, ...]]:
        return lambda: ({place: bytes(self._uploads[client]) for place, client in members.items()},)

    def _groups(self, kind: str, number: int) -> Callable[[], tuple[Any, ...]]:
        return lambda: (self._groups_in(kind, number),)

    def _products(
        self, pairs: dict[tuple[int, int], str], missing: dict[int, list[int]], spans: dict[int, str]
    ) -> None:
        needed = sorted({span for found in missing.values() for span in found})
        arguments = (self.parameters, self._parts, {span: self.blocks[spans[span]] for span in needed})
        tasks = {right: self._factors(right, found) for right, found in missing.items()}
        for right, results in self._map(FheServer, arguments, "products", tasks):
            for span, result in zip(missing[right], results, strict=True):
                self.blocks[pairs[span, right]] = result

    def _factors(self, right: int, spans: list[int]) -> Callable[[], tuple[Any, ...]]:
        return lambda: (self._right(right), spans)

    def _run(
        self,
        kind: Any,
        arguments: tuple[Any, ...],
        method: str,
        tasks: dict[int, Callable[[], Any]],
        keys: dict[int, str],
    ) -> None:
        for number, found in self._map(kind, arguments, method, tasks):
            self.blocks[keys[number]] = found
        self._done += len(keys) - len(tasks)

    def _map(
        self, kind: Any, arguments: tuple[Any, ...], method: str, tasks: dict[int, Callable[[], Any]]
    ) -> Iterator[tuple[int, Any]]:
        processes = min(self._work.processes, len(tasks))
        with Pool(kind, arguments, processes=processes) as pool:
            for found in pool.map(method, tasks):
                yield found
                self._done += 1
                self._work.progress(self._done, max(self._total, self._done))

    def _section(self, keys: Iterable[str]) -> Section:
        found = list(keys)
        return Section(released_size(self.parameters) * len(found), (self.blocks[key] for key in found))
