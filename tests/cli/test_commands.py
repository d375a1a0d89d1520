"""What the commands print, run inside this process."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from fedcbs.availability import list_availabilities
from fedcbs.cli import main
from fedcbs.cli._commands import COMMANDS, commands
from fedcbs.laboratory import population, suitable_names
from fedcbs.partition import list_partitions
from fedcbs.selectors import selector_types

SMALL = [
    "--clients",
    "30",
    "--classes",
    "4",
    "--examples-per-client",
    "20",
    "--cohort-size",
    "4",
    "--rounds",
    "5",
]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_every_command_has_a_help_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    overview = printed(capsys, "--help")
    assert len(list(commands())) == len(COMMANDS)
    for name in COMMANDS:
        command = name.removeprefix("_")
        assert command in overview
        assert f"fedcbs {command} --" in printed(capsys, command, "--help")


def test_the_help_of_balance_lists_all_that_can_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "balance", "--help")
    for name in (*list_partitions(), *list_availabilities(), *suitable_names()):
        assert name in text


def test_the_table_has_a_row_for_each_selector_and_marks_the_best(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "balance", *SMALL, "--selectors", "everyone,uniform,fedcbs-exact").splitlines()
    rows = {line.split()[0]: line for line in lines if line.strip()}
    assert {"everyone", "uniform", "fedcbs-exact"} <= set(rows)
    qcid_of_exact = rows["fedcbs-exact"].split("±")[1].split()
    assert qcid_of_exact[1] == "*"
    assert "*" not in rows["everyone"]
    assert "out of competition: everyone" in lines[-1]


def test_short_and_skipped_rounds_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, counts = tmp_path / "trace.jsonl", tmp_path / "counts.csv"
    trace.write_text(
        '{"round": 1, "clients": [0, 1]}\n{"round": 2, "clients": [2]}\n{"round": 3, "clients": []}\n'
    )
    counts.write_text("3,0\n0,3\n3,3\n0,0\n")
    text = printed(
        capsys, "balance", "--partition", f"counts:{counts}", "--availability", f"trace:{trace}", "--cohort-size", "2",
        "--rounds", "3", "--seeds", "1", "--selectors", "uniform,fedcbs-exact",
    )  # fmt: skip
    assert "1 of 3 rounds had fewer clients" in text
    assert "1 of 3 rounds had no client" in text
    assert "1 clients have no examples" in text


@pytest.mark.parametrize(
    ("partition", "availability", "clients"),
    [
        ("case1-3to1", "uniform:0.3", 120),
        ("case1-5to1", "uniform:0.3", 120),
        ("case1-16to8", "uniform:0.3", 120),
        ("case2", "class-quota:9,3", 200),
        ("case2", "class-quota:10,2", 200),
    ],
)
def test_the_cases_of_the_paper_fix_the_number_of_clients(
    partition: str, availability: str, clients: int, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = (
        "balance",
        "--partition",
        partition,
        "--availability",
        availability,
        "--rounds",
        "2",
        "--json",
    )
    found, same = (
        json.loads(printed(capsys, *arguments, *extra)) for extra in ((), ("--clients", str(clients)))
    )
    assert found["settings"] == same["settings"]
    assert found["settings"]["clients"] == clients
    assert main([*arguments, "--clients", "50"]) == 2
    out, err = capsys.readouterr()
    assert (out, f"makes {clients} clients" in err) == ("", True)


def test_all_stands_for_every_selector_that_needs_no_training(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, "balance", *SMALL, "--seeds", "1", "--selectors", "all", "--json"))
    assert list(found["selectors"]) == suitable_names()


def test_selectors_lists_every_selector(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "selectors").splitlines()
    rows = {line.split()[0]: line for line in lines[1:]}
    assert list(rows) == list(selector_types())
    for name, kind in selector_types().items():
        assert kind.summary in rows[name]
        assert ("training" in rows[name]) == (name not in suitable_names())


def test_selectors_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(printed(capsys, "selectors", "--json"))["selectors"]
    assert list(facts) == list(selector_types())
    assert facts["fedcbs-exact"]["needs"] == ["gram"]
    assert facts["fedcbs-exact"]["options"]["sweeps"]["default"] == selector_types()["fedcbs-exact"].sweeps  # type: ignore[attr-defined]
    one = json.loads(printed(capsys, "selectors", "oort", "--json"))["selectors"]
    assert one == {"oort": facts["oort"]}


@pytest.mark.parametrize("name", selector_types())
def test_a_selector_is_described_with_its_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "selectors", name)
    kind = selector_types()[name]
    assert kind.paper in text
    for option in dataclasses.fields(kind):
        assert f"  {option.name}=" in text


def test_partition_writes_counts_that_balance_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shape = ["--partition", "shards:2", "--clients", "12", "--classes", "3", "--examples-per-client", "10"]
    expected = population("shards:2", num_clients=12, num_classes=3, examples_per_client=10).label_counts(5)
    for suffix in ("csv", "npy"):
        path = tmp_path / f"counts.{suffix}"
        assert main(["partition", *shape, "--seed", "5", "--out", str(path)]) == 0
        assert f"label counts: {path}" in capsys.readouterr().err
        again = json.loads(printed(capsys, "partition", "--partition", f"counts:{path}", "--json"))[
            "label_counts"
        ]
        assert np.array_equal(again, expected)


def test_partition_shows_the_first_clients_and_the_sums(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(
        capsys, "partition", "--partition", "case2:1", "--classes", "3", "--show", "2"
    ).splitlines()
    assert lines[0].split() == ["client", "0", "1", "2", "examples", "QCID"]
    assert lines[1].split() == ["0", "250", "0", "0", "250", "0.6667"]
    assert lines[-1].split() == ["all", "3", "250", "250", "250", "750", "0.0000"]
    assert len(lines) == 4
