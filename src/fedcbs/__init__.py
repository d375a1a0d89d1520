"""Choose which clients train next in federated learning.

The subpackages, from the ground up:

- :mod:`fedcbs.imbalance`: QCID, and the Gram matrix that gives it without label counts
- :mod:`fedcbs.partition`: who holds which examples
- :mod:`fedcbs.availability`: who can be picked in a round
- :mod:`fedcbs.selectors`: every selection strategy behind one interface
- :mod:`fedcbs.private`, :mod:`fedcbs.audit`, :mod:`fedcbs.service`: the encrypted protocol, what it leaves open, and the
  selector as a party of its own
- :mod:`fedcbs.laboratory`: strategies compared on labels alone
- :mod:`fedcbs.flower`: real federations
- :mod:`fedcbs.data`, :mod:`fedcbs.models`, :mod:`fedcbs.engine`, :mod:`fedcbs.algorithms`: what trains, and how
- :mod:`fedcbs.simulation`, :mod:`fedcbs.runs`, :mod:`fedcbs.sweeps`: federations on one machine, kept and compared
- :mod:`fedcbs.experiments`, :mod:`fedcbs.report`: the paper's tables and figures; pages of any runs

:func:`simulate` runs a federation; the subpackages that train are imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedcbs._one_shot import select_cohort
from fedcbs.errors import FedCBSError
from fedcbs.imbalance import DenseGram, FactorGram, Gram, kl_divergence, label_shares, qcid, qcid_from_gram
from fedcbs.selectors import (
    Feedback,
    GramInformation,
    Information,
    LabelInformation,
    Need,
    Round,
    Selection,
    Selector,
    make_selector,
    selector_types,
)

if TYPE_CHECKING:
    from fedcbs.runs import simulate

__version__ = "0.1.0"

__all__ = [
    "DenseGram",
    "FactorGram",
    "FedCBSError",
    "Feedback",
    "Gram",
    "GramInformation",
    "Information",
    "LabelInformation",
    "Need",
    "Round",
    "Selection",
    "Selector",
    "__version__",
    "kl_divergence",
    "label_shares",
    "make_selector",
    "qcid",
    "qcid_from_gram",
    "select_cohort",
    "selector_types",
    "simulate",
]


def __getattr__(name: str) -> object:
    if name == "simulate":  # training needs PyTorch, which selection does without
        from fedcbs.runs import simulate

        return simulate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
