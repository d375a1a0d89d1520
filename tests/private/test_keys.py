"""Keys: pinned, private, replaced, and never believed without a look."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from fedcbs.errors import FedCBSError, InvalidArgumentError, ProtocolError, WrongKeyError
from fedcbs.private import Keys, PublicKeys, SecretKeys, make_mode, mode_of, rotate
from tests.private.parties import MODES, mode_and_keys


def saved(tmp_path: Path, name: str = "sealed") -> tuple[Keys, Path]:
    _, keys = mode_and_keys(name, 4)
    keys.save(tmp_path / "KEYS")
    return keys, tmp_path / "KEYS"


@pytest.mark.parametrize("name", MODES)
def test_keys_are_the_same_after_a_file(name: str, tmp_path: Path) -> None:
    keys, folder = saved(tmp_path, name)
    public, secret = PublicKeys.load(folder / "public"), SecretKeys.load(folder / "secret")
    assert public.fingerprint == keys.public.fingerprint == secret.fingerprint
    assert dict(public.parts) == dict(keys.public.parts)
    assert dict(secret.parts) == dict(keys.secret.parts)


def test_secret_files_are_their_owners_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        _, folder = saved(tmp_path)
    finally:
        os.umask(old)
    assert stat.S_IMODE((folder / "secret").stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in (folder / "secret").iterdir()} == {0o600}
    assert SecretKeys.exposed(folder / "secret") == []
    (folder / "secret" / "box.bin").chmod(0o644)
    assert SecretKeys.exposed(folder / "secret") == [str(folder / "secret" / "box.bin")]


def test_a_pinned_fingerprint_keeps_a_substituted_key_out(tmp_path: Path) -> None:
    keys, folder = saved(tmp_path)
    pin = keys.public.fingerprint
    PublicKeys.load(folder / "public", fingerprint=pin)
    PublicKeys.load(folder / "public", fingerprint=pin[:16].upper())
    substitute = make_mode("sealed", num_classes=4).keygen()
    substitute.save(tmp_path / "other")
    with pytest.raises(WrongKeyError, match="somebody may have put their own key"):
        PublicKeys.load(tmp_path / "other" / "public", fingerprint=pin)
    for bad in ("", "abc", pin[:15], "x" * 64):
        with pytest.raises(InvalidArgumentError, match="16 hexadecimal"):
            PublicKeys.load(folder / "public", fingerprint=bad)


def test_a_part_that_was_exchanged_is_found(tmp_path: Path) -> None:
    _, folder = saved(tmp_path)
    (folder / "public" / "box.bin").write_bytes(bytes(32))
    public = PublicKeys.load(folder / "public")
    with pytest.raises(WrongKeyError, match="is not the part"):
        mode_of(public).encrypt(public, [1, 1, 1, 1], "a")


@pytest.mark.parametrize(
    "change",
    [
        {"format": 99},
        {"mode": "other"},
        {"mode": 3},
        {"parameters": {"num_classes": 4, "max_examples": 1}},
        {"parameters": {"num_classes": "4"}},
        {"parts": {"../../box": "0" * 64}},
        {"parts": {"box": "short"}},
        {"parts": []},
    ],
)
def test_a_changed_description_is_refused(change: dict[str, object], tmp_path: Path) -> None:
    _, folder = saved(tmp_path)
    file = folder / "public" / "key.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(FedCBSError):
        mode_of(PublicKeys.load(folder / "public"))


def test_hostile_parameters_are_bounded() -> None:
    for parameters in (
        {"num_classes": 10**9, "max_examples": 5},
        {"num_classes": 5},
        {"num_classes": 5, "max_examples": 10**12},
    ):
        with pytest.raises(FedCBSError):
            mode_of(PublicKeys("fhe", parameters, {}))
    with pytest.raises(WrongKeyError):
        mode_of(PublicKeys("plain", {"num_classes": 5, "max_examples": 7, "more": 1}, {}))


def test_descriptions_that_are_none(tmp_path: Path) -> None:
    folder = tmp_path / "public"
    folder.mkdir()
    with pytest.raises(InvalidArgumentError, match="no file"):
        PublicKeys.load(folder)
    for text in ("", "[]", "{", "[" * 10_000, "{}"):
        (folder / "key.json").write_text(text)
        with pytest.raises(ProtocolError):
            PublicKeys.load(folder)


def test_keys_are_not_written_over_others(tmp_path: Path) -> None:
    keys, folder = saved(tmp_path)
    with pytest.raises(InvalidArgumentError, match="holds keys already"):
        keys.save(folder)


@pytest.mark.parametrize("name", ["sealed", "fhe"])
def test_rotation_puts_the_old_pair_away_and_refuses_it(name: str, tmp_path: Path) -> None:
    keys, folder = saved(tmp_path, name)
    mode = mode_of(keys.public)
    old = mode.encrypt(keys.public, [1, 2, 3, 4], "a")
    public, away = rotate(folder)
    assert public.fingerprint != keys.public.fingerprint
    assert SecretKeys.load(folder / "secret").fingerprint == public.fingerprint
    assert SecretKeys.load(away / "secret").fingerprint == keys.public.fingerprint
    assert stat.S_IMODE((folder / "secret").stat().st_mode) == 0o700
    with pytest.raises(FedCBSError, match="which is retired; encrypt again"):
        mode.check(public, old, "a")
    twice, _ = rotate(folder)
    assert len(twice.retired) == 2
    assert not (folder / "next").exists()


@pytest.mark.parametrize("moved", [0, 1, 2, 3])
def test_a_rotation_that_was_interrupted_is_finished(
    moved: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, folder = saved(tmp_path)
    rename, done = Path.rename, []

    def failing(path: Path, target: Path) -> Path:
        if len(done) == moved:
            raise OSError("the power is gone")
        done.append(path)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="power"):
        rotate(folder)
    monkeypatch.undo()
    public, away = rotate(folder)
    assert public.retired == (keys.public.fingerprint,)
    assert SecretKeys.load(folder / "secret").fingerprint == public.fingerprint
    assert SecretKeys.load(away / "secret").fingerprint == keys.public.fingerprint


def test_there_must_be_keys_to_rotate(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="holds no pair of keys"):
        rotate(tmp_path)


def test_public_keys_in_place_of_the_secret_ones_are_refused(tmp_path: Path) -> None:
    _, folder = saved(tmp_path)
    with pytest.raises(WrongKeyError, match="holds the public keys"):
        SecretKeys.load(folder / "public")
