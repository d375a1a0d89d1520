"""How much a caller may ask of the service."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable

from fedcbs import _checks

__all__ = ["Limits", "Pace"]

MOST_CALLERS = 10_000
"""Callers whose pace is remembered."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds on requests.

    Parameters
    ----------
    largest_request
        Bytes of a server's request: a Gram matrix, or the outcome of a round.
    largest_upload
        Bytes of one client's upload.
    requests_per_second, burst
        How fast one caller may ask in the long run, and how much at once.
    body_seconds
        Longest pause in a request that is being sent.
    connections
        How many connections are open at once.
    """

    largest_request: int = 2**30
    largest_upload: int = 2**22
    requests_per_second: float = 50.0
    burst: int = 200
    body_seconds: float = 60.0
    connections: int = 500

    def __post_init__(self) -> None:
        for name in ("largest_request", "largest_upload", "burst", "connections"):
            _checks.integer(getattr(self, name), name, minimum=1)
        for name in ("requests_per_second", "body_seconds"):
            _checks.real(getattr(self, name), name, minimum=0, open_minimum=True)


class Pace:
    """A bucket of tokens for each caller.

    Parameters
    ----------
    limits
        How fast buckets fill, and how much they hold.
    clock
        Seconds from any moment on.

    Examples
    --------
    >>> pace = Pace(Limits(requests_per_second=1, burst=2), clock=lambda: 0.0)
    >>> [pace.wait("server") for _ in range(3)]
    [0.0, 0.0, 1.0]
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = limits.requests_per_second, float(limits.burst), clock
        self._buckets: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def wait(self, caller: str) -> float:
        """Take a token, and return 0; or return the seconds after which there is one."""
        with self._lock:
            now = self._clock()
            tokens, then = self._buckets.pop(caller, (self._burst, now))
            tokens = min(tokens + (now - then) * self._rate, self._burst)
            taken = tokens >= 1
            self._buckets[caller] = (tokens - taken, now)
            while len(self._buckets) > MOST_CALLERS:
                del self._buckets[next(iter(self._buckets))]
            return 0.0 if taken else (1 - tokens) / self._rate
