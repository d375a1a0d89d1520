"""All modes through the service: exact ones give the same cohorts."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from fedcbs.errors import ConflictError, InvalidArgumentError, ProtocolError, RowNeededError
from fedcbs.private import SecretKeys, known_modes, mode_of
from fedcbs.private._fhe import Fhe
from fedcbs.private._fhe_rows import RowComputation
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


class TestRowsOnDemand:
    def federation(self, link: LocalSelector) -> RowComputation:
        link.create("demo", dataclasses.replace(OPTIONS, mode="fhe"))
        keys = link.public_keys("demo")
        works = mode_of(keys)
        assert isinstance(works, Fhe)
        rows = dict(zip(NAMES, counts(), strict=True))
        uploads: dict[str, bytes] = {name: works.encrypt(keys, rows[name], name) for name in FEW}
        uploads["rubbish"] = b"nothing"
        return works.rows(keys, uploads)

    def test_a_selection_reads_few_rows_and_chooses_as_with_all(self, tmp_path: Path) -> None:
        fetched: list[str] = []
        with LocalSelector(tmp_path / "state", report_qcid="no") as link, self.federation(link) as server:
            members = link.put_rows("demo", server.setup())
            assert members.clients == FEW
            assert set(members.refused) == {"rubbish"}

            def fetch(client: str) -> bytes:
                fetched.append(client)
                return server.row(client)

            found = []
            for index in (1, 2, 3):
                request = {"round_index": index, "cohort_size": 3, "available": FEW}
                found.append(link.select("demo", fetch_row=fetch, **request).clients)  # type: ignore[arg-type]
                link.observe("demo", index, answered=found[-1])
            assert found == cohorts("plain")
            assert len(fetched) == len(set(fetched))
            with pytest.raises(ProtocolError):
                link.put_row("demo", FEW[0], b"nothing")
            with pytest.raises(ProtocolError):
                link.put_row("demo", FEW[0], server.row(FEW[1]))
            with pytest.raises(InvalidArgumentError, match="'nobody'"):
                link.put_row("demo", "nobody", server.row(FEW[1]))
            assert link.select("demo", round_index=4, cohort_size=3, available=FEW, fetch_row=fetch).clients
        with LocalSelector(tmp_path / "state") as again:  # rows are kept
            assert again.select("demo", round_index=3, cohort_size=3, available=FEW).clients == found[-1]

    def test_without_a_way_to_fetch_it_says_whose_row_it_needs(self) -> None:
        with LocalSelector() as link, self.federation(link) as server:
            link.put_rows("demo", server.setup())
            with pytest.raises(RowNeededError) as needed:
                link.select("demo", round_index=1, cohort_size=3, available=FEW)
            assert needed.value.client in FEW

    def test_other_modes_have_no_rows(self) -> None:
        link = LocalSelector()
        link.create("demo", dataclasses.replace(OPTIONS, mode="sealed"))
        with pytest.raises(InvalidArgumentError, match="has no single rows"):
            link.put_rows("demo", b"")
        with pytest.raises(ConflictError, match="no rows"):
            link.put_row("demo", "a", b"")
