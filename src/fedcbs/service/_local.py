"""The selector party itself: keys, opened statistics, choices. The service puts HTTPS around it; simulations use it as it is."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import secrets
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs import _checks
from fedcbs.errors import ConflictError, InvalidArgumentError, UnknownNameError
from fedcbs.imbalance import qcid_from_gram
from fedcbs.private import Keys, PublicKeys, SecretKeys, make_mode, mode_of
from fedcbs.private._wire import check_name
from fedcbs.selectors import Feedback, Information, Need, Round, Selection, parse_selector
from fedcbs.service import _codec as codec
from fedcbs.service._information import Answers, ToldInformation, grown_state
from fedcbs.service._isolated import masks_apart, open_apart
from fedcbs.service._ledger import Ledger
from fedcbs.service._link import (
    Cohort,
    FederationOptions,
    FederationStatus,
    Membership,
    SelectorLink,
)
from fedcbs.service._statistics import Statistics, opened_from_bytes, write_statistics
from fedcbs.service._store import IN_MEMORY, Store

__all__ = ["LocalSelector", "ReportedQCID"]

ReportedQCID = Literal["no", "rounded", "exact"]
COUNTING_MODES = ("sealed",)
"""Modes in which the selector opens label counts, in an order of the classes that the clients share."""

REPORTED: tuple[ReportedQCID, ...] = ("no", "rounded", "exact")


@final
class LocalSelector(SelectorLink):
    """A selector in this process.

    Parameters
    ----------
    state
        File that keeps keys, statistics and state, made where there is none; without one they are gone afterwards.
    report_qcid
        What is told of a cohort's QCID: nothing, its first digit, or all of it.

    Examples
    --------
    >>> link = LocalSelector()
    >>> status = link.create("demo", FederationOptions(num_classes=2, mode="plain", seed=1))
    >>> keys = link.public_keys("demo")
    >>> mode = make_mode("plain", num_classes=2)
    >>> counts = {"a": [3, 0], "b": [0, 3], "c": [3, 1]}
    >>> uploads = {name: mode.encrypt(keys, row, name) for name, row in counts.items()}
    >>> link.put_statistics("demo", mode.gram(keys, uploads)).clients
    ('a', 'b', 'c')
    >>> link.select("demo", round_index=1, cohort_size=2, available=["a", "b", "c"]).clients
    ('a', 'b')
    """

    def __init__(
        self, state: str | os.PathLike[str] = IN_MEMORY, *, report_qcid: ReportedQCID = "exact"
    ) -> None:
        if report_qcid not in REPORTED:
            raise UnknownNameError("report_qcid", report_qcid, REPORTED)
        self._store, self._report = Store(state), report_qcid
        self._statistics = Statistics(self._store)

    def create(self, federation: str, options: FederationOptions, *, owner: str = "") -> FederationStatus:
        """Make a federation and its keys; one that exists with the same options stays as it is.

        Parameters
        ----------
        federation
            Its name.
        options
            How its clients are protected and chosen.
        owner
            Who alone may use it.
        """
        _checked_federation(federation)
        mode = make_mode(options.mode, num_classes=options.num_classes, max_examples=options.max_examples)
        _check_selector(options)
        if options.seed is not None:
            _checks.integer(options.seed, "seed", minimum=0, maximum=2**63 - 1)
        if not self._exists(federation, options, owner):
            self._insert(
                federation, options, owner, mode.keygen()
            )  # seconds, in some modes; nothing waits for it
        return self.status(federation)

    def status(self, federation: str) -> FederationStatus:
        """Say how a federation stands."""
        row = self._federation(federation)
        options = _options(row)
        last, observed = self._store.rows(
            "SELECT max(round_index), max(CASE WHEN observed IS NOT NULL THEN round_index END)"
            " FROM rounds WHERE federation=?",
            federation,
        )[0]
        return FederationStatus(
            name=federation,
            mode=options.mode,
            selector=options.selector,
            num_classes=options.num_classes,
            fingerprint=codec.secret_from_bytes(row["secret"]).fingerprint,
            clients=self._statistics.num_clients(federation),
            last_round=last or 0,
            observed_round=observed or 0,
        )

    def federations(self) -> tuple[str, ...]:
        """Names of all federations."""
        return tuple(row["name"] for row in self._store.rows("SELECT name FROM federations ORDER BY name"))

    def owner(self, federation: str) -> str:
        """Who alone may use a federation."""
        return str(self._federation(federation)["owner"])

    def public_keys(self, federation: str) -> PublicKeys:
        """Return what clients encrypt with, and what the server computes with."""
        return codec.public_from_bytes(self._federation(federation)["public"])

    def rotate(self, federation: str) -> str:
        """Put new keys in the place of the old ones, and return the new fingerprint; opened statistics stay in use."""
        old = self.public_keys(federation)
        keys = mode_of(old).keygen()
        public = dataclasses.replace(keys.public, retired=(*old.retired, old.fingerprint))
        with self._store.transaction() as connection:
            if self.public_keys(federation).fingerprint != old.fingerprint:
                raise ConflictError(f"somebody else rotated the keys of {federation!r} meanwhile")
            connection.execute(
                "UPDATE federations SET public=?, secret=? WHERE name=?",
                (codec.public_to_bytes(public), codec.secret_to_bytes(keys.secret), federation),
            )
            # Uploads for the old key cannot be opened any more; who sent them must send again.
            connection.execute("DELETE FROM uploads WHERE federation=?", (federation,))
        return public.fingerprint

    def masks(self, federation: str, seeds: Mapping[str, bytes]) -> bytes:
        """Return the masks for these clients' sealed seeds, in a mode that exchanges masks."""
        return masks_apart(self._secret(federation), dict(seeds))

    def put_statistics(self, federation: str, gram: bytes) -> Membership:
        """Hand in what the server computed from the uploads; it takes the place of what was there."""
        secret = self._secret(federation)
        digest = hashlib.sha256(gram).hexdigest()
        known = self._store.row("SELECT digest, opened FROM statistics WHERE federation=?", federation)
        if known is not None and known["digest"] == digest:
            opened = opened_from_bytes(known["opened"])
        else:
            opened = open_apart(secret, gram)
            with self._store.transaction() as connection:
                write_statistics(connection, federation, digest, opened)
        return Membership(opened.clients, dict(opened.refused))

    def put_upload(self, federation: str, client: str, upload: bytes) -> None:
        """Hand in one client's upload, where the selector does the server's computation too."""
        public = self.public_keys(federation)
        mode = mode_of(public)
        if mode.exchanges_masks:
            raise InvalidArgumentError(
                f"mode {mode.name!r} exchanges masks with the server, so the server must compute; hand in the result instead"
            )
        mode.check(public, upload, client)
        with self._store.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO uploads VALUES (?, ?, ?)", (federation, client, upload)
            )
            connection.execute("UPDATE federations SET stale=1 WHERE name=?", (federation,))

    def remove_upload(self, federation: str, client: str) -> None:
        """Forget a client's upload; from then on it cannot be selected."""
        self._federation(federation)
        check_name(client)
        with self._store.transaction() as connection:
            connection.execute("DELETE FROM uploads WHERE federation=? AND client=?", (federation, client))
            connection.execute("UPDATE federations SET stale=1 WHERE name=?", (federation,))

    def _select(
        self,
        federation: str,
        *,
        round_index: int,
        cohort_size: int,
        available: tuple[str, ...],
        answers: Answers,
        redo: bool,
    ) -> Cohort:
        _checks.integer(round_index, "round_index", minimum=1, maximum=2**53)
        _checks.integer(cohort_size, "cohort_size", minimum=1)
        if len(set(available)) < len(available):
            raise InvalidArgumentError("available names a client twice; name each client once")
        digest = hashlib.sha256(codec.canonical([cohort_size, sorted(available)])).hexdigest()
        with self._store.transaction() as connection:
            ledger = Ledger(connection, federation)
            self._federation(federation)
            answered = ledger.answered(round_index)
            last = ledger.last_round
            if answered is not None and answered[0] == digest and not (redo and round_index < last):
                return answered[1]
            if round_index <= last and not redo:
                raise ConflictError(_out_of_order(round_index, last, answered is not None))
        self._refresh(federation)
        with self._store.transaction() as connection:
            ledger = Ledger(connection, federation)
            ledger.rewind(round_index)
            cohort, state = self._choose(federation, ledger, round_index, cohort_size, available, answers)
            ledger.record(round_index, digest, cohort, state)
            return cohort

    def observe(
        self,
        federation: str,
        round_index: int,
        *,
        answered: Sequence[str],
        failed: Sequence[str] = (),
        **learnt: ArrayLike | None,
    ) -> None:
        """Tell the outcome of a round."""
        told = {name: np.asarray(value, np.float64) for name, value in learnt.items() if value is not None}
        digest = _digest_of_outcome(answered, failed, told)
        with self._store.transaction() as connection:
            ledger = Ledger(connection, federation)
            selector = parse_selector(_options(self._federation(federation)).selector)
            before = ledger.answered(round_index)
            if before is None:
                raise ConflictError(f"round {round_index} of {federation!r} was not answered; select first")
            known = ledger.observed(round_index)
            if known == digest:
                return
            if known is not None:
                raise ConflictError(
                    f"another outcome of round {round_index} of {federation!r} was told before; it stays"
                )
            stranger = next((name for name in (*answered, *failed) if name not in before[1].clients), None)
            if stranger is not None:
                raise InvalidArgumentError(
                    f"answered or failed names {stranger!r}, who is not in the cohort of round {round_index}"
                )
            population = self._statistics.population(federation)
            place = {name: number for number, name in enumerate(population)}
            feedback = _feedback([place[name] for name in answered], [place[name] for name in failed], told)
            state = grown_state(selector, ledger.state() or {}, len(population))
            ledger.observe(round_index, digest, selector.observe(state, feedback).to_arrays())

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the state to a new file while it is in use; the copy holds the secret keys too."""
        Store(path).close()
        with sqlite3.connect(os.fspath(path)) as copy:
            self._store.copy_to(copy)
        copy.close()

    def close(self) -> None:
        """Let go of the file."""
        self._store.close()

    # What goes on inside.

    def _choose(
        self,
        federation: str,
        ledger: Ledger,
        round_index: int,
        cohort_size: int,
        available: tuple[str, ...],
        answers: Answers,
    ) -> tuple[Cohort, dict[str, NDArray[Any]]]:
        row = self._federation(federation)
        selector = parse_selector(_options(row).selector)
        population, usable, statistics = self._statistics.current(federation)
        stranger = next((name for name in available if name not in usable), None)
        if stranger is not None:
            raise InvalidArgumentError(
                f"available names {stranger!r}, of whom there are no label statistics; hand them in, or leave it out"
            )
        saved = ledger.state()
        state = (
            selector.init(len(population)) if saved is None else grown_state(selector, saved, len(population))
        )
        round_ = Round(
            ToldInformation(statistics, population, answers),
            cohort_size=cohort_size,
            round_index=round_index,
            available=[usable[name] for name in available],
            seed=int(row["seed"]),
        )
        selection = selector.select(state, round_)
        return self._as_cohort(selection, population, statistics), selection.state.to_arrays()

    def _as_cohort(
        self, selection: Selection[Any], population: Sequence[str], statistics: Information
    ) -> Cohort:
        names = [population[client] for client in selection.cohort]
        order = np.argsort(names)  # positions follow arrival, names do not
        estimates = selection.estimates
        return Cohort(
            clients=tuple(names[place] for place in order),
            weights=None if selection.weights is None else selection.weights[order],
            qcid=self._reported(statistics, selection.cohort),
            asked={str(need): number for need, number in selection.asked.items()},
            estimated=() if estimates is None else tuple(population[n] for n in estimates.clients),
            estimated_updates=None if estimates is None else estimates.updates,
            estimated_weights=None if estimates is None else estimates.weights,
        )

    def _reported(self, statistics: Information, cohort: NDArray[np.int64]) -> float | None:
        if self._report == "no" or not statistics.num_examples()[cohort].any():
            return None
        value = qcid_from_gram(statistics.gram(), cohort)
        return value if self._report == "exact" else _first_digit(value)

    def _refresh(self, federation: str) -> None:
        """Compute from the clients' own uploads, where they came here and have changed."""
        with self._store.transaction() as connection:
            if not self._federation(federation)["stale"]:
                return
            uploads = {
                row["client"]: row["upload"]
                for row in self._store.rows(
                    "SELECT client, upload FROM uploads WHERE federation=?", federation
                )
            }
            if not uploads:
                raise ConflictError(f"all clients of {federation!r} have left; wait for an upload")
            public = self.public_keys(federation)
            gram = mode_of(public).gram(public, uploads)
            opened = open_apart(self._secret(federation), gram)
            write_statistics(connection, federation, hashlib.sha256(gram).hexdigest(), opened)
            connection.execute("UPDATE federations SET stale=0 WHERE name=?", (federation,))

    def _exists(self, federation: str, options: FederationOptions, owner: str) -> bool:
        row = self._store.row("SELECT owner, options FROM federations WHERE name=?", federation)
        if row is None:
            return False
        if row["owner"] != owner or _options(row) != options:
            raise ConflictError(f"a federation {federation!r} exists with other options; choose another name")
        return True

    def _insert(self, federation: str, options: FederationOptions, owner: str, keys: Keys) -> None:
        seed = secrets.randbits(63) if options.seed is None else options.seed
        with self._store.transaction() as connection:
            if self._exists(federation, options, owner):  # somebody was quicker
                return
            connection.execute(
                "INSERT INTO federations (name, owner, options, seed, public, secret) VALUES (?, ?, ?, ?, ?, ?)",
                (
                    federation,
                    owner,
                    json.dumps(dataclasses.asdict(options)),
                    str(seed),
                    codec.public_to_bytes(keys.public),
                    codec.secret_to_bytes(keys.secret),
                ),
            )

    def _federation(self, federation: str) -> sqlite3.Row:
        row = self._store.row("SELECT * FROM federations WHERE name=?", str(federation))
        if row is None:
            raise UnknownNameError("federation", federation, self.federations() or ["(none yet)"])
        return row

    def _secret(self, federation: str) -> SecretKeys:
        return codec.secret_from_bytes(self._federation(federation)["secret"])


def _options(row: sqlite3.Row) -> FederationOptions:
    return FederationOptions(**json.loads(row["options"]))


def _checked_federation(name: object) -> None:
    try:
        check_name(name)
    except InvalidArgumentError:
        raise InvalidArgumentError(
            f"federation={name!r} must be a name such as 'hospitals': 1 to 128 printable characters without / or \\"
        ) from None


def _check_selector(options: FederationOptions) -> None:
    """Refuse a selector that wants label counts where the mode opens inner products only."""
    selector = parse_selector(options.selector)
    if Need.LABEL_COUNTS in selector.needs and options.mode not in COUNTING_MODES:
        raise InvalidArgumentError(
            f"selector={options.selector!r} looks at label counts, and mode={options.mode!r} opens inner products only;"
            f" choose mode {' or '.join(COUNTING_MODES)}, or another selector"
        )


def _feedback(answered: list[int], failed: list[int], told: Mapping[str, NDArray[np.float64]]) -> Feedback:
    known = {field.name for field in dataclasses.fields(Feedback)} - {"answered", "failed"}
    for name in told:
        if name not in known:
            raise UnknownNameError("outcome", name, known)
    return Feedback(answered=answered, failed=failed, **told)


def _digest_of_outcome(
    answered: Sequence[str], failed: Sequence[str], told: Mapping[str, NDArray[np.float64]]
) -> str:
    digest = hashlib.sha256(codec.canonical([list(answered), list(failed), sorted(told)]))
    for name in sorted(told):
        digest.update(repr(told[name].shape).encode() + np.ascontiguousarray(told[name]).tobytes())
    return digest.hexdigest()


def _out_of_order(round_index: int, last: int, answered: bool) -> str:
    if answered:
        return (
            f"round {round_index} was answered already, to a request with other clients or another size;"
            " repeat that request, or say redo to forget it and all that followed"
        )
    return f"round {round_index} comes after round {last} was answered; go on, or say redo to go back"


def _first_digit(value: float) -> float:
    """Round to one significant digit; a balanced cohort stays 0.

    >>> _first_digit(0.0234), _first_digit(0.0)
    (0.02, 0.0)
    """
    if value <= 0:
        return 0.0
    return round(value, -math.floor(math.log10(value)))
