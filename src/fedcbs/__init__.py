"""Choose which clients train next in federated learning.

The subpackages, from the ground up:

- :mod:`fedcbs.imbalance`: QCID, and the Gram matrix that gives it without label counts
- :mod:`fedcbs.partition`: who holds which examples
- :mod:`fedcbs.availability`: who can be picked in a round
- :mod:`fedcbs.selectors`: every selection strategy behind one interface
- :mod:`fedcbs.laboratory`: strategies compared on labels alone
"""

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
]
