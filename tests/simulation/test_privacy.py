"""Label statistics reach the selector through the privacy mode, and with nothing more than it tells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedcbs.errors import InformationError, InvalidArgumentError
from fedcbs.private import known_modes
from fedcbs.runs import RunConfig, resume, start
from fedcbs.selectors import make_selector
from fedcbs.simulation import collect_statistics

COUNTS = np.random.default_rng(0).integers(0, 30, (12, 5))


@pytest.mark.parametrize("mode", list(known_modes()))
def test_every_mode_gives_the_same_inner_products(mode: str) -> None:
    found = collect_statistics(COUNTS, make_selector("fedcbs-exact"), mode=mode)
    everyone = np.arange(12)
    assert np.array_equal(found.information.gram().block(everyone, everyone), COUNTS @ COUNTS.T)
    assert found.information.num_examples().tolist() == COUNTS.sum(axis=1).tolist()
    assert found.bytes_up >= 8 * 12


def test_encrypted_modes_tell_no_label_counts() -> None:
    found = collect_statistics(COUNTS, make_selector("fedcbs-exact"), mode="masked")
    with pytest.raises(InformationError):
        found.information.label_counts()
    with pytest.raises(
        InvalidArgumentError, match=r"privacy\.mode='masked' tells inner products .*'astraea'"
    ):
        collect_statistics(COUNTS, make_selector("astraea"), mode="masked")
    sealed = collect_statistics(COUNTS, make_selector("astraea"), mode="sealed")
    shown = sealed.information.label_counts()
    assert sorted(map(tuple, shown.T)) == sorted(map(tuple, COUNTS.T))  # in an order that only clients know


def test_nothing_is_collected_for_a_selector_that_needs_nothing() -> None:
    assert collect_statistics(COUNTS, make_selector("uniform"), mode="fhe").bytes_up == 0
    assert collect_statistics(COUNTS, make_selector("pow-d")).bytes_up == 8 * 12
    assert collect_statistics(COUNTS, make_selector("fedcbs-exact")).bytes_up == 8 * 60


def test_noise_is_what_the_seed_says() -> None:
    one, two, other = (
        collect_statistics(
            COUNTS, make_selector("fedcbs-exact"), noise="laplace:epsilon=1", seed=seed
        ).information.label_counts()
        for seed in (1, 1, 2)
    )
    assert one.tolist() == two.tolist()
    assert one.tolist() != other.tolist()
    assert one.tolist() != COUNTS.tolist()


def test_a_private_run_is_the_plain_one_and_goes_on_without_computing_anew(tmp_path: Path) -> None:
    config = RunConfig.of(clients=20, cohort_size=3, rounds=4, schedule="steps:2", checkpoint_every=1)
    plain = start(config, tmp_path / "plain")
    private = start(config.with_options({"privacy": "masked"}), tmp_path / "private")
    assert [r.cohort for r in private.records] == [r.cohort for r in plain.records]
    assert private.records[0].bytes_up > plain.records[0].bytes_up
    assert private.records[1].bytes_up == plain.records[1].bytes_up
    opened = (tmp_path / "private" / "statistics.npz").read_bytes()
    longer = resume(tmp_path / "private", rounds=6)
    assert len(longer.records) == 6
    assert (tmp_path / "private" / "statistics.npz").read_bytes() == opened


def test_what_is_wrong_with_a_mode_is_said_before_any_work(tmp_path: Path) -> None:
    config = RunConfig.of(rounds=2)
    for options, message in (
        ({"privacy": "fehe"}, "did you mean 'fhe'"),
        ({"privacy.noise": "laplase:epsilon=1"}, "did you mean 'laplace'"),
        ({"privacy": "fhe", "selector": "astraea"}, "needs the label counts"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            start(config.with_options(options), tmp_path / "run")
