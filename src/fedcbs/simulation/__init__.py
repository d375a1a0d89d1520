"""Federated rounds on one machine: who is available, who is picked, who fails, training, and what is written down."""

from fedcbs.simulation._batches import draw_plan
from fedcbs.simulation._evaluation import EvaluationRule
from fedcbs.simulation._faults import Faults
from fedcbs.simulation._federation import (
    Federation,
    default_auxiliary,
    default_clients,
    make_federation,
)
from fedcbs.simulation._monitor import last_layer
from fedcbs.simulation._record import RoundRecord
from fedcbs.simulation._schedule import SCHEDULES, Schedule, parse_schedule
from fedcbs.simulation._simulation import Simulation
from fedcbs.simulation._state import SimulationState
from fedcbs.simulation._statistics import Statistics, check_privacy, collect_statistics
from fedcbs.simulation._times import ClientTimes
from fedcbs.simulation._training import Training

__all__ = [
    "SCHEDULES",
    "ClientTimes",
    "EvaluationRule",
    "Faults",
    "Federation",
    "RoundRecord",
    "Schedule",
    "Simulation",
    "SimulationState",
    "Statistics",
    "Training",
    "check_privacy",
    "collect_statistics",
    "default_auxiliary",
    "default_clients",
    "draw_plan",
    "last_layer",
    "make_federation",
    "parse_schedule",
]
