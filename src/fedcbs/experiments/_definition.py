"""Experiments as they are declared: one short TOML file each."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

from fedcbs import _checks
from fedcbs._files import existing_file
from fedcbs.errors import InvalidArgumentError, UnknownNameError

__all__ = ["SCALES", "Expectation", "Experiment", "Method", "Scale", "Setting", "read_definition"]

SCALES = ("smoke", "laptop", "paper")
"""Sizes of an experiment: seconds, a night on two cores for all of them together, and what the paper did."""

_KEYS = (
    "axis", "config", "cost", "expect", "extends", "figure", "kind", "measures", "methods", "numbers", "paper", "remark",
    "rule", "scales", "settings", "title",
)  # fmt: skip


@final
@dataclasses.dataclass(frozen=True)
class Setting:
    """One row of a table: a dataset that is split in some way, and a target.

    Parameters
    ----------
    name, title
        What it is called in files, and in tables.
    config
        Options by dotted key.
    target
        Accuracy for rounds to a target; None where there is none.
    x
        Its place on the axis of a figure over settings.
    numbers
        Name of the setting whose printed numbers it is compared with; its own by default.
    """

    name: str
    title: str
    config: Mapping[str, Any]
    target: float | None = None
    x: float | None = None
    numbers: str = ""


@final
@dataclasses.dataclass(frozen=True)
class Method:
    """One column of a table.

    Parameters
    ----------
    name
        What it is called here; a selector with its options, where `config` does not say otherwise.
    title
        What tables call it.
    config
        Options by dotted key.
    paper
        What the paper calls it; empty where the paper does not have it.
    """

    name: str
    title: str
    config: Mapping[str, Any]
    paper: str = ""


@final
@dataclasses.dataclass(frozen=True)
class Scale:
    """How much of an experiment is run.

    Parameters
    ----------
    name
        One of :data:`SCALES`.
    rounds, seeds
        Of each run, and how many runs of each method.
    settings, methods
        Names of those that are run; all where none are given.
    config
        Options that replace the experiment's own.
    seeds_of
        Seeds of methods that have others.
    stop_at_target
        Whether a run ends when it has reached its setting's target.
    """

    name: str
    rounds: int
    seeds: int
    settings: Sequence[str] = ()
    methods: Sequence[str] = ()
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    seeds_of: Mapping[str, int] = dataclasses.field(default_factory=dict)
    stop_at_target: bool = False


@final
@dataclasses.dataclass(frozen=True)
class Expectation:
    """An order that is to hold beside that of the paper's numbers: `better` before `worse`."""

    measure: str
    better: str
    worse: str
    setting: str


@final
@dataclasses.dataclass(frozen=True)
class Experiment:
    """A table or a figure.

    Parameters
    ----------
    name, title, paper, remark
        What it is called, what it shows, where the paper has it, and what a reader should know.
    kind
        ``training``, ``labels``, or a kind of its own.
    runs
        Name of the folder of its runs; two experiments that look at the same runs share it.
    measures
        What is measured; one table each.
    numbers
        For measures, the table of the paper's numbers.
    settings, methods, scales
        What is run.
    config
        Options of all runs, by dotted key.
    cost
        Core seconds of a round, and of one client's training in it; of what has no runs, by the name of a scale.
    expect
        Orders that are to hold, besides those of the paper's numbers.
    figure, axis, rule
        What is drawn: ``curves``, ``over-settings`` (with a name of the axis, and perhaps a line) or ``costs``.
    """

    name: str
    title: str
    paper: str
    remark: str
    kind: str
    runs: str
    measures: Sequence[str]
    numbers: Mapping[str, str]
    settings: Sequence[Setting]
    methods: Sequence[Method]
    scales: Mapping[str, Scale]
    config: Mapping[str, Any]
    cost: Mapping[str, float]
    expect: Sequence[Expectation]
    figure: str = "curves"
    axis: str = ""
    rule: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def scale(self, name: str) -> Scale:
        """Return one of its scales.

        Parameters
        ----------
        name
            One of :data:`SCALES`.
        """
        if name not in self.scales:
            raise UnknownNameError("scale", name, self.scales)
        return self.scales[name]

    def settings_at(self, scale: Scale) -> list[Setting]:
        """Return the settings that are run at a scale."""
        return [setting for setting in self.settings if not scale.settings or setting.name in scale.settings]

    def methods_at(self, scale: Scale) -> list[Method]:
        """Return the methods that are run at a scale."""
        return [method for method in self.methods if not scale.methods or method.name in scale.methods]


def read_definition(path: Path, paper_names: Mapping[str, str], folder: Path) -> Experiment:
    """Read a definition.

    Parameters
    ----------
    path
        The file.
    paper_names
        What the paper calls selectors.
    folder
        Where definitions that this one extends are.
    """
    document = _document(path, folder)
    for key in document:
        if key not in _KEYS:
            raise UnknownNameError(f"key of {path.name}", key, _KEYS)
    try:
        return _experiment(path, document, paper_names)
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidArgumentError(
            f"experiment={str(path)!r} is not declared as it should be: {error!r}"
        ) from None


def _document(path: Path, folder: Path) -> dict[str, Any]:
    """A definition's tables, on top of those of the one that it extends."""
    file = existing_file(path, "experiment")
    try:
        own = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(
            f"experiment={str(path)!r} is no TOML file that can be read: {error}"
        ) from None
    parent = own.get("extends")
    return {**_document(folder / f"{parent}.toml", folder), **own} if parent else own


def _experiment(path: Path, document: Mapping[str, Any], paper_names: Mapping[str, str]) -> Experiment:
    here = str(path.parent.resolve())
    settings = [_setting(table, here) for table in document.get("settings", [])]
    methods = [_method(entry, paper_names) for entry in document.get("methods", [])]
    scales = {name: _scale(name, table) for name, table in document["scales"].items()}
    expect = [Expectation(*entry) for entry in document.get("expect", [])]
    found = Experiment(
        name=path.stem,
        title=document["title"],
        paper=document["paper"],
        remark=document.get("remark", ""),
        kind=document.get("kind", "training"),
        runs=document.get("extends", path.stem),
        measures=document.get("measures", []),
        numbers=document.get("numbers", {}),
        settings=settings,
        methods=methods,
        scales=scales,
        config=dotted(document.get("config", {})),
        cost=document.get("cost", {"client": 0.0, "round": 0.0}),
        expect=expect,
        figure=document.get("figure", "curves"),
        axis=document.get("axis", ""),
        rule=document.get("rule", {}),
    )
    _check(found)
    return found


def _check(found: Experiment) -> None:
    settings = [setting.name for setting in found.settings]
    methods = [method.name for method in found.methods]
    for what, names in (("setting", settings), ("method", methods)):
        if len(set(names)) < len(names):
            raise InvalidArgumentError(f"experiment {found.name!r} names a {what} twice; name each once")
    for scale in found.scales.values():
        _known("scale", [scale.name], SCALES)
        _known(f"setting of scale {scale.name}", scale.settings, settings)
        _known(f"method of scale {scale.name}", [*scale.methods, *scale.seeds_of], methods)
    for order in found.expect:
        _known("method of expect", [order.better, order.worse], methods)
        _known("setting of expect", [order.setting], [*settings, "all settings"])


def _known(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise UnknownNameError(what, name, known)


def _setting(table: Mapping[str, Any], here: str) -> Setting:
    config = {
        key: value.replace("{here}", here) if isinstance(value, str) else value
        for key, value in dotted(table.get("config", {})).items()
    }
    return Setting(
        name=table["name"],
        title=table.get("title", table["name"]),
        config=config,
        target=table.get("target"),
        x=table.get("x"),
        numbers=table.get("numbers", table["name"]),
    )


def _method(entry: Any, paper_names: Mapping[str, str]) -> Method:
    if isinstance(entry, str):
        return Method(entry, entry, {"selector.name": entry}, paper_names.get(entry, ""))
    name = entry["name"]
    config = dotted(entry.get("config", {}))
    paper = entry.get("paper", paper_names.get(name, "") if not config else "")
    return Method(name, entry.get("title", name), config or {"selector.name": name}, paper)


def _scale(name: str, table: Mapping[str, Any]) -> Scale:
    return Scale(
        name=name,
        rounds=_checks.integer(table["rounds"], f"scales.{name}.rounds", minimum=1),
        seeds=_checks.integer(table["seeds"], f"scales.{name}.seeds", minimum=1),
        settings=tuple(table.get("settings", ())),
        methods=tuple(table.get("methods", ())),
        config=dotted(table.get("config", {})),
        seeds_of=table.get("seeds_of", {}),
        stop_at_target=bool(table.get("stop_at_target", False)),
    )


def dotted(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested tables by dotted key.

    >>> dotted({"model": {"name": "mlp"}})
    {'model.name': 'mlp'}
    """
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and name != "model.options":
            found |= dotted(value, f"{name}.")
        else:
            found[name] = value
    return found
