"""Doing one job: start it, or go on with it, and say how it ended. Nothing that goes wrong here gets out."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcbs.errors import DivergedError, FedCBSError, InvalidArgumentError
from fedcbs.sweeps._job import DIVERGED, DONE, FAILED, STOPPED, Job, Outcome

if TYPE_CHECKING:
    from fedcbs.runs import RunConfig
    from fedcbs.simulation import RoundRecord

__all__ = ["TRACE", "ended", "work"]

Tell = Callable[[int, float | None], None]

TRACE = "error.txt"
"""Beside the run directory, with its name before: what an unexpected error was, in full."""


def work(job: Job, deadline: float | None = None, tell: Tell | None = None) -> Outcome:
    """Do a job, or as much of it as there is time for.

    Parameters
    ----------
    job
        What to run. A run that its folder holds already goes on from its last checkpoint.
    deadline
        Time of the clock (:func:`time.time`) at which it stops after a round, with a checkpoint.
    tell
        Called after each round with its number and accuracy.
    """
    trace = job.folder.with_name(f"{job.folder.name}.{TRACE}")
    try:
        known = ended(job)
        if known is not None:
            return known
        if deadline is not None and time.time() >= deadline:
            return Outcome(job, STOPPED)
        _run(job, deadline, tell)
    except KeyboardInterrupt:
        return Outcome(job, STOPPED)
    except DivergedError as error:
        return Outcome(job, DIVERGED, str(error))
    except (FedCBSError, OSError, MemoryError) as error:
        return Outcome(job, FAILED, f"{error}" or type(error).__name__)
    except Exception as error:  # a broken plugin must not take the other runs along
        import traceback

        with contextlib.suppress(OSError):
            trace.write_text(traceback.format_exc(), encoding="utf-8")
        return Outcome(job, FAILED, f"{type(error).__name__}: {error} (all of it: {trace})")
    trace.unlink(missing_ok=True)
    return Outcome(job, DONE)


def ended(job: Job) -> Outcome | None:
    """Return how a job ended, if it did so for good; refuses a folder that holds another run.

    A run that has more before it than the job asks for, and has done as much as that, is done as far as the job goes.
    """
    if not (job.folder / "config.json").is_file():
        return None
    config = _document(job.folder / "config.json").get("config", {})
    summary = _document(job.folder / "summary.json")
    planned = int(config.get("run", {}).get("rounds", 0))
    finished = summary.get("status") == "finished" and planned >= job.rounds
    passed = planned > job.rounds and _rounds_done(job.folder) >= job.rounds
    over = summary.get("status") == "diverged" or finished or passed
    _same_run(job, config, over=over)
    if summary.get("status") == "diverged":
        return Outcome(job, DIVERGED, summary.get("cause") or f"diverged after round {summary.get('rounds')}")
    return Outcome(job, DONE) if over else None


def _document(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except ValueError as error:
        raise InvalidArgumentError(
            f"{str(path)!r} is damaged ({error}); remove the run, and it starts anew"
        ) from None
    return found if isinstance(found, dict) else {}


def _rounds_done(folder: Path) -> int:
    """Number of the last round that a run wrote down; a line that is still being written does not count."""
    records = folder / "rounds.jsonl"
    if not records.is_file():
        return 0
    for line in reversed(records.read_bytes().splitlines()[-2:]):
        with contextlib.suppress(ValueError, TypeError, KeyError):
            return int(json.loads(line)["round"])
    return 0


def _run(job: Job, deadline: float | None, tell: Tell | None) -> None:
    from fedcbs.runs import resume, start

    def watch(record: RoundRecord) -> None:
        if tell is not None:
            tell(record.round, record.accuracy)
        if deadline is not None and time.time() >= deadline:
            raise KeyboardInterrupt  # the run takes it as the user's own: it saves a checkpoint and leaves

    if (job.folder / "config.json").is_file():
        resume(
            job.folder,
            rounds=job.rounds,
            threads=job.threads or None,
            data_dir=job.options.get("data.directory"),
            watch=watch,
        )
        return
    job.folder.parent.mkdir(parents=True, exist_ok=True)
    start(config_of(job), job.folder, watch=watch)


def config_of(job: Job) -> RunConfig:
    """Return the configuration of a job."""
    from fedcbs.runs import RunConfig

    config = RunConfig.of(**job.options)
    if job.threads and config.training.threads is None:
        config = config.with_options({"training.threads": job.threads})
    return config


_MAY_CHANGE = ("run.rounds", "run.checkpoint_every", "training.threads", "training.engine", "data.directory")
"""What a sweep may say otherwise than the run that it goes on with."""


def _same_run(job: Job, stored: dict[str, dict[str, Any]], *, over: bool) -> None:
    """Refuse to take one run for another; what the job leaves open, the stored configuration has settled.

    Where a run was computed says nothing about what it is, but going on elsewhere would make it neither one nor the other.
    """
    wanted = config_of(job).to_dict()
    may_change = (*_MAY_CHANGE, "training.device") if over else _MAY_CHANGE
    for section, values in wanted.items():
        for key, value in values.items():
            name = f"{section}.{key}"
            there = stored.get(section, {}).get(key)
            if value is None or name in may_change or _plain(value) == _plain(there):
                continue
            raise InvalidArgumentError(
                f"{str(job.folder)!r} holds a run with {name}={there!r}, but {value!r} is asked for; name another folder, or"
                f" remove {Path(job.folder).name!r}"
            )


def _plain(value: Any) -> Any:
    """A value as it is compared; a file is the same wherever it lies.

    >>> _plain("counts:/home/me/fedcbs/two.csv") == _plain("counts:two.csv")
    True
    """
    if isinstance(value, str) and value.startswith("counts:"):
        return f"counts:{Path(value.partition(':')[2]).name}"
    return list(value) if isinstance(value, tuple) else value
