"""Selectors of other packages, installed for real: a folder with a module and the metadata that pip would write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedcbs.errors import BrokenSelectorError, InvalidArgumentError, UnknownNameError
from fedcbs.selectors import LabelInformation, Round, make_selector, parse_selector, selector_types
from fedcbs.selectors._registry import _installed

MODULE = """
import dataclasses
from typing import ClassVar

import numpy as np

from fedcbs.selectors import Draw, Need, RoundView, Selector, State


@dataclasses.dataclass(frozen=True)
class Largest(Selector[State]):
    'The clients with the most examples.'

    name: ClassVar[str] = "largest"
    summary: ClassVar[str] = "the clients with the most examples"
    paper: ClassVar[str] = "nobody's"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.NUM_EXAMPLES})
    reverse: bool = False

    def _init(self, num_clients: int) -> State:
        return State(times_selected=np.zeros(num_clients, dtype=np.int64))

    def _select(self, state: State, view: RoundView) -> Draw[State]:
        order = np.argsort(view.num_examples(), kind="stable")
        places = order[: view.cohort_size] if self.reverse else order[::-1][: view.cohort_size]
        return Draw(view.available[places], state)


class NoSelector:
    pass


@dataclasses.dataclass(frozen=True)
class Unfinished(Selector[State]):
    name: ClassVar[str] = "unfinished"


@dataclasses.dataclass(frozen=True)
class Silent(Largest):
    name: ClassVar[str] = "silent"
    summary: ClassVar[str] = None
"""


def install(folder: Path, *entries: str, package: str = "theirs") -> None:
    """Put a package into a folder as pip would."""
    (folder / f"{package}.py").write_text(MODULE)
    metadata = folder / f"{package}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("\n".join(["[fedcbs.selectors]", *entries]) + "\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder that packages are looked for in."""
    monkeypatch.syspath_prepend(str(tmp_path))
    _installed.cache_clear()
    yield tmp_path
    _installed.cache_clear()
    sys.modules.pop("theirs", None)


def test_an_installed_selector_is_one_like_any_other(folder: Path) -> None:
    install(folder, "largest = theirs:Largest")
    assert list(selector_types())[-1] == "largest"
    selector = parse_selector("largest:reverse=true")
    round_ = Round(LabelInformation([[5], [1], [9], [2]]), cohort_size=2)
    assert selector.select(selector.init(4), round_).cohort.tolist() == [1, 3]
    with pytest.raises(UnknownNameError, match="did you mean 'reverse'"):
        make_selector("largest", revers=True)
    with pytest.raises(UnknownNameError, match="did you mean 'largest'"):
        make_selector("largset")


def test_the_command_line_lists_describes_and_runs_it(tmp_path: Path) -> None:
    install(tmp_path, "largest = theirs:Largest")
    path = os.pathsep.join([str(tmp_path), *sys.path])

    def fedcbs(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "fedcbs", *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "PYTHONPATH": path},
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    assert "the clients with the most examples" in fedcbs("selectors")
    assert "reverse=False" in fedcbs("selectors", "largest")
    run = ("--selectors", "largest:reverse=true,uniform", "--rounds", "2", "--seeds", "1", "--json")
    found = json.loads(fedcbs("balance", *run))
    assert list(found["selectors"]) == ["largest:reverse=true", "uniform"]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (["largest = theirs:Nothing"], "'largest' .theirs:Nothing. cannot be loaded: .*repair or uninstall"),
        (["largest = nowhere:Largest"], "cannot be loaded: ModuleNotFoundError"),
        (["largest = theirs:NoSelector"], "is not a selector; it must be a dataclass derived from Selector"),
        (["unfinished = theirs:Unfinished"], "is abstract; it must define _init, _select"),
        (["silent = theirs:Silent"], "has no summary"),
        (["smallest = theirs:Largest"], "calls itself 'largest'; register it under that name"),
        (["uniform = theirs:Largest"], "takes the name 'uniform' of a built-in selector"),
    ],
)
def test_a_broken_one_is_named_and_leaves_the_built_in_ones_alone(
    folder: Path, entries: list[str], message: str
) -> None:
    install(folder, *entries)
    with pytest.raises(BrokenSelectorError, match=message):
        selector_types()
    assert make_selector("uniform").name == "uniform"
    with pytest.raises(InvalidArgumentError, match="sweeps=-1"):
        make_selector("fedcbs-exact", sweeps=-1)


def test_two_packages_cannot_offer_the_same_name(folder: Path) -> None:
    install(folder, "largest = theirs:Largest")
    install(folder, "largest = theirs:Largest", package="others")
    with pytest.raises(BrokenSelectorError, match="the name 'largest' of another installed selector"):
        selector_types()
