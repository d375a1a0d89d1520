"""Running, and going on with a run that stopped."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, final

import numpy as np

from fedcbs._rows import ClientRows
from fedcbs.errors import DivergedError, FedCBSError, RunError
from fedcbs.runs._build import Built, Note, build
from fedcbs.runs._config import RunConfig
from fedcbs.runs._directory import CONFIG, FORMAT, MODEL, POPULATION, SUMMARY, RunDirectory
from fedcbs.runs._read import Run, read_run
from fedcbs.runs._summary import summarise
from fedcbs.simulation import RoundRecord, SimulationState

__all__ = ["resume", "simulate", "start"]

Watch = Callable[[RoundRecord], None]

SHARE = 0.01
"""Of the time, what checkpoints may take where nothing says how often to write them."""


def simulate(
    config: RunConfig | Mapping[str, object] | None = None, /, **options: object
) -> Iterator[RoundRecord]:
    """Run a federation and yield the record of each round; nothing is written to disk.

    What cannot work is refused before the first round. Stop whenever you like; for a run that is kept, and that can go
    on after a crash, use :func:`fedcbs.runs.start`.

    Parameters
    ----------
    config
        A configuration, or options by name.
    **options
        Options that change it: ``dataset``, ``selector``, ``rounds``, ``seed``, ``algorithm``, ... and every key of
        :class:`RunConfig`.

    Examples
    --------
    >>> records = list(simulate(dataset="digits", selector="fedcbs-exact", rounds=3, seed=1))
    >>> len(records), records[-1].accuracy > 0.3
    (3, True)
    """
    if not isinstance(config, RunConfig):
        config = RunConfig().with_options(config or {})
    built = build(config.with_options(options))
    return _rounds(built)


def _rounds(built: Built) -> Iterator[RoundRecord]:
    simulation, config = built.simulation, built.config
    state, done = simulation.init(), False
    while not done:
        last = state.round_index + 1 == config.run.rounds
        state, record = simulation.round(state, last=last)
        done = last or _reached(record, config)
        yield record


def start(
    config: RunConfig,
    out: str | os.PathLike[str],
    *,
    watch: Watch | None = None,
    note: Note | None = None,
) -> Run:
    """Run a federation, and write it down in a new directory.

    Parameters
    ----------
    config
        What to run; all of it is checked first.
    out
        The directory; one that holds a run already is refused.
    watch
        Called with the record of each round.
    note
        Takes a line on what the user should know.
    """
    new = [folder for folder in (Path(out), *Path(out).parents) if not folder.exists()]
    directory = RunDirectory.make(out)
    with directory.locked():
        directory.clear()
        try:
            built = build(config, folder=directory.path, note=note)
        except BaseException:
            directory.leave_nothing(keep_folder=not new)
            for folder in new[1:]:
                with contextlib.suppress(OSError):  # another run began in it
                    folder.rmdir()
            raise
        federation = built.simulation.federation
        population = {"label_counts": federation.label_counts, "num_examples": federation.num_examples}
        directory.write_arrays(POPULATION, population)
        document = {
            "format": FORMAT,
            "config": built.config.to_dict(),
            "selector_options": _selector_options(built),
            "versions": versions(),
        }
        directory.write_json(CONFIG, document)
        _Worker(directory, built, watch).run(built.simulation.init())
    return read_run(directory.path)


def resume(
    path: str | os.PathLike[str],
    *,
    rounds: int | None = None,
    threads: int | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    watch: Watch | None = None,
    note: Note | None = None,
) -> Run:
    """Go on with a run from its last checkpoint, to the same end as if it had never stopped.

    Parameters
    ----------
    path
        The directory of the run. One that is finished is left as it is.
    rounds
        A new number of rounds, to go on beyond the old end.
    threads
        A new number of threads, where the machine is another or has other work now; the result is the same.
    data_dir
        Where the dataset's files are now, if they were moved.
    watch, note
        See :func:`start`.
    """
    directory = RunDirectory.existing(path)
    with directory.locked():
        document = directory.read_json(CONFIG)
        if document.get("format") != FORMAT:
            raise RunError(
                f"{str(directory.path)!r} has format {document.get('format')!r}; this version reads format {FORMAT}"
            )
        config = RunConfig.from_dict(document["config"])
        if rounds is not None and rounds != config.run.rounds:
            config = config.with_options({"run.rounds": rounds})
        elif _is_finished(directory):
            return read_run(directory.path)
        if threads is not None:
            config = config.with_options({"training.threads": threads})
        if data_dir is not None:
            config = config.with_options({"data.directory": os.fspath(data_dir)})
        _compare_versions(document.get("versions", {}), note)
        built = build(config, folder=directory.path, note=note)
        _refuse_other_defaults(document, built)
        worker = _Worker(directory, built, watch)
        state = worker.last_state(note)
        if state.round_index > built.config.run.rounds:
            raise RunError(
                f"rounds={rounds} but round {state.round_index} is done; give a number of at least that"
            )
        directory.write_json(CONFIG, {**document, "config": built.config.to_dict()})
        directory.cut(state.round_index)
        worker.run(state)
    return read_run(directory.path)


def versions() -> dict[str, str]:
    """Return the versions that a run's numbers depend on."""
    import torch

    import fedcbs

    return {
        "fedcbs": fedcbs.__version__,
        "numpy": np.__version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


@final
class _Worker:
    """Does rounds, and keeps the directory in step."""

    def __init__(self, directory: RunDirectory, built: Built, watch: Watch | None) -> None:
        self._directory, self._built, self._watch = directory, built, watch
        self._saved: deque[tuple[ClientRows, ...]] = deque(
            maxlen=2
        )  # on disk, of a checkpoint and the one before
        self._cost, self._since = 0.0, time.perf_counter()
        self._spent = 0.0

    def last_state(self, note: Note | None) -> SimulationState:
        """Return the state of the newest checkpoint that can be read; the first state where there is none."""
        simulation = self._built.simulation
        failures: list[str] = []
        for name, arrays in self._directory.checkpoints():
            if isinstance(arrays, Exception):
                failures.append(f"{name} cannot be read ({arrays})")
                continue
            try:
                state = simulation.restore(arrays)
            except (KeyError, ValueError) as error:
                failures.append(f"{name} does not fit the run ({error})")
                continue
            if failures and note is not None:
                note(f"{'; '.join(failures)}; going on from {name}, of round {state.round_index}")
            self._hold(state)
            return state
        if failures:
            raise RunError(
                f"{str(self._directory.path)!r}: {'; '.join(failures)}; there is no other checkpoint, so start anew"
            )
        return simulation.init()

    def _hold(self, state: SimulationState) -> None:
        """Keep on disk what the saved states refer to; `state` was read from the newest that can be read."""
        if not state.on_disk():
            return
        for _, arrays in reversed(list(self._directory.checkpoints())):
            if isinstance(arrays, Exception):
                continue
            with contextlib.suppress(KeyError, ValueError, FedCBSError):  # then nobody can go on from it
                self._saved.append(self._built.simulation.restore(arrays, state).on_disk())

    def run(self, state: SimulationState) -> None:
        """Do the rounds that are left, and say how it ended, whatever way it does."""
        status, cause = "interrupted", None
        try:
            state = self._rounds(state)
            status = "finished"
        except DivergedError as error:
            status, cause = "diverged", str(error)
            raise
        finally:
            if status != "finished":
                self._summarise(status, cause)
        self._write_model(state)
        self._summarise(status)

    def _rounds(self, state: SimulationState) -> SimulationState:
        config, simulation = self._built.config, self._built.simulation
        done = state.round_index >= config.run.rounds or self._has_reached()
        try:
            while not done:
                last = state.round_index + 1 == config.run.rounds
                after, record = simulation.round(state, last=last)
                record = self._with_checkpoint_seconds(record)
                self._directory.append(record)
                state = after
                done = last or _reached(record, config)
                if done or self._is_time(state.round_index):
                    self._save(state)
                if self._watch is not None:
                    self._watch(record)
        except KeyboardInterrupt:
            self._directory.cut(state.round_index)  # the line of a round whose state was lost
            self._save(state)
            raise
        return state

    def _has_reached(self) -> bool:
        """Whether the run ended early with the last round done; so it was, if it stopped before it could say so."""
        if not self._built.config.run.stop_at:
            return False
        return any(_reached(record, self._built.config) for record in self._directory.records())

    def _is_time(self, round_index: int) -> bool:
        every = self._built.config.run.checkpoint_every
        if every is not None:
            return round_index % every == 0
        return self._cost == 0 or time.perf_counter() - self._since > self._cost / SHARE

    def _save(self, state: SimulationState) -> None:
        begun = time.perf_counter()
        self._directory.checkpoint(state.to_arrays())
        self._saved.append(state.on_disk())
        self._since = time.perf_counter()
        self._cost = self._since - begun
        self._spent = self._spent + self._cost

    def _with_checkpoint_seconds(self, record: RoundRecord) -> RoundRecord:
        spent, self._spent = self._spent, 0.0
        total = record.seconds.get("total", 0.0) + spent
        return dataclasses.replace(record, seconds={**record.seconds, "checkpoint": spent, "total": total})

    def _write_model(self, state: SimulationState) -> None:
        from safetensors.torch import save

        tensors = self._built.simulation.engine.state_dict(state.weights)
        self._directory.write_bytes(MODEL, save(tensors, metadata={"format": "pt"}))

    def _summarise(self, status: str, cause: str | None = None) -> None:
        summary = summarise(
            self._directory.records(),
            status=status,
            num_clients=self._built.simulation.federation.num_clients,
            targets=self._built.config.evaluation.targets,
        )
        self._directory.write_json(SUMMARY, summary if cause is None else {**summary, "cause": cause})


def _reached(record: RoundRecord, config: RunConfig) -> bool:
    return bool(config.run.stop_at and record.accuracy is not None and record.accuracy >= config.run.stop_at)


def _is_finished(directory: RunDirectory) -> bool:
    """Whether there is nothing left to do; refuses a run that diverged."""
    if not (directory.path / SUMMARY).exists():
        return False
    status = directory.read_json(SUMMARY).get("status")
    if status == "diverged":
        raise RunError(
            f"the run in {str(directory.path)!r} diverged, and would again; start anew with a lower learning rate"
        )
    return status == "finished" and (directory.path / MODEL).exists()


def _compare_versions(written: Mapping[str, Any], note: Note | None) -> None:
    changed = [
        f"{name} {written[name]} (now {now})"
        for name, now in versions().items()
        if name in written and written[name] != now
    ]
    if changed and note is not None:
        note(f"the run was started with {', '.join(changed)}; the rest may differ in the last digits")


def _selector_options(built: Built) -> dict[str, Any]:
    """Every option of the selector, as settled: a default may change between versions."""
    options = dataclasses.asdict(built.simulation.selector)
    return dict(json.loads(json.dumps(options, default=str)))  # as a file gives them back


def _refuse_other_defaults(document: Mapping[str, Any], built: Built) -> None:
    """Refuse to go on with a selector whose defaults are not those that the run began with."""
    now = _selector_options(built)
    for option, value in document.get("selector_options", {}).items():
        if option not in now or now[option] != value:
            raise RunError(
                f"the run was started with {option}={value!r} of {built.config.selector.name}, which is now "
                f"{now.get(option)!r}; go on with the version that started it, or start anew"
            )
