"""Opening what a server sent, in a process of its own: the native library behind a mode may abort on hostile bytes."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures import TimeoutError as Late
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from fedcbs.errors import InvalidArgumentError, ProtocolError
from fedcbs.private import OpenedGram, SecretKeys, mode_of
from fedcbs.private._fhe import Fhe

__all__ = ["RowOpener", "masks_apart", "open_apart"]

Result = TypeVar("Result")

SAFE_MODES = ("plain", "sealed")
"""Modes that open with Python, NumPy and libsodium alone."""

LONGEST = 1800.0
"""Seconds after which an opening is given up."""


def open_apart(secret: SecretKeys, gram: bytes) -> OpenedGram:
    """Open a Gram; a crash or a hang of the native code becomes an error."""
    return _open(secret, gram) if secret.mode in SAFE_MODES else _once(_open, secret, gram)


def masks_apart(secret: SecretKeys, seeds: dict[str, bytes]) -> bytes:
    """Make masks in the same way."""
    return _masks(secret, seeds) if secret.mode in SAFE_MODES else _once(_masks, secret, seeds)


@final
class RowOpener:
    """Opens single rows in a process that stays, since its start takes longer than a row.

    Parameters
    ----------
    secret
        The selector's secret keys.
    setup
        What the server computed first: sizes and diagonal.
    """

    def __init__(self, secret: SecretKeys, setup: bytes) -> None:
        if not isinstance(mode_of(secret), Fhe):
            raise InvalidArgumentError(
                f"mode {secret.mode!r} has no single rows, which only 'fhe' has; hand in the whole result"
            )
        self._pool = _pool(_set_up, secret, setup)
        try:
            self.clients, self.num_examples, self.diagonal, self.refused = _wait(self._pool, _told)
        except BaseException:
            self.close()
            raise

    def row(self, client: str, message: bytes) -> NDArray[np.int64]:
        """Return a client's inner products with all, in their order."""
        return _wait(self._pool, _row, client, message)

    def close(self) -> None:
        """End the process."""
        self._pool.shutdown(wait=False, cancel_futures=True)


_opened: Any = None


def _set_up(secret: SecretKeys, setup: bytes) -> None:
    """In the process of a RowOpener: remember what to open, and open it when first asked, so that errors get back."""
    global _opened
    _end_with_parent()
    _opened = (secret, setup)


def _told() -> tuple[tuple[str, ...], NDArray[np.int64], NDArray[np.int64], dict[str, str]]:
    global _opened
    secret, setup = _opened
    mode = mode_of(secret)
    assert isinstance(mode, Fhe)
    _opened = mode.open_rows(secret, setup)
    return _opened.clients, _opened.num_examples, _opened.diagonal, dict(_opened.refused)


def _row(client: str, message: bytes) -> NDArray[np.int64]:
    row: NDArray[np.int64] = _opened.row(client, message)
    return row


def _open(secret: SecretKeys, gram: bytes) -> OpenedGram:
    return mode_of(secret).open(secret, gram)


def _masks(secret: SecretKeys, seeds: dict[str, bytes]) -> bytes:
    return mode_of(secret).masks(secret, seeds)


def _once(work: Callable[..., Result], *arguments: Any) -> Result:
    pool = _pool(_end_with_parent)
    try:
        return _wait(pool, work, *arguments)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _pool(start: Callable[..., None], *arguments: Any) -> ProcessPoolExecutor:
    # Spawned and not forked: it holds what it is given, and nothing of this process's memory.
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), start, arguments)


def _wait(pool: ProcessPoolExecutor, work: Callable[..., Result], *arguments: Any) -> Result:
    try:
        return pool.submit(work, *arguments).result(LONGEST)
    except BrokenProcessPool:
        raise ProtocolError(
            "these bytes crashed the library that opens them; nothing was taken from them"
        ) from None
    except Late:
        for process in list(pool._processes.values()):
            process.kill()
        raise ProtocolError(f"these bytes could not be opened in {LONGEST:.0f} s") from None


def _end_with_parent() -> None:
    """End this process when the service is killed: it holds a secret key, and would wait for work for ever."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
