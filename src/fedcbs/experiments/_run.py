"""Running an experiment, or a part of it, and writing down what is there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, final

from fedcbs.errors import InvalidArgumentError
from fedcbs.experiments._changes import changes_of_runs, changes_of_scale
from fedcbs.experiments._definition import Experiment, Scale
from fedcbs.experiments._estimated_labels import estimated_labels
from fedcbs.experiments._export import export
from fedcbs.experiments._found import Found, found_runs
from fedcbs.experiments._greedy_example import greedy_example
from fedcbs.experiments._jobs import Choice, job_of, places
from fedcbs.experiments._labels import label_document
from fedcbs.experiments._results import about, document, numbers_of
from fedcbs.experiments._theorems import theorems
from fedcbs.sweeps import Executor, Job, Outcome, run_jobs
from fedcbs.sweeps._sweep import Watch

__all__ = ["Done", "collect", "jobs_of", "run_experiment"]

Told = Callable[[str], None]


def say_nothing(line: str) -> None:
    """Stand for telling somebody who wants to hear nothing."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Done:
    """What came of running an experiment.

    Parameters
    ----------
    document
        What it found, ready for JSON.
    outcomes
        How its runs ended; none where nothing is trained.
    folder
        Where the results are.
    """

    document: Mapping[str, Any]
    outcomes: Sequence[Outcome]
    folder: Path


def jobs_of(
    experiment: Experiment,
    scale: Scale,
    out: Path,
    *,
    choice: Choice | None = None,
    options: Mapping[str, Any] | None = None,
    threads: int = 0,
    rounds: int | None = None,
) -> list[Job]:
    """Return the runs of an experiment, or of a part of it; none where nothing is trained.

    Parameters
    ----------
    experiment, scale
        Which.
    out
        Folder of all experiments.
    choice
        The part.
    options
        Options that go before all others.
    threads
        Threads of each run.
    rounds
        Rounds of each run to do for now, where fewer than the scale says; runs can go on later.
    """
    if experiment.kind != "training":
        return []
    return [
        job_of(experiment, scale, place, out, options=options, threads=threads, rounds=rounds)
        for place in places(experiment, scale, choice)
    ]


def run_experiment(
    experiment: Experiment,
    scale: Scale,
    out: Path,
    executor: Executor,
    *,
    choice: Choice | None = None,
    options: Mapping[str, Any] | None = None,
    threads: int = 0,
    rounds: int | None = None,
    max_minutes: float | None = None,
    watch: Watch | None = None,
    tell: Told = say_nothing,
    results: Path | None = None,
) -> Done:
    """Run what is not done yet of an experiment, or of a part of it, and write down all that is there.

    Parameters
    ----------
    experiment, scale
        Which.
    out
        Folder of all experiments: what is done is found there, and what was stopped goes on.
    executor
        Where runs are done.
    choice, options, threads, rounds
        See :func:`jobs_of`.
    max_minutes
        Time after which it stops, with checkpoints.
    watch
        Called with what is heard of each run.
    tell
        Takes a line on what is being done, where there are no runs.
    results
        Folder for the results; ``results/NAME-SCALE`` in `out` by default.
    """
    jobs = jobs_of(experiment, scale, out, choice=choice, options=options, threads=threads, rounds=rounds)
    outcomes = run_jobs(jobs, executor, max_minutes=max_minutes, watch=watch) if jobs else []
    return dataclasses.replace(
        collect(experiment, scale, out, options=options, compute=True, tell=tell, results=results),
        outcomes=outcomes,
    )


def collect(
    experiment: Experiment,
    scale: Scale,
    out: Path,
    *,
    options: Mapping[str, Any] | None = None,
    compute: bool = False,
    tell: Told = say_nothing,
    results: Path | None = None,
) -> Done:
    """Write down what is there of an experiment; what needs no runs is computed, if `compute` says so.

    Where nothing is there, nothing is written over, and without `compute` it is an error.
    """
    found: Found | None = None
    if experiment.kind == "training":
        found = found_runs(experiment, scale, out)
        whole = document(
            experiment, scale, numbers_of(experiment, scale, found), rounds=found.rounds, missing=found.missing,
            found=found, changed=changes_of_runs(experiment, scale, found),
        )  # fmt: skip
    elif experiment.kind == "labels":
        whole = label_document(experiment, scale, out, tell=tell, compute=compute)
    else:
        whole = _custom(experiment, scale, out, dict(options or {}), tell, compute)
    folder = results or out / "results" / f"{experiment.name}-{scale.name}"
    nothing = not found.runs if found else whole["missing"] == len(experiment.settings_at(scale)) > 0
    if nothing and not compute:
        raise InvalidArgumentError(
            f"out={str(out)!r} holds nothing of experiment {experiment.name!r} at scale {scale.name!r}; run it first, or name"
            f" the folder that has {str(Path(experiment.runs) / scale.name)!r} in it"
        )
    if not (nothing and (folder / "results.json").exists()):
        export(experiment, scale, whole, found, folder)
    return Done(whole, (), folder)


def _custom(
    experiment: Experiment, scale: Scale, out: Path, options: dict[str, Any], tell: Told, compute: bool
) -> dict[str, Any]:
    missing, changed = 0, changes_of_scale(experiment, scale)
    if experiment.kind == "greedy-example":
        tables = greedy_example(experiment, scale)
    elif experiment.kind == "theorems":
        tell(experiment.name)
        tables = theorems(experiment, scale)
    elif experiment.kind == "estimated-labels":
        tables, missing, changed = estimated_labels(
            experiment, scale, out, options=options, tell=tell, compute=compute
        )
    else:
        raise InvalidArgumentError(
            f"kind={experiment.kind!r} is not known; it must be training, labels, estimated-labels, greedy-example or theorems"
        )
    return {**about(experiment, scale, missing, changed), "custom": tables}
