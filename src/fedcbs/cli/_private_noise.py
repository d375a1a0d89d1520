"""Noise on counts before they are encrypted, and the account that it is charged to."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from fedcbs.cli._console import check_target, tell
from fedcbs.errors import InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fedcbs.private import Accountant

__all__ = ["add_noise_options", "noised_counts"]


def add_noise_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that :func:`noised_counts` reads."""
    group = parser.add_argument_group("noise")
    group.add_argument(
        "--noise",
        metavar="LAW",
        help="add noise to the counts before they are encrypted: laplace:epsilon=0.5, gaussian:epsilon=1,delta=1e-6 or"
        " gaussian:rho=0.02; with adjacency=change after a comma where a changed label is to be hidden as well as an"
        " example more or less",
    )
    group.add_argument(
        "--account",
        metavar="FILE",
        help="what this client has spent so far: each run with --noise is charged to it, and refused when the budget is spent",
    )
    group.add_argument(
        "--budget", metavar="EPSILON[,DELTA]", help="the budget, where the account is to be made"
    )


def noised_counts(args: argparse.Namespace, counts: NDArray[np.int64], cap: int) -> NDArray[np.int64]:
    """Return counts with the noise that the options ask for, none where they ask for none."""
    if args.noise is None:
        if args.account is not None or args.budget is not None:
            raise InvalidArgumentError("--account and --budget are of no use without --noise; add it")
        return counts
    from fedcbs.private import parse_noise

    noise = parse_noise(args.noise)
    account = _account(args)
    if account is None:
        tell(
            "noise is drawn anew each time, and an average takes it off: keep an --account, or send this upload again"
        )
    else:
        # Written before the noise is used: after a crash in between the account has charged too much, never too little.
        account = account.charge(noise)
        account.save(args.account)
        tell(
            f"epsilon spent: {account.spent:.6g} of {account.epsilon:g}"
            + (f" at delta {account.delta:g}" if account.delta else "")
        )
    return noise.apply(counts, most=cap)


def _account(args: argparse.Namespace) -> Accountant | None:
    from fedcbs.private import Accountant, parse_budget

    if args.account is None:
        if args.budget is not None:
            raise InvalidArgumentError("--budget needs an --account to keep count in; name a file")
        return None
    if not Path(args.account).exists():
        if args.budget is None:
            raise InvalidArgumentError(
                f"--account {args.account!r} is not there yet; give its --budget, as in --budget 2 or --budget 2,1e-6"
            )
        check_target(args.account, "--account")
        return parse_budget(args.budget)
    account = Accountant.load(args.account)
    if args.budget is not None:
        wanted = parse_budget(args.budget)
        if (wanted.epsilon, wanted.delta) != (account.epsilon, account.delta):
            raise InvalidArgumentError(
                f"--budget {args.budget} is not that of --account {args.account!r}, which is {account.epsilon:g},{account.delta:g}"
            )
    return account
