"""Every selector in a federation: what it needs is asked of the nodes, or read from their replies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, Context
from flwr.serverapp.strategy import FedAvg

from fedcbs import LabelInformation, Need, Round, make_selector, selector_types
from fedcbs.errors import InvalidArgumentError
from fedcbs.flower import FederationError, with_answers, with_selector
from tests.flower.fake import FakeGrid, counts_of, model, partition, training_app

COUNTS = counts_of(10)
COHORT = 3
ROUNDS = 4


def losses(arrays: ArrayRecord, context: Context, limit: int | None) -> np.ndarray:
    distance = sum(float(np.abs(array).sum()) for array in arrays.to_numpy_ndarrays())
    examples = COUNTS[partition(context)].sum() if limit is None else limit
    return (1 + partition(context) + distance) * np.linspace(0.5, 1.5, int(examples))


def gradients(arrays: ArrayRecord) -> np.ndarray:
    return 1e-3 + np.abs(np.resize(arrays.to_numpy_ndarrays()[0].ravel(), 5)).astype(float)


def federation() -> FakeGrid:
    app = with_answers(
        training_app(COUNTS), label_counts=lambda context: COUNTS[partition(context)], losses=losses
    )
    return FakeGrid([app] * len(COUNTS))


def options(name: str) -> dict[str, Any]:
    learns = selector_types()[name].learns
    return {"class_gradients": gradients} if Need.CLASS_GRADIENTS in learns else {}


def run(name: str, grid: FakeGrid, **more: Any) -> Any:
    strategy = with_selector(FedAvg(), name, cohort_size=COHORT, seed=1, **options(name), **more)
    return strategy.start(grid, model(), num_rounds=ROUNDS, timeout=60)


@pytest.mark.parametrize("name", sorted(selector_types()))
def test_every_selector_runs_and_trains_whom_it_chose(name: str) -> None:
    grid = federation()
    result = run(name, grid)
    trained = grid.trained()
    chosen = [metrics["fedcbs-cohort"] for metrics in result.train_metrics_clientapp.values()]
    assert [sorted(cohort) for cohort in chosen] == trained  # names and indices agree up to ten clients
    assert len(trained) == ROUNDS
    if selector_types()[name].fixed_size:
        assert all(len(cohort) == COHORT for cohort in trained)


@pytest.mark.parametrize("name", sorted(selector_types()))
def test_the_same_seed_gives_the_same_cohorts(name: str) -> None:
    kind = selector_types()[name]
    if Need.DURATIONS in kind.learns | kind.needs:
        pytest.skip("learns from times on the clock")
    one, two = federation(), federation()
    run(name, one)
    run(name, two)
    assert one.trained() == two.trained()


def test_cohorts_are_those_of_the_selector_alone() -> None:
    grid = federation()
    run("fedcbs-exact", grid)
    selector = make_selector("fedcbs-exact")
    state, cohorts = selector.init(len(COUNTS)), []
    for number in range(1, ROUNDS + 1):
        selection = selector.select(
            state, Round(LabelInformation(COUNTS), cohort_size=COHORT, round_index=number, seed=1)
        )
        state = selection.state
        cohorts.append(selection.cohort.tolist())
    assert grid.trained() == cohorts


ASKED = {
    "uniform": set(),
    "fedcbs-exact": {"label-counts"},
    "clustered-size": {"num-examples"},
    "rbcs-f": {"durations"},
    "pow-d": {"num-examples"},
}


@pytest.mark.parametrize("name", sorted(ASKED))
def test_nodes_are_asked_no_more_than_the_selector_needs(name: str) -> None:
    grid = federation()
    run(name, grid)
    questions = [m for m in grid.sent if m.metadata.message_type == "query.fedcbs_statistics"]
    assert len(questions) == len(COUNTS)  # each once
    assert set(questions[0].content["fedcbs"]["ask"]) == ASKED[name]


def test_questions_before_the_choice_are_counted() -> None:
    grid = federation()
    strategy = with_selector(FedAvg(), "pow-d:num_candidates=5", cohort_size=COHORT)
    result = strategy.start(grid, model(), num_rounds=2, timeout=60)
    asked = [m for m in grid.sent if m.metadata.message_type == "query.fedcbs_losses"]
    assert len(asked) == 10
    plain = with_selector(FedAvg(), "uniform", cohort_size=COHORT)
    cheaper = plain.start(federation(), model(), num_rounds=2, timeout=60)
    more, less = (one.train_metrics_clientapp[2]["fedcbs-bytes-down"] for one in (result, cheaper))
    assert more > less


def test_the_nodes_own_training_tells_the_norm_and_leaves_no_trace() -> None:
    grid = federation()
    run("ou", grid)
    asked = [m for m in grid.sent if m.metadata.message_type == "query.fedcbs_updates"]
    assert len(asked) == ROUNDS * len(COUNTS)
    assert all(not node.context.state for node in grid.nodes.values())


def test_weights_of_the_selector_are_those_of_the_average() -> None:
    grid = federation()
    strategy = with_selector(FedAvg(), "clustered-size", cohort_size=COHORT, seed=5)
    result = strategy.start(grid, model(), num_rounds=1, timeout=60)
    (cohort,) = grid.trained()
    selector = make_selector("clustered-size")
    selection = selector.select(
        selector.init(len(COUNTS)), Round(LabelInformation(COUNTS), cohort_size=COHORT, seed=5)
    )
    assert selection.cohort.tolist() == cohort
    assert selection.weights is not None
    expected = sum(w * float(COUNTS[c][0]) for c, w in zip(cohort, selection.weights, strict=True))
    assert result.arrays.to_numpy_ndarrays()[1][0] == pytest.approx(expected, rel=1e-5)


def test_estimates_are_averaged_in() -> None:
    strategy = with_selector(FedAvg(), "ou:significance=0.5", cohort_size=COHORT, seed=0)
    result = strategy.start(federation(), model(), num_rounds=6, timeout=60)
    assert np.isfinite(result.arrays.to_numpy_ndarrays()[0]).all()
    assert result.train_metrics_clientapp[6]["train_loss"] > 0


def test_what_nobody_can_tell_ends_the_run_with_the_remedy() -> None:
    app = with_answers(training_app(COUNTS), label_counts=lambda context: COUNTS[partition(context)])
    strategy = with_selector(FedAvg(), "oort", cohort_size=COHORT)
    with pytest.raises(FederationError, match=r"give losses= to with_answers|gave a usable answer"):
        strategy.start(FakeGrid([app] * 10), model(), num_rounds=1, timeout=60)


def test_class_gradients_are_the_servers_to_give() -> None:
    with pytest.raises(InvalidArgumentError, match="class_gradients=None, but fed-cucb learns"):
        with_selector(FedAvg(), "fed-cucb", cohort_size=3)
