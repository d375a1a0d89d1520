"""The memory of last updates beside a dict, and its limits."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fedcbs.errors import InvalidArgumentError
from fedcbs.selectors import ClusteredBySimilarity, DivFL
from fedcbs.selectors._update_memory import UpdateState
from tests.selectors.laws import Told, one

CLIENTS = st.lists(st.integers(0, 5), unique=True, max_size=6)


@given(st.lists(CLIENTS, max_size=5))
def test_it_keeps_the_last_update_of_each_client_and_nothing_else(rounds: list[list[int]]) -> None:
    state, last = UpdateState.empty(6), {}
    rng = np.random.default_rng(0)
    for clients in rounds:
        updates = rng.normal(size=(len(clients), 3)).astype(np.float32).astype(float)
        before = state
        state = state.remember(np.array(clients, dtype=np.int64), updates)
        assert before is state or before.rows is not state.rows  # the old state is left as it was
        last |= dict(zip(clients, updates.tolist(), strict=True))
    assert len(state.updates) == len(last)
    for client in range(6):
        found = state.of(np.array([client]))[0].tolist()
        assert found == (last[client] if client in last else [0.0] * len(found))


def test_updates_of_another_length_are_refused() -> None:
    state = UpdateState.empty(3).remember(np.array([0]), np.ones((1, 4)))
    with pytest.raises(InvalidArgumentError, match="updates has 5 parameters a client; earlier rounds had 4"):
        state.remember(np.array([1]), np.ones((1, 5)))


@pytest.mark.parametrize("selector", [DivFL(), ClusteredBySimilarity()])
def test_more_clients_than_can_be_compared_are_refused_before_anybody_is_asked(
    selector: DivFL | ClusteredBySimilarity,
) -> None:
    clients = Told(num_examples=np.ones(20_001, dtype=int))
    with pytest.raises(InvalidArgumentError, match="available has 20001 clients"):
        one(selector, clients, cohort_size=2)
