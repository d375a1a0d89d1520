"""What a client has spent of its privacy budget over repeated noised uploads.

An upload that is sent again as it is costs nothing: keep the bytes. What costs is noise that is drawn anew over the same
examples, since an average takes it off.

Costs of pure differential privacy add up, and so do those of zero-concentrated differential privacy (Bun and Steinke 2016,
lemma 2.3); an upload with Laplace noise counts in both. The smaller of the two totals that results counts.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, BinaryIO, Self, final

from fedcbs._files import existing_file, write_whole
from fedcbs.errors import BudgetSpentError, InvalidArgumentError
from fedcbs.private._noise import CHANGED_COUNTS, Noise
from fedcbs.private._zcdp import approximate_epsilon

__all__ = ["Accountant", "parse_budget"]

_FORMAT = 1


@final
@dataclasses.dataclass(frozen=True)
class Accountant:
    """One client's budget, and what is spent of it. Immutable: :meth:`charge` returns the next one.

    Parameters
    ----------
    epsilon, delta
        The budget. With a delta of 0 only noise with a pure cost (Laplace) fits into it.
    pure, rho
        What is spent in pure and in zero-concentrated differential privacy; `pure` is None after a use without a pure cost.
    uses
        How many uploads were charged.
    adjacency
        What neighbouring data sets differ in, in all of them; None before the first. Costs of the two kinds do not add up.

    Examples
    --------
    >>> from fedcbs.private import parse_noise
    >>> account = Accountant(epsilon=1.0).charge(parse_noise("laplace:epsilon=0.5"))
    >>> account.spent, account.uses
    (0.5, 1)
    >>> account.charge(parse_noise("laplace:epsilon=0.6"))
    Traceback (most recent call last):
    ...
    fedcbs.errors.BudgetSpentError: another upload with laplace:epsilon=0.6 would bring epsilon to 1.1 of a budget of 1.0 (1 upload charged so far); send the last upload again, which costs nothing, or use more noise
    """

    epsilon: float
    delta: float = 0.0
    pure: Fraction | None = Fraction(0)
    rho: Fraction = Fraction(0)
    uses: int = 0
    adjacency: str | None = None

    def __post_init__(self) -> None:
        if not (0 < self.epsilon < float("inf")):
            raise InvalidArgumentError(f"epsilon={self.epsilon!r} of the budget must be a number above 0")
        if not (0 <= self.delta < 1):
            raise InvalidArgumentError(f"delta={self.delta!r} of the budget must be from 0 to below 1")

    @property
    def spent(self) -> float:
        """Epsilon spent so far, at the budget's delta; infinite where it has no delta and a use had no pure cost."""
        ways = [float(self.pure)] if self.pure is not None else []
        if self.delta > 0:
            ways.append(approximate_epsilon(float(self.rho), self.delta))
        return min(ways, default=float("inf"))

    def charge(self, noise: Noise) -> Accountant:
        """Return the account after one more noised upload, or refuse it."""
        if self.adjacency not in (None, noise.adjacency):
            raise InvalidArgumentError(
                f"noise {noise.spec} is for adjacency={noise.adjacency}, and what was charged so far is for {self.adjacency};"
                " their costs do not add up: keep to one, or an account for each"
            )
        pure = None if self.pure is None or noise.epsilon is None else self.pure + noise.epsilon
        after = dataclasses.replace(
            self, pure=pure, rho=self.rho + noise.rho, uses=self.uses + 1, adjacency=noise.adjacency
        )
        if after._exceeds():
            raise BudgetSpentError(
                f"another upload with {noise.spec} would bring epsilon to {after.spent:.6g} of a budget of "
                f"{self.epsilon}{f' at delta {self.delta:g}' * (self.delta > 0)} ({self.uses} upload{'s' * (self.uses != 1)}"
                " charged so far); send the last upload again, which costs nothing, or use more noise"
            )
        return after

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; the sums are exact."""
        return {
            "format": _FORMAT,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "pure": None if self.pure is None else str(self.pure),
            "rho": str(self.rho),
            "uses": self.uses,
            "adjacency": self.adjacency,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Restore an account from what :meth:`to_dict` returned.

        >>> Accountant.from_dict(Accountant(2.0).to_dict()) == Accountant(2.0)
        True
        """
        try:
            if values["format"] != _FORMAT:
                raise InvalidArgumentError(
                    f"the account has format {values['format']!r}; this version reads format {_FORMAT}"
                )
            pure = values["pure"]
            account = cls(
                epsilon=float(values["epsilon"]),
                delta=float(values["delta"]),
                pure=None if pure is None else Fraction(pure),
                rho=Fraction(values["rho"]),
                uses=int(values["uses"]),
                adjacency=values["adjacency"],
            )
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            if isinstance(error, InvalidArgumentError):
                raise
            raise InvalidArgumentError(
                f"this is no account ({type(error).__name__}: {error}); restore the file from a backup"
            ) from None
        if account.adjacency not in (None, *CHANGED_COUNTS):
            raise InvalidArgumentError(
                f"the account has adjacency={account.adjacency!r}, which is unknown; restore the file from a backup"
            )
        if account.rho < 0 or account.uses < 0 or (account.pure is not None and account.pure < 0):
            raise InvalidArgumentError("the account holds negative sums; restore the file from a backup")
        return account

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the account to a file, whole or not at all."""
        content = json.dumps(self.to_dict(), indent=2).encode() + b"\n"

        def write(file: BinaryIO) -> None:
            file.write(content)

        write_whole(path, write)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an account from a file that :meth:`save` wrote."""
        file = existing_file(path, "account")
        try:
            values = json.loads(file.read_bytes())
        except ValueError as error:
            raise InvalidArgumentError(
                f"account {str(file)!r} is no JSON ({error}); restore it from a backup"
            ) from None
        return cls.from_dict(values)

    def _exceeds(self) -> bool:
        """Whether more than the budget is spent; pure sums are compared exactly."""
        if self.pure is not None and self.pure <= Fraction(str(self.epsilon)):
            return False
        return self.delta == 0 or approximate_epsilon(float(self.rho), self.delta) > self.epsilon


def parse_budget(text: str) -> Accountant:
    """Make a fresh account from ``EPSILON`` or ``EPSILON,DELTA``.

    >>> parse_budget("2,1e-6").delta
    1e-06
    """
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2):
        raise InvalidArgumentError(f"budget={text!r} must be EPSILON or EPSILON,DELTA, such as 2 or 2,1e-6")
    return Accountant(epsilon=numbers[0], delta=numbers[1] if len(numbers) == 2 else 0.0)
