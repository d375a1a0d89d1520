"""The selector party itself: keys, opened statistics, choices. The service puts HTTPS around it; simulations use it as it is."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcbs import _checks
from fedcbs.errors import ConflictError, InvalidArgumentError, UnknownNameError
from fedcbs.imbalance import qcid_from_gram
from fedcbs.private import Keys, OpenedGram, PublicKeys, SecretKeys, make_mode, mode_of
from fedcbs.private._wire import check_name
from fedcbs.selectors import Information, Round, Selection, parse_selector
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
from fedcbs.service._requests import (
    check_federation,
    check_selector,
    digest_of_outcome,
    feedback_of,
    first_digit,
    options_of,
    out_of_order,
)
from fedcbs.service._rows import RowOpeners
from fedcbs.service._statistics import (
    OpenedDiagonal,
    Statistics,
    opened_from_bytes,
    told_of_refused,
    write_statistics,
)
from fedcbs.service._store import IN_MEMORY, Store

__all__ = ["LocalSelector", "ReportedQCID"]

ReportedQCID = Literal["no", "rounded", "exact"]
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
    ('b', 'c')
    """

    def __init__(
        self, state: str | os.PathLike[str] = IN_MEMORY, *, report_qcid: ReportedQCID = "exact"
    ) -> None:
        if report_qcid not in REPORTED:
            raise UnknownNameError("report_qcid", report_qcid, REPORTED)
        self._store, self._report = Store(state), report_qcid
        self._statistics, self._openers = Statistics(self._store), RowOpeners()

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
        check_federation(federation)
        mode = make_mode(options.mode, num_classes=options.num_classes, max_examples=options.max_examples)
        check_selector(options)
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
        options = options_of(row)
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
        return self._put(federation, gram, "gram", open_apart)

    def put_rows(self, federation: str, setup: bytes) -> Membership:
        """Hand in sizes and diagonal instead of the whole matrix, in mode ``fhe``; `select` then asks for single rows."""
        return self._put(federation, setup, "rows", self._openers.open)

    def put_row(self, federation: str, client: str, row: bytes) -> None:
        """Hand in one row, which is kept."""
        secret = self._secret(federation)
        known = self._store.row("SELECT digest, opened FROM statistics WHERE federation=?", federation)
        opened = None if known is None else opened_from_bytes(known["opened"])
        if known is None or not isinstance(opened, OpenedDiagonal):
            raise ConflictError(f"no rows of {federation!r} are expected; hand in sizes and diagonal first")
        if client not in opened.clients:
            raise InvalidArgumentError(f"client={client!r} is not among those with statistics")
        found = self._openers.row(secret, opened.setup, client, row)
        with self._store.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO opened_rows SELECT federation, ?, ? FROM statistics"
                " WHERE federation=? AND digest=?",
                (client, found.astype("<i8").tobytes(), federation, known["digest"]),
            )

    def _put(
        self,
        federation: str,
        message: bytes,
        kind: str,
        opens: Callable[[SecretKeys, bytes], OpenedGram | OpenedDiagonal],
    ) -> Membership:
        secret = self._secret(federation)
        digest = hashlib.sha256(message).hexdigest()
        known = self._store.row("SELECT digest, opened FROM statistics WHERE federation=?", federation)
        if known is not None and known["digest"] == digest:
            opened = opened_from_bytes(known["opened"])
        else:
            opened = opens(secret, message)
            with self._store.transaction() as connection:
                write_statistics(connection, federation, digest, opened)
        return Membership(opened.clients, told_of_refused(opened.refused, message, kind))

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
            connection.execute("UPDATE federations SET stale=stale+1 WHERE name=?", (federation,))

    def remove_upload(self, federation: str, client: str) -> None:
        """Forget a client's upload; from then on it cannot be selected."""
        self._federation(federation)
        check_name(client)
        with self._store.transaction() as connection:
            connection.execute("DELETE FROM uploads WHERE federation=? AND client=?", (federation, client))
            connection.execute("UPDATE federations SET stale=stale+1 WHERE name=?", (federation,))

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
                raise ConflictError(out_of_order(round_index, last, answered is not None))
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
        digest = digest_of_outcome(answered, failed, told)
        with self._store.transaction() as connection:
            ledger = Ledger(connection, federation)
            selector = parse_selector(options_of(self._federation(federation)).selector)
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
            feedback = feedback_of([place[name] for name in answered], [place[name] for name in failed], told)
            state = grown_state(selector, ledger.state() or {}, len(population))
            ledger.observe(round_index, digest, selector.observe(state, feedback).to_arrays())

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the state to a new file while it is in use; the copy holds the secret keys too."""
        Store(path).close()
        with sqlite3.connect(os.fspath(path)) as copy:
            self._store.copy_to(copy)
        copy.close()

    def close(self) -> None:
        """Let go of the file, and of processes that open rows."""
        self._openers.close()
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
        selector = parse_selector(options_of(row).selector)
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
        return value if self._report == "exact" else first_digit(value)

    def _refresh(self, federation: str) -> None:
        """Compute from the clients' own uploads, where they came here and have changed. Others need not wait for it."""
        with self._store.transaction():
            changes = self._federation(federation)["stale"]
            if not changes:
                return
            query = "SELECT client, upload FROM uploads WHERE federation=?"
            uploads = {row["client"]: row["upload"] for row in self._store.rows(query, federation)}
            public, secret = self.public_keys(federation), self._secret(federation)
        if not uploads:
            raise ConflictError(f"all clients of {federation!r} have left; wait for an upload")
        gram = mode_of(public).gram(public, uploads)
        opened = open_apart(secret, gram)
        with self._store.transaction() as connection:
            write_statistics(connection, federation, hashlib.sha256(gram).hexdigest(), opened)
            connection.execute(
                "UPDATE federations SET stale=stale-? WHERE name=? AND stale>=?",
                (changes, federation, changes),
            )  # what came meanwhile is taken in next time

    def _exists(self, federation: str, options: FederationOptions, owner: str) -> bool:
        row = self._store.row("SELECT owner, options FROM federations WHERE name=?", federation)
        if row is None:
            return False
        if row["owner"] != owner or options_of(row) != options:
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
