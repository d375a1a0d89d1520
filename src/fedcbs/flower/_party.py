"""The party that holds the key, as who chooses: in this process, or a service of another organisation.

The server computes on encrypted uploads and hands the result over; the party opens it, chooses, and tells the cohort.
While the party is down, the round waits.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast, final

import numpy as np
from flwr.serverapp import Grid
from numpy.typing import ArrayLike, NDArray

from fedcbs import _checks
from fedcbs.errors import ConflictError, InvalidArgumentError, UnreachableError, UploadError
from fedcbs.flower._chooser import Choice, Chooser, Learnt, Question, Situation
from fedcbs.flower._client_privacy import key_blobs, key_entries
from fedcbs.flower._errors import FederationError, FederationStateError
from fedcbs.flower._log import LOG
from fedcbs.flower._own import OwnSelector
from fedcbs.flower._population import Population
from fedcbs.flower._settings import Settings
from fedcbs.private import Mode, PublicKeys, Work, mode_of
from fedcbs.selectors import Need, Selector, parse_selector
from fedcbs.service import Cohort, FederationStatus, SelectorLink

__all__ = ["PartyChooser", "SelectorParty"]

T = TypeVar("T")
FIRST_DELAY, LONGEST_DELAY = 1.0, 30.0


@dataclasses.dataclass(frozen=True)
class SelectorParty:
    """A selector that holds the secret key, to be given to :func:`with_selector` in the place of a selector.

    Parameters
    ----------
    link
        :class:`fedcbs.service.SelectorClient` (its service), :class:`fedcbs.service.LocalSelector` (in this process, for
        simulations), or :class:`RelayedSelector` (through a SuperNode of its organisation).
    federation
        Its name for this federation.
    fallback
        Selector that chooses while the party is down for longer than `patience`; one that needs no label statistics,
        ``uniform`` say. None waits for ever.
    patience
        Seconds.
    """

    link: SelectorLink
    federation: str
    fallback: Selector[Any] | str | None = None
    patience: float = 300.0

    def __post_init__(self) -> None:
        if not isinstance(self.link, SelectorLink):
            raise InvalidArgumentError(
                f"link={self.link!r} must be a LocalSelector, SelectorClient or RelayedSelector"
            )
        _checks.real(self.patience, "patience", minimum=0)
        if self.fallback is not None:
            self.substitute()

    def substitute(self) -> Selector[Any]:
        """The fallback as a selector; one that the server has what it needs for."""
        made = parse_selector(self.fallback) if isinstance(self.fallback, str) else self.fallback
        if not isinstance(made, Selector):
            raise InvalidArgumentError(f"fallback={self.fallback!r} must be a selector, or the name of one")
        if made.needs or made.learns or made.skips_empty:
            raise InvalidArgumentError(
                f"fallback={made.name!r} needs to know about clients, and the server does not; use 'uniform' or 'everyone'"
            )
        return made


class _GaveUpError(Exception):
    """The party was down for too long, and there is a fallback."""


@final
class PartyChooser(Chooser):
    """Lets a party choose.

    Parameters
    ----------
    party
        Who, and what to do without it.
    settings
        Those of the run.
    """

    def __init__(self, party: SelectorParty, settings: Settings) -> None:
        self._party = party
        self._link = party.link
        self._settings = settings
        self._fallback = (
            None
            if party.fallback is None
            else OwnSelector(party.substitute(), loss_batch=settings.loss_batch)
        )
        self._status: FederationStatus | None = None
        self._keys: PublicKeys | None = None
        self._uploads: dict[str, bytes] = {}
        self._members: frozenset[str] = frozenset()
        self._handed_over = ""
        self._chosen = 0

    # What the party is.

    def connect(self) -> None:
        """Learn what the party does; waits until it answers."""
        if self._status is None:
            name = self._party.federation
            self._status = self._patiently("starts", lambda: self._link.status(name), may_give_up=False)
            self._keys = self._patiently("starts", lambda: self._link.public_keys(name), may_give_up=False)
            LOG.info("selector: %s, mode %s, key %s", self._status.selector, self.mode, self.keys.fingerprint)

    @property
    def status(self) -> FederationStatus:
        """What the party said of itself."""
        self.connect()
        return cast(FederationStatus, self._status)

    @property
    def keys(self) -> PublicKeys:
        """The party's public keys."""
        self.connect()
        return cast(PublicKeys, self._keys)

    @property
    def name(self) -> str:  # type: ignore[override]  # known once the party answered
        """Name of the strategy of selection."""
        return self.status.selector

    @property
    def mode(self) -> str:  # type: ignore[override]
        """Name of the private mode."""
        return self.status.mode

    @property
    def needs(self) -> frozenset[Need]:  # type: ignore[override]
        """What the party's selector needs."""
        return parse_selector(self.status.selector).needs

    @property
    def learns(self) -> frozenset[Need]:  # type: ignore[override]
        """What it learns."""
        return parse_selector(self.status.selector).learns

    def own_nodes(self, grid: Grid) -> frozenset[int]:
        """Nodes of the selector's organisation, where requests are relayed."""
        relay = getattr(self._link, "own_nodes", None)
        return frozenset() if relay is None else cast(frozenset[int], relay(grid))

    def attend(self, grid: Grid) -> None:
        """Note the grid, for requests that are relayed through it."""
        bind = getattr(self._link, "bind", None)
        if bind is not None:
            bind(grid)

    # Statistics.

    def question(self) -> Question:
        """Clients are asked for an upload, and get the key for it."""
        wanted = ["upload", "durations"] if Need.DURATIONS in self.needs else ["upload"]
        entries: dict[str, Any] = {"ask": wanted, **key_entries(self.keys)}
        return Question(entries, key_blobs(self.keys))

    def admit(self, uploads: Mapping[str, bytes]) -> dict[str, str]:
        """Check uploads as the server can: they are for this key, of these clients, and of the right form."""
        refused = {}
        mode = mode_of(self.keys)
        for name, data in uploads.items():
            try:
                mode.check(self.keys, data, name)
            except UploadError as error:
                refused[name] = str(error)
        return refused

    def _hand_over(self, situation: Situation) -> None:
        """Compute on the uploads and give the party the result, when somebody joined since the last time."""
        told = situation.statistics.statements
        uploads = {name: one.upload for name, one in told.items() if one.upload is not None}
        digest = hashlib.sha256("\n".join(sorted(uploads)).encode()).hexdigest()
        if digest == self._handed_over:
            return
        start = time.monotonic()
        mode = mode_of(self.keys)
        gram = mode.gram(self.keys, uploads, self._masks(mode, uploads), work=self._work())
        federation = self._party.federation
        membership = self._patiently("waits", lambda: self._link.put_statistics(federation, gram))
        for name, why in membership.refused.items():
            LOG.warning("the selector refuses client %s: %s", name, why)
        self._members, self._handed_over = frozenset(membership.clients), digest
        LOG.info(
            "statistics of %d clients computed and handed to the selector (%.1f MB, %.1f s)",
            len(uploads),
            len(gram) / 1e6,
            time.monotonic() - start,
        )

    def _work(self) -> Work:
        """All processors; finished parts are kept beside the run, for when somebody joins."""
        folder = self._settings.folder
        state = None if folder is None else folder / "gram"
        return Work(processes=os.cpu_count() or 1, state=state)

    def _masks(self, mode: Mode, uploads: Mapping[str, bytes]) -> bytes | None:
        if not mode.exchanges_masks:
            return None
        seed: Callable[[bytes], bytes] = mode.seed  # type: ignore[attr-defined]  # modes that exchange masks have it
        seeds = {name: seed(data) for name, data in uploads.items()}
        return self._patiently("waits", lambda: self._link.masks(self._party.federation, seeds))

    # Rounds.

    def choose(self, situation: Situation) -> Choice:
        """Ask the party for the cohort; after too long without it, let the fallback choose."""
        try:
            self._hand_over(situation)
            return self._ask(situation)
        except _GaveUpError as error:
            assert self._fallback is not None
            LOG.warning("%s; %s chooses this round", error, self._fallback.name)
            self._chosen = 0
            choice = self._fallback.choose(situation)
            return dataclasses.replace(choice, note=f"{self._fallback.name} chose: {error}")

    def _ask(self, situation: Situation) -> Choice:
        available = [name for name in situation.available if name in self._members]
        if not available:
            raise FederationError(
                "the selector takes none of the available clients; see the warnings above for the reasons"
            )

        def select(*, redo: bool) -> Cohort:
            return self._link.select(
                self._party.federation,
                round_index=situation.round_index,
                cohort_size=min(situation.cohort_size, len(available)),
                available=available,
                ask=lambda need, names: self._answers(situation, need, names),
                redo=redo,
            )

        try:
            cohort = self._patiently("waits", lambda: select(redo=False))
        except ConflictError as error:
            LOG.warning("round %d is chosen anew: %s", situation.round_index, error)
            cohort = self._patiently("waits", lambda: select(redo=True))
        self._chosen = situation.round_index
        return _choice(cohort, situation.population)

    def _answers(self, situation: Situation, need: Need, names: Sequence[str]) -> ArrayLike:
        """What the party's selector wants to know of clients."""
        inquiry = situation.inquiry
        if need is Need.DURATIONS:
            known = situation.durations
            usual = np.median(list(known.values()), axis=0) if known else np.ones(2)
            return np.array([known.get(name, usual) for name in names])
        if need is Need.UPDATES:
            return inquiry.updates(names)
        if need is Need.UPDATE_NORMS:
            return inquiry.norms(names)
        return inquiry.losses(names, self._settings.loss_batch if need is Need.BATCH_LOSSES else None)

    def observe(self, learnt: Learnt, population: Population) -> None:
        """Tell the party what came of its choice."""
        if not self._chosen:
            return
        del population
        arrays = {
            field.name: getattr(learnt, field.name)
            for field in dataclasses.fields(learnt)
            if field.name not in ("answered", "failed")
        }

        def tell() -> None:
            self._link.observe(
                self._party.federation, self._chosen, answered=learnt.answered, failed=learnt.failed, **arrays
            )

        try:
            self._patiently("waits", tell)
        except ConflictError as error:
            LOG.warning("the selector keeps what it was told of round %d before: %s", self._chosen, error)
        except _GaveUpError as error:
            LOG.warning("%s; it is not told what came of round %d", error, self._chosen)

    # Memory.

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """What the server must remember; the party remembers the rest itself."""
        return {
            "fingerprint": np.array(self.keys.fingerprint),
            "handed_over": np.array(self._handed_over),
            "members": np.array(sorted(self._members), dtype=np.str_),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take it back; the party must still have the same key."""
        fingerprint = str(arrays["fingerprint"])
        if fingerprint != self.keys.fingerprint:
            raise FederationStateError(
                f"the checkpoint's uploads are for the key {fingerprint[:16]}, but the selector now has "
                f"{self.keys.fingerprint[:16]}; give it back its state, or start in another folder so that clients encrypt anew"
            )
        self._handed_over = str(arrays["handed_over"])
        self._members = frozenset(str(name) for name in arrays["members"])

    def _patiently(self, does: str, call: Callable[[], T], *, may_give_up: bool = True) -> T:
        """Call the party until it answers, or until the operator's patience is at its end and there is a fallback."""
        began, delay = time.monotonic(), FIRST_DELAY
        while True:
            try:
                result = call()
            except UnreachableError as error:
                waited = time.monotonic() - began
                if may_give_up and self._fallback is not None and waited >= self._party.patience:
                    raise _GaveUpError(f"the selector has not answered for {waited:.0f} s") from error
                LOG.warning(
                    "the run %s: the selector does not answer (%s); waited %.0f s, trying again in %.0f s",
                    does,
                    error,
                    waited,
                    delay,
                )
                time.sleep(delay)
                delay = min(2 * delay, LONGEST_DELAY)
                continue
            if delay > FIRST_DELAY:
                LOG.info("the selector answers again after %.0f s", time.monotonic() - began)
            return result


def _choice(cohort: Cohort, population: Population) -> Choice:
    names = sorted(cohort.clients, key=population.index_of)
    weights = cohort.weights
    estimates: list[tuple[str, NDArray[np.float64], float]] = []
    if cohort.estimated_updates is not None and cohort.estimated_weights is not None:
        estimates = list(
            zip(cohort.estimated, cohort.estimated_updates, cohort.estimated_weights.tolist(), strict=True)
        )
    return Choice(
        cohort=names,
        weights=None if weights is None else dict(zip(cohort.clients, weights.tolist(), strict=True)),
        estimates=estimates,
        qcid=cohort.qcid,
        asked=dict(cohort.asked),
    )
