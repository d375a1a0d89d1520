"""The label-only laboratory: what it counts, what it leaves out, and that nothing but the seed matters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedcbs.errors import InvalidArgumentError, NeedsTrainingError, UnknownNameError
from fedcbs.imbalance import qcid
from fedcbs.laboratory import (
    BalanceResult,
    Population,
    balance,
    named_selectors,
    population,
    suitable_names,
    training_needs,
)
from fedcbs.partition import Case2
from fedcbs.selectors import (
    FedCBSExact,
    LabelInformation,
    Round,
    Uniform,
    make_selector,
    selector_types,
)

SMALL = population("dirichlet-hsu:0.3", num_clients=30, num_classes=4, examples_per_client=20)


def without_times(result: BalanceResult) -> dict[str, dict[str, object]]:
    """All numbers but the measured times."""
    selectors: dict[str, dict[str, object]] = result.summary()["selectors"]
    return {
        name: {key: value for key, value in numbers.items() if not key.startswith("seconds")}
        for name, numbers in selectors.items()
    }


def test_every_cohort_is_the_one_that_the_selector_picks_by_itself() -> None:
    rounds, seed = 6, 3
    result = balance(
        ["fedcbs-exact"], SMALL, availability="always", cohort_size=5, rounds=rounds, seeds=1, seed=seed
    )
    counts, selector = SMALL.label_counts(seed), FedCBSExact()
    information, state = LabelInformation(counts), selector.init(30)
    for index in range(rounds):
        chosen = selector.select(state, Round(information, cohort_size=5, round_index=index + 1, seed=seed))
        state = chosen.state
        assert result["fedcbs-exact"].qcid[0, index] == qcid(counts, chosen.cohort)
    found = result["fedcbs-exact"]
    assert found.histogram[0].tolist() == np.bincount(state.times_selected, minlength=rounds + 1).tolist()
    assert found.coverage[0] == np.mean(state.times_selected > 0)
    assert (found.fewest_selections[0], found.most_selections[0]) == (
        state.times_selected.min(),
        state.times_selected.max(),
    )


def test_the_same_seed_gives_the_same_numbers() -> None:
    names = suitable_names()
    first, second = (without_times(balance(names, SMALL, cohort_size=4, rounds=8, seeds=2)) for _ in range(2))
    assert first == second


def test_another_seed_gives_other_numbers() -> None:
    first, second = (without_times(balance(["uniform"], SMALL, rounds=5, seeds=1, seed=s)) for s in (0, 1))
    assert first != second


def test_neither_order_nor_company_of_selectors_matters() -> None:
    together = without_times(balance(suitable_names(), SMALL, cohort_size=4, rounds=6, seeds=2))
    backwards = without_times(balance(suitable_names()[::-1], SMALL, cohort_size=4, rounds=6, seeds=2))
    assert together == backwards
    for name in suitable_names():
        alone = without_times(balance([name], SMALL, cohort_size=4, rounds=6, seeds=2))
        assert alone[name] == together[name], name


def test_seeds_are_those_that_follow_the_first() -> None:
    both = balance(["uniform"], SMALL, rounds=4, seeds=2, seed=5)
    second = balance(["uniform"], SMALL, rounds=4, seeds=1, seed=6)
    assert both.seeds == (5, 6)
    assert np.array_equal(both["uniform"].qcid[1], second["uniform"].qcid[0])


def test_more_rounds_go_on_where_fewer_stop() -> None:
    short, long = (balance(["fedcbs-exact"], SMALL, cohort_size=4, rounds=r, seeds=1) for r in (3, 7))
    assert np.array_equal(short["fedcbs-exact"].qcid, long["fedcbs-exact"].qcid[:, :3])


def test_statistics_are_those_of_the_rounds() -> None:
    found = balance(["uniform"], SMALL, rounds=9, seeds=3)["uniform"]
    per_seed = found.qcid.mean(axis=1)
    assert found.qcid_mean == pytest.approx(per_seed.mean())
    assert found.qcid_std == pytest.approx(per_seed.std(ddof=1))
    assert found.qcid_min == found.qcid.min()
    assert found.histogram.sum(axis=1).tolist() == [30, 30, 30]
    assert (found.histogram @ np.arange(10)).tolist() == found.cohort_sizes.sum(axis=1).tolist()
    assert found.label_shares.sum(axis=1) == pytest.approx(1.0)
    assert found.seconds_per_selection == np.median(found.seconds)


def test_one_seed_has_no_spread() -> None:
    assert balance(["uniform"], SMALL, rounds=3, seeds=1)["uniform"].qcid_std == 0.0


def test_rounds_with_too_few_clients_take_all_of_them_and_are_counted(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text(
        '{"round": 1, "clients": [0, 1, 2, 3, 4, 5]}\n{"round": 2, "clients": [7, 9]}\n{"round": 3, "clients": []}\n'
    )
    result = balance(
        ["uniform", "fedcbs-exact"],
        SMALL,
        availability=f"trace-once:{trace}",
        cohort_size=4,
        rounds=3,
        seeds=2,
    )
    assert result["uniform"].cohort_sizes.tolist() == [[4, 2, 0]] * 2
    assert np.isnan(result["uniform"].qcid[:, 2]).all()
    assert (result.short_rounds, result.skipped_rounds) == (2, 2)
    counts = SMALL.label_counts(1)
    assert result["fedcbs-exact"].qcid[1, 1] == qcid(counts, [7, 9])
    assert result["uniform"].qcid_mean == pytest.approx(result["uniform"].qcid[:, :2].mean())
    assert result.reachable.tolist() == [8 / 30] * 2
    numbers = result.summary()
    assert numbers["rounds"] == {"selected_in": 4, "short": 2, "skipped": 2, "available_mean": 8 / 3}


def test_a_population_that_is_never_available_is_an_error(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"round": 1, "clients": []}\n')
    with pytest.raises(InvalidArgumentError, match="no client with examples be available in any of 3 rounds"):
        balance(["uniform"], SMALL, availability=f"trace:{trace}", rounds=3)


def test_clients_without_examples_are_left_out_and_counted() -> None:
    counts = np.array([[5, 0], [0, 0], [0, 5], [0, 0], [5, 0], [0, 5]])
    result = balance(suitable_names(), counts, availability="always", cohort_size=5, rounds=20, seeds=2)
    assert result.empty_clients.tolist() == [2, 2]
    assert result.available.tolist() == [[4] * 20] * 2
    assert result.short_rounds == 40
    assert result["uniform"].coverage.tolist() == [1.0, 1.0]
    assert result["uniform"].histogram.sum() == 2 * 4


def test_label_counts_serve_as_a_population() -> None:
    result = balance(
        ["everyone"], [[4, 0], [0, 4], [4, 0]], availability="always", cohort_size=1, rounds=2, seeds=1
    )
    assert result["everyone"].qcid.tolist() == [[qcid([[8, 4]])] * 2]
    assert result["everyone"].label_shares[0] == pytest.approx([2 / 3, 1 / 3])


def test_the_lowest_qcid_counts_only_cohorts_of_the_size_asked_for() -> None:
    result = balance(["everyone", "uniform", "fedcbs-exact"], SMALL, cohort_size=3, rounds=5, seeds=2)
    rivals = np.minimum(result["uniform"].qcid, result["fedcbs-exact"].qcid)
    assert np.array_equal(result.lowest_qcid, rivals)
    assert result.summary()["lowest"]["qcid_min"] == rivals.min()
    alone = balance(["everyone"], SMALL, cohort_size=3, rounds=5, seeds=2)
    assert np.isnan(alone.lowest_qcid).all()
    assert alone.summary()["lowest"] == {"qcid_mean": None, "qcid_min": None}


def test_a_result_holds_nothing_as_large_as_the_population() -> None:
    clients = population("dirichlet-hsu:0.1", num_clients=20_000, examples_per_client=50)
    result = balance(["uniform", "fedcbs-paper"], clients, cohort_size=20, rounds=3, seeds=1)
    arrays = [*vars(result).values(), *(part for found in result.values() for part in vars(found).values())]
    assert max(part.size for part in arrays if isinstance(part, np.ndarray)) < 100
    assert result["uniform"].histogram.sum() == 20_000


def test_progress_is_told_after_every_round() -> None:
    told: list[tuple[int, int]] = []
    balance(["uniform"], SMALL, rounds=3, seeds=2, progress=lambda done, total: told.append((done, total)))
    assert told == [(done, 6) for done in range(1, 7)]


def test_selectors_that_need_training_are_refused_together_and_by_name() -> None:
    wanting = [name for name, kind in selector_types().items() if training_needs(kind)]
    with pytest.raises(NeedsTrainingError) as caught:
        balance(["uniform", *wanting], SMALL)
    for name in wanting:
        assert name in str(caught.value)
    assert "uniform" not in str(caught.value)
    assert "fedcbs run" in str(caught.value)


def test_all_other_selectors_run() -> None:
    result = balance(suitable_names(), SMALL, cohort_size=4, rounds=5, seeds=1)
    for name, found in result.items():
        assert 0 <= found.qcid_mean < 1, name
        assert 0 < found.coverage[0] <= 1, name


def test_selectors_may_be_given_as_objects() -> None:
    result = balance({"mine": Uniform(), "other": make_selector("uniform")}, SMALL, rounds=3, seeds=1)
    assert np.array_equal(result["mine"].qcid, result["other"].qcid)


def test_a_result_names_what_it_has() -> None:
    result = balance(["uniform"], SMALL, rounds=1, seeds=1)
    assert (list(result), len(result)) == (["uniform"], 1)
    with pytest.raises(UnknownNameError, match="Known: uniform"):
        result["unifrom"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"selectors": []}, "selectors is empty"),
        ({"selectors": ["uniform", "uniform"]}, "'uniform' twice"),
        ({"selectors": ["unifrom"]}, "did you mean 'uniform'"),
        ({"cohort_size": 0}, "cohort_size=0"),
        ({"cohort_size": 31}, "cohort_size=31 but the population has 30 clients"),
        ({"rounds": 0}, "rounds=0"),
        ({"seeds": 0}, "seeds=0"),
        ({"seed": -1}, "seed=-1"),
        ({"availability": "sometimes"}, "availability='sometimes'"),
        ({"availability": "class-quota:29,1"}, "fewer than its quota"),
        ({"durations": "normal:1"}, "durations='normal'"),
        ({"durations": "lognormal:-1"}, "sigma=-1.0"),
        ({"durations": "lognormal:1,2,3"}, "must have the form"),
    ],
)
def test_bad_arguments_are_named_before_anything_runs(arguments: dict[str, object], message: str) -> None:
    options = {"selectors": ["uniform"], "rounds": 1, "seeds": 1, **arguments}
    with pytest.raises(InvalidArgumentError, match=message):
        balance(options.pop("selectors"), SMALL, **options)  # type: ignore[arg-type]


def test_a_population_fixes_what_its_scheme_fixes() -> None:
    assert population("case1-5to1").num_clients == 120
    assert population("case2", num_classes=4).num_clients == 80
    with pytest.raises(InvalidArgumentError, match="num_clients=10, but 'case2' makes 200"):
        population("case2", num_clients=10)
    with pytest.raises(InvalidArgumentError, match="num_clients=0"):
        population("iid", num_clients=0)
    assert population(Case2(1, examples_per_client=3), num_classes=2) == Population(
        Case2(1, examples_per_client=3), 2, 2
    )


def test_a_population_of_a_file_takes_its_shape_from_it(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text("3,0,1\n0,2,2\n")
    found = population(f"counts:{path}")
    assert (found.num_clients, found.num_classes) == (2, 3)
    assert found.label_counts(7).tolist() == [[3, 0, 1], [0, 2, 2]]
    with pytest.raises(InvalidArgumentError, match="num_classes=10"):
        population(f"counts:{path}", num_classes=10)
    with pytest.raises(InvalidArgumentError, match="examples_per_client=5 is no option of 'counts'"):
        population(f"counts:{path}", examples_per_client=5)


def test_named_selectors_keep_the_text_that_names_them() -> None:
    texts = ["fedcbs-exact:sweeps=5", "fedcbs-exact", "fedcbs-sharp:slope=2.5"]
    assert list(named_selectors(texts)) == texts
