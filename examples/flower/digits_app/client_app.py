"""The client: an ordinary Flower app, and around it what selection asks."""

from __future__ import annotations

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from digits_app import task
from fedcbs.flower import with_answers

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train on the node's own part of the data."""
    own, config = examples(context), context.run_config
    number = int(message.content["config"]["server-round"])
    rng = np.random.default_rng([int(config["seed"]), number, int(context.node_config["partition-id"])])
    model, loss = task.train(
        as_numpy(message.content["arrays"]),
        own,
        epochs=int(config["local-epochs"]),
        learning_rate=float(config["learning-rate"]),
        rng=rng,
    )
    arrays = ArrayRecord({name: Array(array) for name, array in model.items()})
    metrics = MetricRecord({"num-examples": len(own.labels), "train_loss": loss})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Evaluate on the same part: how well the global model serves this client."""
    own = examples(context)
    model = as_numpy(message.content["arrays"])
    metrics = MetricRecord(
        {
            "num-examples": len(own.labels),
            "client_acc": task.accuracy(model, own),
            "client_loss": float(task.losses(model, own).mean()),
        }
    )
    return Message(RecordDict({"metrics": metrics}), reply_to=message)


def examples(context: Context) -> task.Examples:
    """The node's own examples."""
    node = context.node_config
    return task.examples_of(
        int(node["partition-id"]), int(node["num-partitions"]), float(context.run_config["alpha"])
    )


def as_numpy(arrays: ArrayRecord) -> dict[str, task.Floats]:
    """The model as the task has it."""
    return {name: array.numpy() for name, array in arrays.items()}


def label_counts(context: Context) -> list[int]:
    """How many examples of each class this node has."""
    return np.bincount(examples(context).labels, minlength=task.NUM_CLASSES).tolist()


def local_losses(arrays: ArrayRecord, context: Context, limit: int | None) -> task.Floats:
    """Loss of each of this node's examples, or of `limit` of them."""
    own = examples(context)
    if limit is not None:
        own = task.Examples(own.images[:limit], own.labels[:limit])
    return task.losses(as_numpy(arrays), own)


app = with_answers(app, label_counts=label_counts, losses=local_losses)
