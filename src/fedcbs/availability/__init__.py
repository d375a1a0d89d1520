"""Who can be picked in a round: always all, a share, a quota per class, coins, chains, or a recording.

>>> rule = parse_availability("uniform:0.3")
>>> rule.available(1, num_clients=10, seed=0).size
3
"""

from fedcbs.availability._always import Always
from fedcbs.availability._base import Availability
from fedcbs.availability._bernoulli import Bernoulli, BernoulliBeta
from fedcbs.availability._markov import Markov
from fedcbs.availability._quota import ClassQuota
from fedcbs.availability._registry import list_availabilities, parse_availability
from fedcbs.availability._trace import Trace
from fedcbs.availability._uniform import UniformFraction

__all__ = [
    "Always",
    "Availability",
    "Bernoulli",
    "BernoulliBeta",
    "ClassQuota",
    "Markov",
    "Trace",
    "UniformFraction",
    "list_availabilities",
    "parse_availability",
]
