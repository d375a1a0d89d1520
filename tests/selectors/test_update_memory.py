"""The memory of last updates beside a dict, and its limits."""

from __future__ import annotations

import tempfile
import tracemalloc
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fedcbs.errors import FedCBSError, InvalidArgumentError, UnknownNameError
from fedcbs.selectors import ClusteredBySimilarity, DivFL, OrnsteinUhlenbeck
from fedcbs.selectors._update_memory import UpdateState
from tests.selectors.laws import Told, one

CLIENTS = st.lists(st.integers(0, 5), unique=True, max_size=6)


@given(st.lists(CLIENTS, max_size=5), st.sampled_from(["float32", "float16"]), st.booleans())
def test_it_keeps_the_last_update_of_each_client_and_nothing_else(
    rounds: list[list[int]], precision: str, on_disk: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        selector = DivFL(precision=precision, on_disk=on_disk)
        state, last = selector.init(6, Path(folder)), dict[int, list[float]]()
        rng = np.random.default_rng(0)
        for clients in rounds:
            updates = rng.normal(size=(len(clients), 3)).astype(precision).astype(float)
            before, expected = state, dict(last)
            state = state.remember(np.array(clients, dtype=np.int64), updates)
            last |= dict(zip(clients, updates.tolist(), strict=True))
            assert_holds(before, expected)  # the old state is left as it was
            assert_holds(state, last)
        arrays = state.to_arrays()
        assert arrays["updates"].dtype == precision
        assert len(arrays["updates"]) == (0 if on_disk else len(last))
        assert_holds(selector.restore(arrays, selector.init(6, Path(folder))), last)


def assert_holds(state: UpdateState, updates: dict[int, list[float]]) -> None:
    for client in range(6):
        found = state.of(np.array([client]))[0].tolist()
        assert found == updates.get(client, [0.0] * len(found))


def test_an_update_that_is_remembered_copies_no_other(tmp_path: Path) -> None:
    clients, length = 200, 10_000
    for on_disk in (False, True):
        state = DivFL(on_disk=on_disk).init(clients, tmp_path)
        state = state.remember(np.arange(clients), np.ones((clients, length)))
        tracemalloc.start()
        for client in range(100):
            state = state.remember(np.array([client]), np.full((1, length), 2.0))
        _, peak = tracemalloc.get_traced_memory()
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        vector = 4 * length
        assert peak < 105 * vector if not on_disk else peak < 5 * vector
        assert kept < 101 * vector if not on_disk else kept < vector  # the new took the place of the old
    assert (tmp_path / "updates.bin").stat().st_size <= (clients + 2) * vector


def test_old_states_stay_true_while_somebody_holds_them(tmp_path: Path) -> None:
    state = DivFL(on_disk=True).init(2, tmp_path)
    held = [state := state.remember(np.array([0]), np.full((1, 4), float(k))) for k in range(10)]
    assert [one.of(np.array([0]))[0, 0] for one in held] == list(range(10))
    del held
    state = state.remember(np.array([1]), np.full((1, 4), 11.0))
    assert state.of(np.array([0, 1]))[:, 0].tolist() == [9, 11]
    assert (tmp_path / "updates.bin").stat().st_size == 10 * 16  # a free place was taken


def test_what_was_kept_on_disk_is_found_by_the_next_process_or_missed_aloud(tmp_path: Path) -> None:
    selector = DivFL(on_disk=True)
    state = selector.init(3, tmp_path).remember(np.array([2, 0]), np.array([[1.5, 2.5], [3.5, 4.5]]))
    arrays = state.to_arrays()
    again = selector.restore(arrays, selector.init(3, tmp_path))
    later = again.remember(np.array([0]), np.array([[9.0, 9.0]]))
    assert again.of(np.arange(3)).tolist() == [[3.5, 4.5], [0, 0], [1.5, 2.5]]
    assert later.of(np.arange(3)).tolist() == [[9, 9], [0, 0], [1.5, 2.5]]
    with pytest.raises(FedCBSError, match="they were kept on disk"):
        DivFL().restore(arrays)
    (tmp_path / "updates.bin").write_bytes(b"short")
    with pytest.raises(FedCBSError, match="cut or replaced"):
        selector.restore(arrays, selector.init(3, tmp_path))


def test_what_cannot_be_kept_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="on_disk=true needs a folder"):
        OrnsteinUhlenbeck(on_disk=True).init(3)
    with pytest.raises(UnknownNameError, match="precision='float8' is not known"):
        ClusteredBySimilarity(precision="float8")
    with pytest.raises(InvalidArgumentError, match="the largest in float16"):
        DivFL(precision="float16").init(1).remember(np.array([0]), np.array([[1e6]]))


def test_stretches_of_columns_make_up_the_whole() -> None:
    rng = np.random.default_rng(0)
    state = UpdateState.empty(4).remember(np.array([1, 3]), rng.normal(size=(2, 11)))
    parts = list(state.stretches(np.arange(4), most=20))
    assert [part.shape[1] for part in parts] == [5, 5, 1]
    assert np.hstack(parts).tolist() == state.of(np.arange(4)).tolist()


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
