"""Schedules, batches, faults, times and traffic, each by itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcbs.data import load_dataset
from fedcbs.errors import InvalidArgumentError, UnknownNameError
from fedcbs.laboratory import LognormalDurations
from fedcbs.partition import Partition
from fedcbs.selectors import Need
from fedcbs.simulation import (
    ClientTimes,
    Faults,
    draw_plan,
    make_federation,
    parse_schedule,
)
from fedcbs.simulation._simulation import _examples_used
from fedcbs.simulation._times import Seconds
from fedcbs.simulation._traffic import traffic


def partition_of(sizes: list[int]) -> Partition:
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Partition(np.random.default_rng(0).permutation(int(offsets[-1])), offsets)


@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=5),
    steps=st.lists(st.integers(0, 12), min_size=5, max_size=5),
    batch_size=st.integers(1, 15),
)
def test_a_client_goes_through_all_its_examples_once_an_epoch(
    sizes: list[int], steps: list[int], batch_size: int
) -> None:
    partition = partition_of(sizes)
    clients = np.arange(len(sizes))
    wanted = np.where(np.array(sizes) > 0, steps[: len(sizes)], 0)
    plan = draw_plan(partition, clients, wanted, batch_size=batch_size, seed=3, round_index=2)
    assert plan.steps.tolist() == wanted.tolist()
    for client, size in enumerate(sizes):
        batches = [
            plan.indices[client, step, : plan.sizes[client, step]].tolist()
            for step in range(int(wanted[client]))
        ]
        epoch = -(-size // batch_size) if size else 0
        for start in range(0, len(batches), max(epoch, 1)):
            part = batches[start : start + epoch]
            seen = [index for batch in part for index in batch]
            assert len(set(seen)) == len(seen)
            assert set(seen) <= set(partition[client].tolist())
            if len(part) == epoch:
                assert len(seen) == size
        assert all(len(batch) <= batch_size for batch in batches)
        used = _examples_used(np.array([size]), np.array([wanted[client]]), batch_size)
        assert used[0] == sum(map(len, batches))


def test_batches_do_not_depend_on_who_else_is_in_the_cohort() -> None:
    partition = partition_of([30, 7, 19])
    alone = draw_plan(partition, np.array([1]), np.array([4]), batch_size=5, seed=1, round_index=9)
    among = draw_plan(
        partition, np.array([0, 1, 2]), np.array([2, 4, 8]), batch_size=5, seed=1, round_index=9
    )
    assert alone.indices[0].tolist() == among.indices[1, :4].tolist()
    other = draw_plan(partition, np.array([1]), np.array([4]), batch_size=5, seed=1, round_index=10)
    assert alone.indices.tolist() != other.indices.tolist()


def test_the_papers_schedule_gives_everybody_the_steps_of_the_largest_for_five_epochs() -> None:
    sizes = np.array([250, 120, 1, 0])
    assert parse_schedule("equal-steps:5").steps(sizes, 50).tolist() == [25, 25, 25, 0]
    assert parse_schedule("epochs:2").steps(sizes, 50).tolist() == [10, 6, 2, 0]
    assert parse_schedule("epochs:0.5").steps(sizes, 50).tolist() == [3, 2, 1, 0]
    assert parse_schedule("steps:7").steps(sizes, 50).tolist() == [7, 7, 7, 0]


@pytest.mark.parametrize("text", ["epochs", "epochs:0", "steps:1.5", "steps:-1", "epoch:5", "", "epochs:inf"])
def test_schedules_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_schedule(text)


def test_dropouts_have_their_rate_and_do_not_depend_on_the_cohort() -> None:
    faults = Faults(dropout=0.3)
    everyone, some = np.arange(1000), np.arange(0, 1000, 3)
    whole = faults.fate(everyone, everyone + 1, None, None, num_clients=1000, seed=5, round_index=7)
    part = faults.fate(some, some + 1, None, None, num_clients=1000, seed=5, round_index=7)
    assert 0.25 < len(whole.failed) / 1000 < 0.35
    assert set(part.failed.tolist()) == set(whole.failed.tolist()) & set(some.tolist())
    assert part.steps.tolist() == (part.answered + 1).tolist()


def test_a_deadline_loses_the_late_or_leaves_them_fewer_steps() -> None:
    seconds = Seconds(down=np.ones(3), training=np.array([8.0, 18.0, 48.0]), up=np.ones(3))
    cohort, steps, factors = np.array([0, 1, 2]), np.array([4, 6, 6]), np.ones(3)
    known = {"num_clients": 3, "seed": 0, "round_index": 1}
    lost = Faults(deadline=12.0).fate(cohort, steps, seconds, factors, **known)
    assert (lost.answered.tolist(), lost.failed.tolist(), lost.seconds) == ([0], [1, 2], 12.0)
    partial = Faults(deadline=12.0, late="partial").fate(cohort, steps, seconds, factors, **known)
    assert partial.answered.tolist() == [0, 1, 2]
    assert partial.steps.tolist() == [4, 3, 1]
    assert partial.durations is not None
    assert partial.durations.tolist() == [10.0, 11.0, 10.0]
    assert partial.seconds == 11.0
    without = Faults().fate(cohort, steps, seconds, factors, **known)
    assert without.seconds == 50.0


def test_times_follow_speed_bandwidth_and_seed() -> None:
    times = ClientTimes(speed=10, bandwidth=8, spread=LognormalDurations(sigma=0.5, noise=0.2))
    used = np.full(2000, 100)
    found = times.expected(used, bytes_down=1_000_000, bytes_up=2_000_000, seed=3)
    assert np.median(found.training) == pytest.approx(10, rel=0.1)
    assert np.median(found.down) == pytest.approx(1, rel=0.1)
    np.testing.assert_allclose(found.up, 2 * found.down)
    again = times.expected(used, bytes_down=1_000_000, bytes_up=2_000_000, seed=3)
    assert again.total.tobytes() == found.total.tobytes()


def test_traffic_counts_each_model_once() -> None:
    cohort, answered = np.array([1, 2, 3]), np.array([1, 3])
    assert traffic(cohort, answered, {}, model_bytes=100) == (2 * 116, 300)
    asked = {Need.UPDATES: np.array([1, 7])}
    assert traffic(cohort, answered, asked, model_bytes=100) == (2 * 16 + 3 * 100, 400)
    norms = {Need.UPDATE_NORMS: np.array([1, 2, 7, 8])}
    assert traffic(cohort, answered, norms, model_bytes=100) == (2 * 116 + 32, 500)
    assert traffic(cohort, answered, {}, model_bytes=100, vectors=2) == (2 * 216, 600)


def test_what_the_server_holds_no_client_does() -> None:
    dataset = load_dataset("digits")
    federation = make_federation(dataset, "dirichlet-hsu", alpha=0.5, num_clients=20, auxiliary=7, seed=2)
    held = np.concatenate(federation.auxiliary)
    assert not np.intersect1d(held, federation.partition.indices).size
    for label, examples in enumerate(federation.auxiliary):
        assert dataset.train.labels[examples].tolist() == [label] * 7
    counts = np.bincount(dataset.train.labels[federation.partition.indices], minlength=10)
    assert federation.label_counts.sum(axis=0).tolist() == counts.tolist()
    with pytest.raises(InvalidArgumentError, match=r"auxiliary=5000 examples of each class, but class \d"):
        make_federation(dataset, "iid", num_clients=20, auxiliary=5000)


def test_wrong_faults_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"availability\.dropout=1\.5"):
        Faults(dropout=1.5)
    with pytest.raises(UnknownNameError, match="did you mean 'partial'"):
        Faults(late="partail")
