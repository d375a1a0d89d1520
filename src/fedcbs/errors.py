"""Everything that fedcbs raises on purpose.

::

    FedCBSError
    ├── InvalidArgumentError      (also ValueError)   a bad value; names argument, value and remedy
    │   ├── UnknownNameError      a name that nothing is registered under; suggests the nearest
    │   └── DataFileError         a file of a dataset that is damaged, or not what it should be
    ├── MissingDataError          (also LookupError)  a dataset that is in none of the folders looked in
    ├── InformationError          (also LookupError)  a selector asked for what it cannot have
    │   ├── UndeclaredNeedError   it did not declare the need
    │   └── NeedsTrainingError    the source has labels only, no model that is being trained
    ├── BrokenSelectorError       (also RuntimeError) a selector returned what no cohort can be
    ├── DivergedError             (also ArithmeticError)  training left the finite numbers
    ├── RunError                  (also RuntimeError) a run directory is busy, damaged, or out of space
    ├── ProtocolError             (also ValueError)   bytes of the private protocol that cannot be used
    │   ├── UploadError           a client's upload; names the client
    │   └── WrongKeyError         a key that is not the pinned one, or is no longer in use
    ├── BudgetSpentError          a client's privacy budget does not cover another noised upload
    ├── ServiceError              the selector's service could not do what it was asked
    │   ├── AnswersNeededError    the selector wants to know something of clients before it can choose
    │   ├── ConflictError         it contradicts what was done before
    │   ├── NotAllowedError       the certificate's name may not do that
    │   ├── RowNeededError        a row of the Gram is needed that the server has not computed yet
    │   └── UnreachableError      (also ConnectionError)  nobody answers, or not in time
    └── MissingExtraError         (also ImportError)  an optional dependency is not installed

Catch :class:`FedCBSError` to catch all of them; the standard base beside each keeps ``except ValueError`` working.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "AnswersNeededError",
    "BrokenSelectorError",
    "BudgetSpentError",
    "ConflictError",
    "DataFileError",
    "DivergedError",
    "FedCBSError",
    "InformationError",
    "InvalidArgumentError",
    "MissingDataError",
    "MissingExtraError",
    "NeedsTrainingError",
    "NotAllowedError",
    "ProtocolError",
    "RowNeededError",
    "RunError",
    "ServiceError",
    "UndeclaredNeedError",
    "UnknownNameError",
    "UnreachableError",
    "UploadError",
    "WrongKeyError",
]


class FedCBSError(Exception):
    """Base of all errors that fedcbs raises on purpose."""


class InvalidArgumentError(FedCBSError, ValueError):
    """A value that cannot work; the message names the argument, the value and the remedy."""


class UnknownNameError(InvalidArgumentError):
    """A name that nothing is registered under.

    >>> raise UnknownNameError("selector", "fedcbs-exat", ["fedcbs-exact", "uniform"])
    Traceback (most recent call last):
    ...
    fedcbs.errors.UnknownNameError: selector='fedcbs-exat' is not known; did you mean 'fedcbs-exact'? Known: fedcbs-exact, uniform
    """

    def __init__(self, argument: str, value: object, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(str(value), names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        super().__init__(f"{argument}={value!r} is not known{hint} Known: {', '.join(names) or 'none'}")


class DataFileError(InvalidArgumentError):
    """A file of a dataset that is damaged, incomplete, or not what it should be."""


class MissingDataError(FedCBSError, LookupError):
    """A dataset that is in none of the folders looked in; the message names them, the files, and how to get them."""


class InformationError(FedCBSError, LookupError):
    """A selector asked for information that it cannot have."""


class UndeclaredNeedError(InformationError):
    """A selector asked its round for something that it did not declare as a need."""


class NeedsTrainingError(InformationError):
    """Losses or updates were asked for where no model is trained."""


class BrokenSelectorError(FedCBSError, RuntimeError):
    """A selector returned something that cannot be a cohort of this round."""


class DivergedError(FedCBSError, ArithmeticError):
    """Training left the finite numbers: a loss or a weight is infinite or not a number."""


class RunError(FedCBSError, RuntimeError):
    """A run directory is in use, damaged, or cannot be written to."""


class ProtocolError(FedCBSError, ValueError):
    """Bytes of the private protocol that cannot be used: damaged, forged, or of another federation."""


class UploadError(ProtocolError):
    """A client's upload that is refused; the others go on without it.

    >>> raise UploadError("mallory", "it is cut short")
    Traceback (most recent call last):
    ...
    fedcbs.errors.UploadError: upload of client 'mallory' is refused: it is cut short
    """

    def __init__(self, client: str, reason: str) -> None:
        super().__init__(f"upload of client {client!r} is refused: {reason}")
        self.client = client
        self.reason = reason


class WrongKeyError(ProtocolError):
    """A public key that is not the one that was pinned, or one that is no longer in use."""


class BudgetSpentError(FedCBSError):
    """A client's privacy budget does not cover another noised upload."""


class ServiceError(FedCBSError):
    """The selector's service could not do what it was asked."""


class AnswersNeededError(ServiceError):
    """The selector wants to know something of clients before it can choose; ask them, and ask again with the answers.

    >>> raise AnswersNeededError("losses", ("a", "b"))
    Traceback (most recent call last):
    ...
    fedcbs.errors.AnswersNeededError: the selector wants to know losses of 2 clients before it can choose; give select an `ask`
    """

    def __init__(self, need: str, clients: Iterable[str], problem: str | None = None) -> None:
        self.need = need
        self.clients = tuple(clients)
        super().__init__(
            problem
            or f"the selector wants to know {need} of {len(self.clients)} clients before it can choose; give select an `ask`"
        )


class ConflictError(ServiceError):
    """A request contradicts what was done before."""


class NotAllowedError(ServiceError):
    """The name in the certificate may not do that."""


class RowNeededError(ServiceError):
    """A selection reads a row of the Gram that the server has not handed in yet; compute it, and ask again.

    >>> raise RowNeededError("hospital-7")
    Traceback (most recent call last):
    ...
    fedcbs.errors.RowNeededError: the row of client 'hospital-7' is needed; give select a `fetch_row`
    """

    def __init__(self, client: str) -> None:
        self.client = client
        super().__init__(f"the row of client {client!r} is needed; give select a `fetch_row`")


class UnreachableError(ServiceError, ConnectionError):
    """Nobody answers, or not in time."""


class MissingExtraError(FedCBSError, ImportError):
    """An optional dependency is missing.

    >>> raise MissingExtraError("matplotlib", extra="plot", purpose="--plot")
    Traceback (most recent call last):
    ...
    fedcbs.errors.MissingExtraError: --plot needs matplotlib; install it with: pip install 'fedcbs[plot]'
    """

    def __init__(self, package: str, *, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}; install it with: pip install 'fedcbs[{extra}]'")
