"""Three parties as separate processes over files: what the server receives, byte by byte, and what its code can do."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fedcbs.private
from fedcbs.private import SecretKeys
from tests.private.parties import ENCRYPTED, label_counts

SOURCE = Path(fedcbs.private.__file__).parent
CLIENTS = ("ann", "bob", "cleo")
WINDOW = 12


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE.parents[1]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "fedcbs", "private", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def hand_over(source: Path, target: Path) -> None:
    """What one organisation sends to another."""
    if source.is_dir():
        target.mkdir(parents=True)
        for file in source.iterdir():
            hand_over(file, target / file.name)
    else:
        target.write_bytes(source.read_bytes())


@pytest.mark.parametrize("mode", ENCRYPTED)
def test_the_server_receives_nothing_that_it_could_read(mode: str, tmp_path: Path) -> None:
    counts = label_counts(3, 10) + 17  # no counts so small that they occur by chance
    server, selector = tmp_path / "server", tmp_path / "selector"
    server.mkdir()
    selector.mkdir()
    command(selector, "keygen", "--mode", mode, "--classes", "10", "--out", "KEYS")
    hand_over(selector / "KEYS" / "public", server / "public")
    (server / "uploads").mkdir()
    for name, row in zip(CLIENTS, counts, strict=True):
        client = tmp_path / name
        client.mkdir()
        hand_over(server / "public", client / "public")  # the key reaches clients through the server
        np.savetxt(client / "counts.csv", row[None], fmt="%d", delimiter=",")
        encrypt = ["encrypt", "--public", "public", "--counts", "counts.csv", "--client", name]
        command(client, *encrypt, "--out", f"{name}.upload")
        hand_over(client / f"{name}.upload", server / "uploads" / f"{name}.upload")
    gram = ["gram", "--public", "public", "--uploads", "uploads", "--out", "gram.enc", "--processes", "1"]
    if mode == "masked":
        command(server, "seeds", "--uploads", "uploads", "--out", "seeds")
        hand_over(server / "seeds", selector / "seeds")
        masks = ["masks", "--secret", "KEYS/secret", "--uploads", "seeds", "--out", "masks.enc"]
        command(selector, *masks)
        hand_over(selector / "masks.enc", server / "masks.enc")
        gram += ["--masks", "masks.enc"]
    received = {path: path.read_bytes() for path in server.rglob("*") if path.is_file()}
    command(server, *gram)
    hand_over(server / "gram.enc", selector / "gram.enc")
    command(selector, "open", "--secret", "KEYS/secret", "--gram", "gram.enc", "--out", "gram.npz")
    with np.load(selector / "gram.npz") as opened:
        assert np.array_equal(opened["gram"], counts @ counts.T)
        assert opened["clients"].tolist() == list(CLIENTS)
    everything = received | {path: path.read_bytes() for path in server.rglob("*") if path.is_file()}
    for path, content in everything.items():
        for what, pattern in forbidden(selector, counts).items():
            assert pattern not in content, f"{path.relative_to(server)} holds {what}"
        assert not windows(secret_bytes(selector)) & windows(content), (
            f"{path} holds a piece of the secret key"
        )


def secret_bytes(selector: Path) -> bytes:
    return b"".join(SecretKeys.load(selector / "KEYS" / "secret").parts.values())[-65536:]


def windows(content: bytes) -> set[bytes]:
    """All aligned stretches of bytes that are not constant: keys of eight-byte words keep their alignment."""
    found = {
        content[n : n + WINDOW] for n in range(0, len(content) - WINDOW, 1 if len(content) < 4096 else 8)
    }
    return {piece for piece in found if len(set(piece)) > 5}


def forbidden(selector: Path, counts: np.ndarray) -> dict[str, bytes]:
    """Counts and inner products in every form that a program would write."""
    gram = counts @ counts.T
    found = {"the secret key's file": (selector / "KEYS" / "secret" / "key.json").read_bytes()}
    for name, rows in (("counts", counts), ("inner products", gram)):
        for n, row in enumerate(rows):
            some = row[:3]
            found[f"{name} {n} as text"] = ",".join(map(str, some)).encode()
            found[f"{name} {n} as JSON"] = ", ".join(map(str, some)).encode()
            for kind in ("<u2", "<u4", "<i8", ">u4", "<f4", "<f8"):
                found[f"{name} {n} as {kind}"] = some.astype(kind).tobytes()
    return found


SERVER_SIDE = (
    "_fhe_server",
    "_fhe_intake",
    "_fhe_release",
    "_fhe_worker",
    "_fhe_compute",
    "_fhe_plan",
    "_masked_server",
    "_blocks",
    "_workers",
)


@pytest.mark.parametrize("module", SERVER_SIDE)
def test_the_servers_code_can_not_decrypt(module: str) -> None:
    """No module of the server names a secret key, a decryptor, or code that has one."""
    tree = ast.parse((SOURCE / f"{module}.py").read_text(encoding="utf-8"))
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not names & {"SecretKeys", "Decryptor", "from_secret_str", "secret_key", "Opener"}
    assert not {str(name) for name in imported} & {"fedcbs.private._fhe_open", "fedcbs.private._boxes"}


def test_secrets_do_not_show() -> None:
    from fedcbs.private import make_mode

    for name in ENCRYPTED:
        keys = make_mode(name, num_classes=3).keygen()
        for shown in (repr(keys), str(keys.secret), f"{keys.secret!r}"):
            assert "parts" not in shown
            assert len(shown) < 1000
