"""Hostile uploads: each is refused with a reason that names the client, and the others go on without it."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest

from fedcbs.errors import ProtocolError, UploadError, WrongKeyError
from fedcbs.private import UploadFolder
from fedcbs.private._fhe import Fhe
from fedcbs.private._masked import BOX, Masked
from fedcbs.private._seal import pack_residues
from fedcbs.private._wire import pack
from tests.private.parties import (
    ENCRYPTED,
    MODES,
    Federation,
    federation,
    mode_and_keys,
    payload_of,
    reframed,
)

BAD = "client-002"


def assert_refused(found: Federation, reason: str, *, others: bool = True) -> None:
    """The bad client is refused with the reason; all others are there, and exact."""
    gone = [n for n, name in enumerate(found.names) if name == BAD]
    opened = found.opened()
    assert reason in opened.refused[BAD]
    if others:
        rest = np.delete(found.counts, gone, axis=0)
        assert opened.clients == tuple(name for name in found.names if name != BAD)
        assert np.array_equal(opened.gram, rest @ rest.T)


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda upload: upload[:-40], "cut short"),
        (lambda upload: upload[:20], "cut short"),
        (lambda _: b"", "cut short"),
        (lambda upload: upload + b"more", "cut short or padded"),
        (lambda upload: upload[:60] + bytes([upload[60] ^ 1]) + upload[61:], ""),
        (lambda upload: upload[:-50] + bytes([upload[-50] ^ 1]) + upload[-49:], "damaged on the way"),
        (lambda upload: reframed(upload, payload=payload_of(upload)[:-1]), "bytes"),
        (lambda upload: reframed(upload, payload=payload_of(upload) * 2), "bytes"),
        (lambda upload: reframed(upload, mode="other"), "of mode 'other'"),
        (lambda upload: reframed(upload, fingerprint="0" * 64), "made for the key 000"),
        (lambda upload: reframed(upload, client="somebody"), "made by client 'somebody'"),
        (lambda upload: reframed(upload, client=["client-002"]), "made by client"),
        (lambda _: pack("gram", {}, b"x"), "no upload but a 'gram'"),
        (lambda upload: upload.replace(b"fedcbs-private\0\1", b"fedcbs-private\0\2"), "no upload of fedcbs"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bytes_that_are_no_upload(name: str, spoil: Callable[[bytes], bytes], reason: str) -> None:
    found = federation(name)
    found.uploads[BAD] = spoil(found.uploads[BAD])
    assert_refused(found, reason)
    with pytest.raises(UploadError, match=BAD):
        found.mode.check(found.keys.public, found.uploads[BAD], BAD)


@pytest.mark.parametrize("name", MODES)
def test_another_clients_upload_under_ones_own_name(name: str) -> None:
    found = federation(name)
    found.uploads[BAD] = found.uploads["client-001"]
    assert_refused(found, "it was made by client 'client-001'")


@pytest.mark.parametrize("name", ["sealed", "masked"])
def test_another_clients_box_in_ones_own_frame_is_found_by_what_is_in_the_box(name: str) -> None:
    """The name outside can be forged, the one inside cannot."""
    found = federation(name)
    stolen = payload_of(found.uploads.pop("client-001"))  # the owner's own upload never arrived
    found.counts = np.delete(found.counts, 1, axis=0)
    found.uploads[BAD] = reframed(found.uploads[BAD], payload=stolen)
    assert_refused(found, "sealed by another client")


@pytest.mark.parametrize("name", ENCRYPTED)
def test_of_a_copy_and_its_original_nobody_can_tell_which_is_which(name: str) -> None:
    found = federation(name)
    found.uploads[BAD] = reframed(found.uploads[BAD], payload=payload_of(found.uploads["client-001"]))
    opened = found.opened()
    assert "the same bytes as that of client 'client-001'" in opened.refused[BAD]
    assert "the same bytes as that of client 'client-002'" in opened.refused["client-001"]
    assert len(opened.clients) == 4


@pytest.mark.parametrize("name", MODES)
def test_an_upload_of_other_keys(name: str) -> None:
    found = federation(name)
    mode, keys = mode_and_keys(name, 4, 1000)
    found.uploads[BAD] = mode.encrypt(keys.public, [1, 1, 1, 1], BAD)
    assert_refused(found, "made for the key")


def test_an_upload_of_another_mode() -> None:
    found = federation("fhe")
    found.uploads[BAD] = federation("masked").uploads[BAD]
    assert_refused(found, "of mode 'masked'")


def test_a_plain_upload_with_impossible_counts() -> None:
    found = federation("plain")
    for counts in ([-1, 2, 2, 2], [70000, 0, 0, 0], [2**62, 2**62, 2**62, 2**62]):
        found.uploads[BAD] = reframed(found.uploads[BAD], payload=np.array(counts, "<i8").tobytes())
        assert_refused(found, "counts are negative")


# Ciphertexts that are well formed and hostile.


def encrypted(found: Federation, coefficients: dict[int, int]) -> bytes:
    """An upload of any polynomial at all, as a client that writes its own software would make it."""
    assert isinstance(found.mode, Fhe)
    ring, values = found.mode._ring, np.zeros(8192, np.uint64)
    for place, value in coefficients.items():
        values[place] = value % ring.plain
    ciphertext = found.mode._encryptor(found.keys.public).encrypt(ring.plaintext(values))
    payload = pack_residues(ring.split(ciphertext)[1], found.mode.sizes.data_primes)
    return reframed(found.uploads[BAD], payload=payload)


def test_a_transparent_ciphertext() -> None:
    found = federation("fhe")
    payload = bytearray(payload_of(found.uploads[BAD]))
    payload[len(payload) // 2 :] = bytes(len(payload) // 2)
    found.uploads[BAD] = reframed(found.uploads[BAD], payload=bytes(payload))
    assert_refused(found, "transparent")


def test_residues_beyond_their_modulus() -> None:
    found = federation("fhe")
    payload = b"\xff" * len(payload_of(found.uploads[BAD]))
    found.uploads[BAD] = reframed(found.uploads[BAD], payload=payload)
    assert_refused(found, "outside the range")
    with pytest.raises(UploadError, match="outside the range"):
        found.mode.check(found.keys.public, found.uploads[BAD], BAD)


@pytest.mark.parametrize("place", [4, 5, 64, 300, 4096, 8191])
def test_writing_outside_ones_own_coefficients(place: int) -> None:
    """It would add counts to a neighbour: the writer is named, and its neighbours wait until it is gone."""
    found = federation("fhe")
    assert isinstance(found.mode, Fhe)
    assert place not in found.mode.sizes.own
    own = dict(zip(found.mode.sizes.own.tolist(), found.counts[2].tolist(), strict=True))
    found.uploads[BAD] = encrypted(found, own | {place: 500})
    assert_refused(found, "wrote outside its own coefficients", others=False)
    refused = found.opened().refused
    assert all("shares ciphertexts with 'client-002'" in refused[name] for name in refused if name != BAD)
    del found.uploads[BAD]
    found.counts = np.delete(found.counts, 2, axis=0)
    opened = found.opened()
    assert not opened.refused
    assert np.array_equal(opened.gram, found.counts @ found.counts.T)


def test_two_writers_are_both_named() -> None:
    found = federation("fhe", 70, 10)
    for name in (BAD, "client-050"):
        found.uploads[name] = reframed(encrypted(found, {4000: 3}), client=name)
    refused = found.opened().refused
    assert {name for name, why in refused.items() if "wrote outside" in why} == {BAD, "client-050"}
    assert len(refused) < 60


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        ([70000, 0, 0, 0], "claims 70000 examples; the cap is 65535"),
        ([-5, 100, 100, 0], "with others are impossible"),
        ([-50, 60, 0, 0], "inner product with itself"),
        ([2**32, 1, 1, 1], "claims"),
    ],
)
@pytest.mark.parametrize("name", ["masked", "fhe"])
def test_impossible_counts_under_encryption_are_found_by_the_selector(
    name: str, counts: list[int], reason: str
) -> None:
    found = federation(name)
    for n in (3, 4):  # whom a negative count of the first class shows itself to
        found.counts = found.counts.copy()
        found.counts[n] = [50, 0, 0, 0]
        found.uploads[f"client-00{n}"] = found.encrypt(found.counts[n], f"client-00{n}")
    if isinstance(found.mode, Fhe):
        places = found.mode.sizes.own.tolist()
        found.uploads[BAD] = encrypted(found, dict(zip(places, counts, strict=True)))
    else:
        added = np.array(counts) - found.counts[2]
        payload = payload_of(found.uploads[BAD])
        share = np.frombuffer(payload[:-BOX], "<u4") + added.astype(np.int64).astype("<u4")
        found.uploads[BAD] = reframed(
            found.uploads[BAD], payload=share.astype("<u4").tobytes() + payload[-BOX:]
        )
    if name == "masked" and counts[0] == 2**32:  # it is 0 modulo 2**32: a client like any other
        assert found.opened().refused == {}
        return
    assert_refused(found, reason)


def test_a_seed_that_was_changed_after_the_masks_were_made() -> None:
    found = federation("masked")
    masks = found.masks()
    found.uploads[BAD] = found.encrypt([1, 2, 3, 4], BAD)
    late = found.encrypt([1, 1, 1, 1], "late")
    gram = found.mode.gram(found.keys.public, found.uploads | {"late": late}, masks)
    refused = found.mode.open(found.keys.secret, gram).refused
    assert "changed after" in refused[BAD]
    assert "came after" in refused["late"]


def test_masks_that_the_server_can_not_use() -> None:
    found = federation("masked")
    masks = found.masks()
    assert masks is not None
    for bad in (b"", masks[:-1], masks[:200], pack("masks", {}, b"[]", b"")):
        with pytest.raises(ProtocolError):
            found.mode.gram(found.keys.public, found.uploads, bad)
    mode, keys = mode_and_keys("masked", 4, 1000)
    uploads = {"a": mode.encrypt(keys.public, [1, 1, 1, 1], "a")}
    other = mode.masks(keys.secret, uploads)
    with pytest.raises(WrongKeyError):
        found.mode.gram(found.keys.public, found.uploads, other)


def test_seeds_that_the_selector_cannot_open() -> None:
    found = federation("masked")
    assert isinstance(found.mode, Masked)
    seeds = {name: found.mode.seed(upload) for name, upload in found.uploads.items()}
    seeds[BAD] = seeds["client-001"]
    masks = found.mode.masks(found.keys.secret, seeds)
    assert "made by client 'client-001'" in found.mode.refused_seeds(masks)[BAD]
    gram = found.mode.gram(found.keys.public, found.uploads, masks)
    assert "the selector says" in found.mode.open(found.keys.secret, gram).refused[BAD]


# Files.


def test_files_that_are_no_plain_files_or_are_too_large(tmp_path) -> None:
    found = federation("plain")
    for name, upload in found.uploads.items():
        (tmp_path / f"{name}.upload").write_bytes(upload)
    (tmp_path / "notes.txt").write_text("left alone")
    os.mkfifo(tmp_path / "fifo.upload")
    with (tmp_path / "huge.upload").open("wb") as file:
        file.truncate(1 << 40)
    (tmp_path / "folder.upload").mkdir()
    (tmp_path / "gone.upload").symlink_to(tmp_path / "nowhere")
    gram = found.mode.gram(found.keys.public, UploadFolder(tmp_path))
    opened = found.mode.open(found.keys.secret, gram)
    assert set(opened.refused) == {"fifo", "huge", "folder", "gone"}
    assert np.array_equal(opened.gram, found.counts @ found.counts.T)


# What the server sends may be hostile too.


@pytest.mark.parametrize("name", MODES)
def test_a_result_that_was_tampered_with(name: str) -> None:
    found = federation(name)
    gram = found.mode.gram(found.keys.public, found.uploads, found.masks())
    for bad in (b"", gram[:-1], gram[:100], gram + b"x", gram[:80] + b"\xff" + gram[81:]):
        with pytest.raises(ProtocolError):
            found.mode.open(found.keys.secret, bad)
