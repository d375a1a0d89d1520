"""Processes that compute: what happens in them stays in them."""

from __future__ import annotations

import os
from functools import partial

import pytest

from fedcbs.errors import ProtocolError
from fedcbs.private._workers import Pool


class Calculator:
    def __init__(self, base: int) -> None:
        self.base = base

    def add(self, number: int) -> int:
        return self.base + number

    def abort(self) -> None:
        os.abort()

    def refuse(self) -> None:
        raise ProtocolError("of no use")


@pytest.mark.parametrize("processes", [0, 2])
def test_tasks_come_back_with_their_names(processes: int) -> None:
    with Pool(Calculator, (10,), processes=processes) as pool:
        found = dict(pool.map("add", {n: partial(tuple, (n,)) for n in range(9)}))
        assert found == {n: 10 + n for n in range(9)}
        assert dict(pool.map("add", {})) == {}
        with pytest.raises(ProtocolError, match="of no use"):
            list(pool.map("refuse", {0: tuple}))


def test_an_abort_takes_nothing_else_down() -> None:
    """As a library does that gives up on what it is fed."""
    with (
        Pool(Calculator, (10,), processes=1) as pool,
        pytest.raises(ProtocolError, match="a computing process died"),
    ):
        list(pool.map("abort", {0: tuple}))
