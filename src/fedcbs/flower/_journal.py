"""The run's memory: the record of each round, Flower's own metrics, and the checkpoint."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import time
from collections.abc import Mapping
from typing import Any

from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp.strategy import Strategy

from fedcbs.flower._checkpoint import Checkpoints, Saved
from fedcbs.flower._chooser import Chooser
from fedcbs.flower._durations import Durations
from fedcbs.flower._errors import FederationStateError
from fedcbs.flower._log import LOG
from fedcbs.flower._memory import Memory
from fedcbs.flower._open_round import OpenRound
from fedcbs.flower._records import Records, evaluation_fields, mean_loss
from fedcbs.flower._replies import Replies, first_metrics
from fedcbs.flower._roster import Roster
from fedcbs.flower._settings import Settings
from fedcbs.flower._strategy import layers, own_class, weight_key

__all__ = ["Journal"]


class Journal:
    """Records and saves one run; without a folder it only extends Flower's metrics.

    Parameters
    ----------
    settings
        Where to, and what a checkpoint must agree with.
    chooser, roster, durations
        Whose states are saved.
    """

    def __init__(self, settings: Settings, chooser: Chooser, roster: Roster, durations: Durations) -> None:
        self._settings = settings
        self._chooser = chooser
        self._roster = roster
        self._durations = durations
        self._memory: Memory | None = None
        self._pending: dict[str, Any] | None = None
        self._closed = 0.0
        self._described = -1
        folder = settings.folder
        self._records = None if folder is None else Records(folder.expanduser())
        self._checkpoints = None if folder is None else Checkpoints(folder.expanduser())
        self.offset = 0
        """Rounds that earlier runs did."""

    @property
    def identity(self) -> dict[str, Any]:
        """What a checkpoint must agree with, or the cohorts would be others."""
        return {
            "seed": self._settings.seed,
            "cohort_size": self._settings.cohort_size,
            "selector": self._chooser.name,
            "mode": self._chooser.mode,
        }

    def begin(self, strategy: Strategy) -> None:
        """Note the strategy as it is before the first round; later calls do nothing."""
        if self._memory is not None:
            return
        self._memory = Memory(strategy)
        LOG.info("%s chooses cohorts of %d", self._chooser.name, self._settings.cohort_size)
        if self._records is None or self._checkpoints is None:
            return
        if self._checkpoints.path.is_file() and self.offset == 0:
            raise FederationStateError(
                f"{str(self._settings.out)!r} holds a run that has begun; start it by the outermost strategy, which must "
                "be the one that with_selector returned, or choose another folder"
            )
        self._records.configure(self._config(strategy), _versions())

    def resume(self, strategy: Strategy) -> ArrayRecord | None:
        """Take up where the last run stopped; return the model then, or None at a beginning."""
        if self._checkpoints is None or self._records is None:
            return None
        saved = self._checkpoints.load(self.identity)
        if saved is None:
            self._records.keep_until(0)
            return None
        if not self._settings.resume:
            raise FederationStateError(
                f"out={str(self._settings.out)!r} holds a run; choose another folder, or leave resume=True to go on with it"
            )
        self.offset = saved.round_index
        self.begin(strategy)
        assert self._memory is not None
        self._memory.restore(saved.strategy)
        self._checkpoints.load_statistics(self._roster.population, self._roster.statistics)
        self._chooser.restore(saved.chooser)
        self._roster.absences.restore(saved.absences)
        self._durations.restore(saved.durations)
        self._records.keep_until(saved.round_index)
        written = any(record["round"] == saved.round_index for record in self._records.read())
        self._pending = None if written else dict(saved.record)
        LOG.info("going on after round %d, from %s", self.offset, self._checkpoints.path)
        return saved.arrays

    def aggregated(
        self,
        strategy: Strategy,
        now: OpenRound,
        replies: Replies,
        arrays: ArrayRecord | None,
        metrics: MetricRecord | None,
    ) -> MetricRecord:
        """Record and save an aggregated round; return Flower's metrics with ours among them."""
        trained = _trained_sizes(replies, weight_key(strategy)) if now.choice.weights is None else {}
        mismatched = self._roster.mismatches(trained)
        self._pending = self._record(now, replies, metrics) | {"mismatched": mismatched}
        if self._checkpoints is not None and self._memory is not None:
            start = time.monotonic()
            self._describe()
            self._checkpoints.keep_statistics(self._roster.population, self._roster.statistics)
            self._checkpoints.save(
                Saved(
                    identity=self.identity,
                    round_index=now.index,
                    arrays=now.arrays if arrays is None else arrays,
                    strategy=self._memory.save(),
                    chooser=self._chooser.to_arrays(),
                    absences=self._roster.absences.to_arrays(),
                    durations=self._durations.to_arrays(),
                    record=self._pending,
                )
            )
            self._pending["seconds"]["checkpoint"] = time.monotonic() - start
        self._closed = time.monotonic()
        return self._extended(metrics)

    def _describe(self) -> None:
        """Keep the population's label counts, if the server knows them and somebody joined."""
        roster = self._roster
        if (
            self._records is None
            or self._chooser.mode != "plain"
            or roster.statistics.version == self._described
        ):
            return
        told = roster.statistics.statements.values()
        if all(one.label_counts is not None for one in told):
            self._records.describe(roster.statistics.label_counts(roster.population.names))
            self._described = roster.statistics.version

    def _record(self, now: OpenRound, replies: Replies, metrics: MetricRecord | None) -> dict[str, Any]:
        index_of = self._roster.population.index_of
        choice = now.choice
        return {
            "round": now.index,
            "available": now.available,
            "clients": len(self._roster.population),
            "cohort": sorted(index_of(name) for name in choice.cohort),
            "names": list(choice.cohort),
            "answered": sorted(index_of(name) for name in replies.usable),
            "failed": sorted(index_of(name) for name in replies.reasons),
            "reasons": dict(replies.reasons),
            "note": choice.note,
            "qcid": choice.qcid,
            "cohort_label_counts": None if choice.label_counts is None else list(choice.label_counts),
            "loss": mean_loss(metrics),
            "accuracy": None,
            "test_loss": None,
            "asked": dict(choice.asked),
            "bytes_up": now.traffic.up,
            "bytes_down": now.traffic.down,
            "seconds": {
                **now.seconds,
                "evaluate": 0.0,
                "checkpoint": 0.0,
                "total": sum(now.seconds.values()),
            },
            "simulated_seconds": None,
        }

    def _extended(self, metrics: MetricRecord | None) -> MetricRecord:
        """Flower keeps numbers only, so names are left to the record."""
        assert self._pending is not None
        extended = MetricRecord(dict(metrics or {}))
        for name in ("cohort", "answered", "failed"):
            extended[f"fedcbs-{name}"] = list(self._pending[name])
        for name in ("available", "bytes_up", "bytes_down"):
            extended[f"fedcbs-{name.replace('_', '-')}"] = int(self._pending[name])
        if self._pending["qcid"] is not None:
            extended["fedcbs-qcid"] = float(self._pending["qcid"])
        extended["fedcbs-select-seconds"] = float(self._pending["seconds"]["select"])
        return extended

    def evaluated(self, metrics: MetricRecord | Mapping[str, Any] | None) -> None:
        """Add to the round's record what an evaluation measured; the server's own comes last and counts."""
        if self._pending is not None and metrics is not None:
            self._pending.update(evaluation_fields(metrics))

    def close_round(self) -> None:
        """Write the record of the last round, now that its evaluation is over."""
        if self._pending is None:
            return
        record, self._pending = self._pending, None
        if self._closed:
            record["seconds"]["evaluate"] = time.monotonic() - self._closed
        record["seconds"]["total"] = sum(
            seconds for name, seconds in record["seconds"].items() if name != "total"
        )
        if self._records is not None:
            self._records.append(record)

    def finish(self, *, status: str) -> None:
        """Write what is left to write."""
        self.close_round()
        if self._records is not None:
            self._records.summarise(status)

    def _config(self, strategy: Strategy) -> dict[str, Any]:
        names = [own_class(layer).__name__ for layer in layers(strategy)]
        options = {
            field.name: getattr(self._settings, field.name)
            for field in dataclasses.fields(self._settings)
            if field.name not in ("out", "class_gradients", "resume")
        }
        return {
            "data": {"num_classes": self._roster.statistics.num_classes},
            "partition": {},
            "availability": {"wait": self._settings.wait, "pause": self._settings.pause},
            "model": {},
            "selector": {"name": self._chooser.name, "cohort_size": self._settings.cohort_size},
            "training": {"strategy": " in ".join(reversed(names))},
            "server": {"framework": "flower", **options},
            "privacy": {"mode": self._chooser.mode},
            "evaluation": {},
            "run": {"seed": self._settings.seed},
        }


def _trained_sizes(replies: Replies, key: str | None) -> dict[str, int]:
    """On how many examples each client says that it trained, where that is what updates are weighed by."""
    if key != "num-examples":
        return {}
    found = {}
    for name, reply in replies.usable.items():
        metrics = first_metrics(reply.content)
        size = None if metrics is None else metrics.get(key)
        if isinstance(size, int | float):
            found[name] = int(size)
    return found


def _versions() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in ("flwr", "numpy")}
