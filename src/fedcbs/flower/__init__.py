"""Any selector in any Flower strategy, in real federations.

On the server's side, one line around the strategy; on the clients' side, one line around the app::

    strategy = with_selector(FedAvg(), "fedcbs-sharp", cohort_size=10, out="run")   # ServerApp
    app = with_answers(app, label_counts=count_labels)                              # ClientApp

The chosen cohort, and only it, is trained, whatever the strategy's own sampling would have done. What a selector needs to
know is asked of the nodes by query messages, or read from the replies to training.
"""

try:
    import flwr as _flwr  # noqa: F401
except ImportError:
    from fedcbs.errors import MissingExtraError

    raise MissingExtraError("flwr", extra="flower", purpose="fedcbs.flower") from None

from fedcbs.flower._answers import with_answers
from fedcbs.flower._errors import (
    FederationError,
    FederationStateError,
    SelectionNotHonouredError,
)
from fedcbs.flower._grid import SelectedGrid
from fedcbs.flower._hook import with_selector
from fedcbs.flower._party import SelectorParty
from fedcbs.flower._relay import RelayedSelector

__all__ = [
    "FederationError",
    "FederationStateError",
    "RelayedSelector",
    "SelectedGrid",
    "SelectionNotHonouredError",
    "SelectorParty",
    "with_answers",
    "with_selector",
]
