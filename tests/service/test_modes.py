"""All modes through the service: exact ones give the same cohorts."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from fedcbs.errors import ProtocolError
from fedcbs.private import SecretKeys, known_modes, mode_of
from fedcbs.private._masked import Masked
from fedcbs.service import LocalSelector, _isolated
from tests.service.parties import NAMES, OPTIONS, counts

FEW = NAMES[:8]


def cohorts(mode: str) -> list[tuple[str, ...]]:
    link = LocalSelector()
    link.create("demo", dataclasses.replace(OPTIONS, mode=mode))
    keys = link.public_keys("demo")
    works = mode_of(keys)
    rows = dict(zip(NAMES, counts(), strict=True))
    uploads = {name: works.encrypt(keys, rows[name], name) for name in FEW}
    masks = None
    if isinstance(works, Masked):
        masks = link.masks("demo", {name: works.seed(upload) for name, upload in uploads.items()})
    members = link.put_statistics("demo", works.gram(keys, uploads, masks))
    assert members.clients == FEW
    found = []
    for index in (1, 2, 3):
        found.append(link.select("demo", round_index=index, cohort_size=3, available=FEW).clients)
        link.observe("demo", index, answered=found[-1])
    return found


@pytest.mark.parametrize("mode", [name for name in known_modes() if name != "plain"])
def test_every_mode_gives_the_cohorts_of_plain(mode: str) -> None:
    assert cohorts(mode) == cohorts("plain")


def _dies(_secret: SecretKeys, _data: bytes) -> bytes:
    os.abort()


def test_an_abort_of_native_code_is_an_error_and_no_more(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    link = LocalSelector(tmp_path / "state")
    link.create("demo", dataclasses.replace(OPTIONS, mode="sealed"))
    monkeypatch.setattr(_isolated, "SAFE_MODES", ())
    monkeypatch.setattr(_isolated, "_open", _dies)
    with pytest.raises(ProtocolError, match="crashed"):
        link.put_statistics("demo", b"whatever")
    assert link.status("demo").clients == 0
