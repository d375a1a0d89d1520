"""Opening what a server sent, in a process of its own: the native library behind a mode may abort on hostile bytes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures import TimeoutError as Late
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from fedcbs.errors import ProtocolError
from fedcbs.private import OpenedGram, SecretKeys, mode_of

__all__ = ["masks_apart", "open_apart"]

Given = TypeVar("Given")
Result = TypeVar("Result")

SAFE_MODES = ("plain", "sealed")
"""Modes that open with Python, NumPy and libsodium alone."""

LONGEST = 1800.0
"""Seconds after which an opening is given up."""


def open_apart(secret: SecretKeys, gram: bytes) -> OpenedGram:
    """Open a Gram; a crash or a hang of the native code becomes an error."""
    if secret.mode in SAFE_MODES:
        return _open(secret, gram)
    return _apart(_open, secret, gram)


def masks_apart(secret: SecretKeys, seeds: dict[str, bytes]) -> bytes:
    """Make masks in the same way."""
    if secret.mode in SAFE_MODES:
        return _masks(secret, seeds)
    return _apart(_masks, secret, seeds)


def _open(secret: SecretKeys, gram: bytes) -> OpenedGram:
    return mode_of(secret).open(secret, gram)


def _masks(secret: SecretKeys, seeds: dict[str, bytes]) -> bytes:
    return mode_of(secret).masks(secret, seeds)


def _apart(work: Callable[[SecretKeys, Given], Result], secret: SecretKeys, data: Given) -> Result:
    pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    try:
        return pool.submit(work, secret, data).result(LONGEST)
    except BrokenProcessPool:
        raise ProtocolError(
            "these bytes crashed the library that opens them; nothing was taken from them"
        ) from None
    except Late:
        for process in list(pool._processes.values()):
            process.kill()
        raise ProtocolError(f"these bytes could not be opened in {LONGEST:.0f} s") from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
