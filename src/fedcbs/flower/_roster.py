"""Who can be picked: nodes that are online, said who they are, told what was asked, and did not fail lately."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from flwr.app import RecordDict
from flwr.serverapp import Grid

from fedcbs.flower._absences import Absences
from fedcbs.flower._ask import NO_ANSWER, Traffic, ask
from fedcbs.flower._chooser import Chooser, Question
from fedcbs.flower._errors import FederationError, WrongAnswerError
from fedcbs.flower._grid import SelectedGrid
from fedcbs.flower._log import LOG
from fedcbs.flower._population import Arrival, Population
from fedcbs.flower._settings import Settings
from fedcbs.flower._statistics import Statement, Statistics
from fedcbs.flower._wire import Query, blob, packed, values

__all__ = ["Roster"]

POLL = 1.0
"""Seconds between two looks at who is online."""
AGAIN = 15.0
"""Seconds until a node that did not answer is asked again while a round waits for it."""


class Roster:
    """Meets nodes, and says who is available.

    Parameters
    ----------
    settings
        How many clients to wait for, and how long.
    chooser
        Whose questions newcomers are asked.
    """

    def __init__(self, settings: Settings, chooser: Chooser) -> None:
        self._settings = settings
        self._chooser = chooser
        self.population = Population()
        self.statistics = Statistics(num_classes=settings.num_classes, max_examples=settings.max_examples)
        self.absences = Absences(settings.pause)
        self.traffic = Traffic()
        self._deferred: dict[int, int] = {}
        self._settled: int | None = None
        self._mismatched: set[str] = set()
        self._barred: dict[str, int] = {}

    def available(self, grid: Grid, round_index: int) -> list[str]:
        """Names of the clients that can be picked in a round, after waiting for enough of them."""
        ready = self._wait(grid, round_index)
        ready = [name for name in ready if self._barred.get(name) != round_index]
        if not ready:
            raise FederationError(
                f"none of the clients that selection asked in round {round_index} gave a usable answer; see the warnings "
                "above for what each of them lacks"
            )
        free = [name for name in ready if not self.absences.excused(name, round_index)]
        missing = self._settings.cohort_size - len(free)
        if missing > 0:  # rather somebody who failed lately than a smaller cohort
            free += self.absences.soonest(set(ready) - set(free), missing)
        return sorted(free, key=self.population.index_of)

    def clients_only(self, grid: Grid) -> Grid:
        """View of the grid without the nodes that are no clients."""
        own = self._chooser.own_nodes(grid)
        if not own:
            return grid
        view: Any = SelectedGrid(grid, [node for node in grid.get_node_ids() if node not in own])
        return cast(Grid, view)

    def take_traffic(self) -> Traffic:
        """Bytes of questions to newcomers since the last call."""
        taken, self.traffic = self.traffic, Traffic()
        return taken

    def mismatches(self, trained: Mapping[str, int]) -> list[str]:
        """Clients that trained on another number of examples than they told; each is named once."""
        told = self.statistics.statements
        sizes = {name: told[name].size for name in trained if name in told}
        wrong = [
            name
            for name, size in sizes.items()
            if size is not None and size != trained[name] and name not in self._mismatched
        ]
        for name in wrong:
            LOG.warning(
                "client %s told %d examples but trained on %d: it holds some back for validation, or one number is false",
                name,
                sizes[name],
                trained[name],
            )
        self._mismatched.update(wrong)
        return wrong

    def missed(self, reasons: Mapping[str, str], round_index: int) -> None:
        """Note clients that did not answer, or not usably."""
        for name, why in reasons.items():
            LOG.warning("client %s gave no usable answer: %s", name, why)
        self.absences.missed(reasons, round_index)

    def bar(self, names: Iterable[str], round_index: int) -> None:
        """Leave clients out of this round, whatever happens."""
        self._barred.update(dict.fromkeys(names, round_index))

    def _wait(self, grid: Grid, round_index: int) -> list[str]:
        wanted = self._settings.first_clients if not self.population.nodes() else self._settings.cohort_size
        if self._settled is not None:
            wanted = min(wanted, self._settled)
        start = said = asked = time.monotonic()
        while True:
            online = set(grid.get_node_ids())
            self._meet(grid, online, round_index)
            ready = self._ready(online)
            now = time.monotonic()
            if len(ready) >= wanted:
                return ready
            if now - start >= self._settings.wait:
                return self._go_on_with(ready, wanted)
            if now - said >= 10 or now - start < POLL:
                LOG.info("%d clients are ready, waiting for %d (%.0f s)", len(ready), wanted, now - start)
                said = now
            if now - asked >= AGAIN:
                self._deferred, asked = {}, now
            time.sleep(POLL)

    def _go_on_with(self, ready: list[str], wanted: int) -> list[str]:
        if not ready:
            raise FederationError(
                f"no client was ready within wait={self._settings.wait:g} s; start the nodes, or see in their logs why "
                "they do not answer"
            )
        LOG.warning(
            "only %d of %d clients came within %g s; going on with them",
            len(ready),
            wanted,
            self._settings.wait,
        )
        self._settled = len(ready)
        return ready

    def _ready(self, online: set[int]) -> list[str]:
        """Clients online that told what was asked, and have examples where that is known."""
        ready = []
        for node, name in self.population.nodes().items():
            told = self.statistics.statements.get(name)
            if node in online and told is not None and told.size != 0:
                ready.append(name)
        return ready

    def _meet(self, grid: Grid, online: set[int], round_index: int) -> None:
        """Ask nodes seen for the first time who they are, and what the selector wants to know."""
        strangers = [node for node in online if not self.population.knows(node)]
        new = [node for node in strangers if self._deferred.get(node, 0) <= round_index]
        if new:
            own = self._chooser.own_nodes(grid)
            new = [node for node in new if node not in own]
        if not new:
            return
        if self.statistics.statements:  # some of them may have been here before, as other nodes
            new = self._recognise(grid, new, online, round_index)
        if new:
            self._interview(grid, new, online, round_index)

    def _recognise(self, grid: Grid, new: list[int], online: set[int], round_index: int) -> list[int]:
        """Bind nodes whose clients are known already; return the others."""
        answers = ask(grid, dict.fromkeys(new, packed({})), Query.HELLO, timeout=self._settings.query_timeout)
        self.traffic.add(answers.traffic)
        self._defer({node: why for node, why in answers.failed.items() if why == NO_ANSWER}, round_index)
        mute = [node for node, why in answers.failed.items() if why != NO_ANSWER]
        names = self._names(grid, {**answers.contents, **dict.fromkeys(mute, RecordDict())})
        known = [Arrival(node, name) for node, name in names.items() if name in self.statistics.statements]
        conflicts = self.population.conflicts(known, online)
        self._defer(conflicts, round_index)
        self.population.admit(one for one in known if one.node_id not in conflicts)
        recognised = {one.node_id for one in known}
        return [node for node in names if node not in recognised]

    def _interview(self, grid: Grid, new: list[int], online: set[int], round_index: int) -> None:
        """Ask nodes for their statistics, and admit those whose answers can be used."""
        question = self._chooser.question()
        content = packed(question.entries, question.blobs)
        timeout = self._settings.query_timeout
        answers = ask(grid, dict.fromkeys(new, content), Query.STATISTICS, timeout=timeout)
        self.traffic.add(answers.traffic)
        failed = dict(answers.failed)
        heard: dict[int, RecordDict] = dict(answers.contents)
        if not question.entries["ask"]:  # an app without answers will do
            mute = [node for node, why in failed.items() if why != NO_ANSWER]
            heard |= {node: RecordDict() for node in mute}
            failed = {node: why for node, why in failed.items() if why == NO_ANSWER}
        told = _statements(heard, question, failed)
        names = self._names(grid, {node: heard[node] for node in told})
        self._admit(names, told, failed, online)
        self._defer(failed, round_index)

    def _admit(
        self,
        names: Mapping[int, str],
        told: Mapping[int, Statement],
        failed: dict[int, str],
        online: set[int],
    ) -> None:
        """Keep what can be kept; the nodes of the others go to `failed`."""
        arrivals = [Arrival(node, name) for node, name in names.items()]
        failed |= self.population.conflicts(arrivals, online)
        nodes = {name: node for node, name in names.items() if node not in failed}
        refused = self._refused({name: told[node] for name, node in nodes.items()})
        failed |= {nodes[name]: f"{name}: {why}" for name, why in refused.items()}
        welcome = [arrival for arrival in arrivals if arrival.node_id not in failed]
        self.population.admit(welcome)
        LOG.info("%d clients joined, %d in all", len(welcome), len(self.population))

    def _refused(self, told: Mapping[str, Statement]) -> dict[str, str]:
        """Keep what clients told; return those whose answers cannot be used."""
        uploads = {name: one.upload for name, one in told.items() if one.upload is not None}
        refused = dict(self._chooser.admit(uploads)) if uploads else {}
        return refused | self.statistics.add({name: one for name, one in told.items() if name not in refused})

    def _defer(self, failed: Mapping[int, str], round_index: int) -> None:
        """Leave nodes alone for some rounds, and say why."""
        for node, why in failed.items():
            LOG.warning("node %d is left out for %d rounds: %s", node, self._settings.pause, why)
            self._deferred[node] = round_index + 1 + self._settings.pause

    def _names(self, grid: Grid, contents: Mapping[int, RecordDict]) -> dict[int, str]:
        """Name of the client behind each node: what it said, else its key, else its number."""
        names = {node: _own_name(content) for node, content in contents.items()}
        nameless = {node for node, name in names.items() if not name}
        if nameless:
            infos = {info.node_id: info for info in _infos(grid)}
            names |= {node: _key_name(infos.get(node), node) for node in nameless}
        return names


def _infos(grid: Grid) -> Iterable[Any]:
    get_nodes: Callable[[], Iterable[Any]] | None = getattr(grid, "get_nodes", None)
    return get_nodes() if get_nodes is not None else ()


def _key_name(info: Any, node: int) -> str:
    key = getattr(info, "public_key", b"")
    return f"key-{hashlib.sha256(key).hexdigest()[:16]}" if key else f"node-{node}"


def _own_name(content: RecordDict) -> str:
    name = values(content).get("name", "")
    return name if isinstance(name, str) and len(name) <= 200 else ""


def _statements(
    heard: Mapping[int, RecordDict], question: Question, failed: dict[int, str]
) -> dict[int, Statement]:
    """What nodes told; those whose answers have another form go to `failed`."""
    told = {}
    for node, content in heard.items():
        try:
            told[node] = _statement(content, set(question.entries["ask"]))
        except (WrongAnswerError, KeyError, TypeError, ValueError) as error:
            failed[node] = f"{type(error).__name__}: {error}"
    return told


def _statement(content: RecordDict, asked: set[str]) -> Statement:
    entries = values(content)
    durations = entries.get("durations") if "durations" in asked else None
    if durations is not None and len(durations) != 2:
        raise WrongAnswerError(f"durations={durations!r} must be seconds of training and of upload")
    return Statement(
        label_counts=tuple(entries["label-counts"]) if "label-counts" in asked else None,
        num_examples=entries["num-examples"] if "num-examples" in asked else None,
        upload=blob(content, "upload") if "upload" in asked else None,
        durations=None if durations is None else (float(durations[0]), float(durations[1])),
    )
