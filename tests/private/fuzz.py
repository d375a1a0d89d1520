"""Random damage to everything that is decoded, with digests that fit: nothing may crash, hang, or be believed wrongly.

    python -m tests.private.fuzz [--inputs 100000] [--seed 0]

Inputs go through in processes of their own, so that a crash or a hang is seen and its seed printed.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fedcbs.errors import FedCBSError
from fedcbs.private import OpenedGram, PublicKeys, mode_of
from fedcbs.private._fhe_worker import LARGEST_HEADER
from fedcbs.private._mode import HEADER_OF_GRAM
from fedcbs.private._seal import unpack_residues
from fedcbs.private._wire import pack, unpack
from tests.private.parties import Federation, federation, payload_of

CHUNK = 2000
SECONDS = 300
KINDS = {
    "upload": 4096,
    "gram": HEADER_OF_GRAM,
    "masks": 1 << 26,
    "seed": 4096,
    "rows": 1 << 26,
    "batch": LARGEST_HEADER,
}
STRANGE = [
    None,
    True,
    -1,
    2**63,
    1.5,
    "",
    "x" * 5000,
    [],
    {},
    [[]],
    "../x",
    "\0",
    float("inf"),
    [1] * 50,
    {"a": {}},
]

Random = np.random.Generator


def damaged(data: bytes, rng: Random) -> bytes:
    """Bytes cut, flipped, repeated, or exchanged for extremes."""
    found = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        kind, size = int(rng.integers(6)), max(len(found), 1)
        start = int(rng.integers(size))
        stop = min(start + int(rng.integers(1, 40)), len(found))
        if kind == 0:
            del found[start:]
        elif kind == 1 and found:
            found[min(start, len(found) - 1)] ^= 1 << int(rng.integers(8))
        elif kind == 2:
            found[start:stop] = rng.bytes(stop - start)
        elif kind == 3:
            found[start:start] = found[start:stop]
        elif kind == 4:
            found[start:stop] = bytes([int(rng.choice([0, 255]))]) * (stop - start)
        else:
            found += rng.bytes(int(rng.integers(1, 30)))
    return bytes(found)


def forged(data: bytes, kind: str, rng: Random) -> bytes:
    """A message with a changed header or changed sections, and a digest that fits."""
    message = unpack(data, kind, largest_header=KINDS[kind])
    header = {name: value for name, value in message.header.items() if name != "sizes"}
    sections = [bytes(part) for part in message.sections]
    for _ in range(int(rng.integers(1, 3))):
        if rng.random() < 0.4 and header:
            name = str(rng.choice(list(header)))
            header[name] = STRANGE[int(rng.integers(len(STRANGE)))]
        elif sections:
            which = int(rng.integers(len(sections)))
            sections[which] = damaged(sections[which], rng)
        if rng.random() < 0.1:
            sections = sections[::-1] if rng.random() < 0.5 else [*sections, b"more"]
    return pack(kind, header, *sections)


def mutated(data: bytes, kind: str, rng: Random) -> bytes:
    return damaged(data, rng) if rng.random() < 0.35 else forged(data, kind, rng)


@functools.cache
def made(name: str, what: str) -> bytes:
    found = federation(name, 4, 3)
    if what == "gram":
        return found.mode.gram(found.keys.public, found.uploads, found.masks())
    masks = found.masks()
    assert masks is not None
    return masks


def upload(name: str, rng: Random) -> bool:
    found = federation(name, 4, 3)
    original = found.uploads["client-001"]
    data = mutated(original, "upload", rng)
    found.mode.check(found.keys.public, data, "client-001")
    header, payload = unpack(data, "upload").header, payload_of(data)
    assert header["client"] == "client-001"
    assert header["mode"] == name
    assert header["fingerprint"] == found.keys.public.fingerprint
    assert len(payload) == len(payload_of(original))
    if name == "plain":
        counts = np.frombuffer(payload, "<i8")
        assert counts.min() >= 0
        assert counts.sum() <= 65535
    if name == "fhe":
        primes = found.mode.sizes.data_primes  # type: ignore[attr-defined]
        unpack_residues(payload, primes, polynomials=2, degree=8192)
    return True


def result(name: str, rng: Random) -> bool:
    found = federation(name, 4, 3)
    opened = found.mode.open(found.keys.secret, mutated(made(name, "gram"), "gram", rng))
    check_opened(opened, found)
    return True


def check_opened(opened: OpenedGram, found: Federation) -> None:
    """What is accepted keeps every law that inner products of label counts have."""
    gram, sizes = opened.gram, opened.num_examples
    assert gram.shape == (len(opened.clients), len(opened.clients))
    assert len(sizes) == len(opened.clients)
    assert (gram == gram.T).all()
    assert (gram >= 0).all()
    assert (sizes <= found.mode.max_examples).all()
    assert (gram <= np.outer(sizes, sizes)).all()
    if len(gram):
        assert np.linalg.eigvalsh(gram.astype(float)).min() > -1e-3 * max(float(gram.max()), 1.0)


def masks(_: str, rng: Random) -> bool:
    found = federation("masked", 4, 3)
    data = mutated(made("masked", "masks"), "masks", rng)
    columns, encrypted, refused = found.mode._read_masks(found.keys.public, data)  # type: ignore[attr-defined]
    assert all(isinstance(name, str) for name in columns)
    assert len(encrypted)
    assert isinstance(refused, dict)
    return True


def seeds(_: str, rng: Random) -> bool:
    found = federation("masked", 4, 3)
    if rng.random() < 0.5:
        found.mode.seed(mutated(found.uploads["client-000"], "upload", rng))  # type: ignore[attr-defined]
        return True
    seed = mutated(found.mode.seed(found.uploads["client-000"]), "seed", rng)  # type: ignore[attr-defined]
    box = found.mode._box(found.keys.secret, seed, "client-000")  # type: ignore[attr-defined]
    from fedcbs.private._boxes import Opener

    opener = Opener(found.keys.secret.parts["box"])
    found.mode._mask(opener, box, found.keys.secret.fingerprint, "client-000")  # type: ignore[attr-defined]
    return True


def key(_: str, rng: Random) -> bool:
    found = federation("sealed", 4, 3)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "public"
        found.keys.public.save(target)
        file = target / "key.json"
        document = json.loads(file.read_text())
        if rng.random() < 0.5:
            place = document if rng.random() < 0.5 else document[str(rng.choice(["parameters", "parts"]))]
            place[str(rng.choice(list(place)))] = STRANGE[int(rng.integers(len(STRANGE)))]
            file.write_text(json.dumps(document))
        else:
            file.write_bytes(damaged(file.read_bytes(), rng))
        public = PublicKeys.load(target)
        mode = mode_of(public)
        mode.encrypt(public, [1] * mode.num_classes, "a")
        # What is believed says what it always said, however it is laid out.
        assert public.fingerprint == found.keys.public.fingerprint
    return True


def opened_file(_: str, rng: Random) -> bool:
    found = federation("plain", 4, 3)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gram.npz"
        found.opened().save(path)
        path.write_bytes(damaged(path.read_bytes(), rng))
        OpenedGram.load(path)
    return True


TARGETS: dict[str, tuple[Callable[[str, Random], bool], str, float]] = {
    "upload of plain": (upload, "plain", 30),
    "upload of sealed": (upload, "sealed", 18),
    "upload of masked": (upload, "masked", 18),
    "upload of fhe": (upload, "fhe", 3),
    "result of plain": (result, "plain", 10),
    "result of sealed": (result, "sealed", 6),
    "result of masked": (result, "masked", 0.5),
    "result of fhe": (result, "fhe", 0.2),
    "masks": (masks, "", 1),
    "seeds": (seeds, "", 9),
    "key": (key, "", 3.3),
    "opened file": (opened_file, "", 1),
}


def run(inputs: int, seed: int) -> Counter[str]:
    """Put inputs through, and count what was refused and what was accepted."""
    names = list(TARGETS)
    weights = np.array([TARGETS[name][2] for name in names])
    counted: Counter[str] = Counter()
    for number in range(inputs):
        rng = np.random.default_rng((seed, number))
        name = names[int(rng.choice(len(names), p=weights / weights.sum()))]
        function, mode, _ = TARGETS[name]
        try:
            function(mode, rng)
            counted[f"{name}: accepted"] += 1
        except FedCBSError:
            counted[f"{name}: refused"] += 1
        except BaseException:
            sys.stderr.write(f"seed {seed}, input {number}, {name}\n")
            raise
    return counted


def _run(inputs: int, seed: int, pipe: Any) -> None:
    pipe.send(run(inputs, seed))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    context, total = multiprocessing.get_context("spawn"), Counter[str]()
    for start in range(0, options.inputs, CHUNK):
        seed = options.seed * 1_000_003 + start
        receive, send = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(min(CHUNK, options.inputs - start), seed, send))
        process.start()
        send.close()
        if not receive.poll(SECONDS):
            process.kill()
            print(f"it hangs: seed {seed}")
            return 1
        try:
            total += receive.recv()
        except EOFError:
            process.join()
            print(f"it crashed with {process.exitcode}: seed {seed}")
            return 1
        process.join()
        print(f"\r{sum(total.values()):,} inputs", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    for name, count in sorted(total.items()):
        print(f"{name:<32} {count:>8,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
