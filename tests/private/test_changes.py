"""Clients come, change and go; computations stop and go on; what is finished is used again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import fedcbs
from fedcbs.errors import InvalidArgumentError, ProtocolError
from fedcbs.private import Work, _fhe_compute, forget
from fedcbs.private._blocks import Blocks
from fedcbs.private._fhe_worker import Worker
from fedcbs.selectors import GramInformation, LabelInformation, Round, make_selector
from tests.private.parties import MODES, Federation, federation, pack


class StopError(Exception):
    """Where a computation is interrupted."""


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The methods that workers were asked for."""
    calls: list[str] = []
    for method in ("batch", "span", "sizes", "products"):
        original = getattr(Worker, method)

        def counted(self, *arguments, _name=method, _original=original):
            calls.append(_name)
            return _original(self, *arguments)

        monkeypatch.setattr(Worker, method, counted)
    return calls


def assert_exact(found: Federation, **work: object) -> None:
    opened = found.opened(**work)
    assert not opened.refused
    assert np.array_equal(opened.gram, found.counts @ found.counts.T)


@pytest.mark.parametrize("name", MODES)
def test_clients_come_change_and_go(name: str, tmp_path: Path) -> None:
    found, state = federation(name), tmp_path if name in ("masked", "fhe") else None
    assert_exact(found, state=state)
    found.counts = np.vstack([found.counts, [[7, 0, 0, 9]]])
    found.uploads["newcomer"] = found.encrypt([7, 0, 0, 9], "newcomer")
    assert_exact(found, state=state)
    found.counts[1] = [3, 3, 3, 3]
    found.uploads["client-001"] = found.encrypt([3, 3, 3, 3], "client-001")
    assert_exact(found, state=state)
    del found.uploads["client-004"]
    found.counts = np.delete(found.counts, 4, axis=0)
    assert_exact(found, state=state)


def test_new_clients_cost_only_what_is_new(tmp_path: Path, computed: list[str]) -> None:
    found = federation("fhe", 80, 10)
    early = dict(list(found.uploads.items())[:60])
    found.mode.gram(found.keys.public, early, work=Work(state=tmp_path))
    first = list(computed)
    computed.clear()
    assert_exact(found, state=tmp_path)
    assert computed.count("batch") < first.count("batch") + 1
    assert computed.count("products") < len(found.uploads) / 26 + 1
    computed.clear()
    assert_exact(found, state=tmp_path)
    assert computed == []


@pytest.mark.parametrize("stop_at", [1, 2, 3, 4, 6])
def test_an_interrupted_computation_goes_on_from_its_blocks(
    stop_at: int, tmp_path: Path, computed: list[str]
) -> None:
    found = federation("fhe", 80, 10)

    def progress(done: int, _: int) -> None:
        if done >= stop_at:
            raise StopError

    with pytest.raises(StopError):
        found.mode.gram(found.keys.public, found.uploads, work=Work(state=tmp_path, progress=progress))
    before = len(computed)
    assert_exact(found, state=tmp_path)
    whole = len(computed)
    computed.clear()
    assert_exact(found)
    assert before < len(computed)
    assert whole <= len(computed) + 1  # at most the block that was in work is computed twice


def test_a_server_that_is_killed_goes_on_from_its_blocks(tmp_path: Path, computed: list[str]) -> None:
    found, state = federation("fhe", 80, 10), tmp_path / "state"
    found.keys.public.save(tmp_path / "public")
    (tmp_path / "uploads").mkdir()
    for name, upload in found.uploads.items():
        (tmp_path / "uploads" / f"{name}.upload").write_bytes(upload)
    arguments = ["--public", "public", "--uploads", "uploads", "--out", "gram.enc", "--state", "state"]
    server = subprocess.Popen(
        [sys.executable, "-m", "fedcbs", "private", "gram", *arguments, "--processes", "1"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(fedcbs.__file__).parents[1])},
        start_new_session=True,
    )
    while server.poll() is None and not list(state.glob("*.block")):
        time.sleep(0.02)
    os.killpg(server.pid, signal.SIGKILL)
    server.wait()
    finished = len(list(state.glob("*.block")))
    assert finished > 0
    assert not (tmp_path / "gram.enc").exists()
    assert_exact(found, state=state)
    blocks = len(list(state.glob("*.block")))
    assert len(computed) <= blocks - finished + 1


def test_interrupted_rows_of_masked_go_on(tmp_path: Path) -> None:
    found = federation("masked", 200, 10)
    masks = found.masks()

    def progress(done: int, _: int) -> None:
        if done == 1:
            raise StopError

    with pytest.raises(StopError):
        found.mode.gram(found.keys.public, found.uploads, masks, work=Work(state=tmp_path, progress=progress))
    kept = {path.name: path.read_bytes() for path in tmp_path.glob("*.block")}
    assert len(kept) == 1
    told: list[tuple[int, int]] = []
    work = Work(state=tmp_path, progress=lambda *done: told.append(done))
    gram = found.mode.gram(found.keys.public, found.uploads, masks, work=work)
    assert told == [(1, 2), (2, 2)]
    assert all((tmp_path / name).read_bytes() == content for name, content in kept.items())
    assert np.array_equal(found.mode.open(found.keys.secret, gram).gram, found.counts @ found.counts.T)


def test_processes_give_the_same_and_progress_reaches_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fhe_compute, "CLIENTS_FOR_A_PROCESS", 3)
    found = federation("fhe")
    told: list[tuple[int, int]] = []
    assert_exact(found, processes=2, progress=lambda *done: told.append(done))
    assert told[-1][0] == told[-1][1]
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_a_folder_is_used_by_one_computation_at_a_time(tmp_path: Path) -> None:
    found = federation("fhe")
    with Blocks(tmp_path).locked(), pytest.raises(InvalidArgumentError, match="in use by another"):
        found.opened(state=tmp_path)


def test_a_damaged_block_is_not_believed(tmp_path: Path) -> None:
    found = federation("fhe")
    found.opened(state=tmp_path)
    for path in tmp_path.glob("*.block"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 255
        path.write_bytes(content)
    with pytest.raises(ProtocolError):
        found.opened(state=tmp_path)


def test_a_client_that_leaves_is_forgotten(tmp_path: Path) -> None:
    found = federation("fhe", 80, 10)
    found.opened(state=tmp_path)
    blocks = set(tmp_path.glob("*.block"))
    gone = forget(tmp_path, "client-003")
    assert 0 < gone < len(blocks)
    assert forget(tmp_path, "nobody") == 0
    with pytest.raises(InvalidArgumentError, match="no folder"):
        forget(tmp_path / "none", "client-003")
    del found.uploads["client-003"]
    found.counts = np.delete(found.counts, 3, axis=0)
    assert_exact(found, state=tmp_path)


@pytest.mark.parametrize(("num_clients", "num_classes"), [(1, 3), (70, 1), (70, 4), (140, 62)])
def test_rows_on_demand(num_clients: int, num_classes: int) -> None:
    found = federation("fhe", num_clients, num_classes)
    with found.mode.rows(found.keys.public, found.uploads) as server:  # type: ignore[attr-defined]
        opened = found.mode.open_rows(found.keys.secret, server.setup())  # type: ignore[attr-defined]
        assert opened.clients == tuple(found.names)
        assert np.array_equal(opened.num_examples, found.counts.sum(axis=1))
        assert np.array_equal(opened.diagonal, (found.counts**2).sum(axis=1))
        gram = opened.gram(server.row)
        for n in {0, num_clients // 2, num_clients - 1}:
            assert np.array_equal(gram.column(n), found.counts @ found.counts[n])
        with pytest.raises(ProtocolError, match="not the row"):
            opened.row(
                found.names[0], pack("row", {"fingerprint": found.keys.public.fingerprint, "row": 99}, b"")
            )


def test_a_cohort_from_rows_is_that_from_counts() -> None:
    found = federation("fhe", 70, 4)
    selector = make_selector("fedcbs-paper")
    with found.mode.rows(found.keys.public, found.uploads) as server:  # type: ignore[attr-defined]
        gram = found.mode.open_rows(found.keys.secret, server.setup()).gram(server.row)  # type: ignore[attr-defined]
        cohorts = [
            selector.select(selector.init(70), Round(source, cohort_size=5, seed=3)).cohort.tolist()
            for source in (GramInformation(gram), LabelInformation(found.counts))
        ]
    assert cohorts[0] == cohorts[1]
    assert len(gram.fetched) <= 5


def test_rows_leave_out_who_is_refused() -> None:
    found = federation("fhe", 6, 4)
    found.uploads["client-001"] = b"nothing"
    with found.mode.rows(found.keys.public, found.uploads) as server:  # type: ignore[attr-defined]
        opened = found.mode.open_rows(found.keys.secret, server.setup())  # type: ignore[attr-defined]
        assert set(opened.refused) == {"client-001"}
        with pytest.raises(InvalidArgumentError, match="no upload"):
            server.row("client-001")
        row = opened.row("client-002", server.row("client-002"))
    rest = np.delete(found.counts, 1, axis=0)
    assert np.array_equal(row, rest @ found.counts[2])
