"""The server's long computation in mode ``fhe``: what is missing is computed by several processes, and kept at once."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, final

import numpy as np

from fedcbs.errors import ProtocolError
from fedcbs.private._blocks import Blocks
from fedcbs.private._fhe_intake import SYNDROMES
from fedcbs.private._fhe_parameters import FheParameters
from fedcbs.private._fhe_plan import Plan, assign_slots, write_index
from fedcbs.private._fhe_release import Guards, released_size
from fedcbs.private._fhe_worker import Part, Worker, read_batch
from fedcbs.private._keys import PublicKeys
from fedcbs.private._mode import Accepted, Work
from fedcbs.private._wire import Section
from fedcbs.private._workers import Pool

__all__ = ["Computation", "computing"]

CLIENTS_FOR_A_PROCESS = 256
"""With fewer clients a process takes longer to start than it saves."""


@contextlib.contextmanager
def computing(
    parameters: FheParameters, public: PublicKeys, uploads: Accepted, work: Work, guards: Guards | None = None
) -> Iterator[Computation]:
    """Give a computation that has its processes, and a folder for what they share."""
    with contextlib.ExitStack() as stack:
        state = work.state
        processes = min(work.processes, math.ceil(len(uploads) / CLIENTS_FOR_A_PROCESS))
        if state is None and processes > 0:
            state = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedcbs-")))
        blocks = Blocks(state)
        stack.enter_context(blocks.locked())
        parts = {name: public.parts[name] for name in ("encryption", "relinearisation", "splitting")}
        pool = Pool(Worker, (parameters, parts, blocks, guards), processes=processes)
        stack.enter_context(pool)
        plan = Plan(parameters, assign_slots(uploads, state), dict(uploads.digests), public.fingerprint)
        if state is not None:
            write_index(state, plan)
        yield Computation(plan, uploads, blocks, pool, work)


@final
class Computation:
    """One run over some uploads.

    Parameters
    ----------
    plan
        What depends on what.
    uploads
        Payloads; those that turn out to be of no use are refused there.
    blocks, pool
        What is finished, and who computes what is not.
    work
        Who is told what.
    """

    def __init__(self, plan: Plan, uploads: Accepted, blocks: Blocks, pool: Pool, work: Work) -> None:
        self.parameters, self.plan, self.blocks = plan.parameters, plan, blocks
        self._uploads, self._pool, self._work = uploads, pool, work
        self._batches = plan.stretches("batch", self.parameters.batch)
        self._read = functools.lru_cache(maxsize=2)(lambda number: read_batch(blocks, self._batches[number]))
        self._done, self._total = 0, len(self._batches)

    def take_in(self) -> None:
        """Check all uploads and put them into groups; whoever is refused is left out from then on."""
        members = self.plan.members(self.parameters.batch)
        self._run("batch", self._batches, lambda number: (self._payloads(members[number]),))
        for number in self._batches:
            for place, reason in self._read(number).header["refused"].items():
                error = self._uploads.refuse(members[number][int(place)], reason)
                self._work.on_refusal(error)
        if not self._uploads:
            raise ProtocolError("no upload can be used; see the reasons for which each was refused")

    def gram(self) -> list[Section]:
        """Compute all results, and return the sections of the message to the selector."""
        spans, sizes = self.spans(), self.sizes()
        pairs = {
            pair: key for pair, key in self.plan.pairs().items() if pair[0] in spans and self._right(pair[1])
        }
        self._total = len(self._batches) + len(spans) + len(sizes) + len({right for _, right in pairs})
        self.make_spans(spans)
        self.make_sizes(sizes)
        self._make_products(pairs, spans)
        self.blocks.keep_only({*self._batches.values(), *spans.values(), *sizes.values(), *pairs.values()})
        meta = {"batches": self.orders(), "sizes": list(sizes), "pairs": [list(pair) for pair in pairs]}
        return [*self.head(meta), self.section(sizes.values()), self.section(pairs.values())]

    def make_spans(self, spans: dict[int, str]) -> None:
        """Compute left spans."""
        self._run("span", spans, lambda number: (self._groups("span", number),))

    def make_sizes(self, sizes: dict[int, str]) -> None:
        """Compute sizes of clients."""
        self._run("sizes", sizes, lambda number: (self._groups("sizes", number),))

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

    def orders(self) -> list[list[Any]]:
        """Return the secret order in which each batch was checked."""
        return [[number, self._read(number).header["order"]] for number in self.present()]

    def left(self, group: int) -> Part | None:
        """Return where a left group is, if somebody in it was accepted."""
        return self._part("left", group * self.parameters.left, self.parameters.left)

    def _right(self, group: int) -> Part | None:
        return self._part("right", group * self.parameters.right, self.parameters.right)

    def _part(self, side: str, slot: int, size: int) -> Part | None:
        batch, place = divmod(slot, self.parameters.batch)
        if batch not in self._batches:
            return None
        header = self._read(batch).header
        if place // size not in header[side]:
            return None
        start = 0 if side == "left" else len(header["left"])
        return self._batches[batch], start + header[side].index(place // size)

    def _groups(self, kind: str, number: int) -> dict[int, Part]:
        """The left groups of a span, or of a result with sizes, by their places in it."""
        count = self.parameters.columns if kind == "span" else self.parameters.right
        found = {place: self.left(number * count + place) for place in range(count)}
        return {place: group for place, group in found.items() if group is not None}

    def spans(self) -> dict[int, str]:
        """Return the keys of the left spans."""
        keys = self.plan.stretches("span", self.parameters.span)
        return {number: key for number, key in keys.items() if self._groups("span", number)}

    def sizes(self) -> dict[int, str]:
        """Return the keys of the results with sizes."""
        keys = self.plan.stretches("sizes", self.parameters.left * self.parameters.right)
        return {number: key for number, key in keys.items() if self._groups("sizes", number)}

    def row(self, client: str, spans: list[str]) -> list[bytes]:
        """Return the results of one client with all spans; they are not kept."""
        task = functools.partial(tuple, (bytes(self._uploads[client]), spans))
        ((_, found),) = self._pool.map("products", {client: task})
        return list(found)

    def diagonal(self, group: int) -> bytes:
        """Return the result with the diagonal of a left group, where a batch has them."""
        part = self.left(group)
        assert part is not None  # it is asked for groups that are there
        message = read_batch(self.blocks, part[0])
        return bytes(message.sections[part[1] + len(message.header["left"])])

    def section(self, keys: Iterable[str]) -> Section:
        """Return a section of results."""
        found = list(keys)
        return Section(released_size(self.parameters) * len(found), (self.blocks[key] for key in found))

    def _payloads(self, members: dict[int, str]) -> dict[int, bytes]:
        return {place: bytes(self._uploads[client]) for place, client in members.items()}

    def _make_products(self, pairs: dict[tuple[int, int], str], spans: dict[int, str]) -> None:
        missing: dict[int, list[int]] = {right: [] for _, right in pairs}
        for (span, right), key in pairs.items():
            if key not in self.blocks:
                missing[right].append(span)
        self._tell(sum(not found for found in missing.values()))
        tasks = {
            right: functools.partial(self._factors, right, [spans[span] for span in found])
            for right, found in missing.items()
            if found
        }
        for right, results in self._pool.map("products", tasks):
            for span, result in zip(missing[right], results, strict=True):
                self.blocks[pairs[span, right]] = result
            self._tell(1)

    def _factors(self, right: int, spans: list[str]) -> tuple[Any, ...]:
        return self._right(right), spans

    def _run(self, method: str, keys: dict[int, str], arguments: Callable[[int], tuple[Any, ...]]) -> None:
        """Compute what is missing of some blocks."""
        missing = [number for number, key in keys.items() if key not in self.blocks]
        self._tell(len(keys) - len(missing))
        tasks = {number: functools.partial(arguments, number) for number in missing}
        for number, found in self._pool.map(method, tasks):
            self.blocks[keys[number]] = found
            self._tell(1)

    def _tell(self, done: int) -> None:
        self._done += done
        self._work.progress(self._done, max(self._total, self._done))
