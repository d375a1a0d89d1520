from fedcbs.selectors import Everyone, Uniform
from tests.goodness_of_fit import assert_law
from tests.reference import uniform_law
from tests.selectors.laws import Told, draws, one

CLIENTS = Told(num_examples=[5, 0, 70, 1, 1, 9, 3, 8])
AVAILABLE = [7, 1, 2, 5, 4]


def test_every_cohort_of_those_available_is_alike() -> None:
    found = draws(Uniform(), CLIENTS, times=2500, cohort_size=3, available=AVAILABLE)
    assert_law(found, uniform_law(AVAILABLE, 3))


def test_rounds_of_one_seed_differ_as_seeds_do() -> None:
    found = [
        frozenset(one(Uniform(), CLIENTS, cohort_size=2, available=AVAILABLE, round_index=k).cohort.tolist())
        for k in range(1, 3001)
    ]
    assert_law(found, uniform_law(AVAILABLE, 2))


def test_everyone_is_all_who_are_available_whatever_the_cohort_size() -> None:
    for size in (1, 3, 5):
        selection = one(Everyone(), CLIENTS, cohort_size=size, available=AVAILABLE)
        assert selection.cohort.tolist() == sorted(AVAILABLE)
