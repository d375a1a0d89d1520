from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedcbs.cli import main
from fedcbs.private import Accountant, OpenedGram

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.savetxt("counts.csv", np.full((1, 40), 100), fmt="%d", delimiter=",")
    assert (
        main(
            [
                "private",
                "keygen",
                "--mode",
                "sealed",
                "--classes",
                "40",
                "--max-examples",
                "4100",
                "--out",
                "K",
            ]
        )
        == 0
    )
    Path("up").mkdir()
    return tmp_path


def encrypt(*options: str) -> int:
    arguments = ["--public", "K/public", "--counts", "counts.csv", "--client", "a", "--out", "up/a.upload"]
    return main(["private", "encrypt", *arguments, *options])


def opened() -> np.ndarray:
    arguments = ["--public", "K/public", "--uploads", "up", "--out", "gram.enc"]
    assert main(["private", "gram", *arguments, "--quiet"]) == 0
    assert main(["private", "open", "--secret", "K/secret", "--gram", "gram.enc", "--out", "gram.npz"]) == 0
    counts = OpenedGram.load("gram.npz").label_counts
    assert counts is not None
    return counts


def test_what_is_encrypted_is_noised(capsys: pytest.CaptureFixture[str]) -> None:
    assert encrypt() == 0
    assert (opened() == 100).all()
    assert encrypt("--noise", "laplace:epsilon=0.2") == 0
    assert "an average takes it off" in capsys.readouterr().err
    first = opened()
    assert (first != 100).any()
    assert abs(first.mean() - 100) < 10
    assert encrypt("--noise", "laplace:epsilon=0.2") == 0
    assert not np.array_equal(opened(), first)


def test_noise_never_claims_more_than_the_cap() -> None:
    for _ in range(5):
        assert encrypt("--noise", "laplace:epsilon=0.01") == 0
        assert opened().sum() <= 4100


def test_an_account_refuses_when_it_is_spent(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--noise", "laplace:epsilon=0.5", "--account", "a.json")
    assert encrypt(*options) == 2
    assert "--budget" in capsys.readouterr().err
    assert encrypt(*options, "--budget", "1") == 0
    assert "0.5 of 1" in capsys.readouterr().err
    assert encrypt(*options, "--budget", "2") == 2
    assert "which is 1,0" in capsys.readouterr().err
    assert encrypt(*options) == 0
    before = Path("up/a.upload").read_bytes()
    assert encrypt(*options) == 2
    assert "budget of 1.0" in capsys.readouterr().err
    assert Path("up/a.upload").read_bytes() == before
    assert Accountant.load("a.json").uses == 2


@pytest.mark.parametrize(
    "options",
    [
        ("--account", "a.json"),
        ("--budget", "1"),
        ("--noise", "laplace:epsilon=1", "--budget", "1"),
        ("--noise", "gaussian:rho=1", "--account", "a.json", "--budget", "5"),
        ("--noise", "nothing", "--account", "a.json", "--budget", "5"),
    ],
)
def test_mistakes_write_nothing(options: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert encrypt(*options) == 2
    assert "fedcbs: error:" in capsys.readouterr().err
    assert list(Path("up").iterdir()) == []
    assert not Path("a.json").exists()
