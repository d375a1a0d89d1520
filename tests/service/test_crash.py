"""After a kill -9 the next selection is what it would have been."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedcbs.service import LocalSelector, SelectorClient, SelectorLink
from tests.service.parties import NAMES, OPTIONS, Service, gram

ROUNDS = 8


def one_round(link: SelectorLink, index: int) -> tuple[str, ...]:
    cohort = link.select("demo", round_index=index, cohort_size=5, available=NAMES[: 20 + index])
    link.observe("demo", index, answered=cohort.clients[:4], failed=cohort.clients[4:])
    return cohort.clients


def start(link: SelectorLink) -> None:
    link.create("demo", OPTIONS)
    link.put_statistics("demo", gram(link.public_keys("demo")))


@pytest.fixture(scope="module")
def uninterrupted() -> list[tuple[str, ...]]:
    link = LocalSelector()
    start(link)
    return [one_round(link, index) for index in range(1, ROUNDS + 1)]


def dies_at(statement: int, path: Path, index: int) -> bool:
    """Do a round in a process that is killed at its n-th statement to the database; whether it got there."""
    child = os.fork()
    if child == 0:
        link = LocalSelector(path)
        left = [statement]

        def count(_: str) -> None:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        link._store._connection.set_trace_callback(count)
        one_round(link, index)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_killed_at_every_single_statement(tmp_path: Path, uninterrupted: list[tuple[str, ...]]) -> None:
    before = tmp_path / "before"
    with LocalSelector(before) as link:
        start(link)
        one_round(link, 1)
    for statement in range(1, 100):
        path = tmp_path / str(statement)
        path.touch(0o600)
        path.write_bytes(before.read_bytes())
        died = dies_at(statement, path, 2)
        with LocalSelector(path) as link:
            assert [one_round(link, index) for index in (2, 3, 4)] == uninterrupted[1:4]
        if not died:
            break
    assert 15 < statement < 99  # so many does a round have, and none was left out


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path, "--insecure", "--requests-per-second", "10000")
    yield service
    service.stop()


def test_a_service_that_is_killed_at_any_time_loses_nothing(
    service: Service, uninterrupted: list[tuple[str, ...]]
) -> None:
    rng = random.Random(3)
    with SelectorClient(service.start(), patience=60) as client:
        start(client)
        found = []
        for index in range(1, ROUNDS + 1):
            if index % 3 == 0:  # while it answers, or just before or after

                def kill() -> None:
                    time.sleep(rng.uniform(0, 0.02))
                    service.end(signal.SIGKILL)
                    service.start()

                killer = threading.Thread(target=kill)
                killer.start()
                found.append(one_round(client, index))
                killer.join()
            else:
                found.append(one_round(client, index))
        assert found == uninterrupted
        assert client.status("demo").observed_round == ROUNDS


def test_it_ends_gracefully(service: Service) -> None:
    with SelectorClient(service.start(), patience=5) as client:
        start(client)
        one_round(client, 1)
        assert service.end(signal.SIGTERM) == 0
    assert "ended by SIGTERM" in service.log()
    assert {file.name for file in service.folder.iterdir()} == {"state", "log"}  # the journal is folded in
