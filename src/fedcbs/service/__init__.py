"""The selector as a party of its own: it holds the secret keys, and answers a server's question whom to train next.

:class:`LocalSelector` runs in this process; :class:`SelectorClient` speaks to one that ``fedcbs selector serve`` runs elsewhere.
Both are a :class:`SelectorLink`. The service needs the extra ``serve``; a client of it needs only Python.
"""

from fedcbs.service._link import (
    Ask,
    Cohort,
    FederationOptions,
    FederationStatus,
    Membership,
    SelectorLink,
)
from fedcbs.service._local import LocalSelector

__all__ = [
    "Ask",
    "Cohort",
    "FederationOptions",
    "FederationStatus",
    "LocalSelector",
    "Membership",
    "SelectorLink",
]
