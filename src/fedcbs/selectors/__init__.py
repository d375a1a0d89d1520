"""Every selection strategy behind one interface.

>>> from fedcbs.selectors import LabelInformation, Round, make_selector
>>> information = LabelInformation([[9, 0, 0], [0, 9, 0], [0, 0, 9], [9, 0, 0]])
>>> selector = make_selector("fedcbs-exact")
>>> selection = selector.select(selector.init(4), Round(information, cohort_size=3, seed=1))
>>> sorted({0, 1, 2, 3} - set(selection.cohort.tolist()))[0] in (0, 3)  # one of the two alike is left out
True
"""

from fedcbs.selectors._active_fl import ActiveFL
from fedcbs.selectors._astraea import Astraea
from fedcbs.selectors._base import Draw, Estimates, Selection, Selector
from fedcbs.selectors._baselines import Everyone, Uniform
from fedcbs.selectors._clustered import ClusteredBySimilarity, ClusteredBySize
from fedcbs.selectors._divfl import DivFL
from fedcbs.selectors._fed_cucb import FedCUCB
from fedcbs.selectors._fedcbs import FedCBSExact, FedCBSPaper, FedCBSSharp
from fedcbs.selectors._fedcs import FedCS
from fedcbs.selectors._feedback import Feedback
from fedcbs.selectors._information import GramInformation, Information, LabelInformation, Need
from fedcbs.selectors._oort import Oort
from fedcbs.selectors._ou import OrnsteinUhlenbeck
from fedcbs.selectors._power_of_choice import BatchPowerOfChoice, PowerOfChoice, StalePowerOfChoice
from fedcbs.selectors._rbcs_f import RBCSF
from fedcbs.selectors._registry import DEFAULT_SELECTOR, make_selector, parse_selector, selector_types
from fedcbs.selectors._round import Round, RoundView
from fedcbs.selectors._state import State

__all__ = [
    "DEFAULT_SELECTOR",
    "RBCSF",
    "ActiveFL",
    "Astraea",
    "BatchPowerOfChoice",
    "ClusteredBySimilarity",
    "ClusteredBySize",
    "DivFL",
    "Draw",
    "Estimates",
    "Everyone",
    "FedCBSExact",
    "FedCBSPaper",
    "FedCBSSharp",
    "FedCS",
    "FedCUCB",
    "Feedback",
    "GramInformation",
    "Information",
    "LabelInformation",
    "Need",
    "Oort",
    "OrnsteinUhlenbeck",
    "PowerOfChoice",
    "Round",
    "RoundView",
    "Selection",
    "Selector",
    "StalePowerOfChoice",
    "State",
    "Uniform",
    "make_selector",
    "parse_selector",
    "selector_types",
]
