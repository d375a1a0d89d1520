"""A small federation for tests of the service."""

from __future__ import annotations

import functools
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedcbs.private import PublicKeys, mode_of
from fedcbs.service import FederationOptions

__all__ = ["NAMES", "OPTIONS", "Service", "counts", "gram"]

NAMES = tuple(f"client-{number:02}" for number in range(30))
OPTIONS = FederationOptions(num_classes=5, mode="plain", max_examples=1000, seed=7)


@functools.cache
def counts(seed: int = 0) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    return np.array([rng.multinomial(100, rng.dirichlet(np.full(5, 0.3))) for _ in NAMES])


def gram(keys: PublicKeys, names: tuple[str, ...] = NAMES, seed: int = 0) -> bytes:
    """What the server computes for these clients."""
    mode = mode_of(keys)
    rows = dict(zip(NAMES, counts(seed), strict=True))
    return mode.gram(keys, {name: mode.encrypt(keys, rows[name], name) for name in names})


class Service:
    """A real service in a process of its own.

    Parameters
    ----------
    folder
        For its state and log.
    options
        More of the command line.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self._options = folder, options
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def start(self) -> str:
        """Start it, on the same port as before, and return its address."""
        log = (self.folder / "log").open("ab")
        start = log.tell()
        command = [sys.executable, "-m", "fedcbs", "selector", "serve", "--state", str(self.folder / "state")]
        command += ["--port", str(self.port), *self._options]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        log.close()
        end = time.monotonic() + 60
        while time.monotonic() < end:
            found = re.search(r"listening on (\S+:(\d+))\n", self.log()[start:])
            if found:
                self.port = int(found[2])
                return found[1].replace("127.0.0.1", "localhost")
            if self._process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"the service did not start: {self.log()[start:]}")

    def log(self) -> str:
        """What it said so far."""
        return (self.folder / "log").read_text()

    def end(self, number: int) -> int:
        """Send a signal, and return the exit code."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(60)

    def stop(self) -> None:
        """End it if it runs."""
        if self._process is not None and self._process.poll() is None:
            self.end(signal.SIGKILL)
