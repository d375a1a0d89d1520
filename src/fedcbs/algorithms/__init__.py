"""Training algorithms: how clients train, how the server moves, and any pair of the two.

>>> algorithm = parse_algorithm("fedprox:mu=0.1+fedadam")
>>> algorithm.local, algorithm.server.name
(FedProx(mu=0.1), 'fedadam')
"""

from fedcbs.algorithms._algorithm import Algorithm, AlgorithmState, Outcome, Work
from fedcbs.algorithms._base import Follower, LocalMethod, LocalState, Monitor, ServerRule, ServerState
from fedcbs.algorithms._fedadagrad import FedAdagrad
from fedcbs.algorithms._fedadam import FedAdam
from fedcbs.algorithms._fedavg import FedAvg, Plain
from fedcbs.algorithms._fedavgm import FedAvgM
from fedcbs.algorithms._fedmax import FedMax
from fedcbs.algorithms._fednova import FedNova
from fedcbs.algorithms._fedprox import FedProx
from fedcbs.algorithms._fedyogi import FedYogi
from fedcbs.algorithms._ratio_loss import RatioLoss
from fedcbs.algorithms._registry import (
    local_methods,
    parse_algorithm,
    parse_local,
    parse_server,
    server_rules,
    split_algorithm,
)
from fedcbs.algorithms._scaffold import Scaffold

__all__ = [
    "Algorithm",
    "AlgorithmState",
    "FedAdagrad",
    "FedAdam",
    "FedAvg",
    "FedAvgM",
    "FedMax",
    "FedNova",
    "FedProx",
    "FedYogi",
    "Follower",
    "LocalMethod",
    "LocalState",
    "Monitor",
    "Outcome",
    "Plain",
    "RatioLoss",
    "Scaffold",
    "ServerRule",
    "ServerState",
    "Work",
    "local_methods",
    "parse_algorithm",
    "parse_local",
    "parse_server",
    "server_rules",
    "split_algorithm",
]
