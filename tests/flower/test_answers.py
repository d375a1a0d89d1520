"""The client's side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp

from fedcbs.errors import InvalidArgumentError
from fedcbs.flower import with_answers
from fedcbs.flower._wire import RECORD, packed, values
from tests.flower.fake import identify, model, training_app

COUNTS = np.array([[3, 1, 0, 0, 2]])


def context(**config: Any) -> Context:
    return Context(run_id=1, node_id=9, node_config=config, state=RecordDict(), run_config={})


def ask(app: ClientApp, kind: str, content: RecordDict, **config: Any) -> RecordDict:
    identify()
    message = Message(content, dst_node_id=9, message_type=kind)
    reply = app(message, context(**config))
    assert reply.metadata.reply_to_message_id == message.metadata.message_id
    return reply.content


def counting() -> ClientApp:
    return with_answers(training_app(COUNTS), label_counts=lambda _: COUNTS[0])


def test_it_is_still_the_same_app() -> None:
    class OwnApp(ClientApp):
        """A user's."""

    app = with_answers(OwnApp(), label_counts=lambda _: [1])
    assert isinstance(app, OwnApp)


def test_functions_registered_later_are_the_apps_too() -> None:
    app = with_answers(ClientApp(), label_counts=lambda _: [1])

    @app.query("mine")
    def mine(message: Message, _: Context) -> Message:
        return Message(RecordDict({"x": ConfigRecord({"y": 1})}), reply_to=message)

    assert ask(app, "query.mine", RecordDict())["x"]["y"] == 1


@pytest.mark.parametrize(
    ("config", "name"),
    [({"fedcbs-name": "ward-3", "partition-id": 4}, "ward-3"), ({"partition-id": 4}, "4"), ({}, "")],
)
def test_names(config: dict[str, Any], name: str) -> None:
    assert values(ask(counting(), "query.fedcbs_hello", packed({}), **config))["name"] == name


def test_tells_only_what_is_asked() -> None:
    told = values(ask(counting(), "query.fedcbs_statistics", packed({"ask": ["num-examples"]})))
    assert dict(told) == {"name": "", "num-examples": 6}
    told = values(ask(counting(), "query.fedcbs_statistics", packed({"ask": ["label-counts"]})))
    assert list(told["label-counts"]) == [3, 1, 0, 0, 2]


def test_what_it_cannot_tell_is_an_error_that_says_so() -> None:
    app = with_answers(training_app(COUNTS))
    with pytest.raises(Exception, match="give label_counts= to with_answers"):
        ask(app, "query.fedcbs_statistics", packed({"ask": ["label-counts"]}))


def test_losses_of_a_training_message_are_those_before_the_training() -> None:
    seen = []

    def losses(arrays: Any, _: Context, limit: int | None) -> list[float]:
        seen.append((float(arrays["bias"].numpy()[0]), limit))
        return [3.0, 4.0]

    app = with_answers(training_app(COUNTS), losses=losses)
    content = RecordDict({"arrays": model(), RECORD: ConfigRecord({"report": ["losses"]})})
    told = values(ask(app, "train", content, **{"partition-id": 0}))
    assert seen == [(0.0, None)]
    assert told["loss"] == 3.5
    assert told["rms-loss"] == pytest.approx(np.sqrt(12.5))
    assert told["seconds"] > 0


def test_a_loss_that_fails_does_not_spoil_the_training() -> None:
    def losses(*_: Any) -> float:
        raise ValueError("no labels")

    app = with_answers(training_app(COUNTS), losses=losses)
    content = RecordDict({"arrays": model(), RECORD: ConfigRecord({"report": ["losses"]})})
    reply = ask(app, "train", content, **{"partition-id": 0})
    assert reply["metrics"]["num-examples"] == 6
    assert "loss" not in values(reply)


def test_the_apps_own_training_does_not_see_our_record() -> None:
    seen: list[list[str]] = []
    app = ClientApp()

    @app.train()
    def train(message: Message, _: Context) -> Message:
        seen.append(sorted(message.content))
        return Message(RecordDict(), reply_to=message)

    content = RecordDict({"arrays": model(), RECORD: ConfigRecord({"report": []})})
    ask(with_answers(app), "train", content)
    assert seen == [["arrays"]]


def test_telling_an_update_leaves_the_nodes_state_alone() -> None:
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        context.state["mine"] = ConfigRecord({"trained": True})
        return Message(RecordDict({"arrays": message.content["arrays"]}), reply_to=message)

    where = context()
    identify()
    content = RecordDict({"arrays": model(), RECORD: ConfigRecord({"norm": True, "train": "train"})})
    reply = with_answers(app)(Message(content, dst_node_id=9, message_type="query.fedcbs_updates"), where)
    assert values(reply.content)["norm"] == 0.0
    assert not where.state


def test_the_lifespan_of_the_app_surrounds_answers_too() -> None:
    events: list[str] = []
    app = ClientApp()

    @app.lifespan()
    def lifespan(_: Context) -> Iterator[None]:
        events.append("begin")
        yield
        events.append("end")

    ask(
        with_answers(app, label_counts=lambda _: events.append("count") or [1]),
        "query.fedcbs_statistics",
        packed({"ask": ["label-counts"]}),
    )
    assert events == ["begin", "count", "end"]


class Legacy(NumPyClient):
    """An app of the older kind."""

    def fit(self, parameters: Any, config: Any) -> Any:
        del config
        return [array + 1 for array in parameters], 6, {"loss": 0.5}


def test_apps_of_a_client_fn() -> None:
    def client_fn(context: Context) -> Any:
        del context
        return Legacy().to_client()

    app = with_answers(ClientApp(client_fn), label_counts=lambda _: COUNTS[0])
    told = values(ask(app, "query.fedcbs_statistics", packed({"ask": ["label-counts"]})))
    assert list(told["label-counts"]) == [3, 1, 0, 0, 2]
    from flwr.common import FitIns, ndarrays_to_parameters

    try:
        from flwr.compat.common.recorddict_compat import fitins_to_recorddict
    except ImportError:
        from flwr.common.recorddict_compat import fitins_to_recorddict

    ins = FitIns(ndarrays_to_parameters([np.zeros(2, dtype=np.float32)]), {})
    content = fitins_to_recorddict(ins, keep_input=True)
    content[RECORD] = ConfigRecord({"norm": True, "train": "train"})
    told = values(ask(app, "query.fedcbs_updates", content))
    assert told["norm"] == pytest.approx(np.sqrt(2))


def test_only_apps_of_flower() -> None:
    with pytest.raises(InvalidArgumentError, match="app='app' must be a flwr ClientApp"):
        with_answers("app")  # type: ignore[arg-type]
