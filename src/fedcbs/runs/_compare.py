"""Several selectors, several seeds, everything else alike; each run in a directory of its own, so that all can resume."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from fedcbs import _checks
from fedcbs.errors import DivergedError, InvalidArgumentError, RunError
from fedcbs.runs._build import check, shared_auxiliary
from fedcbs.runs._config import RunConfig
from fedcbs.runs._directory import CONFIG, RunDirectory
from fedcbs.runs._pool import Job, work_off
from fedcbs.runs._read import Run, read_run
from fedcbs.runs._run import Watch, resume, start

__all__ = ["Comparison", "Standing", "compare"]

COMPARISON = "comparison.json"

Progress = Callable[[int, int], None]


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Standing:
    """How a selector did, over the seeds.

    Parameters
    ----------
    rounds_to
        For each target, the rounds that each seed needed; None where it was not reached.
    best_accuracy, worst_class_accuracy, qcid, coverage
        One number a seed; the second is at the last evaluation.
    bytes_up, bytes_down, simulated_seconds
        One number a seed.
    diverged
        How many seeds diverged.
    """

    rounds_to: Mapping[float, tuple[int | None, ...]]
    best_accuracy: tuple[float, ...]
    worst_class_accuracy: tuple[float, ...]
    qcid: tuple[float, ...]
    coverage: tuple[float, ...]
    bytes_up: tuple[int, ...]
    bytes_down: tuple[int, ...]
    simulated_seconds: tuple[float, ...]
    diverged: int

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        document = dataclasses.asdict(self)
        document["rounds_to"] = {f"{target:g}": list(found) for target, found in self.rounds_to.items()}
        return document


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Comparison:
    """Runs of a comparison.

    Parameters
    ----------
    path
        Where it is.
    runs
        By selector, one a seed.
    targets
        Accuracies to reach; where none were given, the best that every run reached, in whole percent.
    """

    path: Path
    runs: Mapping[str, tuple[Run, ...]]
    targets: tuple[float, ...]

    def standings(self) -> dict[str, Standing]:
        """Return how each selector did."""
        return {name: _standing(found, self.targets) for name, found in self.runs.items()}


def compare(
    config: RunConfig,
    selectors: Sequence[str],
    *,
    out: str | os.PathLike[str],
    seeds: int = 3,
    processes: int | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Run several selectors on several seeds. Called again with the same arguments, it goes on where it stopped.

    Selectors see the same data, the same clients and the same availability of a seed.

    Parameters
    ----------
    config
        What all have in common; its seed is the first.
    selectors
        Names, with options as in ``fedcbs-exact:sweeps=5``.
    out
        Directory for all runs.
    seeds
        How many.
    processes
        How many runs go on at a time, each with one thread; one a core by default.
    progress
        Called with rounds done and their total.
    """
    jobs = _jobs(config, selectors, Path(out), _checks.integer(seeds, "seeds", minimum=1))
    workers = _cores() if processes is None else _checks.integer(processes, "processes", minimum=1)
    _claim(Path(out), config)
    done = _Done(jobs, progress)
    done.tell()
    left = [job for job in jobs if not _is_done(Path(job.path))]
    try:
        _work(left, min(workers, len(left)), done)
    except InvalidArgumentError:
        _withdraw(Path(out))
        raise
    runs: dict[str, list[Run]] = {}
    for job in jobs:
        runs.setdefault(job.name, []).append(read_run(job.path))
    return Comparison(
        Path(out),
        {name: tuple(found) for name, found in runs.items()},
        config.evaluation.targets or _common_target(runs),
    )


def _work(jobs: Sequence[Job], workers: int, done: _Done) -> None:
    """Do what is left, in this process or in several."""
    if workers <= 1:
        for job in jobs:
            _run_job(job, done.watch(job))
    else:
        alone = [dataclasses.replace(job, threads=job.threads or 1) for job in jobs]
        work_off(alone, _run_job, workers=workers, seen=done.seen)


class _Done:
    """Counts rounds over all runs."""

    def __init__(self, jobs: Sequence[Job], progress: Progress | None) -> None:
        self._progress = progress
        self._rounds = {job.path: _rounds_of(Path(job.path)) for job in jobs}
        self._total = sum(job.rounds for job in jobs)

    def tell(self) -> None:
        """Report where it stands."""
        if self._progress is not None:
            self._progress(sum(self._rounds.values()), self._total)

    def seen(self, path: str, rounds: int) -> None:
        """Note how far a run is."""
        self._rounds[path] = rounds
        self.tell()

    def watch(self, job: Job) -> Watch:
        """Return what a run calls after each round."""
        return lambda record: self.seen(job.path, record.round)


def _jobs(config: RunConfig, selectors: Sequence[str], out: Path, seeds: int) -> list[Job]:
    if not selectors:
        raise InvalidArgumentError("selectors is empty; name at least one")
    if len(set(selectors)) < len(selectors):
        raise InvalidArgumentError(f"selectors={list(selectors)} names one twice; name each once")
    for name in selectors:
        check(config.with_options({"selector.name": name}))
    config = config.with_options({"data.auxiliary": shared_auxiliary(config, selectors)})
    jobs = []
    for seed in range(config.run.seed, config.run.seed + seeds):
        for name in selectors:
            own = config.with_options({"selector.name": name, "run.seed": seed})
            path = out / _folder(name) / f"seed-{seed}"
            jobs.append(Job(name, str(path), own, own.run.rounds, own.training.threads))
    if len({job.path for job in jobs}) < len(jobs):
        raise InvalidArgumentError(f"selectors={list(selectors)} cannot be told apart as names of folders")
    return jobs


def _run_job(job: Job, watch: Watch) -> None:
    """Run, or go on with, one run; one that diverges is a result too."""
    config = job.config.with_options({"training.threads": job.threads})
    try:
        if (Path(job.path) / CONFIG).exists():
            resume(job.path, watch=watch)
        else:
            start(config, job.path, watch=watch)
    except DivergedError:
        return


def _is_done(path: Path) -> bool:
    if not (path / CONFIG).exists():
        return False
    found = read_run(path)
    return found.summary is not None and found.summary["status"] in ("finished", "diverged")


def _rounds_of(path: Path) -> int:
    if not (path / CONFIG).exists():
        return 0
    return sum(1 for _ in RunDirectory.existing(path).records())


def _claim(out: Path, config: RunConfig) -> None:
    """Say what the directory is for; refuse one that is for something else."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgumentError(f"out={str(out)!r} cannot be made: {error}") from error
    directory = RunDirectory(out)
    document = {"format": 1, "config": config.to_dict()}
    if (out / COMPARISON).exists():
        if directory.read_json(COMPARISON) != document:
            raise RunError(
                f"{str(out)!r} holds a comparison with other options; name another directory, or give the same options to"
                " go on with it"
            )
        return
    if any(out.iterdir()):
        raise InvalidArgumentError(
            f"out={str(out)!r} holds other files; name a directory that is empty or new"
        )
    directory.write_json(COMPARISON, document)


def _withdraw(out: Path) -> None:
    """Take the directory back if no run began in it, so that the corrected command may have it."""
    if any(out.rglob(CONFIG)):
        return
    (out / COMPARISON).unlink(missing_ok=True)
    for folder in sorted((path for path in out.rglob("*") if path.is_dir()), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()
    if not any(out.iterdir()):
        out.rmdir()


def _common_target(runs: Mapping[str, Sequence[Run]]) -> tuple[float, ...]:
    best = [_summary(run)["best_accuracy"] or 0.0 for run in _finished(runs)]
    target = np.floor(100 * min(best)) / 100 if best else 0.0
    return (float(target),) if target > 0 else ()


def _finished(runs: Mapping[str, Sequence[Run]]) -> Iterator[Run]:
    for found in runs.values():
        yield from (run for run in found if _summary(run).get("status") == "finished")


def _summary(run: Run) -> dict[str, Any]:
    return run.summary or {}


def _standing(runs: Sequence[Run], targets: Sequence[float]) -> Standing:
    finished = list(_finished({"": runs}))
    summaries = [_summary(run) for run in finished]
    worst = [_last_worst(run) for run in finished]
    return Standing(
        rounds_to={target: tuple(_rounds_to(run, target) for run in finished) for target in targets},
        best_accuracy=tuple(found["best_accuracy"] or 0.0 for found in summaries),
        worst_class_accuracy=tuple(value for value in worst if value is not None),
        qcid=tuple(found["qcid_mean"] for found in summaries if found["qcid_mean"] is not None),
        coverage=tuple(found["coverage"] for found in summaries),
        bytes_up=tuple(found["bytes_up"] for found in summaries),
        bytes_down=tuple(found["bytes_down"] for found in summaries),
        simulated_seconds=tuple(
            found["simulated_seconds"] for found in summaries if found["simulated_seconds"] is not None
        ),
        diverged=sum(_summary(run).get("status") == "diverged" for run in runs),
    )


def _rounds_to(run: Run, target: float) -> int | None:
    reached = (r.round for r in run.records if r.accuracy is not None and r.accuracy >= target)
    return next(reached, None)


def _last_worst(run: Run) -> float | None:
    found = (r.worst_class_accuracy for r in reversed(run.records) if r.worst_class_accuracy is not None)
    return next(found, None)


def _folder(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._=-]+", "-", name)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
