"""The selector as a party of its own: it holds the secret keys, and answers a server's question whom to train next.

:class:`LocalSelector` runs in this process; :class:`SelectorClient` speaks to one that ``fedcbs selector serve`` runs elsewhere.
Both are a :class:`SelectorLink`. The service needs the extra ``serve``; a client of it needs only Python.
"""

from fedcbs.service._app import make_app
from fedcbs.service._certificates import make_certificates
from fedcbs.service._client import SelectorClient
from fedcbs.service._limits import Limits
from fedcbs.service._link import (
    Ask,
    Cohort,
    FederationOptions,
    FederationStatus,
    Membership,
    SelectorLink,
)
from fedcbs.service._local import LocalSelector
from fedcbs.service._server import Listen, serve

__all__ = [
    "Ask",
    "Cohort",
    "FederationOptions",
    "FederationStatus",
    "Limits",
    "Listen",
    "LocalSelector",
    "Membership",
    "SelectorClient",
    "SelectorLink",
    "make_app",
    "make_certificates",
    "serve",
]
