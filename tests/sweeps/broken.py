"""Datasets that go wrong in ways of their own, for sweeps to survive."""

from __future__ import annotations

import os
import signal

from fedcbs.data import Dataset


def raises() -> Dataset:
    raise RuntimeError("this dataset has a bug")


def dies() -> Dataset:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError
