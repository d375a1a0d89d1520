"""Microsoft SEAL, as the modes use it: a ring, and ciphertexts as arrays of residues.

The wheel has no accessors for coefficients, so arrays are read from and written into SEAL's uncompressed stream. On the wire
there are residues only, in a size that the parameters fix: each party puts SEAL's header in front of them itself. A
ciphertext of another scheme, level, form or correction factor can therefore not even be written down, and SEAL reads no
byte of a stranger except numbers below their modulus.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from fedcbs.errors import InvalidArgumentError, MissingExtraError, ProtocolError

if TYPE_CHECKING:
    from fedcbs.private._wire import Buffer

__all__ = ["Ring", "Words", "library", "pack_residues", "packed_size", "unpack_residues"]

Words = NDArray[np.uint64]


def library() -> Any:
    """Return the module `seal`."""
    try:
        import seal
    except ImportError:
        raise MissingExtraError("seal-python", extra="private", purpose="homomorphic encryption") from None
    return seal


@final
class Ring:
    """The parameters of a scheme, checked by the library to give at least 128 bits of security.

    Parameters
    ----------
    scheme
        ``bgv`` or ``bfv``.
    degree
        Of the polynomials.
    primes
        Of the ciphertext modulus; the last one is special and never part of a ciphertext.
    plain
        Modulus of messages.
    """

    def __init__(self, scheme: str, *, degree: int, primes: Sequence[int], plain: int) -> None:
        self.seal = library()
        self.degree, self.primes, self.plain = degree, tuple(primes), plain
        parameters = self.seal.EncryptionParameters(getattr(self.seal.scheme_type, scheme))
        parameters.set_poly_modulus_degree(degree)
        parameters.set_coeff_modulus([self.seal.Modulus(prime) for prime in primes])
        parameters.set_plain_modulus(plain)
        self.context = self.seal.SEALContext(parameters, True, self.seal.sec_level_type.tc128)
        if not self.context.parameters_set():
            raise InvalidArgumentError(
                f"these parameters do not give 128 bits of security: {self.context.parameter_error_message()}"
            )
        self.evaluator = self.seal.Evaluator(self.context)
        self._none = self.seal.compr_mode_type.none

    @functools.cached_property
    def levels(self) -> dict[int, Any]:
        """SEAL's name of each level, by the number of primes that are left."""
        found: dict[int, Any] = {}
        data = self.context.first_context_data()
        while data is not None:
            found[len(data.parms().coeff_modulus())] = data.parms_id()
            data = data.next_context_data()
        return found

    @functools.cached_property
    def throwaway(self) -> Any:
        """An encryptor under a key of its own, for the form of ciphertexts only."""
        return self.seal.Encryptor(self.context, self.seal.KeyGenerator(self.context).create_public_key())

    def header(self, level: int) -> bytes:
        """What stands in front of the residues of a fresh ciphertext with `level` primes."""
        if level not in self._headers:
            self._headers[level] = self.split(self.throwaway.encrypt_zero(self.levels[level]))[0]
        return self._headers[level]

    @functools.cached_property
    def _headers(self) -> dict[int, bytes]:
        return {}

    def split(self, ciphertext: Any) -> tuple[bytes, Words]:
        """Return header and residues, polynomials x primes x degree, of a ciphertext."""
        stream = ciphertext.to_string(self._none)
        shape = (ciphertext.size(), ciphertext.coeff_modulus_size(), self.degree)
        start = len(stream) - 8 * shape[0] * shape[1] * shape[2]
        return stream[:start], np.frombuffer(stream, np.uint64, offset=start).reshape(shape)

    def join(self, header: bytes, residues: Words) -> Any:
        """Return the ciphertext with this header and these residues."""
        return self.context.from_cipher_str(header + np.ascontiguousarray(residues, np.uint64).tobytes())

    def save_key(self, key: Any) -> bytes:
        """Return the residues of a public key or of keys for switching, as they go over the wire."""
        stream, starts = key.to_string(), self._key_starts(key)
        words = [np.frombuffer(stream, np.uint64, self._key_words, start) for start in starts]
        return pack_residues(np.stack(words).reshape(-1, len(self.primes), self.degree), self.primes)

    def load_key(self, data: Buffer, template: Any) -> Any:
        """Return the key with these residues, of the same kind and shape as the template."""
        stream, starts = bytearray(template.to_string()), self._key_starts(template)
        residues = unpack_residues(data, self.primes, polynomials=2 * len(starts), degree=self.degree)
        for start, words in zip(starts, residues.reshape(len(starts), -1), strict=True):
            stream[start : start + 8 * self._key_words] = words.tobytes()
        load = {
            "PublicKey": "from_public_str",
            "RelinKeys": "from_relin_str",
            "GaloisKeys": "from_galois_str",
        }
        return getattr(self.context, load[type(template).__name__])(bytes(stream))

    def public_key(self, data: Buffer) -> Any:
        """Return the public key with these residues."""
        return self.load_key(data, self.template_keys.create_public_key())

    @functools.cached_property
    def template_keys(self) -> Any:
        """A generator of keys that nobody uses: their form is that of all keys."""
        return self.seal.KeyGenerator(self.context)

    @property
    def _key_words(self) -> int:
        return 2 * len(self.primes) * self.degree

    def _key_starts(self, key: Any) -> list[int]:
        """Where residues begin in SEAL's stream of a key; each stretch of them follows the same header."""
        header = self.template_keys.create_public_key().to_string()[: -8 * self._key_words]
        stream, found, start = key.to_string(), [], 0
        while (at := stream.find(header, start)) >= 0:
            found.append(at + len(header))
            start = found[-1] + 8 * self._key_words
        return found

    def plaintext(self, coefficients: Words) -> Any:
        """Return the polynomial with these coefficients, which are below the plain modulus."""
        count = len(coefficients)
        template, start = _plain_template()
        header = bytearray(template[:start])
        struct.pack_into("<Q", header, 8, start + 8 * count)
        struct.pack_into("<Q", header, 48, count)
        struct.pack_into("<Q", header, 72, 24 + 8 * count)
        struct.pack_into("<Q", header, 80, count)
        found = self.seal.Plaintext()
        found.load_bytes(
            self.context, bytes(header) + np.ascontiguousarray(coefficients, np.uint64).tobytes()
        )
        return found

    def coefficients(self, plaintext: Any) -> Words:
        """Return all coefficients of a polynomial (or its values, in the transformed form)."""
        stream = plaintext.to_bytes(self._none)
        found = np.frombuffer(stream, np.uint64, offset=_plain_template()[1])
        if len(found) >= self.degree:
            return found
        return np.concatenate([found, np.zeros(self.degree - len(found), np.uint64)])


@functools.cache
def _plain_template() -> tuple[bytes, int]:
    """A polynomial as SEAL writes it, and where its coefficients begin."""
    seal = library()
    stream: bytes = seal.Plaintext("5x^2 + 7x^1 + 9").to_bytes(seal.compr_mode_type.none)
    start = len(stream) - 24
    if np.frombuffer(stream, np.uint64, offset=start).tolist() != [9, 7, 5]:
        raise ProtocolError("this version of SEAL writes polynomials in another way; use seal-python 4.4")
    return stream, start


def packed_size(primes: Sequence[int], *, polynomials: int, degree: int) -> int:
    """Bytes of residues on the wire."""
    return polynomials * len(primes) * degree * _width(primes)


def pack_residues(residues: Words, primes: Sequence[int]) -> bytes:
    """Write residues (... x primes x degree) with as few whole bytes each as their moduli need.

    >>> pack_residues(np.array([[1, 256]], np.uint64), [65537]).hex()
    '010000000100'
    """
    view = np.ascontiguousarray(residues, "<u8").view(np.uint8).reshape(-1, 8)
    return view[:, : _width(primes)].tobytes()


def unpack_residues(data: Buffer, primes: Sequence[int], *, polynomials: int, degree: int) -> Words:
    """Read residues back; refuses another size, and numbers that are not below their modulus."""
    width = _width(primes)
    if len(data) != packed_size(primes, polynomials=polynomials, degree=degree):
        raise ProtocolError(
            f"a ciphertext of {len(data)} bytes; these parameters need {packed_size(primes, polynomials=polynomials, degree=degree)}"
        )
    words = np.zeros((polynomials * len(primes) * degree, 8), np.uint8)
    words[:, :width] = np.frombuffer(data, np.uint8).reshape(-1, width)
    residues = words.view("<u8").reshape(polynomials, len(primes), degree)
    if (residues >= np.array(primes, np.uint64)[:, None]).any():
        raise ProtocolError("a ciphertext holds numbers outside the range of these parameters")
    return residues.astype(np.uint64, copy=False)


def _width(primes: Sequence[int]) -> int:
    return (max(primes).bit_length() + 7) // 8
