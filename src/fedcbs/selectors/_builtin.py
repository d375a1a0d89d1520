"""The selectors that come with fedcbs, in the order in which they are listed."""

from __future__ import annotations

from typing import Any

from fedcbs.selectors._active_fl import ActiveFL
from fedcbs.selectors._astraea import Astraea
from fedcbs.selectors._base import Selector
from fedcbs.selectors._baselines import Everyone, Uniform
from fedcbs.selectors._clustered import ClusteredBySimilarity, ClusteredBySize
from fedcbs.selectors._divfl import DivFL
from fedcbs.selectors._fed_cucb import FedCUCB
from fedcbs.selectors._fedcbs import FedCBSExact, FedCBSPaper, FedCBSSharp
from fedcbs.selectors._fedcs import FedCS
from fedcbs.selectors._oort import Oort
from fedcbs.selectors._ou import OrnsteinUhlenbeck
from fedcbs.selectors._power_of_choice import BatchPowerOfChoice, PowerOfChoice, StalePowerOfChoice
from fedcbs.selectors._rbcs_f import RBCSF

__all__ = ["BUILTIN"]

BUILTIN: tuple[type[Selector[Any]], ...] = (
    Everyone,
    Uniform,
    FedCBSPaper,
    FedCBSSharp,
    FedCBSExact,
    Astraea,
    FedCUCB,
    PowerOfChoice,
    BatchPowerOfChoice,
    StalePowerOfChoice,
    ActiveFL,
    DivFL,
    ClusteredBySize,
    ClusteredBySimilarity,
    RBCSF,
    FedCS,
    OrnsteinUhlenbeck,
    Oort,
)
