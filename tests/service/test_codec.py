"""Whatever bytes come, decoders give a value or refuse it in words."""

from __future__ import annotations

import contextlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcbs.errors import FedCBSError, ProtocolError
from fedcbs.private import make_mode
from fedcbs.private._wire import pack
from fedcbs.service import _codec as codec
from fedcbs.service._app import _answers, _document, _names, _options
from fedcbs.service._errors import error_from_json

KEYS = make_mode("sealed", num_classes=3).keygen()
MESSAGES = (
    codec.public_to_bytes(KEYS.public),
    codec.named_to_bytes("seeds", {"a": b"one", "b": b"two"}),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
HEADERS = st.dictionaries(
    st.sampled_from(["mode", "parameters", "parts", "retired", "clients", "fingerprint"]), JSON
)


def test_keys_travel() -> None:
    public = codec.public_from_bytes(codec.public_to_bytes(KEYS.public))
    assert public.fingerprint == KEYS.public.fingerprint
    secret = codec.secret_from_bytes(codec.secret_to_bytes(KEYS.secret))
    assert secret.fingerprint == KEYS.secret.fingerprint
    assert dict(secret.parts) == dict(KEYS.secret.parts)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(MESSAGES), st.data())
def test_damaged_messages_are_refused(message: bytes, data: st.DataObject) -> None:
    bad = bytearray(message)
    for _ in range(data.draw(st.integers(1, 4))):
        bad[data.draw(st.integers(0, len(bad) - 1))] ^= data.draw(st.integers(1, 255))
    cut = bytes(bad[: data.draw(st.integers(0, len(bad)))])
    if cut == message:
        return
    for decode in (codec.public_from_bytes, lambda content: codec.named_from_bytes("seeds", content)):
        with pytest.raises(ProtocolError):
            decode(cut)


@settings(max_examples=300, deadline=None)
@given(HEADERS, st.lists(st.binary(max_size=9), max_size=3))
def test_forged_headers_are_refused(header: dict[str, object], sections: list[bytes]) -> None:
    try:
        public, named = (pack(kind, header, *sections) for kind in ("public", "seeds"))
    except (TypeError, ValueError):
        return  # JSON cannot say that
    for decode in (
        lambda: codec.public_from_bytes(public),
        lambda: codec.named_from_bytes("seeds", named),
    ):
        with contextlib.suppress(ProtocolError):
            decode()


@settings(max_examples=300, deadline=None)
@given(JSON)
def test_any_json_is_taken_or_refused_in_words(value: object) -> None:
    document = value if isinstance(value, dict) else {"available": value, "learnt": value}
    for decode in (
        lambda: _document(json.dumps(value).encode()),
        lambda: _options(document),
        lambda: _names(document, "available"),
        lambda: _answers(value),
        lambda: codec.array_from_json(value, "losses"),
    ):
        with contextlib.suppress(FedCBSError):
            decode()
    assert str(error_from_json(document))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_arrays_travel(dtype: type) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    again = codec.array_from_json(json.loads(json.dumps(codec.array_to_json(array))), "x")
    assert np.array_equal(array, again)
    assert again.shape == array.shape
