"""What happens around a strategy in each round: choose, see that the choice is kept, learn, record, save."""

from __future__ import annotations

import dataclasses
import inspect
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fedcbs.flower._ask import Traffic
from fedcbs.flower._chooser import Choice, Chooser, Situation
from fedcbs.flower._durations import Durations
from fedcbs.flower._inquiry import Inquiry, UnansweredError
from fedcbs.flower._journal import Journal
from fedcbs.flower._learning import learn
from fedcbs.flower._log import LOG
from fedcbs.flower._open_round import OpenRound
from fedcbs.flower._patient import PatientGrid
from fedcbs.flower._replies import Replies, sort_replies
from fedcbs.flower._roster import Roster
from fedcbs.flower._settings import Settings
from fedcbs.flower._strategy import Configure, addressed_to, preview, trains, weight_key
from fedcbs.flower._weights import estimated_replies, set_weights
from fedcbs.flower._wire import RECORD, content_bytes
from fedcbs.selectors import Need

__all__ = ["Aggregate", "Director"]

Aggregate = Callable[[int, Iterable[Message]], tuple[ArrayRecord | None, MetricRecord | None]]
LOSSES = frozenset({Need.LOSSES, Need.RMS_LOSSES})


class Director:
    """Leads the rounds of one run.

    Parameters
    ----------
    settings, chooser
        What the operator set, and who chooses.
    """

    def __init__(self, settings: Settings, chooser: Chooser) -> None:
        self._settings = settings
        self._chooser = chooser
        self._roster = Roster(settings, chooser)
        self._durations = Durations()
        self._open: OpenRound | None = None
        self.timeout: float | None = None
        self.journal = Journal(settings, chooser, self._roster, self._durations)

    def configure(
        self,
        strategy: Strategy,
        configure: Callable[[Strategy], Configure],
        server_round: int,
        arrays: ArrayRecord,
        config: ConfigRecord,
        grid: Grid,
    ) -> list[Message]:
        """Choose a cohort, and let the strategy make the messages of its training."""
        self._chooser.attend(grid)
        self.journal.begin(strategy)
        self.journal.close_round()
        round_index = self.journal.offset + server_round
        if not trains(strategy):
            return list(configure(strategy)(round_index, arrays, config, grid))
        began = time.monotonic()
        settings = self._settings
        inquiry = Inquiry(
            grid,
            self._roster.population,
            arrays,
            lambda nodes: preview(strategy, configure, round_index, arrays, config, grid, nodes),
            timeout=settings.query_timeout,
            training_timeout=self.timeout or settings.query_timeout,
        )
        choice, available = self._choose(grid, round_index, inquiry)
        nodes = [self._roster.population.node_of(name) for name in choice.cohort]
        messages = addressed_to(configure(strategy), strategy, round_index, arrays, config, grid, nodes)
        self._prepare(messages)
        by_node = {message.metadata.dst_node_id: message for message in messages}
        sent = {name: by_node[node] for name, node in zip(choice.cohort, nodes, strict=True)}
        now, traffic = time.monotonic(), self._traffic(messages, inquiry)
        seconds = {"select": now - began}
        self._open = OpenRound(round_index, choice, sent, arrays, available, traffic, now, seconds)
        LOG.info("round %d trains %s", round_index, ", ".join(choice.cohort))
        return messages

    def _traffic(self, messages: Sequence[Message], inquiry: Inquiry) -> Traffic:
        """Bytes of the round so far: the training messages, and all questions before them."""
        traffic = Traffic(sum(content_bytes(message.content) for message in messages), 0)
        traffic.add(inquiry.traffic)
        traffic.add(self._roster.take_traffic())
        return traffic

    def _choose(self, grid: Grid, round_index: int, inquiry: Inquiry) -> tuple[Choice, int]:
        """Choose; where clients that the selector asked do not answer, choose anew without them."""
        while True:
            available = self._roster.available(grid, round_index)
            size = min(self._settings.cohort_size, len(available))
            if size < self._settings.cohort_size:
                LOG.warning("only %d clients are available; the cohort is all of them", size)
            told = self._roster.statistics.statements
            expected = {name: one.durations for name, one in told.items() if one.durations is not None}
            situation = Situation(
                round_index=round_index,
                cohort_size=size,
                seed=self._settings.seed,
                available=available,
                population=self._roster.population,
                statistics=self._roster.statistics,
                durations=self._durations.known(expected),
                inquiry=inquiry,
            )
            try:
                return self._chooser.choose(situation), len(available)
            except UnansweredError as error:
                self._roster.missed(error.reasons, round_index)
                self._roster.bar(error.reasons, round_index)

    def _prepare(self, messages: Sequence[Message]) -> None:
        """Let messages live as long as somebody waits for them, and ask for what the selector learns from replies."""
        learns = self._chooser.learns & (LOSSES | {Need.DURATIONS})
        report = ["losses"] if learns & LOSSES else []
        for message in messages:
            if self.timeout is not None:
                message.metadata.ttl = min(message.metadata.ttl, self.timeout)
            if learns or Need.DURATIONS in self._chooser.needs:
                message.content[RECORD] = ConfigRecord({"report": report})

    def aggregate(
        self, strategy: Strategy, aggregate: Aggregate, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Give the strategy the replies that can be used, and learn from them."""
        round_index = self.journal.offset + server_round
        if self._open is None or self._open.index != round_index:
            return aggregate(round_index, replies)
        now, self._open = self._open, None
        now.seconds["train"] = now.waited
        key = weight_key(strategy)
        sorted_replies = sort_replies(
            list(replies), now.sent, weight_key=key, check=self._settings.check_replies
        )
        learnt = learn(self._chooser, self._settings, now, sorted_replies, self._durations)
        self._chooser.observe(learnt, self._roster.population)
        self._roster.missed(sorted_replies.reasons, round_index)
        self._roster.absences.answered(sorted_replies.usable)
        now.traffic.up += sum(content_bytes(reply.content) for reply in sorted_replies.usable.values())
        arrays, metrics = aggregate(round_index, self._weighed(now, sorted_replies, key))
        return arrays, self.journal.aggregated(strategy, now, sorted_replies, arrays, metrics)

    def _weighed(self, now: OpenRound, replies: Replies, key: str | None) -> list[Message]:
        """The replies as the strategy sees them, with the selector's weights where it sets them."""
        weights = now.choice.weights
        if weights is None or not replies.usable or not set_weights(replies.usable, weights, key):
            return replies.passed_on
        estimates = now.choice.estimates
        if not estimates or key is None:
            return replies.passed_on
        return replies.passed_on + estimated_replies(estimates, replies.usable, now.arrays, key)

    def evaluate(self, configure: Configure, server_round: int, *rest: Any) -> list[Message]:
        """Let the strategy choose whom it evaluates on, among the clients."""
        arrays, config, grid = rest
        view = self._roster.clients_only(grid)
        messages = list(configure(self.journal.offset + server_round, arrays, config, view))
        for message in messages:
            if self.timeout is not None:
                message.metadata.ttl = min(message.metadata.ttl, self.timeout)
        return messages

    def evaluated(
        self,
        aggregate: Callable[[int, Iterable[Message]], MetricRecord | None],
        server_round: int,
        replies: Iterable[Message],
    ) -> MetricRecord | None:
        """Let the strategy aggregate, in the clients' order rather than that of arrival, and record the result."""
        listed = sorted(replies, key=self._place)
        metrics = aggregate(self.journal.offset + server_round, listed)
        self.journal.evaluated(metrics)
        return metrics

    def _place(self, reply: Message) -> int:
        name = self._roster.population.name_of(reply.metadata.src_node_id)
        return len(self._roster.population) if name is None else self._roster.population.index_of(name)

    def start(self, strategy: Strategy, run: Callable[..., Result], *given: Any, **named: Any) -> Result:
        """Run a strategy's own loop for the rounds that are left, from the last checkpoint on."""
        call = inspect.signature(run).bind(*given, **named)
        call.apply_defaults()
        options = call.arguments
        options["grid"] = PatientGrid(options["grid"])
        self._chooser.attend(options["grid"])
        saved = self.journal.resume(strategy)
        if saved is not None:
            options["initial_arrays"] = saved
        wanted = options.get("num_rounds")
        if isinstance(wanted, int):
            options["num_rounds"] = max(wanted - self.journal.offset, 0)
        if isinstance(options.get("timeout"), int | float):
            self.timeout = float(options["timeout"])
        if options.get("evaluate_fn") is not None:
            options["evaluate_fn"] = self._evaluating(options["evaluate_fn"])
        status = "interrupted"
        try:
            result = run(*call.args, **call.kwargs)
            status = "finished"
        finally:
            self.journal.finish(status=status)
        return self._renumbered(result, saved)

    def _evaluating(self, evaluate: Callable[[int, ArrayRecord], MetricRecord | None]) -> Any:
        """The user's evaluation, with the number of the round over all runs, and recorded."""

        def evaluate_fn(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
            metrics = evaluate(self.journal.offset + server_round, arrays)
            self.journal.evaluated(metrics)
            return metrics

        return evaluate_fn

    def _renumbered(self, result: Result, saved: ArrayRecord | None) -> Result:
        """The result, with rounds numbered over all runs, and the model even where no round was left."""
        if saved is None or not isinstance(result, Result):
            return result
        for field in dataclasses.fields(result):
            value = getattr(result, field.name)
            if isinstance(value, dict) and field.name != "arrays":
                renumbered = {self.journal.offset + number: metrics for number, metrics in value.items()}
                setattr(result, field.name, renumbered)
        if not result.arrays:
            result.arrays = saved
        return result
