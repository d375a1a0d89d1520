"""The server: an ordinary Flower strategy, and around it the selector."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAdam

from digits_app import task
from fedcbs.flower import RelayedSelector, SelectorParty, with_selector
from fedcbs.service import FederationOptions, LocalSelector, SelectorClient

UserConfig = dict[str, bool | float | int | str]

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for some rounds; a run whose folder has a checkpoint goes on from it."""
    config = context.run_config
    folder = str(config["out"])
    strategy = with_selector(
        FedAdam(eta=0.1, fraction_evaluate=0.0),
        chooser(config),
        cohort_size=int(config["cohort-size"]),
        min_clients=int(config["min-clients"]),
        seed=int(config["seed"]),
        query_timeout=float(config["query-timeout"]),
        num_classes=task.NUM_CLASSES,
        out=Path(folder).expanduser() if folder else None,
    )
    model = task.initial_model(int(config["seed"]))
    strategy.start(
        grid,
        ArrayRecord({name: Array(array) for name, array in model.items()}),
        num_rounds=int(config["num-server-rounds"]),
        timeout=float(config["round-timeout"]),
        evaluate_fn=evaluate,
    )


def chooser(config: UserConfig) -> SelectorParty | str:
    """Who chooses, as the run's configuration says."""
    mode = str(config["private-mode"])
    if not mode:
        return str(config["selector"])
    federation = str(config["federation"])
    if config["selector-node"]:
        return SelectorParty(RelayedSelector(str(config["selector-node"])), federation)
    if config["selector-url"]:
        certificates = str(config["selector-certificates"]) or None
        caller = str(config["selector-caller"])
        link = SelectorClient(
            str(config["selector-url"]), certificates=certificates, name=caller, patience=5.0
        )
        return SelectorParty(link, federation)
    return SelectorParty(own_party(config, mode, federation), federation)


def own_party(config: UserConfig, mode: str, federation: str) -> LocalSelector:
    """A party in this process: for simulations, where it protects nobody from anybody."""
    folder = str(config["out"])
    if folder:
        path = Path(folder).expanduser()
        path.mkdir(parents=True, exist_ok=True)
        party = LocalSelector(path / "selector.sqlite")
    else:
        party = LocalSelector()
    options = FederationOptions(
        num_classes=task.NUM_CLASSES,
        mode=mode,
        selector=str(config["selector"]),
        seed=int(config["seed"]),
    )
    party.create(federation, options)
    return party


def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    """Test the global model on examples that no client has."""
    del server_round
    model = {name: array.numpy() for name, array in arrays.items()}
    _, test = task.digits()
    return MetricRecord(
        {
            "test_accuracy": task.accuracy(model, test),
            "test_loss": float(np.mean(task.losses(model, test))),
        }
    )
