"""What selectors do to the balance of labels, seen without training anything.

>>> from fedcbs.laboratory import balance, population
>>> clients = population("dirichlet-hsu", alpha=0.1, num_clients=100, examples_per_client=50)
>>> result = balance(["uniform", "fedcbs-exact"], clients, rounds=5, seeds=2)
>>> result["fedcbs-exact"].qcid_mean < 0.1 * result["uniform"].qcid_mean
True
"""

from fedcbs.laboratory._balance import balance
from fedcbs.laboratory._durations import LognormalDurations, parse_durations
from fedcbs.laboratory._participation import gini, lorenz_curve
from fedcbs.laboratory._population import Population, population
from fedcbs.laboratory._results import BalanceResult, SelectorResult
from fedcbs.laboratory._suitable import named_selectors, suitable_names, training_needs

__all__ = [
    "BalanceResult",
    "LognormalDurations",
    "Population",
    "SelectorResult",
    "balance",
    "gini",
    "lorenz_curve",
    "named_selectors",
    "parse_durations",
    "population",
    "suitable_names",
    "training_needs",
]
