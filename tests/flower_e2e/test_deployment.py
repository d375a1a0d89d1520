"""A real federation with TLS, node authentication, process isolation, SQLite state and fully encrypted label counts.

One federation serves all tests of this file, in their order: each is a run of its own.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedcbs.service import FederationOptions, SelectorClient, make_certificates
from tests.flower_e2e.cluster import (
    PATIENCE,
    Cluster,
    Process,
    cluster,
    free_ports,
    has_one_address,
    rounds,
    until,
)
from tests.flower_e2e.example import cohorts_in_process

pytest.importorskip("seal", reason="the private extra is not installed")

NODES, COHORT, SEED = 6, 3, 4
RUNS = ("calm", "selector-killed", "link-killed", "app-killed", "relayed", "node-killed")
"""Each run has a federation of its own at the selector, and so a key of its own."""
OPTIONS = FederationOptions(num_classes=10, mode="fhe", selector="fedcbs-exact", seed=SEED)


class Federation:
    """The federation and its selector's service."""

    def __init__(self, where: Cluster) -> None:
        self.cluster = where
        self.certificates = where.folder / "certificates"
        make_certificates(self.certificates, hosts=["127.0.0.1", "localhost"])
        (self.port,) = free_ports(1)
        self.service = Process(
            "selector",
            [
                *(sys.executable, "-m", "fedcbs", "selector", "serve", "--port", str(self.port)),
                *("--state", where.folder / "selector.sqlite", "--certificates", self.certificates),
                *("--report-qcid", "exact"),
            ],
            where.folder,
            where.env,
        ).start()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def make(self, name: str) -> str:
        """Make a federation at the selector, and return its key's fingerprint."""
        with SelectorClient(self.url, certificates=self.certificates, patience=PATIENCE) as link:
            return link.create(name, OPTIONS).fingerprint

    def out(self, name: str) -> Path:
        return self.cluster.folder / name

    def run(self, name: str, **config: Any) -> int:
        """Start a run whose cohorts a federation of that name at the selector chooses."""
        settings = {
            "private-mode": OPTIONS.mode,
            "federation": name,
            "selector-url": self.url,
            "selector-certificates": str(self.certificates),
            "out": str(self.out(name)),
            "cohort-size": COHORT,
            "min-clients": NODES,
            "seed": SEED,
            "local-epochs": 1,
            "round-timeout": 120.0,
        }
        return self.cluster.run(
            {**settings, **{key.replace("_", "-"): value for key, value in config.items()}}
        )

    def wait_for_round(self, name: str, number: int) -> None:
        until(f"round {number} of {name!r} is over", lambda: len(rounds(self.out(name))) >= number)

    def finish(self, name: str, run: int, number: int) -> list[dict[str, Any]]:
        status = until(f"{name!r} is over", lambda: self.cluster.over(run), patience=PATIENCE * number)
        assert status == "finished:completed", self.cluster.flwr(
            "log", str(run), *self.cluster.where, "--show"
        )
        assert len(rounds(self.out(name))) == number
        return rounds(self.out(name))


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    folder = tmp_path_factory.mktemp("federation")
    with cluster(folder, num_nodes=NODES) as made:
        party = Federation(made)
        try:
            pins = ",".join(party.make(name) for name in RUNS)
            made.start(lambda _: f'fedcbs-fingerprint="{pins}"')
            yield party
        finally:
            party.service.stop()


def expected(number: int) -> list[list[int]]:
    """Cohorts of the same seed in one process, on the same data, with all counts at hand."""
    return cohorts_in_process(NODES, COHORT, OPTIONS, rounds=number)


def test_cohorts_are_those_of_one_process(federation: Federation) -> None:
    run = federation.run("calm", num_server_rounds=5)
    records = federation.finish("calm", run, 5)
    assert [record["cohort"] for record in records] == expected(5)
    assert all(record["answered"] == record["cohort"] for record in records)
    assert all(0 <= record["qcid"] < 1 for record in records)
    assert all(record["cohort_label_counts"] is None for record in records)


def test_selector_killed_and_restarted(federation: Federation) -> None:
    run = federation.run("selector-killed", num_server_rounds=4)
    federation.wait_for_round("selector-killed", 1)
    federation.service.kill()
    time.sleep(20)
    federation.service.start()
    records = federation.finish("selector-killed", run, 4)
    assert [record["cohort"] for record in records] == expected(4)


def test_superlink_killed_and_restarted(federation: Federation) -> None:
    run = federation.run("link-killed", num_server_rounds=4)
    chosen = "POST /v1/federations/link-killed/rounds/2 200"
    # The worst moment: the cohort is chosen, and its messages are being handed over.
    until("round 2 is chosen", lambda: federation.service.said(chosen), pause=0.01)
    federation.cluster.restart_link(down=5)
    federation.wait_for_round("link-killed", 2)
    federation.cluster.restart_link(down=5)
    records = federation.finish("link-killed", run, 4)
    assert [record["cohort"] for record in records] == expected(4)
    assert all(record["answered"] == record["cohort"] for record in records)


def test_server_app_killed_and_resumed(federation: Federation) -> None:
    run = federation.run("app-killed", num_server_rounds=5)
    federation.wait_for_round("app-killed", 1)
    federation.cluster.kill_server_app()
    until("the run has failed", lambda: federation.cluster.over(run))
    done = len(rounds(federation.out("app-killed")))
    assert done < 5
    again = federation.run("app-killed", num_server_rounds=5)
    records = federation.finish("app-killed", again, 5)
    assert [record["round"] for record in records] == [1, 2, 3, 4, 5]
    assert [record["cohort"] for record in records] == expected(5)
    calm = rounds(federation.out("calm"))
    assert records[-1]["accuracy"] == calm[-1]["accuracy"]
    assert records[-1]["loss"] == calm[-1]["loss"]


def test_selector_reached_through_a_supernode(federation: Federation) -> None:
    if not has_one_address():
        pytest.skip("earlier SuperNodes have no names")
    config = (
        f'fedcbs-selector-url="{federation.url}" fedcbs-selector-certificates="{federation.certificates}"'
    )
    relay = federation.cluster.add_node("relay", config, "--name", "the-selector")
    run = federation.run("relayed", num_server_rounds=3, selector_node="the-selector", selector_url="")
    records = federation.finish("relayed", run, 3)
    relay.stop()
    assert [record["cohort"] for record in records] == expected(3)
    assert relay.said("fedcbs_relay")
    assert not relay.said("Receiving: train")
    assert all(record["available"] == NODES for record in records)


def test_supernode_killed_in_a_round(federation: Federation) -> None:
    run = federation.run("node-killed", num_server_rounds=4, round_timeout=90.0)
    federation.wait_for_round("node-killed", 1)
    victim = expected(2)[1][0]
    node = federation.cluster.nodes[victim]
    before = node.log.read_text(errors="replace").count("Receiving: train")
    until(
        "the node is training",
        lambda: (
            node.log.read_text(errors="replace").count("Receiving: train") > before
            or len(rounds(federation.out("node-killed"))) >= 2
        ),
    )
    node.kill()
    records = federation.finish("node-killed", run, 4)
    hit = next(record for record in records if victim in record["failed"])
    assert set(hit["answered"]) == set(hit["cohort"]) - {victim}
    later = [record["cohort"] for record in records if record["round"] > hit["round"]]
    assert later
    assert all(victim not in cohort for cohort in later)
