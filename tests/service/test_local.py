from __future__ import annotations

import dataclasses
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from fedcbs import LabelInformation, Round, make_selector, qcid
from fedcbs.errors import (
    AnswersNeededError,
    ConflictError,
    InvalidArgumentError,
    ProtocolError,
    UnknownNameError,
    UploadError,
)
from fedcbs.private import mode_of
from fedcbs.selectors import Feedback, Need
from fedcbs.service import Cohort, FederationOptions, LocalSelector
from fedcbs.service._ledger import KEPT_STATES
from tests.service.parties import NAMES, OPTIONS, counts, gram


@pytest.fixture
def link() -> LocalSelector:
    return federation(OPTIONS)


def federation(options: FederationOptions, state: str | Path = ":memory:") -> LocalSelector:
    link = LocalSelector(state)
    link.create("demo", options)
    link.put_statistics("demo", gram(link.public_keys("demo")))
    return link


def select(link: LocalSelector, round_index: int, names: tuple[str, ...] = NAMES, **more: object) -> Cohort:
    return link.select("demo", round_index=round_index, cohort_size=6, available=names, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        ("plain", "fedcbs-exact"),
        ("plain", "uniform"),
        ("plain", "clustered-size"),
        ("sealed", "fedcbs-exact"),
        ("sealed", "fedcbs-paper"),
        ("sealed", "astraea"),
    ],
)
def test_it_chooses_as_the_selector_does_in_process(mode: str, name: str) -> None:
    link = federation(dataclasses.replace(OPTIONS, mode=mode, selector=name))
    selector = make_selector(name)
    state = selector.init(len(NAMES))
    for index in range(1, 6):
        available = np.random.default_rng(index).choice(len(NAMES), 20, replace=False)
        round_ = Round(
            LabelInformation(counts()), cohort_size=6, round_index=index, available=available, seed=7
        )
        selection = selector.select(state, round_)
        cohort = select(link, index, tuple(NAMES[n] for n in available))
        assert cohort.clients == tuple(NAMES[n] for n in selection.cohort)
        assert cohort.qcid == pytest.approx(qcid(counts(), selection.cohort))
        if selection.weights is not None:
            assert np.array_equal(cohort.weights, selection.weights)
        link.observe("demo", index, answered=cohort.clients)
        state = selector.observe(selection.state, Feedback(answered=selection.cohort))


def test_the_same_request_gets_the_same_answer(link: LocalSelector) -> None:
    first = select(link, 1)
    assert select(link, 1, tuple(reversed(NAMES))).clients == first.clients  # order does not matter
    select(link, 2)
    assert select(link, 1).clients == first.clients
    assert link.status("demo").last_round == 2


def test_another_request_for_an_answered_round_is_a_conflict(link: LocalSelector) -> None:
    select(link, 3)
    with pytest.raises(ConflictError, match="answered already"):
        select(link, 3, NAMES[:20])
    with pytest.raises(ConflictError, match="comes after round 3"):
        select(link, 2)


def test_redo_goes_back_as_if_nothing_had_happened() -> None:
    link, straight = federation(OPTIONS), federation(OPTIONS)
    for index in (1, 2, 3, 4):
        select(link, index)
        link.observe("demo", index, answered=())
    select(straight, 1)
    straight.observe("demo", 1, answered=())
    assert select(link, 2, NAMES[:15], redo=True).clients == select(straight, 2, NAMES[:15]).clients
    assert select(link, 3).clients == select(straight, 3).clients
    assert link.status("demo").observed_round == 1


def test_redo_forgets_outcomes_that_were_told_later(link: LocalSelector) -> None:
    first = select(link, 1)
    select(link, 2)
    link.observe("demo", 1, answered=first.clients)  # late, and so after the state that redo goes back to
    select(link, 2, NAMES[:15], redo=True)
    link.observe("demo", 1, answered=(), failed=first.clients)  # may be told anew


def test_states_are_kept_for_some_rounds_only(link: LocalSelector) -> None:
    for index in range(1, KEPT_STATES + 3):
        select(link, index)
    select(link, 3, NAMES[:15], redo=True)
    with pytest.raises(ConflictError, match="no longer kept"):
        select(link, 1, redo=True)


def test_an_outcome_told_twice_counts_once() -> None:
    link, once = (federation(dataclasses.replace(OPTIONS, selector="oort")) for _ in range(2))

    def ask(need: Need, clients: tuple[str, ...]) -> list[list[float]]:
        assert need is Need.DURATIONS
        return [[1.0 + len(name), 2.0] for name in clients]

    for index in (1, 2, 3):
        cohort = select(link, index, ask=ask)
        outcome = {"rms_losses": np.linspace(1, 2, 6), "durations": np.linspace(3, 9, 6)}
        for party in (link, link, once):
            select(party, index, ask=ask)
            party.observe("demo", index, answered=cohort.clients, **outcome)
    assert select(link, 4, ask=ask).clients == select(once, 4, ask=ask).clients
    with pytest.raises(ConflictError, match="another outcome"):
        link.observe("demo", 3, answered=())


def test_it_asks_for_what_the_selector_wants_of_those_it_wants_to_ask() -> None:
    link = federation(dataclasses.replace(OPTIONS, selector="pow-d:num_candidates=9"))
    with pytest.raises(AnswersNeededError) as question:
        select(link, 1)
    assert question.value.need == "losses"
    assert len(question.value.clients) == 9
    asked: list[tuple[str, ...]] = []

    def ask(need: Need, clients: tuple[str, ...]) -> list[float]:
        assert need is Need.LOSSES
        asked.append(clients)
        return [float(name[-2:]) for name in clients]

    cohort = select(link, 1, ask=ask)
    assert asked == [question.value.clients]
    assert set(cohort.clients) == set(sorted(asked[0], key=lambda name: float(name[-2:]))[-6:])
    assert cohort.asked == {"losses": 9}
    assert select(link, 1).clients == cohort.clients  # answered: nobody is asked again


def test_clients_join_and_leave_and_their_history_stays() -> None:
    link = LocalSelector()
    link.create("demo", OPTIONS)
    keys = link.public_keys("demo")
    link.put_statistics("demo", gram(keys, NAMES[5:20]))
    select(link, 1, NAMES[5:20])
    link.put_statistics("demo", gram(keys, NAMES[:12]))  # some join, with names before and after; some leave
    with pytest.raises(InvalidArgumentError, match="client-12"):
        select(link, 2, NAMES[5:20])
    cohort = select(link, 2, NAMES[:12])
    assert cohort.qcid == pytest.approx(qcid(counts(), [NAMES.index(name) for name in cohort.clients]))
    link.put_statistics("demo", gram(keys))
    assert select(link, 3).clients
    assert link.status("demo").clients == 30


@pytest.mark.parametrize("name", ["oort", "fed-cucb", "rbcs-f", "clustered-similarity", "rpow-d"])
def test_states_of_all_kinds_grow(name: str) -> None:
    link = LocalSelector()
    link.create("demo", dataclasses.replace(OPTIONS, selector=name))
    keys = link.public_keys("demo")
    rng = np.random.default_rng(0)

    def ask(need: Need, clients: tuple[str, ...]) -> object:
        return rng.random((len(clients), 2)) + 1 if need is Need.DURATIONS else rng.random(len(clients)) + 1

    learns = make_selector(name).learns
    for index, number in enumerate((12, 13, 30), start=1):
        link.put_statistics("demo", gram(keys, NAMES[:number]))
        cohort = select(link, index, NAMES[:number], ask=ask)
        told = {
            need.name.lower(): rng.random(
                (len(cohort.clients), *{"updates": (4,), "class-gradients": (5,)}.get(need, ()))
            )
            for need in learns
        }
        link.observe("demo", index, answered=cohort.clients, **told)


def test_the_selector_computes_from_uploads_too(link: LocalSelector) -> None:
    own = LocalSelector()
    own.create("demo", OPTIONS)
    keys = own.public_keys("demo")
    mode = mode_of(keys)
    for name, row in zip(NAMES, counts(), strict=True):
        own.put_upload("demo", name, mode.encrypt(keys, row, name))
    assert select(own, 1).clients == select(link, 1).clients
    own.remove_upload("demo", NAMES[3])
    with pytest.raises(InvalidArgumentError, match="client-03"):
        select(own, 2)
    with pytest.raises(UploadError, match="client-04"):
        own.put_upload("demo", NAMES[4], b"nothing good")
    with pytest.raises(UploadError, match="made by client"):
        own.put_upload("demo", NAMES[4], mode.encrypt(keys, counts()[3], NAMES[3]))


def test_the_server_is_not_told_what_the_selector_found_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    link = federation(dataclasses.replace(OPTIONS, mode="sealed"))
    keys = link.public_keys("demo")
    mode = mode_of(keys)
    uploads = {name: mode.encrypt(keys, row, name) for name, row in zip(NAMES, counts(), strict=True)}
    monkeypatch.setattr(mode, "_checked_counts", np.array)
    uploads[NAMES[0]] = mode.encrypt(keys, [4000, 4000, 0, 0, 0], NAMES[0])  # above the cap, in a box
    uploads[NAMES[1]] = b"rubbish"
    members = link.put_statistics("demo", mode.gram(keys, uploads))
    assert members.clients == NAMES[2:]
    assert "no upload of fedcbs" in members.refused[NAMES[1]]
    assert members.refused[NAMES[0]] == "the selector found statistics that no label counts can have"


def test_a_federation_exists_once(link: LocalSelector) -> None:
    fingerprint = link.status("demo").fingerprint
    assert link.create("demo", OPTIONS).fingerprint == fingerprint
    with pytest.raises(ConflictError, match="other options"):
        link.create("demo", dataclasses.replace(OPTIONS, seed=8))
    with pytest.raises(UnknownNameError, match="did you mean 'demo'"):
        link.status("dem")


def test_a_selector_that_wants_label_counts_needs_a_mode_that_opens_them() -> None:
    with pytest.raises(InvalidArgumentError, match="choose mode sealed"):
        LocalSelector().create("demo", dataclasses.replace(OPTIONS, selector="astraea"))


def test_keys_rotate() -> None:
    link = federation(dataclasses.replace(OPTIONS, mode="sealed"))
    old = link.public_keys("demo")
    select(link, 1)
    new = link.rotate("demo")
    assert link.public_keys("demo").fingerprint == new != old.fingerprint
    assert link.public_keys("demo").retired == (old.fingerprint,)
    select(link, 2)  # opened statistics stay in use
    with pytest.raises(ProtocolError):
        link.put_statistics("demo", gram(old))
    link.put_statistics("demo", gram(link.public_keys("demo")))


@pytest.mark.parametrize("data", [b"", b"fedcbs-private\0\1", bytes(1000)], ids=["none", "cut", "zeros"])
def test_hostile_statistics_are_refused_and_change_nothing(data: bytes, link: LocalSelector) -> None:
    with pytest.raises(ProtocolError):
        link.put_statistics("demo", data)
    assert select(link, 1).clients


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"round_index": 0}, "round_index=0"),
        ({"cohort_size": 0}, "cohort_size=0"),
        ({"cohort_size": 31}, "only 30 clients are available"),
        ({"available": ["client-01", "client-01"]}, "twice"),
        ({"available": ["nobody"]}, "'nobody'"),
        ({"available": []}, "available is empty"),
    ],
)
def test_wrong_requests_are_refused(change: dict[str, object], message: str, link: LocalSelector) -> None:
    request: dict[str, object] = {"round_index": 1, "cohort_size": 6, "available": NAMES, **change}
    with pytest.raises(InvalidArgumentError, match=message):
        link.select("demo", **request)  # type: ignore[arg-type]
    assert link.status("demo").last_round == 0


def test_wrong_outcomes_are_refused(link: LocalSelector) -> None:
    with pytest.raises(ConflictError, match="was not answered"):
        link.observe("demo", 1, answered=())
    cohort = select(link, 1)
    stranger = next(name for name in NAMES if name not in cohort.clients)
    with pytest.raises(InvalidArgumentError, match=stranger):
        link.observe("demo", 1, answered=[stranger])
    with pytest.raises(UnknownNameError, match="did you mean 'losses'"):
        link.observe("demo", 1, answered=cohort.clients, loses=[1.0] * 6)
    with pytest.raises(InvalidArgumentError, match="one entry for each"):
        link.observe("demo", 1, answered=cohort.clients, losses=[1.0])


def test_without_statistics_nothing_is_selected() -> None:
    link = LocalSelector()
    link.create("demo", OPTIONS)
    with pytest.raises(ConflictError, match="no label statistics"):
        select(link, 1)


@pytest.mark.parametrize("name", ["", "../x", "a" * 200, "a\nb", 3])
def test_wrong_names_are_refused(name: object) -> None:
    with pytest.raises(InvalidArgumentError, match="federation="):
        LocalSelector().create(name, OPTIONS)  # type: ignore[arg-type]


@pytest.mark.parametrize(("report", "digits"), [("no", None), ("rounded", 1), ("exact", 17)])
def test_the_server_is_told_of_qcid_what_the_operator_allows(report: str, digits: int | None) -> None:
    link = LocalSelector(report_qcid=report)  # type: ignore[arg-type]
    link.create("demo", OPTIONS)
    link.put_statistics("demo", gram(link.public_keys("demo")))
    found = select(link, 1).qcid
    if digits is None:
        assert found is None
    else:
        assert found is not None
        assert found == float(f"{found:.{digits}g}")


def test_without_a_seed_the_selector_draws_its_own() -> None:
    options = dataclasses.replace(OPTIONS, seed=None, selector="uniform")
    cohorts = {select(federation(options), 1).clients for _ in range(5)}
    assert len(cohorts) > 1


class TestFile:
    def test_everything_is_there_again(self, tmp_path: Path) -> None:
        straight = federation(OPTIONS)
        path = tmp_path / "selector.sqlite"
        federation(OPTIONS, path).close()
        for index in range(1, 6):
            link = LocalSelector(path)
            cohort = select(link, index)
            assert cohort.clients == select(straight, index).clients
            for party in (link, straight):
                party.observe("demo", index, answered=cohort.clients)
            link.close()

    def test_only_its_owner_can_read_it(self, tmp_path: Path) -> None:
        path = tmp_path / "selector.sqlite"
        link = federation(OPTIONS, path)
        files = list(tmp_path.iterdir())
        assert len(files) == 3  # SQLite's journal beside it
        assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
        link.close()
        path.chmod(0o644)
        with pytest.raises(InvalidArgumentError, match="chmod 600"):
            LocalSelector(path)

    def test_a_backup_is_the_selector_again(self, tmp_path: Path) -> None:
        link = federation(OPTIONS, tmp_path / "a.sqlite")
        select(link, 1)
        link.backup(tmp_path / "b.sqlite")
        assert (tmp_path / "b.sqlite").stat().st_mode & 0o777 == 0o600
        copy = LocalSelector(tmp_path / "b.sqlite")
        assert select(copy, 2).clients == select(link, 2).clients
        for party in (link, copy):
            party.close()

    def test_other_files_are_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "selector.sqlite"
        path.write_bytes(b"this is no database, and long enough to see it" * 100)
        path.chmod(0o600)
        with pytest.raises(InvalidArgumentError, match="no state of a selector"):
            LocalSelector(path)
        other = tmp_path / "other.sqlite"
        with sqlite3.connect(other) as database:
            database.execute("PRAGMA user_version=99")
        database.close()
        other.chmod(0o600)
        with pytest.raises(InvalidArgumentError, match="format 99"):
            LocalSelector(other)
        with pytest.raises(InvalidArgumentError, match="is a folder"):
            LocalSelector(tmp_path)
        with pytest.raises(InvalidArgumentError, match="no folder"):
            LocalSelector(tmp_path / "missing" / "x.sqlite")
