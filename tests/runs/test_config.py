"""Configurations: from files, options and keywords; mistakes are refused before any long work, and leave nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedcbs
from fedcbs.cli import main
from fedcbs.errors import FedCBSError, InvalidArgumentError, UnknownNameError
from fedcbs.runs import RunConfig, read_run, start
from tests.runs.federations import SMALL, arguments

FILE = """
[data]
dataset = "digits"

[partition]
scheme = "shards:2"
clients = 20

[training]
learning_rate = 0.05
local = "fedprox:mu=0.1"

[evaluation]
targets = [0.5, 0.6]

[run]
rounds = 3
"""


def test_a_file_and_options_that_go_before_it(tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text(FILE)
    config = RunConfig.from_toml(file, ["training.learning_rate=0.2", "run.seed=4", "selector=uniform"])
    assert config.training.learning_rate == 0.2
    assert config.training.local == "fedprox:mu=0.1"
    assert config.evaluation.targets == (0.5, 0.6)
    assert (config.partition.scheme, config.partition.clients) == ("shards:2", 20)
    assert (config.run.seed, config.selector.name) == (4, "uniform")
    assert RunConfig.from_dict(config.to_dict()) == config


def test_sections_and_names_that_are_clear_alone() -> None:
    config = RunConfig.of(
        algorithm="fedprox:mu=1+fedadam", partition={"scheme": "iid"}, clients=7, alpha="none"
    )
    assert (config.training.local, config.server.rule) == ("fedprox:mu=1", "fedadam")
    assert config.partition.scheme == "iid"
    assert config.partition.alpha is None
    assert RunConfig.of(privacy="plain", model="linear").model.name == "linear"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            "training.lerning_rate=1",
            r"key of \[training\]='lerning_rate' is not known; did you mean 'learning_rate'",
        ),
        ("trainin.momentum=1", "section='trainin' is not known; did you mean 'training'"),
        ("lerning_rate=1", "option='lerning_rate' is not known; did you mean 'learning_rate'"),
        ("training.momentum=high", r"training\.momentum='high' must be a number"),
        ("run.rounds=2.5", r"run\.rounds=2\.5 must be a whole number"),
        ("run.rounds=0", r"run\.rounds=0 must be a whole number of at least 1"),
        ("evaluation.clients=1", r"evaluation\.clients=1 must be true or false"),
        ("model.options=3", r"model\.options=3 must be a table of options"),
        ("training", "must have the form key=value"),
        ("selector.name=unifrom", "did you mean 'uniform'"),
        ("selector.name=pow-d:candidates=3", "option of pow-d='candidates' is not known"),
        ("training.local=fedprx", "did you mean 'fedprox'"),
        ("server.rule=fedavgg", "server.rule='fedavgg' is not known"),
        ("training.schedule=epoch:5", "did you mean 'epochs'"),
        ("training.batch_size=0", r"training\.batch_size=0 must be a whole number of at least 1"),
        ("training.learning_rate=-1", r"training\.learning_rate=-1\.0 must be a finite number above 0"),
        ("training.learning_rate=nan", r"training\.learning_rate=nan must be a finite number above 0"),
        ("training.momentum=1.0", r"training\.momentum=1\.0 must be from 0 to below 1"),
        ("training.engine=fast", "engine='fast' is not known"),
        ("availability.rule=sometimes", "availability='sometimes' is not known"),
        ("availability.dropout=2", r"availability\.dropout=2\.0"),
        ("availability.durations=normal:1", "durations='normal' is not known"),
        ("availability.speed=0", r"availability\.speed=0\.0 must be a finite number above 0"),
        ("partition.scheme=dirichlet", "partition='dirichlet' is not known; did you mean 'dirichlet-"),
        ("partition.alpha=0", r"alpha=0\.0 must be a finite number"),
        ("partition.clients=5000", "num_clients=5000"),
        ("partition.scheme=owner", "has no owners"),
        ("selector.cohort_size=31", r"selector\.cohort_size=31 but there are 30 clients; lower it"),
        ("data.dataset=digitz", "did you mean 'digits'"),
        ("data.dataset=mnist", "mnist"),
        ("model.name=mpl", "did you mean 'mlp'"),
        ("model.options={hiden = 3}", "option of mlp='hiden' is not known; did you mean 'hidden'"),
        ("evaluation.targets=[2.0]", r"evaluation\.targets=2\.0"),
        ("privacy.mode=plan", r"'plan' is not known"),
        ("run.seed=-1", r"run\.seed=-1 must be a whole number"),
    ],
)
def test_mistakes_are_refused_and_leave_nothing(
    option: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FedCBSError, match=message):
        start(SMALL.with_texts([option]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_files_that_are_no_configuration(tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text("[training\n")
    with pytest.raises(InvalidArgumentError, match="is no TOML file that can be read"):
        RunConfig.from_toml(file)
    file.write_text("rounds = 3\n")
    with pytest.raises(UnknownNameError, match="section='rounds' is not known"):
        RunConfig.from_toml(file)
    file.write_text("run = 3\n")
    with pytest.raises(InvalidArgumentError, match=r"write it under \[run\]"):
        RunConfig.from_toml(file)
    with pytest.raises(InvalidArgumentError, match="is no file"):
        RunConfig.from_toml(tmp_path / "nowhere.toml")


def test_a_directory_that_is_taken(tmp_path: Path) -> None:
    config = SMALL.with_options({"rounds": 1})
    start(config, tmp_path / "run")
    with pytest.raises(FedCBSError, match="holds a run already; go on with it by `fedcbs resume"):
        start(config, tmp_path / "run")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("precious")
    with pytest.raises(FedCBSError, match="holds other files"):
        start(config, tmp_path / "other")
    assert (tmp_path / "other" / "thesis.tex").read_text() == "precious"
    with pytest.raises(FedCBSError, match="is a file"):
        start(config, tmp_path / "other" / "thesis.tex")


def test_what_a_killed_process_left_before_its_run_began_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for name in ("run.lock", "population.npz", "statistics.npz", ".config.json.0123.part"):
        (tmp_path / "run" / name).write_bytes(b"half")
    start(SMALL.with_options({"rounds": 1}), tmp_path / "run")
    assert not (tmp_path / "run" / "statistics.npz").exists()
    assert not list((tmp_path / "run").glob("*.part"))


def test_what_is_open_is_settled_and_written_down(tmp_path: Path) -> None:
    found = start(RunConfig.of(rounds=1, selector="fed-cucb"), tmp_path / "run")
    assert found.config["model"]["name"] == "mlp"
    assert found.config["partition"] == {
        "scheme": "dirichlet-hsu",
        "alpha": 0.1,
        "clients": 100,
        "examples_per_client": None,
        "min_examples": None,
    }
    assert found.config["training"]["learning_rate"] == 0.1
    assert found.config["data"]["auxiliary"] == 13
    assert found.config["training"]["engine"] != "auto"
    assert {"fedcbs", "torch", "numpy", "python"} <= set(found.versions)
    assert found.label_counts is not None
    assert found.num_examples is not None
    np.testing.assert_array_equal(found.label_counts.sum(axis=1), found.num_examples)


def test_records_and_summary_can_be_read_back(tmp_path: Path) -> None:
    found = start(SMALL.with_options({"rounds": 4, "targets": [0.2]}), tmp_path / "run")
    again = read_run(tmp_path / "run")
    assert again.records == found.records
    assert again.summary == found.summary
    assert found.summary is not None
    assert found.summary["rounds"] == 4
    assert set(found.summary["participation"]) == {"gini", "min", "max"}
    with (tmp_path / "run" / "rounds.jsonl").open("a") as file:
        file.write('{"round": 5, "cut off')
    assert len(read_run(tmp_path / "run").records) == 4


def test_simulate_is_at_hand_without_importing_torch_before() -> None:
    records = list(fedcbs.simulate({"rounds": 2}, selector="uniform", seed=5))
    assert [record.round for record in records] == [1, 2]
    with pytest.raises(AttributeError, match="no attribute 'simulat'"):
        _ = fedcbs.simulat  # type: ignore[attr-defined]


def test_the_command_line_takes_every_key(tmp_path: Path) -> None:
    config = SMALL.with_options({"rounds": 1, "engine": "generic"})
    assert main(["run", "--quiet", f"--out={tmp_path / 'run'}", *arguments(config)]) == 0
    settled = RunConfig.from_dict(read_run(tmp_path / "run").config)
    for section, values in config.to_dict().items():
        for key, value in values.items():
            if value is not None:
                assert settled.to_dict()[section][key] == value


def test_the_configuration_of_a_run_is_one_for_another(tmp_path: Path) -> None:
    first = start(SMALL.with_options({"rounds": 2}), tmp_path / "first")
    config = RunConfig.from_toml(tmp_path / "first" / "config.json")
    again = start(config, tmp_path / "again")
    assert again.config == first.config
    assert [record.cohort for record in again.records] == [record.cohort for record in first.records]
    (tmp_path / "other.json").write_text("[1]")
    with pytest.raises(InvalidArgumentError, match=r"is no config\.json of a run"):
        RunConfig.from_toml(tmp_path / "other.json")


def test_a_refused_run_leaves_none_of_the_folders_that_were_made_for_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="num_clients"):
        start(SMALL.with_options({"clients": 100_000}), tmp_path / "runs" / "deep" / "first")
    assert list(tmp_path.iterdir()) == []
