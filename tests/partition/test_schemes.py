"""What is particular to each scheme, and the names by which a command line knows them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedcbs.errors import InvalidArgumentError, UnknownNameError
from fedcbs.partition import (
    IID,
    Case1,
    Case2,
    ClassesPerClient,
    DirichletClasswise,
    DirichletFedCor,
    DirichletHsu,
    GivenCounts,
    Shards,
    balanced_totals,
    list_partitions,
    parse_partition,
)
from fedcbs.partition._rounding import rounded_columns, top_up

RNG = np.random.default_rng


@pytest.mark.parametrize("make", [DirichletHsu, DirichletFedCor, DirichletClasswise])
@pytest.mark.parametrize("alpha", [0, -1, float("nan"), float("inf"), 1e-200, "much", None])
def test_an_alpha_that_is_no_concentration_is_refused(make: type, alpha: object) -> None:
    with pytest.raises(InvalidArgumentError, match="alpha="):
        make(alpha)


@pytest.mark.parametrize("size", [0, -3, 2.5, "many", True])
def test_a_size_that_is_no_number_is_refused(size: object) -> None:
    with pytest.raises(InvalidArgumentError, match="examples_per_client="):
        IID(examples_per_client=size)  # type: ignore[arg-type]


@pytest.mark.parametrize("prior", [(1.0, -1.0), (0.0, 0.0), (float("nan"), 1.0), (1e308, 1e308)])
def test_a_prior_that_is_none_is_refused(prior: tuple[float, float]) -> None:
    with pytest.raises(InvalidArgumentError, match="prior"):
        DirichletHsu(0.1, prior=prior)


def test_a_prior_must_fit_the_classes() -> None:
    with pytest.raises(InvalidArgumentError, match="prior has 2 weights, but there are 3 classes"):
        DirichletHsu(0.1, prior=(1.0, 1.0)).draw_counts([9, 9, 9], 2, RNG(0))
    with pytest.raises(InvalidArgumentError, match="leaves 9 examples to draw"):
        DirichletHsu(0.1, prior=(1.0, 0.0)).draw_counts([9, 9], 2, RNG(0))


@pytest.mark.parametrize("alpha", [1e-100, 1e-3, 0.1, 1e3, 1e100])
def test_hsu_uses_up_a_whole_pool(alpha: float) -> None:
    counts = DirichletHsu(alpha).draw_counts([25, 0, 25, 50], 10, RNG(0))
    assert counts.sum(axis=1).tolist() == [10] * 10
    assert counts.sum(axis=0).tolist() == [25, 0, 25, 50]


def test_fedcor_leaves_nobody_empty() -> None:
    for seed in range(20):
        counts = DirichletFedCor(0.1, min_examples=3).draw_counts([400, 120, 120], 80, RNG(seed))
        assert counts.sum(axis=0).tolist() == [400, 120, 120]
        assert counts.sum(axis=1).min() >= 3


def test_fedcor_makes_small_clients_when_classes_are_uneven() -> None:
    counts = DirichletFedCor(0.5, min_examples=0).draw_counts([4000, 40, 40], 60, RNG(0))
    assert counts.sum(axis=0).tolist() == [4000, 40, 40]
    assert counts.sum(axis=1).min() == 0
    with pytest.raises(InvalidArgumentError, match="no sizes of at least min_examples=5"):
        DirichletFedCor(0.5, min_examples=5).draw_counts([4000, 40, 40], 60, RNG(0))


def test_fedcor_says_when_no_sizes_fit() -> None:
    with pytest.raises(InvalidArgumentError, match=r"alpha=0\.1 with 3 clients: in 10 draws no sizes"):
        DirichletFedCor(0.1).draw_counts([100] * 10, 3, RNG(0))


@pytest.mark.parametrize("make", [DirichletFedCor, DirichletClasswise])
def test_a_minimum_beyond_the_examples_is_refused(make: type[DirichletFedCor]) -> None:
    with pytest.raises(InvalidArgumentError, match="min_examples=5 for 3 clients needs 15 examples"):
        make(1.0, min_examples=5).draw_counts([7, 7], 3, RNG(0))
    with pytest.raises(InvalidArgumentError, match="min_examples=5 for 3 clients needs 15 examples"):
        make(1.0, min_examples=5, examples_per_client=4).draw_counts([70, 70], 3, RNG(0))
    with pytest.raises(InvalidArgumentError, match="min_examples=-1"):
        make(1.0, min_examples=-1)


def test_classwise_redraws_until_nobody_is_too_small() -> None:
    for seed in range(20):
        counts = DirichletClasswise(0.5, min_examples=10).draw_counts([100] * 10, 20, RNG(seed))
        assert counts.sum(axis=1).min() >= 10


def test_classwise_says_when_redrawing_cannot_help() -> None:
    with pytest.raises(
        InvalidArgumentError, match="of 2000 clients fall short of it on average over 1 draws"
    ):
        DirichletClasswise(0.1, min_examples=10).draw_counts([20_000] * 10, 2000, RNG(0))
    with pytest.raises(InvalidArgumentError, match="over 100 draws"):
        DirichletClasswise(0.05, min_examples=5).draw_counts([30] * 2, 10, RNG(0))


def test_classwise_keeps_what_is_drawn_without_a_minimum() -> None:
    counts = DirichletClasswise(0.1, min_examples=0).draw_counts([20_000] * 10, 2000, RNG(0))
    assert counts.sum(axis=0).tolist() == [20_000] * 10
    assert counts.sum(axis=1).min() == 0


def test_self_balancing_stops_at_the_mean() -> None:
    free, balanced = (
        DirichletClasswise(0.2, min_examples=0, self_balancing=on).draw_counts([500] * 10, 50, RNG(0))
        for on in (False, True)
    )
    assert balanced.sum() == free.sum()
    assert balanced.sum(axis=1).std() < free.sum(axis=1).std()


@pytest.mark.parametrize("k", [1, 2, 3, 7, 10])
@pytest.mark.parametrize("clients", [1, 9, 10, 33])
def test_classes_are_held_equally_often(k: int, clients: int) -> None:
    counts = ClassesPerClient(k).draw_counts([400] * 10, clients, RNG(0))
    assert ((counts > 0).sum(axis=1) == k).all()
    held = (counts > 0).sum(axis=0)
    assert held.max() - held.min() <= 1
    for label in np.flatnonzero(held):
        shares = counts[counts[:, label] > 0, label]
        assert shares.sum() == 400
        assert shares.max() - shares.min() <= 1


def test_classes_without_examples_are_held_by_nobody() -> None:
    counts = ClassesPerClient(2).draw_counts([50, 0, 50, 50], 9, RNG(0))
    assert counts[:, 1].sum() == 0
    assert ((counts > 0).sum(axis=1) == 2).all()
    with pytest.raises(InvalidArgumentError, match="only 3 classes have examples"):
        ClassesPerClient(4).draw_counts([50, 0, 50, 50], 9, RNG(0))


def test_classes_that_are_too_scarce_are_named() -> None:
    with pytest.raises(InvalidArgumentError, match=r"class_totals\[1\]=3, but up to 6 of 9 clients"):
        ClassesPerClient(2).draw_counts([50, 3, 50], 9, RNG(0))
    with pytest.raises(InvalidArgumentError, match="examples_per_client=2 is not enough"):
        ClassesPerClient(3, examples_per_client=2)
    with pytest.raises(InvalidArgumentError, match="lower examples_per_client"):
        ClassesPerClient(1, examples_per_client=9).draw_counts([50, 8, 50], 3, RNG(0))


def test_shards_give_few_classes_and_equal_sizes() -> None:
    counts = Shards(2).draw_counts([600] * 10, 100, RNG(0))
    assert counts.sum(axis=1).tolist() == [60] * 100
    assert (counts > 0).sum(axis=1).max() <= 2
    with pytest.raises(InvalidArgumentError, match="makes 20 shards of 15 examples"):
        Shards(2).draw_counts([15], 10, RNG(0))


def test_thinning_keeps_the_mean_size_asked_for() -> None:
    counts = Shards(2, examples_per_client=6).draw_counts([60, 140], 20, RNG(0))
    assert counts.sum(axis=1).tolist() == [6] * 20


def test_pools_beyond_exact_drawing_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="exact below 1000000000 examples"):
        IID().draw_counts([10**9, 10**9], 2, RNG(0))
    with pytest.raises(InvalidArgumentError, match="exact below"):
        Shards(examples_per_client=5).draw_counts([10**9, 10**9], 2, RNG(0))


def test_huge_totals_do_not_overflow_where_nothing_is_drawn_one_by_one() -> None:
    assert Shards(2).draw_counts([10**15, 10**15], 3, RNG(0)).sum() == 2 * 10**15
    assert Case2(1).draw_counts([10**15, 10**15], 2, RNG(0)).sum() == 2 * 10**15
    assert DirichletHsu(1.0, examples_per_client=9).draw_counts([10**15] * 2, 3, RNG(0)).sum() == 27


@pytest.mark.parametrize(
    ("text", "holders"),
    [
        ("case1-3to1", [18] * 5 + [6] * 5),
        ("case1-5to1", [20] * 5 + [4] * 5),
        ("case1-16to8", [16] * 5 + [8] * 5),
        ("case1:3,2", [3] * 5 + [2] * 5),
        ("case2", [20] * 10),
        ("case2:4", [4] * 10),
    ],
)
def test_the_papers_cases_have_its_numbers_of_clients(text: str, holders: list[int]) -> None:
    scheme = parse_partition(text, examples_per_client=250)
    assert scheme.fixed_num_clients(10) == sum(holders)
    counts = scheme.draw_balanced(sum(holders), 10, RNG(0))
    assert (counts > 0).sum(axis=0).tolist() == holders
    assert ((counts == 250).sum(axis=1) == 1).all()
    with pytest.raises(InvalidArgumentError, match=f"num_clients=7, but .* makes {sum(holders)} clients"):
        scheme.draw_balanced(7, 10, RNG(0))


def test_case_1_needs_halves_and_both_cases_enough_examples() -> None:
    with pytest.raises(InvalidArgumentError, match="num_classes=3 cannot be halved"):
        Case1(2, 1).fixed_num_clients(3)
    for scheme, clients in ((Case1(2, 1), 3), (Case2(2), 4)):
        with pytest.raises(InvalidArgumentError, match=r"class_totals\[0\]=1, but 2 clients hold"):
            scheme.draw_counts([1, 9], clients, RNG(0))
    for make in (lambda: Case1(0, 1), lambda: Case1(1, 0), lambda: Case2(0)):
        with pytest.raises(InvalidArgumentError, match="=0 must be"):
            make()


def test_cases_on_a_dataset_give_equal_sizes() -> None:
    labels = RNG(0).permutation(np.repeat(np.arange(10), 5000))
    partition = Case1().split(labels, 120, RNG(1))
    assert set(partition.num_examples.tolist()) == {5000 // 18}


@pytest.mark.parametrize(
    ("text", "options", "scheme"),
    [
        ("dirichlet-hsu", {"alpha": 0.1}, DirichletHsu(0.1)),
        (" dirichlet-hsu : 0.1 ", {}, DirichletHsu(0.1)),
        ("dirichlet-hsu:0.1", {"alpha": 0.1}, DirichletHsu(0.1)),
        (
            "dirichlet-fedcor",
            {"alpha": 1, "min_examples": 2, "examples_per_client": 9},
            DirichletFedCor(1, min_examples=2, examples_per_client=9),
        ),
        ("dirichlet-classwise", {"alpha": 0.5, "min_examples": 0}, DirichletClasswise(0.5, min_examples=0)),
        ("classes:2", {"examples_per_client": 10}, ClassesPerClient(2, examples_per_client=10)),
        ("shards", {}, Shards(2)),
        ("shards:3", {}, Shards(3)),
        ("iid", {}, IID()),
        ("case1", {}, Case1(18, 6)),
        ("case1-5to1", {}, Case1(20, 4)),
        ("case2", {"examples_per_client": 3}, Case2(examples_per_client=3)),
    ],
)
def test_names_become_schemes(text: str, options: dict[str, int], scheme: object) -> None:
    assert parse_partition(text, **options) == scheme  # type: ignore[arg-type]


def test_counts_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "a:b.csv").write_text("1,2\n3,4\n")
    scheme = parse_partition(f"counts:{tmp_path / 'a:b.csv'}")
    assert isinstance(scheme, GivenCounts)
    assert scheme.label_counts.tolist() == [[1, 2], [3, 4]]
    assert scheme.fixed_num_clients(2) == 2
    assert scheme.num_classes == 2


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("dirichlet-hsu", {}, "alpha=None, but 'dirichlet-hsu' needs it"),
        ("dirichlet-hsu:0.1", {"alpha": 0.2}, "say it once"),
        ("dirichlet-hsu:a", {}, "which is 1 number"),
        ("dirichlet-hsu:", {}, "which is 1 number"),
        ("dirichlet-hsu", {"alpha": 1, "min_examples": 3}, "takes it: dirichlet-classwise, dirichlet-fedcor"),
        ("iid", {"alpha": 1}, "alpha=1 is no option of 'iid'"),
        ("iid:3", {}, "nothing may follow 'iid'"),
        ("classes", {}, "'classes:K' needs"),
        ("classes:2.5", {}, "2.5 in '2.5' is no whole number"),
        ("classes:0", {}, "classes_per_client=0"),
        ("classes:2,3", {}, "which is 1 number"),
        ("shards:inf", {}, "inf in 'inf' is no whole number"),
        ("shards:-1", {}, "shards_per_client=-1"),
        ("case1:3", {}, "'case1:MAJORITY,MINORITY' needs, which is 2 numbers"),
        ("counts", {}, "write 'counts:FILE'"),
        ("counts:nowhere.csv", {}, "path='nowhere.csv' is no file"),
        ("counts:x.csv", {"examples_per_client": 3}, "no option of 'counts'"),
        ("", {}, "partition='' must be a name"),
        (None, {}, "partition=None must be a name"),
        (3, {}, "partition=3 must be a name"),
    ],
)
def test_what_names_no_scheme_is_refused(text: str, options: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        parse_partition(text, **options)  # type: ignore[arg-type]


def test_an_unknown_name_brings_the_nearest_to_mind() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'dirichlet-hsu'"):
        parse_partition("dirichlet-hsv", alpha=0.1)


def test_the_list_names_everything_that_parses() -> None:
    names = {form.split("[")[0].split(":")[0] for form in list_partitions()}
    for name in names - {"counts"}:
        takes_alpha = name.startswith("dirichlet")
        text = "classes:2" if name == "classes" else name
        assert parse_partition(text, alpha=0.1 if takes_alpha else None) is not None
    assert all(len(summary) < 110 for summary in list_partitions().values())


def test_balanced_totals_spread_what_is_left() -> None:
    assert balanced_totals(10, 53).tolist() == [6, 6, 6, 5, 5, 5, 5, 5, 5, 5]
    assert balanced_totals(3, 0).tolist() == [0, 0, 0]


def test_rounding_comes_out_whatever_the_errors() -> None:
    for total in (0, 3, 7, 12, 30):
        counts = rounded_columns(np.full((5, 1), 1.5), np.array([total]), RNG(0))
        assert counts.sum() == total
        assert counts.min() >= 0


def test_topping_up_says_when_there_is_not_enough() -> None:
    counts = np.array([[1, 0], [0, 0]])
    assert not top_up(counts, np.array([[0.5, 0.0], [0.5, 0.0]]), least=1)
    assert counts.sum() == 1


def test_topping_up_takes_another_class_where_the_first_has_nobody_to_give() -> None:
    counts = np.array([[0, 0], [0, 4]])
    real = np.array([[0.9, 0.1], [0.0, 4.0]])
    assert top_up(counts, real, least=2)
    assert counts.tolist() == [[0, 2], [0, 2]]
