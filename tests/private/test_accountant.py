from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from fedcbs.errors import BudgetSpentError, InvalidArgumentError
from fedcbs.private import Accountant, DiscreteGaussian, DiscreteLaplace, parse_budget
from fedcbs.private._zcdp import approximate_epsilon
from tests.private import noise_reference as reference


def test_pure_costs_add_up_exactly_and_the_budget_holds_to_the_last() -> None:
    account = Accountant(epsilon=1.0)
    for _ in range(10):
        account = account.charge(DiscreteLaplace("0.1"))  # ten times a float of 0.1 would not be 1
    assert account.spent == 1.0
    with pytest.raises(BudgetSpentError, match="10 uploads charged so far"):
        account.charge(DiscreteLaplace("0.000001"))


def test_a_delta_makes_many_small_uses_cheaper_than_their_sum() -> None:
    pure, relaxed = Accountant(epsilon=10.0), Accountant(epsilon=10.0, delta=1e-6)
    for _ in range(100):
        pure, relaxed = pure.charge(DiscreteLaplace("0.1")), relaxed.charge(DiscreteLaplace("0.1"))
    assert pure.spent == pytest.approx(10)
    assert relaxed.spent < 6


def test_gaussian_noise_does_not_fit_into_a_pure_budget() -> None:
    with pytest.raises(BudgetSpentError, match="inf"):
        Accountant(epsilon=100.0).charge(DiscreteGaussian(rho="0.001"))


def test_an_epsilon_and_delta_of_one_use_are_not_exceeded_by_one_use() -> None:
    noise = DiscreteGaussian(epsilon="1", delta="1e-5")
    account = Accountant(epsilon=1.0, delta=1e-5).charge(noise)
    assert 0.9 < account.spent <= 1
    with pytest.raises(BudgetSpentError):
        account.charge(noise)


@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_the_bound_holds_against_the_law_itself(delta: float) -> None:
    """The exact delta of the discrete Gaussian at the epsilon of the bound, by summing its law."""
    noise = DiscreteGaussian(rho="0.05")
    law = reference.gaussian_law(float(noise.sigma_squared))
    epsilon = approximate_epsilon(float(noise.rho), delta)
    exact = sum(max(law[x] - math.exp(epsilon) * law.get(x + 1, 0.0), 0.0) for x in law)
    assert delta / 100 < exact <= delta


def test_costs_of_two_kinds_of_neighbours_do_not_add_up() -> None:
    account = Accountant(epsilon=5.0).charge(DiscreteLaplace("1"))
    with pytest.raises(InvalidArgumentError, match="do not add up"):
        account.charge(DiscreteLaplace("1", adjacency="change"))


def test_accounts_are_kept_in_files(tmp_path: Path) -> None:
    account = parse_budget("3,1e-6").charge(DiscreteLaplace("1/3")).charge(DiscreteGaussian("0.02"))
    account.save(tmp_path / "a.json")
    assert Accountant.load(tmp_path / "a.json") == account


@pytest.mark.parametrize(
    "change",
    [
        {"rho": "x"},
        {"rho": "-1"},
        {"pure": "1/0"},
        {"format": 2},
        {"epsilon": "nan"},
        {"delta": 2},
        {"uses": None},
        {"adjacency": "x"},
    ],
)
def test_damaged_accounts_are_refused(change: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({**Accountant(1.0).to_dict(), **change}))
    with pytest.raises(InvalidArgumentError):
        Accountant.load(path)


@pytest.mark.parametrize("content", ["", "[]", "null", "{", "\x00"])
def test_files_that_hold_no_account_are_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(InvalidArgumentError, match="restore"):
        Accountant.load(path)


@pytest.mark.parametrize("text", ["", "x", "1,2,3", "0", "-1", "1,1", "inf", "nan"])
def test_wrong_budgets_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_budget(text)
