"""Each guard of the protocol: what leaks without it, and that it does not leak with it.

The attackers here are the selector, or the selector with one client on its side: they hold the secret key and see what the server
sends. Guards are taken away by variants that exist in these tests only.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from fedcbs.errors import ProtocolError, UploadError
from fedcbs.private import _fhe, _masked_parameters, _masked_server
from fedcbs.private._fhe import Fhe
from fedcbs.private._fhe_intake import read_upload
from fedcbs.private._fhe_open import Opener
from fedcbs.private._fhe_release import Guards
from fedcbs.private._fhe_server import FheServer, result_places
from fedcbs.private._masked import BOX, Masked
from fedcbs.private._masked_parameters import DEGREE, Layout
from fedcbs.private._masked_server import RowServer, Shares
from fedcbs.private._seal import pack_residues, unpack_residues
from fedcbs.private._wire import unpack
from fedcbs.private._words import low_bits
from tests.private.algebra import inverse, multiply, phase, solve
from tests.private.parties import Federation, federation, payload_of, reframed


class MaskedAttack:
    """The selector of mode masked, who keeps the masks' ciphertexts that it made and studies the server's rows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, guards: _masked_server.Guards) -> None:
        self.found = found = federation("masked", 8, 4)
        assert isinstance(found.mode, Masked)
        # Rows as they are before switching down, in which rounding would hide some of it by luck.
        self.sizes = _masked_parameters.MaskedParameters(4, found.mode.max_examples)
        monkeypatch.setitem(vars(self.sizes), "kept", len(self.sizes.data_primes))
        self.ring, self.secret = self.sizes.ring(), found.keys.secret.parts["decryption"]
        masks = found.masks()
        assert masks is not None
        section = unpack(masks, "masks").sections[1]
        size = len(section) // 4
        self.masks = [self.residues(section[n * size : (n + 1) * size]) for n in range(4)]
        payloads = [payload_of(found.uploads[name]) for name in found.names]
        self.shares = found.mode._shares(payloads)
        server = RowServer(
            self.sizes,
            found.keys.public.parts["encryption"],
            Shares(self.shares, np.arange(8), 8, b"key" * 11),
            section,
            guards,
        )
        self.result = self.residues(server.rows(np.arange(8)))
        self.layout = Layout(8)
        # With its masks the selector gets from shares to counts.
        self.known = low_bits(found.counts.astype(np.uint64) - self.shares, self.sizes.word_bits)

    def residues(self, data: memoryview | bytes) -> NDArray[np.uint64]:
        return unpack_residues(data, self.sizes.data_primes, polynomials=2, degree=DEGREE)

    def shifted(self, coefficients: NDArray[np.int64], row: int) -> NDArray[np.int64]:
        shift = row * self.layout.width
        return (
            np.concatenate([-coefficients[DEGREE - shift :], coefficients[: DEGREE - shift]])
            if shift
            else coefficients
        )

    def counts(self, words: NDArray[np.int64]) -> NDArray[np.int64]:
        return low_bits(words.astype(np.uint64) + self.known, self.sizes.word_bits).view(np.int64)


def linear_attack(attack: MaskedAttack) -> NDArray[np.int64] | None:
    """Solve the second polynomial for the shares: it is a combination of polynomials that the selector knows."""
    found = []
    for which in (0, 1):
        prime = attack.sizes.data_primes[which]
        columns = [
            attack.shifted(mask[1, which].astype(np.int64), row) for row in range(8) for mask in attack.masks
        ]
        matrix = np.stack(columns, axis=1)[:60]
        words = solve(matrix, attack.result[1, which].astype(np.int64)[:60], prime)
        if words is None:
            return None
        found.append(words.astype(object))
    one, two = attack.sizes.data_primes[:2]
    whole = (found[0] * (two * pow(two, -1, one)) + found[1] * (one * pow(one, -1, two))) % (one * two)
    centred = np.where(whole > one * two // 2, whole - one * two, whole)
    return attack.counts((centred % 2**64).astype(np.uint64).reshape(8, 4).view(np.int64))


def test_1_without_a_fresh_zero_the_second_polynomial_gives_all_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attack = MaskedAttack(monkeypatch, _masked_server.Guards(rerandomise=False))
    assert np.array_equal(linear_attack(attack), attack.found.counts)  # 8 of 8 clients
    assert linear_attack(MaskedAttack(monkeypatch, _masked_server.Guards())) is None


def noise_attack(attack: MaskedAttack) -> NDArray[np.float64]:
    """Estimate the shares from the noise of a result, which is a combination of noises that the selector knows."""
    ring, bits = attack.ring, attack.sizes.word_bits
    modulus = 1
    for prime in attack.sizes.data_primes:
        modulus *= prime

    def noise(residues: NDArray[np.uint64]) -> NDArray[np.float64]:
        values = [v * 2**bits for v in phase(ring, residues, attack.secret)]
        rests = [v - round_to(v, modulus) for v in values]
        return np.array(rests, dtype=np.float64) / 2.0**bits

    def round_to(value: int, step: int) -> int:
        return (2 * value + step) // (2 * step) * step

    known = [noise(mask) for mask in attack.masks]
    columns = []
    for row in range(8):
        for label in range(4):
            shift = row * attack.layout.width
            values = known[label]
            columns.append(
                np.concatenate([-values[DEGREE - shift :], values[: DEGREE - shift]]) if shift else values
            )
    words, *_ = np.linalg.lstsq(np.stack(columns, axis=1), noise(attack.result), rcond=None)
    return words.reshape(8, 4)


def test_4_without_a_flood_the_noise_gives_counts_to_within_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    def error(guards: _masked_server.Guards) -> float:
        attack = MaskedAttack(monkeypatch, guards)
        half = np.uint64(1 << (attack.sizes.word_bits - 1))
        shares = (low_bits(attack.shares + half, attack.sizes.word_bits) - half).view(np.int64)
        return float(np.median(np.abs(noise_attack(attack) - shares)))

    assert error(_masked_server.Guards(flood=False)) < 50  # of shares that are 2**31 large
    assert error(_masked_server.Guards()) > 2.0**60


def test_4_the_distance_that_the_flood_reaches_is_stated_and_large() -> None:
    fhe, masked = federation("fhe", 1, 62).mode, federation("masked", 1, 62).mode
    results = 3210 * 8192
    assert fhe.sizes.distance(results) > 40  # type: ignore[attr-defined]
    assert masked.sizes.distance(1750 * 8192) > 40  # type: ignore[attr-defined]


def test_4_the_bound_on_a_results_noise_holds() -> None:
    """The flood is measured against a bound; SEAL measures the noise itself."""
    server, secret, ciphertexts, _ = products(62)
    sizes = server.parameters
    ring = server.ring
    decryptor = ring.seal.Decryptor(ring.context, ring.context.from_secret_str(secret))
    product = server.product(*pair(server, ciphertexts))
    ring.evaluator.mod_switch_to_inplace(product, ring.levels[2])
    server.evaluator.relinearize_inplace(product, server.releaser._switching)
    noise = 108 - 1 - decryptor.invariant_noise_budget(product)  # of message and noise together
    assert noise <= sizes.log_shift + np.log2(sizes.plain) + 1


# Mode fhe.


def products(
    num_classes: int, guards: Guards | None = None
) -> tuple[FheServer, bytes, list[object], Federation]:
    """A server, the secret key, and the ciphertexts of two clients."""
    found = federation("fhe", 2, num_classes)
    assert isinstance(found.mode, Fhe)
    server = FheServer(found.mode.sizes, dict(found.keys.public.parts), guards or Guards())
    header = server.ring.header(3)
    residues = [read_upload(payload_of(found.uploads[name]), found.mode.sizes) for name in found.names]
    return (
        server,
        found.keys.secret.parts["decryption"],
        [server.ring.join(header, r) for r in residues],
        found,
    )


def pair(server: FheServer, ciphertexts: list[object]) -> tuple[list[object], list[object]]:
    """The first client on the left of a product, the second on the right."""
    left = server.read(server.span({0: server.left_group({0: ciphertexts[0]})}))
    return left, server.factors(server.right_group({0: ciphertexts[1]}))


def opened_coefficients(guards: Guards) -> tuple[NDArray[np.int64], Federation, FheServer]:
    server, secret, ciphertexts, found = products(10, guards)
    result = server.result(*pair(server, ciphertexts))
    return Opener(server.parameters, secret).values(result, np.arange(DEGREE), split=True), found, server


def test_2_without_filling_the_other_coefficients_hold_cross_products() -> None:
    bare, found, server = opened_coefficients(Guards(fill=False))
    columns, depth = server.parameters.columns, server.parameters.depth
    one, two = (
        np.append(row, np.zeros(columns * depth - 10, np.int64)).reshape(columns, depth)
        for row in found.counts
    )
    cross = int((one[:, 1:] * two[:, :-1]).sum())  # sum over c of a[c, d + 1] b[c, d]
    assert bare[0] == found.counts[0] @ found.counts[1]
    assert cross > 0
    assert bare[columns] == cross
    filled, _, _ = opened_coefficients(Guards())
    again, _, _ = opened_coefficients(Guards())
    others = np.setdiff1d(np.arange(DEGREE), result_places(server.parameters))
    assert filled[0] == bare[0]
    assert filled[columns] != cross
    assert (filled[others] != again[others]).mean() > 0.99  # uniform, and new each time


def insider_attack(
    server: FheServer, residues: NDArray[np.uint64], secret: bytes, own: object
) -> NDArray[np.int64]:
    """With its own upload, an insider divides a product by it; with the secret key, the selector opens what is left."""
    ring, primes = server.ring, server.parameters.data_primes[: residues.shape[1]]
    factor = ring.split(server.turned(own))[1][:, : len(primes)]
    first = multiply(residues[0], inverse(factor[0], primes), primes)
    second = multiply(residues[-1], inverse(factor[1], primes), primes)
    found = ring.join(ring.header(len(primes)), np.stack([first, second]))
    plaintext = ring.seal.Decryptor(ring.context, ring.context.from_secret_str(secret)).decrypt(found)
    return ring.coefficients(plaintext)[server.parameters.own].astype(np.int64)


def test_3_a_product_in_three_polynomials_gives_counts_to_the_selector_with_one_client() -> None:
    server, secret, (victim, insider), found = products(1)
    product = server.evaluator.multiply(victim, server.turned(insider))
    residues = server.ring.split(product)[1]
    assert np.array_equal(insider_attack(server, residues, secret, insider), found.counts[0])
    relinearised = server.evaluator.relinearize(product, server.releaser._switching)
    assert relinearised.size() == 2
    residues = server.ring.split(relinearised)[1]
    assert not np.array_equal(insider_attack(server, residues, secret, insider), found.counts[0])


def test_3_what_is_released_has_two_polynomials_and_one_prime() -> None:
    server, _, ciphertexts, _ = products(4)
    result = server.result(*pair(server, ciphertexts))
    assert len(result) == 2 * DEGREE * 7


def test_3_released_twice_no_residue_is_the_same() -> None:
    server, _, ciphertexts, _ = products(4)
    one, two = (
        unpack_residues(
            server.result(*pair(server, ciphertexts)),
            server.parameters.data_primes[:1],
            polynomials=2,
            degree=DEGREE,
        )
        for _ in range(2)
    )
    assert (one != two).mean() > 0.999
    server, _, ciphertexts, _ = products(4, Guards(rerandomise=False))
    one, two = (
        unpack_residues(
            server.result(*pair(server, ciphertexts)),
            server.parameters.data_primes[:1],
            polynomials=2,
            degree=DEGREE,
        )
        for _ in range(2)
    )
    assert np.array_equal(one[1], two[1])  # the factors' own second polynomial, plain to see


def test_5_without_the_check_a_client_that_writes_elsewhere_changes_what_others_have_in_common(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = federation("fhe", 4, 4)
    assert isinstance(found.mode, Fhe)
    sizes, ring = found.mode.sizes, found.mode._ring
    values = np.zeros(DEGREE, np.uint64)
    values[sizes.own + sizes.window * sizes.right] = 100  # the place of the next client in a left group
    ciphertext = found.mode._encryptor(found.keys.public).encrypt(ring.plaintext(values))
    payload = pack_residues(ring.split(ciphertext)[1], sizes.data_primes)
    found.uploads["client-000"] = reframed(found.uploads["client-000"], payload=payload)
    assert "wrote outside" in found.opened().refused["client-000"]
    monkeypatch.setattr(_fhe, "outside", lambda *_: {})
    gram = found.mode.gram(found.keys.public, found.uploads)
    message = unpack(gram, "gram", largest_header=1 << 20)
    bare = found.mode._open(found.keys.secret, tuple(found.names), message.sections[1:])
    truth = found.counts @ found.counts.T
    assert bare.gram[1, 1] == truth[1, 1] + 100 * found.counts[1].sum()


def test_6_seal_takes_transparent_ciphertexts_and_altered_headers_and_the_wire_has_neither() -> None:
    found = federation("fhe", 2, 4)
    assert isinstance(found.mode, Fhe)
    ring, sizes = found.mode._ring, found.mode.sizes
    payload = payload_of(found.uploads["client-000"])
    residues = read_upload(payload, sizes).copy()
    header = bytearray(ring.header(3))
    residues[1] = 0
    assert ring.join(bytes(header), residues).is_transparent()  # SEAL has loaded it
    with pytest.raises(ProtocolError, match="transparent"):
        read_upload(pack_residues(residues, sizes.data_primes), sizes)
    honest = read_upload(payload, sizes)
    altered = [n for n in range(len(header)) if loads(ring, with_byte(header, n, 2), honest)]
    assert altered  # SEAL lets some bytes of a header, such as the correction factor, be anything
    stream = bytes(with_byte(header, altered[-1], 2)) + honest.tobytes()
    upload = reframed(found.uploads["client-000"], payload=stream)
    with pytest.raises(UploadError, match="bytes"):
        found.mode.check(found.keys.public, upload, "client-000")


def with_byte(header: bytearray, place: int, value: int) -> bytes:
    found = bytearray(header)
    found[place] = value if found[place] != value else value + 1
    return bytes(found)


def loads(ring: object, header: bytes, residues: NDArray[np.uint64]) -> bool:
    try:
        ring.join(header, residues)  # type: ignore[attr-defined]
    except (RuntimeError, ValueError):
        return False
    return True


def test_the_selector_could_read_counts_from_a_whole_upload_and_cannot_from_a_seed() -> None:
    """Why the server hands on sealed seeds alone."""
    found = federation("masked", 2, 4)
    assert isinstance(found.mode, Masked)
    upload = found.uploads["client-000"]
    message = unpack(found.mode.seed(upload), "seed")
    assert len(message.sections) == 1
    assert bytes(message.sections[0]) == payload_of(upload)[-BOX:]
    assert payload_of(upload)[:-BOX] not in found.mode.seed(upload)
