"""The page on training says what there is."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from fedcbs.algorithms import local_methods, server_rules
from fedcbs.cli._run_options import OPTIONS
from fedcbs.runs import RunConfig
from fedcbs.simulation import RoundRecord

PAGE = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")


def test_every_key_has_its_row_and_no_other_is_there() -> None:
    keys = {f"{section}.{key}" for section, values in RunConfig().to_dict().items() for key in values}
    section = PAGE.partition("## Configuration")[2].partition("## Algorithms")[0]
    rows = set(re.findall(r"^\| `([a-z]+\.[a-z_]+)` \|", section, flags=re.MULTILINE))
    assert rows == keys


def test_the_example_is_a_configuration(tmp_path: Path) -> None:
    example = re.search(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
    assert example is not None
    (tmp_path / "example.toml").write_text(example[1])
    assert RunConfig.from_toml(tmp_path / "example.toml").server.rule == "fednova"


def test_every_algorithm_and_its_options_are_there() -> None:
    for kind in [*local_methods().values(), *server_rules().values()]:
        row = next(
            line
            for line in PAGE.splitlines()
            if line.startswith("|") and f"`{kind.name}`" in line.split("|")[1]
        )
        for field in dataclasses.fields(kind):
            default = field.default
            text = (
                str(default).lower()
                if isinstance(default, bool)
                else f"{default:g}"
                if isinstance(default, float)
                else default
            )
            assert f"`{field.name}={text}`" in row, (kind.name, field.name)


def test_every_field_of_a_record_is_there() -> None:
    for field in dataclasses.fields(RoundRecord):
        assert f"`{field.name}`" in PAGE


def test_help_states_the_defaults_that_hold() -> None:
    document = RunConfig().to_dict()
    short = {key: f"{section}.{key}" for section, values in document.items() for key in values}
    aliases = {"model": "model.name", "partition": "partition.scheme", "availability": "availability.rule"}
    for _, options in OPTIONS:
        for _, name, _, text in options:
            stated = re.search(r"\(default: ([^;)]+)\)", text)
            key = aliases.get(name, short.get(name, name))
            if stated is None or key == "algorithm":
                continue
            section, _, field = key.partition(".")
            assert stated[1] == str(document[section][field]), name
