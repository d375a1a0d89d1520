"""Every mode gives the same inner products, bit for bit, and so the same cohorts."""

from __future__ import annotations

import numpy as np
import pytest

from fedcbs.errors import InvalidArgumentError, ProtocolError, UnknownNameError, WrongKeyError
from fedcbs.private import OpenedGram, _masked_parameters, _sealed, known_modes, make_mode, mode_of
from fedcbs.private._masked import Masked
from fedcbs.selectors import LabelInformation, Round, make_selector
from tests.private.parties import MODES, Federation, federation, label_counts, mode_and_keys


@pytest.mark.parametrize("name", MODES)
def test_two_hundred_clients_are_exact(name: str) -> None:
    found = federation(name, 200, 10)
    opened = found.opened()
    assert opened.clients == tuple(found.names)
    assert np.array_equal(opened.gram, found.counts @ found.counts.T)
    assert np.array_equal(opened.num_examples, found.counts.sum(axis=1))
    assert not opened.refused
    selector = make_selector("fedcbs-exact")
    cohorts = [
        selector.select(selector.init(200), Round(source, cohort_size=10, seed=5)).cohort.tolist()
        for source in (LabelInformation(found.counts), opened.information())
    ]
    assert cohorts[0] == cohorts[1]


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize(("num_classes", "max_examples"), [(1, 100), (3, 1000), (7, 8191), (5, 2**18 - 1)])
def test_other_numbers_of_classes_and_caps(name: str, num_classes: int, max_examples: int) -> None:
    mode, keys = mode_and_keys(name, num_classes, max_examples)
    counts = label_counts(5, num_classes) % (max_examples // num_classes + 1)
    counts[0] = 0
    counts[1] = 0
    counts[1, -1] = max_examples
    names = [f"n{n}" for n in range(5)]
    uploads = {who: mode.encrypt(keys.public, row, who) for who, row in zip(names, counts, strict=True)}
    opened = Federation(mode, keys, counts, uploads).opened()
    assert not opened.refused
    assert np.array_equal(opened.gram, counts @ counts.T)


@pytest.mark.parametrize("name", MODES)
def test_one_client_alone(name: str) -> None:
    assert federation(name, 1, 4).opened().gram.shape == (1, 1)


def test_rows_that_go_through_several_ciphertexts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with more than 8192 clients: here with 2048 columns to a ciphertext, and uploads of few that have masks."""
    monkeypatch.setattr(_masked_parameters.Layout, "rows", 4)
    mode, keys = mode_and_keys("masked", 2)
    assert isinstance(mode, Masked)
    counts = label_counts(2060, 2)
    uploads = {f"c{n:04d}": mode.encrypt(keys.public, row, f"c{n:04d}") for n, row in enumerate(counts)}
    masks = mode.masks(keys.secret, {name: mode.seed(upload) for name, upload in uploads.items()})
    some = [0, 7, 2047, 2048, 2055]
    gram = mode.gram(keys.public, {f"c{n:04d}": uploads[f"c{n:04d}"] for n in some}, masks)
    assert np.array_equal(mode.open(keys.secret, gram).gram, counts[some] @ counts[some].T)


@pytest.mark.parametrize("name", MODES)
def test_parties_can_be_made_from_their_keys(name: str) -> None:
    mode, keys = mode_and_keys(name, 4)
    assert mode_of(keys.public).parameters == mode_of(keys.secret).parameters == mode.parameters
    other = make_mode(name, num_classes=5)
    with pytest.raises(WrongKeyError, match="num_classes"):
        other.encrypt(keys.public, [1] * 5, "a")


def test_every_mode_says_who_learns_what() -> None:
    assert set(known_modes()) == set(MODES)
    assert all("selector" in learns for learns in known_modes().values())
    with pytest.raises(UnknownNameError, match="did you mean 'fhe'"):
        make_mode("fhee", num_classes=3)


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([1, 2], "2 classes"),
        ([1, 2, 3, -1], "counts"),
        ([65535, 1, 0, 0], "max_examples=65535"),
        ([1.5, 0, 0, 0], "whole"),
    ],
)
def test_impossible_counts_are_refused_by_the_client(name: str, counts: list[float], message: str) -> None:
    mode, keys = mode_and_keys(name, 4)
    with pytest.raises(InvalidArgumentError, match=message):
        mode.encrypt(keys.public, counts, "a")


@pytest.mark.parametrize("client", ["", "a/b", "..", ".a", "a\n", "x" * 129, " a", 7])
def test_impossible_names_are_refused(client: object) -> None:
    mode, keys = mode_and_keys("plain", 4)
    with pytest.raises(InvalidArgumentError, match="no name of a client"):
        mode.encrypt(keys.public, [1, 1, 1, 1], client)  # type: ignore[arg-type]


def test_masks_are_asked_for_where_they_belong() -> None:
    masked, plain = federation("masked"), federation("plain")
    with pytest.raises(InvalidArgumentError, match="needs the selector's masks"):
        masked.mode.gram(masked.keys.public, masked.uploads)
    with pytest.raises(InvalidArgumentError, match="leave them out"):
        plain.mode.gram(plain.keys.public, plain.uploads, b"masks")
    with pytest.raises(InvalidArgumentError, match="exchanges no masks"):
        plain.mode.masks(plain.keys.secret, {})


@pytest.mark.parametrize("name", MODES)
def test_a_result_is_saved_and_loaded(name: str, tmp_path) -> None:
    opened = federation(name).opened()
    opened.save(tmp_path / "gram.npz")
    loaded = OpenedGram.load(tmp_path / "gram.npz")
    assert loaded.clients == opened.clients
    assert np.array_equal(loaded.gram, opened.gram)
    with np.load(tmp_path / "gram.npz") as arrays:
        assert {"gram", "num_examples", "clients"} <= set(arrays.files)


@pytest.mark.parametrize("name", ["sealed", "masked", "fhe"])
def test_a_result_opens_only_with_its_own_key(name: str) -> None:
    found = federation(name)
    gram = found.mode.gram(found.keys.public, found.uploads, found.masks())
    with pytest.raises(WrongKeyError, match="made for the key"):
        found.mode.open(found.mode.keygen().secret, gram)


@pytest.mark.parametrize("name", ["masked", "fhe"])
def test_the_library_checks_the_parameters(name: str) -> None:
    """The same moduli with one prime more are refused: it is SEAL that says so."""
    from fedcbs.private._seal import Ring

    mode, _ = mode_and_keys(name, 4)
    primes = mode.sizes.primes  # type: ignore[attr-defined]
    scheme = "bgv" if name == "fhe" else "bfv"
    Ring(scheme, degree=8192, primes=primes, plain=65537)
    with pytest.raises(InvalidArgumentError, match="128 bits"):
        Ring(scheme, degree=4096, primes=primes, plain=40961)


def test_a_cap_that_leaves_no_room_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="max_examples"):
        make_mode("fhe", num_classes=10, max_examples=2**22).keygen()


def test_nothing_of_no_use_is_computed() -> None:
    found = federation("plain")
    found.uploads = dict.fromkeys(found.uploads, b"no upload")
    with pytest.raises(ProtocolError, match="no upload can be used"):
        found.opened()


def test_sealed_hides_the_order_of_classes_with_a_shared_secret() -> None:
    mode, keys = mode_and_keys("sealed", 4)
    counts, secret = label_counts(6, 4), b"k" * 32
    uploads = {
        f"c{n}": mode.encrypt(keys.public, row, f"c{n}", class_secret=secret) for n, row in enumerate(counts)
    }
    opened = mode.open(keys.secret, mode.gram(keys.public, uploads))
    assert np.array_equal(opened.gram, counts @ counts.T)
    assert opened.label_counts is not None
    assert not np.array_equal(opened.label_counts, counts)
    uploads["c0"] = mode.encrypt(keys.public, counts[0], "c0", class_secret=b"another secret!!")
    assert "another class secret" in mode.open(keys.secret, mode.gram(keys.public, uploads)).refused["c0"]
    with pytest.raises(InvalidArgumentError, match="at least 16"):
        mode.encrypt(keys.public, counts[0], "c0", class_secret=b"short")
    plain, keys = mode_and_keys("plain", 4)
    with pytest.raises(InvalidArgumentError, match="of no use"):
        plain.encrypt(keys.public, counts[0], "c0", class_secret=secret)


def test_many_boxes_are_opened_by_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sealed, "CHUNK", 4)
    found = federation("sealed")
    found.uploads["client-005"] = found.uploads["client-005"][:-1]
    opened = found.opened()
    assert list(opened.refused) == ["client-005"]
    assert np.array_equal(opened.label_counts, found.counts[:5])  # type: ignore[arg-type]
