"""What every selector must do. A check takes the type of a selector; `test_contract.py` runs all checks on all types."""

from __future__ import annotations

import dataclasses
import inspect
import io
import math
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from fedcbs.errors import (
    FedCBSError,
    InformationError,
    InvalidArgumentError,
    NeedsTrainingError,
    UndeclaredNeedError,
)
from fedcbs.selectors import (
    Feedback,
    Information,
    LabelInformation,
    Need,
    Round,
    RoundView,
    Selection,
    Selector,
    make_selector,
)
from tests.selectors.federation import OnlyDeclared, ToyFederation
from tests.strategies import EXACT, label_counts

SelectorType = type[Selector[Any]]
Check = Callable[[SelectorType], None]

SOME_COUNTS = [[9, 0, 1], [0, 7, 0], [3, 3, 3], [0, 1, 12], [5, 0, 0], [0, 4, 4], [2, 2, 1], [0, 0, 8]]
EXAMPLES = 10


@dataclasses.dataclass(frozen=True)
class Scene:
    """A federation, and what happens in each of its rounds."""

    counts: NDArray[np.int64]
    seed: int
    available: list[list[int]]
    cohort_sizes: list[int]
    failing: list[float]
    """Share of each round's cohort that fails."""

    @property
    def num_clients(self) -> int:
        return len(self.counts)


@st.composite
def scenes(draw: st.DrawFn, *, max_count: int = 60, rounds: int = 4) -> Scene:
    """Scenes in which there are always as many available clients with examples as are asked for."""
    counts = draw(label_counts(max_clients=8, max_count=max_count))
    filled = [n for n in range(len(counts)) if counts[n].any()]
    available, sizes = [], []
    for _ in range(rounds):
        certain = draw(st.lists(st.sampled_from(filled), min_size=1, unique=True))
        others = draw(st.lists(st.sampled_from(range(len(counts))), unique=True))
        available.append(draw(st.permutations(sorted({*certain, *others}))))
        sizes.append(draw(st.integers(1, len(certain))))
    failing = draw(st.lists(st.sampled_from([0.0, 0.0, 0.5, 1.0]), min_size=rounds, max_size=rounds))
    return Scene(counts, draw(st.integers(0, 2**32)), available, sizes, failing)


def with_scenes(check: Callable[[SelectorType, Scene], None]) -> Check:
    """Run a check on many scenes."""

    def on_many(kind: SelectorType) -> None:
        @settings(max_examples=EXAMPLES)
        @given(scenes())
        def on_one(scene: Scene) -> None:
            check(kind, scene)

        on_one()

    on_many.__name__ = check.__name__
    return on_many


def play(selector: Selector[Any], scene: Scene) -> Iterator[tuple[Any, Round, Selection[Any]]]:
    """Run the rounds of a scene: the state before each, the round, and the answer to it."""
    federation, state = ToyFederation(scene.counts, seed=scene.seed % 7), selector.init(scene.num_clients)
    for k in range(1, len(scene.available) + 1):
        round_ = round_of(scene, k, federation)
        selection = selector.select(state, round_)
        yield state, round_, selection
        state, federation = advance(selector, scene, k, federation, selection)


def round_of(scene: Scene, k: int, information: Information, available: list[int] | None = None) -> Round:
    return Round(
        information,
        cohort_size=scene.cohort_sizes[k - 1],
        available=scene.available[k - 1] if available is None else available,
        round_index=k,
        seed=scene.seed,
    )


def advance(
    selector: Selector[Any], scene: Scene, k: int, federation: ToyFederation, selection: Selection[Any]
) -> tuple[Any, ToyFederation]:
    """Train a cohort, a share of which fails, and let the selector learn from the others."""
    failed = selection.cohort[: math.ceil(scene.failing[k - 1] * len(selection.cohort))]
    feedback, federation = federation.train(selection, round_index=k, failed=failed)
    return selector.observe(selection.state, feedback), federation


def some_rounds(
    kind: SelectorType, counts: Any, *, cohort_size: int, rounds: int = 3
) -> list[Selection[Any]]:
    """Rounds in which everybody is available."""
    scene = Scene(
        np.asarray(counts), 5, [list(range(len(counts)))] * rounds, [cohort_size] * rounds, [0.0] * rounds
    )
    return [selection for _, _, selection in play(make(kind), scene)]


def make(kind: SelectorType) -> Selector[Any]:
    return make_selector(kind.name)


def assert_same_state(one: Any, two: Any) -> None:
    first, second = one.to_arrays(), two.to_arrays()
    assert list(first) == list(second)
    for name, array in first.items():
        assert array.dtype == second[name].dtype, name
        assert array.shape == second[name].shape, name
        assert array.tobytes() == second[name].tobytes(), name


def assert_same_selection(one: Selection[Any], two: Selection[Any]) -> None:
    assert one.cohort.tolist() == two.cohort.tolist()
    assert (one.weights is None) == (two.weights is None)
    if one.weights is not None and two.weights is not None:
        assert one.weights.tobytes() == two.weights.tobytes()
    assert one.asked == two.asked
    assert (one.estimates is None) == (two.estimates is None)
    if one.estimates is not None and two.estimates is not None:
        for field in dataclasses.fields(one.estimates):
            assert (
                getattr(one.estimates, field.name).tobytes() == getattr(two.estimates, field.name).tobytes()
            )
    assert_same_state(one.state, two.state)


def expected_sizes(kind: SelectorType, round_: Round) -> range:
    """How many clients a cohort may have."""
    if kind.fixed_size:
        return range(round_.cohort_size, round_.cohort_size + 1)
    return range(1, len(round_.available) + 1)


# --- the checks ------------------------------------------------------------------------------------------------------


@with_scenes
def a_cohort_is_distinct_available_ascending_and_of_the_right_size(kind: SelectorType, scene: Scene) -> None:
    for _, round_, selection in play(make(kind), scene):
        cohort = selection.cohort.tolist()
        assert cohort == sorted(set(cohort))
        assert set(cohort) <= set(round_.available.tolist())
        assert len(cohort) in expected_sizes(kind, round_)


@with_scenes
def weights_are_finite_not_negative_and_fit_the_cohort(kind: SelectorType, scene: Scene) -> None:
    for _, round_, selection in play(make(kind), scene):
        if selection.weights is None:
            assert selection.estimates is None
            continue
        assert selection.weights.shape == selection.cohort.shape
        assert np.isfinite(selection.weights).all()
        assert (selection.weights >= 0).all()
        total = float(selection.weights.sum())
        if selection.estimates is not None:
            estimates = selection.estimates
            assert not set(estimates.clients.tolist()) & set(selection.cohort.tolist())
            assert set(estimates.clients.tolist()) <= set(round_.available.tolist())
            assert estimates.weights.shape == estimates.clients.shape
            assert estimates.updates.shape[0] == len(estimates.clients)
            assert np.isfinite(estimates.updates).all()
            assert (estimates.weights >= 0).all()
            total += float(estimates.weights.sum())
        assert total == pytest.approx(1.0, rel=1e-12)


@with_scenes
def clients_without_examples_are_left_out_where_it_says_so(kind: SelectorType, scene: Scene) -> None:
    for _, _, selection in play(make(kind), scene):
        if kind.skips_empty:
            assert scene.counts[selection.cohort].any(axis=1).all()


@with_scenes
def times_selected_counts_the_rounds_in_which_a_client_was_selected(kind: SelectorType, scene: Scene) -> None:
    times = np.zeros(scene.num_clients, dtype=np.int64)
    for state, _, selection in play(make(kind), scene):
        assert state.times_selected.tolist() == times.tolist()
        times[selection.cohort] += 1
        assert selection.state.times_selected.tolist() == times.tolist()


@with_scenes
def asked_twice_it_answers_twice_the_same(kind: SelectorType, scene: Scene) -> None:
    for state, round_, selection in play(make(kind), scene):
        assert_same_selection(make(kind).select(state, round_), selection)


@with_scenes
def the_order_in_which_clients_are_named_available_is_irrelevant(kind: SelectorType, scene: Scene) -> None:
    for state, round_, selection in play(make(kind), scene):
        backwards = Round(
            round_.information,
            cohort_size=round_.cohort_size,
            available=round_.available[::-1],
            round_index=round_.round_index,
            seed=round_.seed,
        )
        assert_same_selection(make(kind).select(state, backwards), selection)


@with_scenes
def nothing_that_it_is_given_changes(kind: SelectorType, scene: Scene) -> None:
    selector, federation = make(kind), ToyFederation(scene.counts)
    counts, state = scene.counts.copy(), selector.init(scene.num_clients)
    for k in range(1, len(scene.available) + 1):
        available = np.array(scene.available[k - 1])
        before, kept = {name: array.copy() for name, array in state.to_arrays().items()}, available.copy()
        selection = selector.select(
            state,
            Round(federation, cohort_size=scene.cohort_sizes[k - 1], available=available, round_index=k),
        )
        assert np.array_equal(available, kept)
        assert np.array_equal(scene.counts, counts)
        assert {n: a.tobytes() for n, a in state.to_arrays().items()} == {
            n: a.tobytes() for n, a in before.items()
        }
        chosen = {name: array.copy() for name, array in selection.state.to_arrays().items()}
        feedback, federation = federation.train(selection, round_index=k)
        updates = np.array(feedback.updates)
        state = selector.observe(selection.state, feedback)
        assert np.array_equal(np.asarray(feedback.updates), updates)
        assert {n: a.tobytes() for n, a in selection.state.to_arrays().items()} == {
            n: a.tobytes() for n, a in chosen.items()
        }


@with_scenes
def a_state_saved_and_restored_goes_on_identically(kind: SelectorType, scene: Scene) -> None:
    selector, federation = make(kind), ToyFederation(scene.counts)
    state = selector.init(scene.num_clients)
    for k in range(1, len(scene.available) + 1):
        file = io.BytesIO()
        np.savez(file, **state.to_arrays())
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            restored = make(kind).restore(arrays)
        assert_same_state(restored, state)
        selection = selector.select(state, round_of(scene, k, federation))
        again = make(kind).select(restored, round_of(scene, k, federation))
        assert_same_selection(again, selection)
        advanced, _ = advance(selector, scene, k, federation, selection)
        state, federation = advance(make(kind), scene, k, federation, again)
        assert_same_state(advanced, state)


@with_scenes
def what_it_declares_to_need_is_all_that_it_needs(kind: SelectorType, scene: Scene) -> None:
    for state, round_, selection in play(make(kind), scene):
        allowed = Round(
            OnlyDeclared(round_.information, kind.needs),
            cohort_size=round_.cohort_size,
            available=round_.available,
            round_index=round_.round_index,
            seed=round_.seed,
        )
        assert_same_selection(make(kind).select(state, allowed), selection)


@with_scenes
def what_it_asks_clients_for_is_counted_and_declared(kind: SelectorType, scene: Scene) -> None:
    for _, round_, selection in play(make(kind), scene):
        assert set(selection.asked) <= kind.needs
        assert all(0 <= number <= len(round_.available) for number in selection.asked.values())


def what_it_did_not_declare_is_refused(kind: SelectorType) -> None:
    view = RoundView(
        available=np.arange(3),
        cohort_size=2,
        round_index=1,
        num_clients=8,
        rng=np.random.default_rng(0),
        selector=kind.name,
        _needs=kind.needs,
        _information=ToyFederation(SOME_COUNTS),
    )
    questions: dict[Need, Callable[[], object]] = {
        Need.GRAM: view.available_gram,
        Need.LABEL_COUNTS: view.label_counts,
        Need.NUM_EXAMPLES: view.num_examples,
        Need.DURATIONS: view.durations,
        Need.LOSSES: lambda: view.losses(view.available),
        Need.BATCH_LOSSES: lambda: view.batch_losses(view.available),
        Need.UPDATES: lambda: view.updates(view.available),
        Need.UPDATE_NORMS: lambda: view.update_norms(view.available),
    }
    for need, ask in questions.items():
        if need in kind.needs:
            ask()
        else:
            with pytest.raises(
                UndeclaredNeedError, match=f"{kind.name} asked for {need} without declaring it"
            ):
                ask()


def it_says_that_it_needs_training_where_there_are_only_labels(kind: SelectorType) -> None:
    durations = np.arange(1.0, 17.0).reshape(8, 2)
    information = LabelInformation(SOME_COUNTS, durations=durations)
    selector = make(kind)
    round_ = Round(information, cohort_size=3)
    asks_clients = kind.needs - {Need.GRAM, Need.LABEL_COUNTS, Need.NUM_EXAMPLES, Need.DURATIONS}
    if asks_clients:
        with pytest.raises(NeedsTrainingError, match="run a simulation instead"):
            selector.select(selector.init(8), round_)
    else:
        assert len(selector.select(selector.init(8), round_).cohort) > 0


def answers_that_are_not_finite_or_not_complete_are_refused(kind: SelectorType) -> None:
    asked = {
        Need.DURATIONS: "durations",
        Need.LOSSES: "losses",
        Need.BATCH_LOSSES: "batch_losses",
        Need.UPDATES: "updates",
        Need.UPDATE_NORMS: "update_norms",
    }
    selector = make(kind)
    for need in kind.needs & asked.keys():
        for bad, message in (
            (math.nan, "is not finite"),
            (math.inf, "is not finite"),
            (None, "answers came"),
        ):
            federation = ToyFederation(SOME_COUNTS)
            honest = getattr(federation, asked[need])

            def distorted(
                clients: NDArray[np.int64], honest: Any = honest, bad: float | None = bad
            ) -> NDArray[np.float64]:
                answers: NDArray[np.float64] = honest(clients).copy()
                if bad is None:
                    return answers[:-1]
                answers[-1] = bad
                return answers

            setattr(federation, asked[need], distorted)
            with pytest.raises(InformationError, match=message):
                selector.select(selector.init(8), Round(federation, cohort_size=3))


def everybody_is_selected_where_as_many_are_wanted_as_there_are(kind: SelectorType) -> None:
    for selection in some_rounds(kind, SOME_COUNTS, cohort_size=8, rounds=4):
        if kind.fixed_size:
            assert selection.cohort.tolist() == list(range(8))


def the_only_client_available_is_selected(kind: SelectorType) -> None:
    scene = Scene(np.array(SOME_COUNTS), 1, [[3], [3], [0], [3]], [1] * 4, [0.0, 1.0, 0.0, 0.0])
    for _, round_, selection in play(make(kind), scene):
        assert selection.cohort.tolist() == round_.available.tolist()


def a_population_of_one_works(kind: SelectorType) -> None:
    for counts in ([[5]], [[5, 0]], [[0, 3, 2]]):
        for selection in some_rounds(kind, counts, cohort_size=1):
            assert selection.cohort.tolist() == [0]


def one_class_only_works(kind: SelectorType) -> None:
    for counts in ([[4], [9], [1], [1]], [[4, 0], [9, 0], [1, 0], [1, 0]]):
        for selection in some_rounds(kind, counts, cohort_size=2, rounds=5):
            assert len(selection.cohort) in ((2,) if kind.fixed_size else (1, 2, 3, 4))


def clients_alike_in_all_works(kind: SelectorType) -> None:
    for selection in some_rounds(kind, [[3, 3, 3]] * 6, cohort_size=4, rounds=5):
        assert len(selection.cohort) > 0


def huge_counts_work(kind: SelectorType) -> None:
    quadrillion = 10**15
    for counts in (
        [[quadrillion, 0], [0, quadrillion], [quadrillion, quadrillion], [1, 0], [0, quadrillion - 1]],
        [[EXACT, 0], [0, EXACT], [EXACT // 2, EXACT // 2], [1, 1], [EXACT - 1, 1]],
        [[EXACT], [EXACT], [EXACT], [1]],
    ):
        for selection in some_rounds(kind, counts, cohort_size=3, rounds=5):
            assert len(selection.cohort) in ((3,) if kind.fixed_size else (1, 2, 3, 4, 5))


def clients_without_examples_in_the_way_are_named(kind: SelectorType) -> None:
    federation = ToyFederation([[0, 0], [4, 1], [0, 0], [1, 2]])
    selector = make(kind)
    round_ = Round(federation, cohort_size=3)
    if kind.skips_empty:
        with pytest.raises(
            InvalidArgumentError, match="cohort_size=3 but only 2 of the 4 available clients have"
        ):
            selector.select(selector.init(4), round_)
    else:
        assert len(selector.select(selector.init(4), round_).cohort) in expected_sizes(kind, round_)


def a_state_of_another_population_is_refused(kind: SelectorType) -> None:
    selector = make(kind)
    with pytest.raises(InvalidArgumentError, match="state is of 7 clients but the round has 8"):
        selector.select(selector.init(7), Round(ToyFederation(SOME_COUNTS), cohort_size=2))


def a_population_of_none_is_refused(kind: SelectorType) -> None:
    for num_clients in (0, -1, 2.0, None):
        with pytest.raises(InvalidArgumentError, match=f"num_clients={num_clients}"):
            make(kind).init(num_clients)  # type: ignore[arg-type]


def a_saved_state_that_lacks_or_adds_an_array_is_refused(kind: SelectorType) -> None:
    arrays = make(kind).init(3).to_arrays()
    for name in arrays:
        with pytest.raises(InvalidArgumentError, match=name):
            make(kind).restore({other: array for other, array in arrays.items() if other != name})
    with pytest.raises(InvalidArgumentError, match="was it saved by another selector"):
        make(kind).restore({**arrays, "stranger": np.zeros(3)})


def a_saved_state_of_the_wrong_shape_or_kind_is_refused(kind: SelectorType) -> None:
    arrays = make(kind).init(4).to_arrays()
    for name, array in arrays.items():
        wrong = [array.astype("U5"), array[..., None]]
        if array.shape[:1] == (4,) and name != "times_selected":
            wrong.append(array[:3])
        for other in wrong:
            with pytest.raises(InvalidArgumentError, match=name):
                make(kind).restore({**arrays, name: other})


def a_round_in_which_nobody_answered_teaches_nothing(kind: SelectorType) -> None:
    selector, federation = make(kind), ToyFederation(SOME_COUNTS)
    state = selector.init(8)
    for k in range(1, 5):
        selection = selector.select(state, Round(federation, cohort_size=3, round_index=k))
        empty = federation.feedback(np.zeros(0, dtype=np.int64), failed=selection.cohort, round_index=k)
        with_nothing = Feedback(answered=[], failed=selection.cohort)
        state = selector.observe(selection.state, empty)
        assert_same_state(selector.observe(selection.state, with_nothing), state)
    feedback, _ = federation.train(selection, round_index=4)
    assert selector.observe(selection.state, feedback).num_clients == 8


def feedback_without_what_it_learns_from_is_refused(kind: SelectorType) -> None:
    selector, federation = make(kind), ToyFederation(SOME_COUNTS)
    selection = selector.select(selector.init(8), Round(federation, cohort_size=3))
    whole, _ = federation.train(selection, round_index=1)
    for need in kind.learns:
        part = dataclasses.replace(whole, **{need.value.replace("-", "_"): None})
        with pytest.raises(
            InvalidArgumentError, match=f"feedback has no {need}, which {kind.name} learns from"
        ):
            selector.observe(selection.state, part)
    nothing_else = {
        field.name: None
        for field in dataclasses.fields(Feedback)
        if field.name not in {"answered", "failed", *(need.value.replace("-", "_") for need in kind.learns)}
    }
    selector.observe(selection.state, dataclasses.replace(whole, **nothing_else))


def feedback_from_unknown_clients_is_refused(kind: SelectorType) -> None:
    selector, federation = make(kind), ToyFederation(SOME_COUNTS)
    selection = selector.select(selector.init(8), Round(federation, cohort_size=3))
    whole, _ = federation.train(selection, round_index=1)
    strangers = np.asarray(whole.answered) + 8
    with pytest.raises(InvalidArgumentError, match=r"answered\[0\]="):
        selector.observe(selection.state, dataclasses.replace(whole, answered=strangers))
    with pytest.raises(InvalidArgumentError, match=r"failed\[0\]=8 must be"):
        selector.observe(selection.state, dataclasses.replace(whole, failed=[8]))


def it_is_a_frozen_dataclass_that_explains_itself(kind: SelectorType) -> None:
    assert dataclasses.is_dataclass(kind)
    assert make(kind) == make(kind)
    assert hash(make(kind)) == hash(make(kind))
    assert not inspect.isabstract(kind)
    assert kind.name == kind.name.lower()
    assert kind.summary
    assert len(kind.summary) < 90
    assert kind.paper
    assert kind.__doc__
    with pytest.raises(dataclasses.FrozenInstanceError):
        make(kind).stranger = 1  # type: ignore[attr-defined]


def options_that_are_no_numbers_or_names_are_refused(kind: SelectorType) -> None:
    for field in dataclasses.fields(kind):
        for value in (math.nan, math.inf, -math.inf, -1, "nonsense", None):
            with pytest.raises(InvalidArgumentError, match=f"{field.name}="):
                make_selector(kind.name, **{field.name: value})


def every_error_of_a_scene_is_its_own(kind: SelectorType) -> None:
    """Whatever is wrong with a round, the error is one of fedcbs, not of NumPy."""
    federation = ToyFederation(SOME_COUNTS)
    for broken in (
        {"cohort_size": 9},
        {"cohort_size": 0},
        {"cohort_size": 2.5},
        {"cohort_size": 1, "available": []},
        {"cohort_size": 1, "available": [8]},
        {"cohort_size": 1, "available": [1, 1]},
        {"cohort_size": 3, "available": [1, 2]},
        {"cohort_size": 1, "round_index": 0},
        {"cohort_size": 1, "seed": -1},
    ):
        selector = make(kind)
        with pytest.raises(FedCBSError):
            selector.select(selector.init(8), Round(federation, **broken))  # type: ignore[arg-type]


CHECKS: tuple[Check, ...] = (
    a_cohort_is_distinct_available_ascending_and_of_the_right_size,
    weights_are_finite_not_negative_and_fit_the_cohort,
    clients_without_examples_are_left_out_where_it_says_so,
    times_selected_counts_the_rounds_in_which_a_client_was_selected,
    asked_twice_it_answers_twice_the_same,
    the_order_in_which_clients_are_named_available_is_irrelevant,
    nothing_that_it_is_given_changes,
    a_state_saved_and_restored_goes_on_identically,
    what_it_declares_to_need_is_all_that_it_needs,
    what_it_asks_clients_for_is_counted_and_declared,
    what_it_did_not_declare_is_refused,
    it_says_that_it_needs_training_where_there_are_only_labels,
    answers_that_are_not_finite_or_not_complete_are_refused,
    everybody_is_selected_where_as_many_are_wanted_as_there_are,
    the_only_client_available_is_selected,
    a_population_of_one_works,
    one_class_only_works,
    clients_alike_in_all_works,
    huge_counts_work,
    clients_without_examples_in_the_way_are_named,
    a_state_of_another_population_is_refused,
    a_population_of_none_is_refused,
    a_saved_state_that_lacks_or_adds_an_array_is_refused,
    a_saved_state_of_the_wrong_shape_or_kind_is_refused,
    a_round_in_which_nobody_answered_teaches_nothing,
    feedback_without_what_it_learns_from_is_refused,
    feedback_from_unknown_clients_is_refused,
    it_is_a_frozen_dataclass_that_explains_itself,
    options_that_are_no_numbers_or_names_are_refused,
    every_error_of_a_scene_is_its_own,
)
