"""``fedcbs private`` as people and scripts use it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fedcbs.cli import main
from tests.private.parties import MODES, label_counts

COUNTS = label_counts(5, 4)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.savetxt("counts.csv", COUNTS, fmt="%d", delimiter=",")
    return tmp_path


def do(*arguments: str) -> int:
    return main(["private", *arguments])


def upload_all(mode: str) -> None:
    assert do("keygen", "--mode", mode, "--classes", "4", "--out", "KEYS") == 0
    Path("uploads").mkdir()
    for n in range(5):
        encrypt(f"client{n}", n)


def encrypt(name: str, row: int, *more: str) -> None:
    out = f"uploads/{name}.upload"
    arguments = [
        "--public",
        "KEYS/public",
        "--counts",
        "counts.csv",
        "--row",
        str(row),
        "--client",
        name,
        "--out",
        out,
    ]
    assert do("encrypt", *arguments, *more) == 0


def compute(mode: str, *more: str) -> int:
    arguments = ["--public", "KEYS/public", "--uploads", "uploads", "--out", "gram.enc", "--processes", "1"]
    if mode == "masked":
        assert do("seeds", "--uploads", "uploads", "--out", "seeds") in (0, 3)
        assert do("masks", "--secret", "KEYS/secret", "--uploads", "seeds", "--out", "masks.enc") in (0, 3)
        arguments += ["--masks", "masks.enc"]
    return do("gram", *arguments, *more)


@pytest.mark.parametrize("mode", MODES)
def test_all_steps(mode: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    upload_all(mode)
    assert compute(mode) == 0
    assert do("open", "--secret", "KEYS/secret", "--gram", "gram.enc", "--out", "gram.npz") == 0
    with np.load("gram.npz") as found:
        assert np.array_equal(found["gram"], COUNTS @ COUNTS.T)
        assert np.array_equal(found["num_examples"], COUNTS.sum(axis=1))
        assert found["clients"].tolist() == [f"client{n}" for n in range(5)]
    (here / "uploads" / "mallory.upload").write_bytes(b"nothing of use")
    capsys.readouterr()
    assert compute(mode, "--json") == 3
    document = json.loads(capsys.readouterr().out)
    assert list(document["refused"]) == ["mallory"]
    assert document["clients"] == 5


@pytest.mark.usefixtures("here")
def test_masks_from_whole_uploads_work_and_warn(capsys: pytest.CaptureFixture[str]) -> None:
    upload_all("masked")
    capsys.readouterr()
    assert do("masks", "--secret", "KEYS/secret", "--uploads", "uploads", "--out", "masks.enc") == 0
    assert "fedcbs private seeds" in capsys.readouterr().err
    arguments = [
        "--public",
        "KEYS/public",
        "--uploads",
        "uploads",
        "--masks",
        "masks.enc",
        "--out",
        "gram.enc",
    ]
    assert do("gram", *arguments, "--processes", "1") == 0


@pytest.mark.usefixtures("here")
def test_rows() -> None:
    upload_all("fhe")
    server = ["--public", "KEYS/public", "--uploads", "uploads", "--client", "client3", "--client", "client0"]
    assert do("rows", *server, "--out", "rows.enc", "--processes", "1") == 0
    assert do("rows", "--secret", "KEYS/secret", "--rows", "rows.enc", "--out", "rows.npz") == 0
    with np.load("rows.npz") as found:
        assert found["row_clients"].tolist() == ["client3", "client0"]
        assert np.array_equal(found["rows"], COUNTS[[3, 0]] @ COUNTS.T)
        assert np.array_equal(found["diagonal"], (COUNTS**2).sum(axis=1))
    assert do("rows", "--secret", "KEYS/secret", "--out", "rows.npz") == 2


def test_the_order_of_classes_is_hidden_by_a_class_secret(here: Path) -> None:
    assert do("keygen", "--mode", "sealed", "--classes", "4", "--out", "KEYS") == 0
    assert do("class-secret", "--out", "class.secret") == 0
    assert (here / "class.secret").stat().st_mode & 0o077 == 0
    assert do("class-secret", "--out", "class.secret") == 2
    Path("uploads").mkdir()
    for n in range(5):
        encrypt(f"client{n}", n, "--class-secret", "class.secret")
    assert compute("sealed") == 0
    assert do("open", "--secret", "KEYS/secret", "--gram", "gram.enc", "--out", "gram.npz") == 0
    with np.load("gram.npz") as found:
        assert np.array_equal(found["gram"], COUNTS @ COUNTS.T)
        assert sorted(found["label_counts"].T.tolist()) == sorted(COUNTS.T.tolist())


def test_a_substituted_key_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert do("keygen", "--mode", "sealed", "--classes", "4", "--out", "KEYS") == 0
    pin = capsys.readouterr().out.strip()
    assert do("keygen", "--mode", "sealed", "--classes", "4", "--out", "OTHER") == 0
    arguments = [
        "--counts",
        "counts.csv",
        "--row",
        "0",
        "--client",
        "a",
        "--out",
        "a.upload",
        "--fingerprint",
        pin,
    ]
    assert do("encrypt", "--public", "KEYS/public", *arguments) == 0
    (here / "a.upload").unlink()
    assert do("encrypt", "--public", "OTHER/public", *arguments) == 2
    assert "somebody may have put their own key" in capsys.readouterr().err
    assert not (here / "a.upload").exists()


def test_rotation_and_leaving(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    upload_all("fhe")
    assert compute("fhe") == 0
    leave = ["--uploads", "uploads", "--client", "client2", "--state", "gram.enc.state"]
    assert do("remove", *leave) == 0
    assert "blocks that it went into" in capsys.readouterr().err
    assert not (here / "uploads" / "client2.upload").exists()
    assert do("remove", *leave) == 2
    assert do("rotate", "--keys", "KEYS") == 0
    capsys.readouterr()
    assert compute("fhe") == 2
    assert "which is retired; encrypt again" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["keygen", "--mode", "fhee", "--classes", "4", "--out", "K"], "did you mean 'fhe'"),
        (
            ["keygen", "--mode", "fhe", "--classes", "4", "--max-examples", "9999999", "--out", "K"],
            "max_examples=9999999",
        ),
        (["keygen", "--mode", "plain", "--classes", "4", "--out", "KEYS"], "holds keys already"),
        (
            ["encrypt", "--public", "KEYS/public", "--counts", "counts.csv", "--client", "a", "--out", "a"],
            "pick one with --row",
        ),
        (
            [
                "encrypt",
                "--public",
                "KEYS/public",
                "--counts",
                "counts.csv",
                "--row",
                "9",
                "--client",
                "a",
                "--out",
                "a",
            ],
            "rows 0 to 4",
        ),
        (
            ["encrypt", "--public", "nowhere", "--counts", "counts.csv", "--client", "a", "--out", "a"],
            "is no file",
        ),
        (
            ["gram", "--public", "KEYS/public", "--uploads", "empty", "--out", "g"],
            "holds no file NAME.upload",
        ),
        (["gram", "--public", "KEYS/public", "--uploads", "none", "--out", "g"], "is no folder"),
        (["open", "--secret", "KEYS/secret", "--gram", "counts.csv", "--out", "g.npz"], "no gram of fedcbs"),
        (["open", "--secret", "KEYS/secret", "--gram", "counts.csv", "--out", "g.txt"], "must end in .npz"),
        (["masks", "--secret", "KEYS/secret", "--uploads", "uploads", "--out", "m"], "exchanges no masks"),
        (["rotate", "--keys", "nowhere"], "holds no pair of keys"),
    ],
)
def test_wrong_input_gets_one_line(
    arguments: list[str], message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    upload_all("plain")
    Path("empty").mkdir()
    capsys.readouterr()
    before = {path.name for path in here.iterdir()}
    assert do(*arguments) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert message in lines[-1]
    assert lines[-1].startswith("fedcbs: error: ")
    assert {path.name for path in here.iterdir()} == before


def test_the_modes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert do("modes", "--json") == 0
    assert set(json.loads(capsys.readouterr().out)) == set(MODES)
    assert do("modes") == 0
    listed = capsys.readouterr().out
    assert all(mode in listed for mode in MODES)


@pytest.mark.usefixtures("here")
def test_what_cannot_be_opened_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    upload_all("sealed")
    assert compute("sealed") == 0
    Path("short.enc").write_bytes(Path("gram.enc").read_bytes()[:-9])
    capsys.readouterr()
    assert do("open", "--secret", "KEYS/secret", "--gram", "short.enc", "--out", "gram.npz") == 2
    assert capsys.readouterr().err.startswith("fedcbs: error: --gram 'short.enc': ")
    assert not Path("gram.npz").exists()
