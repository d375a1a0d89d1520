"""The selector's service behind a SuperNode of its organisation."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flwr.app import Message
from flwr.serverapp.strategy import FedAvg

from fedcbs.errors import InvalidArgumentError, UnknownNameError, UnreachableError
from fedcbs.flower import RelayedSelector, SelectorParty, with_answers, with_selector
from fedcbs.flower._wire import Query, packed
from fedcbs.service import FederationOptions
from tests.flower.fake import FakeGrid, counts_of, model, partition, training_app

pytest.importorskip("uvicorn", reason="the serve extra is not installed")
pytest.importorskip("nacl", reason="the private extra is not installed")

COUNTS = counts_of(6)
OPTIONS = FederationOptions(num_classes=5, mode="sealed", seed=3)


class NamedGrid(FakeGrid):
    """A grid that tells the nodes' names, as Flower's newer ones do."""

    def get_nodes(self) -> list[Any]:
        return [
            SimpleNamespace(node_id=node_id, name=self.nodes[node_id].context.node_config.get("shown", ""))
            for node_id in self.get_node_ids()
        ]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    from tests.service.parties import Service

    service = Service(tmp_path_factory.mktemp("service"), "--insecure")
    yield service.start()
    service.stop()


@pytest.fixture
def grid(url: str) -> NamedGrid:
    app = with_answers(training_app(COUNTS), label_counts=lambda context: COUNTS[partition(context)])
    made = NamedGrid([app] * len(COUNTS))
    made.add(app, 999, **{"shown": "the-selector", "fedcbs-selector-url": url})
    return made


def relayed(grid: NamedGrid, node: str = "the-selector") -> RelayedSelector:
    link = RelayedSelector(node)
    link.bind(grid)
    return link


def test_chooses_as_if_reached_directly_and_the_node_is_never_trained_on(grid: NamedGrid) -> None:
    link = relayed(grid)
    link.create("relayed", OPTIONS)
    strategy = with_selector(FedAvg(), SelectorParty(link, "relayed"), cohort_size=3, wait=5)
    result = strategy.start(grid, model(), num_rounds=4, timeout=60)
    plain = FakeGrid([grid.node(0).app] * len(COUNTS))
    with_selector(FedAvg(), "fedcbs-sharp", cohort_size=3, seed=3).start(plain, model(), num_rounds=4)
    assert grid.trained() == plain.trained()
    assert set(grid.nodes[999].received) == {"query.fedcbs_relay"}
    assert result.train_metrics_clientapp[1]["fedcbs-available"] == 6


def test_errors_of_the_service_come_through(grid: NamedGrid) -> None:
    with pytest.raises(UnknownNameError, match="nobody"):
        relayed(grid).status("nobody")


@pytest.mark.parametrize(
    ("node", "said"),
    [("someone-else", "no SuperNode online is 'someone-else'"), ("the-selector", "does not relay")],
)
def test_a_node_that_is_not_there_or_does_not_relay(grid: NamedGrid, node: str, said: str) -> None:
    del grid.nodes[999].context.node_config["fedcbs-selector-url"]
    with pytest.raises(UnreachableError, match=said):
        relayed(grid, node).status("relayed")


def test_a_service_that_is_down(grid: NamedGrid, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedcbs.flower._relay.PATIENCE", 0.0)
    grid.nodes[999].context.node_config["fedcbs-selector-url"] = "http://localhost:9"
    with pytest.raises(UnreachableError, match="does not answer"):
        relayed(grid).status("relayed")


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/metrics"), ("PATCH", "/v1/federations/x"), ("GET", "http://x/")]
)
def test_the_node_passes_on_nothing_else(grid: NamedGrid, method: str, path: str) -> None:
    question = packed({"method": method, "path": path}, {"body": b""})
    message = Message(question, dst_node_id=999, message_type=Query.RELAY.message_type)
    (reply,) = grid.send_and_receive([message])
    assert "is no request to a selector" in reply.error.reason


def test_needs_a_name_and_a_run() -> None:
    with pytest.raises(InvalidArgumentError, match="must be the name, public key or id of a SuperNode"):
        RelayedSelector(" ")
    with pytest.raises(Exception, match="reached from within a run only"):
        RelayedSelector("the-selector").status("x")


def test_found_by_its_public_key(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    from tests.flower_e2e.credentials import make_node_key

    make_node_key(tmp_path, "node")
    line = (tmp_path / "node.pub").read_text()
    public = serialization.load_ssh_public_key(line.encode())
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    link = RelayedSelector(line)
    assert link._is_it(SimpleNamespace(node_id=1, public_key=pem))
    assert link._is_it(SimpleNamespace(node_id=1, public_key=line.encode()))
    assert not link._is_it(SimpleNamespace(node_id=1, public_key=b""))


def test_the_round_waits_for_the_node(
    grid: NamedGrid, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = relayed(grid)
    link.create("waiting", OPTIONS)
    grid.nodes[999].online = False
    waits = iter(range(4))

    def sleep(_: float) -> None:
        grid.nodes[999].online = next(waits) == 2

    monkeypatch.setattr("fedcbs.flower._party.time.sleep", sleep)
    strategy = with_selector(FedAvg(), SelectorParty(link, "waiting"), cohort_size=3, wait=5)
    with caplog.at_level(logging.WARNING, logger="flwr.fedcbs"):
        strategy.start(grid, model(), num_rounds=1, timeout=60)
    assert "no SuperNode online is 'the-selector'" in caplog.text
    assert len(grid.trained()[0]) == 3
