"""The party that holds the key chooses: every mode, pins, noise, and what happens while it is down."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.serverapp.strategy import FedAvg

from fedcbs.errors import InvalidArgumentError, UnreachableError
from fedcbs.flower import FederationStateError, SelectorParty, with_answers, with_selector
from fedcbs.private import known_modes
from fedcbs.service import FederationOptions, LocalSelector, SelectorLink
from tests.flower.fake import FakeGrid, counts_of, model, partition, training_app, wait_less

pytest.importorskip("nacl", reason="the private extra is not installed")

COUNTS = counts_of(8)
SEED = 3


def answering() -> Any:
    def losses(arrays: Any, context: Any, limit: int | None) -> np.ndarray:
        del arrays
        return np.linspace(0.5, 1.5, limit or 7) * (1 + partition(context))

    return with_answers(
        training_app(COUNTS), label_counts=lambda context: COUNTS[partition(context)], losses=losses
    )


@pytest.fixture
def grid() -> FakeGrid:
    return FakeGrid([answering()] * len(COUNTS))


def local(mode: str = "sealed", selector: str = "fedcbs-exact", state: Path | None = None) -> LocalSelector:
    link = LocalSelector() if state is None else LocalSelector(state)
    link.create("hospitals", FederationOptions(num_classes=5, mode=mode, selector=selector, seed=SEED))
    return link


def run(grid: FakeGrid, selector: Any, rounds: int = 4, **options: Any) -> Any:
    options = {"cohort_size": 3, "seed": SEED, "wait": 5} | options
    strategy = with_selector(FedAvg(), selector, **options)
    return strategy.start(grid, model(), num_rounds=rounds, timeout=60)


@pytest.mark.parametrize("mode", sorted(known_modes()))
def test_cohorts_are_those_of_the_selector_with_all_counts_at_hand(grid: FakeGrid, mode: str) -> None:
    if mode in ("fhe", "masked"):
        pytest.importorskip("seal", reason="the private extra is not installed")
    result = run(grid, SelectorParty(local(mode), "hospitals"))
    plain = FakeGrid([answering()] * len(COUNTS))
    expected = run(plain, "fedcbs-exact")
    assert grid.trained() == plain.trained()
    reported = result.train_metrics_clientapp[2]["fedcbs-qcid"]
    assert reported == pytest.approx(expected.train_metrics_clientapp[2]["fedcbs-qcid"])


def test_the_server_is_told_no_counts(grid: FakeGrid) -> None:
    run(grid, SelectorParty(local(), "hospitals"))
    asked = [m.content["fedcbs"]["ask"] for m in grid.sent if "statistics" in m.metadata.message_type]
    assert asked == [["upload"]] * len(COUNTS)


def pin(grid: FakeGrid, fingerprint: str) -> None:
    for node in grid.nodes.values():
        node.context.node_config["fedcbs-fingerprint"] = fingerprint


def test_a_pinned_key_is_used(grid: FakeGrid, caplog: pytest.LogCaptureFixture) -> None:
    link = local()
    pin(grid, link.public_keys("hospitals").fingerprint)
    with caplog.at_level(logging.WARNING, logger="flwr.fedcbs"):
        run(grid, SelectorParty(link, "hospitals"))
    assert len(grid.trained()) == 4
    assert "no fedcbs-fingerprint" not in caplog.text


def test_one_of_several_pinned_keys_is_used(grid: FakeGrid) -> None:
    link = local()
    own = link.public_keys("hospitals").fingerprint
    pin(grid, f"{'0' * 64}, {own[:32]},{'f' * 64}")
    run(grid, SelectorParty(link, "hospitals"), rounds=1)
    assert len(grid.trained()[0]) == 3


def test_clients_get_only_the_parts_of_the_key_that_they_need(grid: FakeGrid) -> None:
    pytest.importorskip("seal", reason="the private extra is not installed")
    from fedcbs.flower._wire import content_bytes

    run(grid, SelectorParty(local("fhe"), "hospitals"), rounds=1)
    (question, *_) = [m for m in grid.sent if "statistics" in m.metadata.message_type]
    assert content_bytes(question.content) < 600_000


def test_another_key_than_the_pinned_one_gets_nothing(
    grid: FakeGrid, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_less(monkeypatch)
    other = local().public_keys("hospitals").fingerprint
    victims = [grid.node(0), grid.node(1)]
    for node in victims:
        node.context.node_config["fedcbs-fingerprint"] = other
    with caplog.at_level(logging.WARNING, logger="flwr.fedcbs"):
        run(grid, SelectorParty(local(), "hospitals"))
    assert "somebody may have put their own key in its place" in caplog.text
    assert all(not {0, 1} & set(cohort) for cohort in grid.trained())


def test_a_node_with_a_pin_tells_nothing_in_the_clear(
    grid: FakeGrid, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_less(monkeypatch)
    grid.node(0).context.node_config["fedcbs-fingerprint"] = "0" * 64
    with caplog.at_level(logging.WARNING, logger="flwr.fedcbs"):
        run(grid, "fedcbs-exact")
    assert "label counts were asked for in the clear" in caplog.text
    assert all(0 not in cohort for cohort in grid.trained())


def test_without_a_pin_the_node_says_so(grid: FakeGrid, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="flwr.fedcbs"):
        run(grid, SelectorParty(local(), "hospitals"), rounds=1)
    assert caplog.text.count("the server could put a key of its own in place of") == len(COUNTS)


def test_garbage_uploads_are_refused_and_the_round_goes_on(
    grid: FakeGrid, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flwr.app import Message

    from fedcbs.flower._wire import packed

    wait_less(monkeypatch)

    def forge(message: Message) -> Any:
        if "statistics" not in message.metadata.message_type:
            return None
        return Message(packed({"name": "0"}, {"upload": b"no upload at all"}), reply_to=message)

    grid.node(0).fault = forge
    with caplog.at_level(logging.WARNING, logger="flwr.fedcbs"):
        run(grid, SelectorParty(local(), "hospitals"))
    assert "it is no upload of fedcbs" in caplog.text
    assert all(0 not in cohort for cohort in grid.trained())


def test_an_upload_of_impossible_counts_is_refused_by_the_party(
    grid: FakeGrid, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_less(monkeypatch)
    grid.node(0).app = with_answers(training_app(COUNTS), label_counts=lambda _: [10**6, 0, 0, 0, 0])
    with caplog.at_level(logging.WARNING, logger="flwr.fedcbs"):
        run(grid, SelectorParty(local(), "hospitals"))
    assert "max_examples" in caplog.text
    assert all(0 not in cohort for cohort in grid.trained())


def test_late_clients_are_handed_over_too(grid: FakeGrid) -> None:
    late = grid.node(7)
    late.online = False

    def evaluate(server_round: int, _: Any) -> None:
        late.online = server_round >= 1

    strategy = with_selector(FedAvg(), SelectorParty(local(), "hospitals"), cohort_size=7, wait=5)
    result = strategy.start(grid, model(), num_rounds=3, timeout=60, evaluate_fn=evaluate)
    assert [metrics["fedcbs-available"] for metrics in result.train_metrics_clientapp.values()] == [7, 8, 8]
    assert any(7 in cohort for cohort in grid.trained())


@pytest.mark.parametrize(
    "selector", ["pow-d:num_candidates=6", "oort", "divfl", "ou", "clustered-size", "active-fl"]
)
def test_selectors_that_ask_and_learn(grid: FakeGrid, selector: str) -> None:
    run(grid, SelectorParty(local(selector=selector), "hospitals"))
    assert len(grid.trained()) == 4


class Moody(SelectorLink):
    """A link that is down some of the time."""

    def __init__(self, link: SelectorLink, down: int) -> None:
        self.link, self.down, self.calls = link, down, 0

    def _through(self, name: str, *args: Any, **named: Any) -> Any:
        self.calls += 1
        if self.down > 0 and self.calls > 2:
            self.down -= 1
            raise UnreachableError("connection refused")
        return getattr(self.link, name)(*args, **named)


for _name in SelectorLink.__abstractmethods__:
    setattr(
        Moody,
        _name,
        (lambda name: lambda self, *args, **named: self._through(name, *args, **named))(_name),
    )
Moody.__abstractmethods__ = frozenset()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that only waiting moves."""
    now = [0.0]
    monkeypatch.setattr("fedcbs.flower._party.time.monotonic", lambda: now[0])
    monkeypatch.setattr(
        "fedcbs.flower._party.time.sleep", lambda seconds: now.__setitem__(0, now[0] + seconds)
    )
    return now


def test_while_the_party_is_down_the_round_waits(
    grid: FakeGrid, caplog: pytest.LogCaptureFixture, clock: list[float]
) -> None:
    with caplog.at_level(logging.INFO, logger="flwr.fedcbs"):
        run(grid, SelectorParty(Moody(local(), down=12), "hospitals"))
    assert clock[0] > 100
    assert "the selector does not answer (connection refused); waited 0 s, trying again in 1 s" in caplog.text
    assert "the selector answers again after" in caplog.text
    plain = FakeGrid([answering()] * len(COUNTS))
    run(plain, "fedcbs-exact")
    assert grid.trained() == plain.trained()


def test_the_fallback_chooses_only_where_the_operator_said_so(
    grid: FakeGrid, caplog: pytest.LogCaptureFixture, clock: list[float], tmp_path: Path
) -> None:
    party = SelectorParty(Moody(local(), down=8), "hospitals", fallback="uniform", patience=20)
    with caplog.at_level(logging.INFO, logger="flwr.fedcbs"):
        run(grid, party, rounds=5, out=tmp_path)
    assert "uniform chooses this round" in caplog.text
    assert clock[0] >= 20
    assert all(len(cohort) == 3 for cohort in grid.trained())
    from fedcbs.flower._records import Records

    notes = [record["note"] for record in Records(tmp_path).read()]
    assert notes[0] is not None
    assert notes[-1] is None


def test_a_fallback_that_needs_what_the_server_has_not() -> None:
    with pytest.raises(InvalidArgumentError, match="fallback='fedcbs-exact' needs to know about clients"):
        SelectorParty(local(), "hospitals", fallback="fedcbs-exact")


def test_resumes_with_the_same_party_and_asks_nobody_again(tmp_path: Path, grid: FakeGrid) -> None:
    whole = FakeGrid([answering()] * len(COUNTS))
    run(whole, SelectorParty(local(), "hospitals"), rounds=6)
    state = tmp_path / "selector.sqlite"
    run(grid, SelectorParty(local(state=state), "hospitals"), rounds=3, out=tmp_path / "run")
    again = FakeGrid([answering()] * len(COUNTS), first_id=5)
    run(again, SelectorParty(LocalSelector(state), "hospitals"), rounds=6, out=tmp_path / "run")
    assert grid.trained() + again.trained() == whole.trained()
    assert {m.metadata.message_type for m in again.sent} == {"query.fedcbs_hello", "train", "evaluate"}


def test_a_party_with_a_new_key_is_refused_on_resuming(tmp_path: Path, grid: FakeGrid) -> None:
    run(grid, SelectorParty(local(), "hospitals"), rounds=2, out=tmp_path)
    with pytest.raises(FederationStateError, match="give it back its state"):
        run(grid, SelectorParty(local(), "hospitals"), rounds=4, out=tmp_path)


def test_noise_is_drawn_once(tmp_path: Path, grid: FakeGrid) -> None:
    for node in grid.nodes.values():
        node.context.node_config["fedcbs-noise"] = "laplace:epsilon=1"
        node.context.node_config["fedcbs-state"] = str(tmp_path / str(partition(node.context)))
    one, two = (run(grid, "fedcbs-exact", rounds=1, seed=s) for s in (1, 1))
    assert one.train_metrics_clientapp == {
        1: {**two.train_metrics_clientapp[1], **_seconds(one)},
    }
    from fedcbs.flower._client_privacy import clear_counts

    context = grid.node(0).context
    assert clear_counts(COUNTS[0].tolist(), context) == clear_counts(COUNTS[0].tolist(), context)
    draws = {tuple(clear_counts([100 + n] * 5, context)) != tuple([100 + n] * 5) for n in range(5)}
    assert True in draws


def _seconds(result: Any) -> dict[str, float]:
    name = "fedcbs-select-seconds"
    return {name: result.train_metrics_clientapp[1][name]}
