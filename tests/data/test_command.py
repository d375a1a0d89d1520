"""What ``fedcbs data`` prints, and the figure that it draws."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fedcbs.cli import main
from fedcbs.data import known_datasets, load_dataset, split
from fedcbs.errors import InvalidArgumentError
from tests.data.writers import write_leaf, write_mnist


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["data", *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_the_list_has_every_dataset_and_where_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_mnist(tmp_path / "mnist")
    text = printed(capsys, "list", "--data-dir", str(tmp_path))
    rows = {line.split()[0]: line for line in text.splitlines()}
    assert set(known_datasets()) < set(rows)
    assert str(tmp_path / "mnist") in rows["mnist"]
    assert "fedcbs data get cifar10" in rows["cifar10"]
    found = json.loads(printed(capsys, "list", "--data-dir", str(tmp_path), "--json"))["datasets"]
    assert found["mnist"]["found"] == str(tmp_path / "mnist")
    assert (found["cifar10"]["found"], found["cifar10"]["examples"]) == (None, 60_000)


def test_a_dataset_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "describe", "digits")
    assert "1,438 examples to train on, 359 to test on; 10 classes; 1 x 8 x 8 float32" in text
    assert len(text.splitlines()) == 3 + 1 + 10


def test_label_counts_are_those_of_the_split(capsys: pytest.CaptureFixture[str]) -> None:
    options = (
        "describe",
        "digits",
        "--partition",
        "dirichlet-hsu",
        "--alpha",
        "0.2",
        "--clients",
        "20",
        "--seed",
        "3",
    )
    found = json.loads(printed(capsys, *options, "--json"))
    dataset = load_dataset("digits")
    counts = split(dataset, "dirichlet-hsu", alpha=0.2, num_clients=20, seed=3).label_counts(
        dataset.train.labels, 10
    )
    assert found["partition"]["label_counts"] == counts.tolist()
    assert found["dataset"]["train"]["label_counts"] == np.bincount(dataset.train.labels).tolist()
    text = printed(capsys, *options, "--show", "2")
    assert "dirichlet-hsu, alpha 0.2: 20 clients" in text
    assert [line.split()[1:11] for line in text.splitlines()[-3:-1]] == counts[:2].astype(str).tolist()


def test_owners_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_leaf(tmp_path)
    options = ("describe", "femnist", "--data-dir", str(tmp_path), "--partition", "owner")
    text = printed(capsys, *options)
    assert "6 owners; 5 to 7 (median 6) examples each" in text
    assert "0 f0_0" in text
    assert json.loads(printed(capsys, *options, "--json"))["partition"]["owners"][0] == "f0_0"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("describe", "digitts"), "did you mean 'digits'"),
        (("describe", "digits", "--clients", "4"), "say --partition too"),
        (("describe", "digits", "--plot", "a.png"), "say --partition too"),
        (("describe", "digits", "--partition", "iid", "--clients", "2000"), "lower it to 1438"),
        (
            ("describe", "digits", "--partition", "iid", "--clients", "2", "--plot", "a.gif"),
            "must end in .png",
        ),
        (("describe", "cifar10"), "fedcbs data get cifar10"),
        (("get", "mnits"), "did you mean 'mnist'"),
        (("get", "folder:photos"), "is nothing to download"),
        (("list", "--data-dir", "nowhere"), "is no folder"),
        ((), "required: COMMAND"),
    ],
)
def test_mistakes_are_told_in_a_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], reason: str
) -> None:
    assert main(["data", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), reason in err) == ("", 1, True), err


class TestFigure:
    """Stacked bars for few clients, a map for many."""

    @pytest.fixture(autouse=True)
    def _matplotlib(self) -> None:
        pytest.importorskip("matplotlib")

    def test_bars_are_as_high_as_the_counts(self) -> None:
        from fedcbs.plotting import figure_of_label_counts

        counts = np.array([[3, 0, 2], [1, 4, 0]])
        main_axes, side = figure_of_label_counts(counts, class_names=["a", "b", "c"]).axes
        heights = [[patch.get_height() for patch in bars] for bars in main_axes.containers]  # type: ignore[attr-defined]
        assert np.array(heights).T.tolist() == counts.tolist()
        assert [patch.get_width() for patch in side.patches] == [4, 4, 2]  # type: ignore[attr-defined]
        assert [label.get_text() for label in side.get_yticklabels()] == ["a", "b", "c"]

    @pytest.mark.parametrize(("clients", "classes"), [(200, 10), (30, 62), (5000, 3), (1, 1)])
    def test_many_clients_or_classes_are_a_map_of_the_counts(self, clients: int, classes: int) -> None:
        from fedcbs.plotting import figure_of_label_counts

        counts = np.random.default_rng(0).integers(0, 9, (clients, classes))
        axes = figure_of_label_counts(counts).axes[0]
        if clients == 1:
            assert not axes.images
            return
        shown = np.ma.filled(axes.images[0].get_array(), 0)  # type: ignore[no-untyped-call]
        assert shown.shape[0] == classes
        assert shown.shape[1] <= 1500
        if clients <= 1500:
            assert np.array_equal(shown, counts.T)

    def test_the_command_writes_it_and_says_so(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "clients.png"
        assert (
            main(
                [
                    "data",
                    "describe",
                    "digits",
                    "--partition",
                    "classes:2",
                    "--clients",
                    "30",
                    "--plot",
                    str(path),
                ]
            )
            == 0
        )
        assert capsys.readouterr().err == f"figure: {path}\n"
        assert path.read_bytes().startswith(b"\x89PNG")

    @pytest.mark.parametrize(
        ("counts", "names", "reason"),
        [
            (np.zeros((0, 3), int), (), "no clients"),
            (np.ones((2, 3), int), ("a",), "class_names has 1"),
            ([1], (), "dimension"),
        ],
    )
    def test_what_cannot_be_drawn_is_refused(
        self, counts: object, names: tuple[str, ...], reason: str
    ) -> None:
        from fedcbs.plotting import figure_of_label_counts

        with pytest.raises(InvalidArgumentError, match=reason):
            figure_of_label_counts(counts, class_names=names)  # type: ignore[arg-type]
