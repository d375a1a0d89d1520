"""One run of a sweep: where it goes, what it is, how it ended."""

from __future__ import annotations

import dataclasses
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

__all__ = ["Job", "Outcome", "Progress", "folder_name"]

DONE, STOPPED, DIVERGED, FAILED = "done", "stopped", "diverged", "failed"


@final
@dataclasses.dataclass(frozen=True)
class Job:
    """One run.

    Parameters
    ----------
    name
        What it is called in what is told.
    folder
        Its run directory.
    options
        Its configuration, by dotted key.
    threads
        Threads that it may use, where its configuration does not say; 0 for as many as there are.
    """

    name: str
    folder: Path
    options: Mapping[str, Any]
    threads: int = 0

    @property
    def rounds(self) -> int:
        """How many rounds it has."""
        return int(self.options.get("run.rounds", 100))


@final
@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a job ended.

    Parameters
    ----------
    job
        Which.
    status
        ``done``, ``stopped`` (time was up, or the user stopped it; it goes on next time), ``diverged`` or ``failed``.
    message
        What went wrong, where something did.
    """

    job: Job
    status: str
    message: str = ""


@final
@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a job is.

    Parameters
    ----------
    job
        Which.
    round
        The last round that it did.
    accuracy
        Of that round, where it was evaluated.
    """

    job: Job
    round: int
    accuracy: float | None = None


def folder_name(parts: Mapping[str, object]) -> str:
    """Return a name for a folder that says what a run is; no two differ in their parts and not in their names.

    >>> folder_name({"selector": "fedcbs-exact:sweeps=3", "learning_rate": 0.01, "seed": 2})
    'fedcbs-exact-sweeps=3,learning_rate=0.01,seed=2'
    >>> folder_name({"selector": "pkg/odd name"})
    'pkg-odd-name~19e81d2f'
    """
    texts = [str(value) if key == "selector" else f"{key}={value}" for key, value in parts.items()]
    whole = ",".join(texts)
    clean = re.sub(r"[^A-Za-z0-9._=,+-]", "-", whole).strip(".")[:120]
    plain = whole.replace(":", "-")
    return clean if clean == plain else f"{clean}~{zlib.crc32(whole.encode()):08x}"
