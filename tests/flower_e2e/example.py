"""The example's federation in this process."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import numpy as np

from fedcbs.private import mode_of
from fedcbs.service import FederationOptions, LocalSelector
from tests.flower_e2e.cluster import APP

ALPHA = 0.1


def task() -> Any:
    """The example's module."""
    if str(APP) not in sys.path:
        sys.path.insert(0, str(APP))
    from digits_app import task as module

    return module


def label_counts(num_clients: int) -> np.ndarray:
    parts = [task().examples_of(number, num_clients, ALPHA) for number in range(num_clients)]
    return np.array([np.bincount(part.labels, minlength=10) for part in parts])


def cohorts_in_process(
    num_clients: int, cohort_size: int, options: FederationOptions, *, rounds: int
) -> list[list[int]]:
    """What the selector chooses where everybody answers."""
    link = LocalSelector()
    link.create("here", dataclasses.replace(options, mode="plain"))
    keys = link.public_keys("here")
    names = [str(number) for number in range(num_clients)]
    uploads = {
        name: mode_of(keys).encrypt(keys, row, name)
        for name, row in zip(names, label_counts(num_clients), strict=True)
    }
    link.put_statistics("here", mode_of(keys).gram(keys, uploads))
    found = []
    for number in range(1, rounds + 1):
        cohort = link.select("here", round_index=number, cohort_size=cohort_size, available=names)
        link.observe("here", number, answered=cohort.clients)
        found.append(sorted(int(name) for name in cohort.clients))
    return found
