"""Every selection strategy behind one interface."""

from fedcbs.selectors._base import Draw, Estimates, Selection, Selector
from fedcbs.selectors._fedcbs import FedCBSExact, FedCBSPaper, FedCBSSharp
from fedcbs.selectors._feedback import Feedback
from fedcbs.selectors._information import GramInformation, Information, LabelInformation, Need
from fedcbs.selectors._round import Round, RoundView
from fedcbs.selectors._state import State
