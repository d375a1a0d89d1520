"""Tables of images: parquet files in the hub's layouts, columns found by type, and the hub's cache and downloads."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from fedcbs.data import _known as known_module
from fedcbs.data import find_dataset, get_dataset, load_dataset
from fedcbs.data._digest import digest
from fedcbs.data._hub import Hub
from fedcbs.errors import DataFileError, FedCBSError, InvalidArgumentError, MissingDataError
from tests.data.writers import SHARED, images, png, write_table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("PIL")


def count_up(count: int) -> list[int]:
    return [k % 10 for k in range(count)]


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("train-00000-of-00001.parquet", "test-00000-of-00001.parquet"),
        ("data/train-00000-of-00001-abc.parquet", "data/validation-00000-of-00001-abc.parquet"),
        ("plain/train/0000.parquet", "plain/test/0000.parquet"),
    ],
)
def test_parts_are_found_by_their_names(tmp_path: Path, train: str, test: str) -> None:
    pixels = images(12, 8, 8, 3)
    write_table(tmp_path / train, pixels, count_up(12))
    write_table(tmp_path / test, pixels[:4], count_up(4))
    dataset = load_dataset(f"hf:{tmp_path}")
    assert np.array_equal(dataset.train.features, np.moveaxis(pixels, -1, 1))
    assert dataset.test.labels.tolist() == [0, 1, 2, 3]
    assert dataset.class_names[:2] == ("c0", "c1")


def test_a_part_may_come_in_several_files(tmp_path: Path) -> None:
    pixels = images(20, 8, 8)
    for k in range(2):
        write_table(tmp_path / f"train-0000{k}-of-00002.parquet", pixels[10 * k : 10 * k + 10], count_up(10))
    write_table(tmp_path / "test-00000-of-00001.parquet", pixels[:3], count_up(3))
    assert np.array_equal(load_dataset(f"hf:{tmp_path}").train.features, pixels[:, None])


def test_without_a_test_part_a_share_is_held_out(tmp_path: Path) -> None:
    write_table(tmp_path / "0000.parquet", images(20, 8, 8), count_up(20))
    assert len(load_dataset(f"hf:{tmp_path},test=0.5").test) == 10
    write_table(tmp_path / "extra.parquet", images(20, 8, 8), count_up(20))
    assert len(load_dataset(f"hf:{tmp_path},test=0.25").train) == 40 - 10


def test_the_parts_can_be_named(tmp_path: Path) -> None:
    for name, count in (("train", 20), ("test", 4), ("split_7", 6)):
        write_table(tmp_path / f"{name}-00000-of-00001.parquet", images(count, 8, 8), count_up(count))
    assert len(load_dataset(f"hf:{tmp_path},test=split_7").test) == 6
    with pytest.raises(DataFileError, match="lacks tables of 'nowhere'"):
        load_dataset(f"hf:{tmp_path},test=nowhere")


def test_several_datasets_in_one_folder_must_be_told_apart(tmp_path: Path) -> None:
    for name, count in (("small", 20), ("large", 40)):
        write_table(tmp_path / name / "train-0.parquet", images(count, 8, 8), count_up(count))
    with pytest.raises(DataFileError, match=r"2 datasets: large, small; .*config=NAME"):
        load_dataset(f"hf:{tmp_path}")
    assert len(load_dataset(f"hf:{tmp_path},config=large,test=0.25").train) == 30


def test_columns_are_found_by_type_or_taken_as_named(tmp_path: Path) -> None:
    writers = {"writer": [f"w{k % 3}" for k in range(20)], "species": ["ant", "bee"] * 10}
    write_table(
        tmp_path / "train.parquet", images(20, 8, 8), count_up(20), names=("photo", "kind"), extra=writers
    )
    assert load_dataset(f"hf:{tmp_path}").num_classes == 10
    dataset = load_dataset(f"hf:{tmp_path},label=species,owner=writer")
    assert dataset.class_names == ("ant", "bee")
    assert dataset.train.owner_names == ("w0", "w1", "w2")
    with pytest.raises(
        DataFileError, match="no column 'colour' for the label; it has photo, kind, writer, species"
    ):
        load_dataset(f"hf:{tmp_path},label=colour")
    with pytest.raises(DataFileError, match="column 'writer' does not hold images"):
        load_dataset(f"hf:{tmp_path},image=writer")


def test_files_without_notes_are_understood(tmp_path: Path) -> None:
    write_table(tmp_path / "train.parquet", images(20, 8, 8), count_up(20), noted=False)
    assert load_dataset(f"hf:{tmp_path}").train.shape == (1, 8, 8)


def test_rows_may_be_lists_of_numbers(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    rows = np.random.default_rng(0).random((20, 5)).astype(np.float32)
    pq.write_table(pa.table({"x": rows.tolist(), "y": count_up(20)}), tmp_path / "train.parquet")
    dataset = load_dataset(f"hf:{tmp_path},test=0.5")
    assert (dataset.train.shape, dataset.train.features.dtype) == ((5,), np.float32)
    found = np.concatenate([dataset.train.features, dataset.test.features])
    assert {row.tobytes() for row in found} == {row.tobytes() for row in rows}


def test_what_the_library_saved_is_read(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"label": datasets.ClassLabel(names=["a", "b"]), "image": datasets.Image()})
    rows = [
        {"image": {"bytes": png(pixels), "path": None}, "label": k % 2}
        for k, pixels in enumerate(images(10, 8, 8))
    ]
    parts = {name: datasets.Dataset.from_list(rows, features=features) for name in ("train", "test")}
    datasets.disable_progress_bars()
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "saved")
    dataset = load_dataset(f"hf:{tmp_path / 'saved'}")
    assert np.array_equal(dataset.train.features, images(10, 8, 8)[:, None])
    assert dataset.class_names == ("a", "b")


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"image": [None, None], "label": [0, 1]}, "no column is clearly the image"),
        ({"image": [b"", b""], "label": [0, 1]}, "has no image in it"),
        ({"image": [b"broken", b"broken"], "label": [0, 1]}, "example 0, is no image"),
        ({"image": [png(images(1, 8, 8)[0])] * 2}, "no column is clearly the label"),
        ({"image": [png(images(1, 8, 8)[0])] * 2, "label": [0.5, 1.5]}, "no column is clearly the label"),
        ({"image": [png(images(1, 8, 8)[0])] * 2, "label": [0, -1]}, "label -1 in row 1"),
        ({"image": [png(images(1, 8, 8)[0])] * 2, "label": [0, None]}, "rows without 'label'"),
        (
            {"image": [png(images(1, 8, 8)[0]), png(images(1, 9, 8)[0])], "label": [0, 1]},
            "example 1, has shape",
        ),
        (
            {"image": [png(images(1, 8, 8)[0]), png(images(1, 8, 8, 3)[0])], "label": [0, 1]},
            "example 1, is coloured",
        ),
        ({"x": [[1.0], [1.0, 2.0]], "label": [0, 1]}, "no arrays of one shape"),
        ({"image": [], "label": []}, "no column is clearly|has no rows"),
    ],
)
def test_tables_of_another_form_are_refused(
    tmp_path: Path, columns: dict[str, list[object]], reason: str
) -> None:
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), tmp_path / "train.parquet")
    with pytest.raises(DataFileError, match=reason):
        load_dataset(f"hf:{tmp_path}")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no table at all", b"PAR1" + bytes(100) + b"PAR1"])
def test_a_damaged_table_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "train.parquet").write_bytes(content)
    with pytest.raises(DataFileError, match=r"train\.parquet' cannot be read as a table"):
        load_dataset(f"hf:{tmp_path}")


def test_a_table_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    write_table(path, images(50, 8, 8), count_up(50))
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(DataFileError, match="cannot be read as a table"):
        load_dataset(f"hf:{tmp_path}")


def test_a_published_dataset_in_tables_must_have_the_published_contents(tmp_path: Path) -> None:
    for part, count in (("train", 20), ("test", 10)):
        write_table(
            tmp_path / "mnist" / "mnist" / f"{part}-00000-of-00001.parquet",
            images(count, 28, 28),
            count_up(count),
        )
    with pytest.raises(DataFileError, match=r"the train part in .* is not that of 'mnist'"):
        load_dataset("mnist", data_dir=tmp_path)
    assert len(load_dataset("mnist,verify=no", data_dir=tmp_path).train) == 20


def test_tables_of_cifar100_are_held_to_the_hubs_checksums(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    rows = [{"bytes": png(pixels), "path": None} for pixels in images(20, 32, 32, 3)]
    table = pa.table({"img": rows, "fine_label": count_up(20), "coarse_label": [0] * 20})
    for part in ("train", "test"):
        path = tmp_path / "cifar100" / "cifar100" / f"{part}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
    with pytest.raises(DataFileError, match="is not the file of 'uoft-cs/cifar100' on the hub"):
        load_dataset("cifar100", data_dir=tmp_path)
    dataset = load_dataset("cifar100,verify=no,labels=coarse", data_dir=tmp_path)
    assert (dataset.num_classes, dataset.train.shape) == (20, (3, 32, 32))


@pytest.mark.skipif(not (SHARED / "mnist").is_dir(), reason="the real MNIST is not beside the repository")
def test_the_digest_is_that_of_the_published_files() -> None:
    dataset = load_dataset("mnist", data_dir=SHARED)
    assert (digest(dataset.train), digest(dataset.test)) == known_module.KNOWN["mnist"].digests


COMMIT = "0123456789abcdef0123456789abcdef01234567"


class _Hub(BaseHTTPRequestHandler):
    """As much of the hub as a download asks for."""

    files: ClassVar[dict[str, bytes]] = {}
    lies: ClassVar[dict[str, str]] = {}
    requests: ClassVar[list[str]] = []

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        type(self).requests.append(path)
        if path.startswith("/api/datasets/user/birds/revision/") or path == "/api/datasets/user/birds":
            siblings = [
                {"rfilename": name, "size": len(content), "blobId": "b", "lfs": {"sha256": self._sum(name), "size": len(content), "pointerSize": 1}}
                for name, content in self.files.items()
            ]  # fmt: skip
            self._send(
                200, json.dumps({"id": "user/birds", "sha": COMMIT, "siblings": siblings}).encode(), {}
            )
        elif (name := re.sub(f".*/resolve/(main|{COMMIT})/", "", path)) in self.files:
            headers = {"ETag": f'"{self._sum(name)}"', "X-Repo-Commit": COMMIT}
            self._send(200, self.files[name], headers)
        else:
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def log_message(self, *_: object) -> None:
        pass

    def _sum(self, name: str) -> str:
        return self.lies.get(name) or hashlib.sha256(self.files[name]).hexdigest()

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[_Hub]]:
    """A hub on this machine, with one dataset."""
    huggingface_hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    for name, count in (("train", 30), ("test", 10)):
        write_table(tmp_path / "served" / f"{name}.parquet", images(count, 8, 8), count_up(count))
        _Hub.files[f"data/{name}-00000-of-00001.parquet"] = (
            tmp_path / "served" / f"{name}.parquet"
        ).read_bytes()
    _Hub.files["README.md"] = b"about birds"
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    yield _Hub
    server.shutdown()
    server.server_close()
    thread.join()
    _Hub.files.clear()
    _Hub.lies.clear()
    _Hub.requests.clear()


def test_a_download_is_found_in_the_cache_from_then_on(hub: type[_Hub], tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="fedcbs data get hf:user/birds"):
        load_dataset("hf:user/birds")
    assert hub.requests == []
    told: list[str] = []
    folder = get_dataset("hf:user/birds", note=told.append)
    assert folder.is_relative_to(tmp_path / "cache")
    assert [line.split()[0] for line in told] == sorted(name for name in hub.files if "parquet" in name)
    assert not any("README" in path for path in hub.requests)
    hub.requests.clear()
    for spec in ("hf:user/birds", f"hf:user/birds,revision={COMMIT}"):
        dataset = load_dataset(spec)
        assert (len(dataset.train), len(dataset.test)) == (30, 10)
    assert hub.requests == []


def test_a_download_may_go_into_a_folder(hub: type[_Hub], tmp_path: Path) -> None:
    folder = get_dataset("hf:user/birds", data_dir=tmp_path / "mine")
    assert folder == tmp_path / "mine" / "user__birds"
    hub.files.clear()
    assert len(load_dataset("hf:user/birds", data_dir=tmp_path / "mine").train) == 30


@pytest.mark.usefixtures("hub")
def test_a_file_that_changed_in_the_cache_is_refused() -> None:
    folder = get_dataset("hf:user/birds")
    path = folder / "data" / "train-00000-of-00001.parquet"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.resolve().write_bytes(content)
    with pytest.raises(DataFileError, match="is damaged: its contents have another checksum"):
        load_dataset("hf:user/birds")


def test_a_file_that_arrives_with_another_checksum_is_deleted(hub: type[_Hub], tmp_path: Path) -> None:
    hub.lies["data/test-00000-of-00001.parquet"] = "0" * 64
    with pytest.raises(DataFileError, match="arrived with SHA-256"):
        get_dataset("hf:user/birds", data_dir=tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").rglob("*.parquet")] == []


@pytest.mark.usefixtures("hub")
def test_a_published_dataset_is_held_to_its_pinned_checksums(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = Hub("user/birds", COMMIT, {"data/train-00000-of-00001.parquet": "0" * 64})
    mnist = dataclasses.replace(known_module.KNOWN["mnist"], hub=pinned)
    monkeypatch.setitem(known_module.KNOWN, "mnist", mnist)
    with pytest.raises(DataFileError, match="arrived with SHA-256"):
        get_dataset("mnist")
    assert find_dataset("mnist") is None


def test_what_the_hub_does_not_have_is_told(hub: type[_Hub]) -> None:
    with pytest.raises(MissingDataError, match="'user/bees' is not on the hub, or is private"):
        get_dataset("hf:user/bees")
    for name in [name for name in hub.files if name.endswith("parquet")]:
        del hub.files[name]
    with pytest.raises(MissingDataError, match="has no parquet files"):
        get_dataset("hf:user/birds")


def test_offline_means_offline(hub: type[_Hub], monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(MissingDataError, match="HF_HUB_OFFLINE is set"):
        get_dataset("hf:user/birds")
    assert hub.requests == []


def test_no_network_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(MissingDataError, match=r"could not be downloaded .*check the network"):
        get_dataset("cifar10")


@pytest.mark.parametrize("spec", ["digits", "arrays:a.npz", "folder:a", "hf:../up", "hf:a/b/c", "mnits", ""])
def test_only_what_the_hub_may_have_is_asked_for(spec: str) -> None:
    with pytest.raises(FedCBSError):
        get_dataset(spec)
    if spec.startswith("hf:"):
        with pytest.raises(InvalidArgumentError, match="neither a folder nor a name of the hub"):
            load_dataset(spec)
