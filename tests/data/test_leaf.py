"""LEAF's JSON: what it holds, how little memory it takes, what it is refused for, and the cache of what was decoded."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from fedcbs.data import _cache, _json_stream, load_dataset, split
from fedcbs.data._json_stream import JsonStream
from fedcbs.errors import DataFileError, MissingDataError
from tests.data.writers import SHARED, images, leaf_file, write_leaf


def test_images_labels_and_owners_are_those_of_the_files(tmp_path: Path) -> None:
    pixels = write_leaf(tmp_path / "femnist")
    dataset = load_dataset("femnist", data_dir=tmp_path)
    for part, examples in (("train", dataset.train), ("test", dataset.test)):
        assert np.array_equal(examples.features, pixels[part])
        assert examples.owner_names == ("f0_0", "f0_1", "f0_2", "f1_0", "f1_1", "f1_2")
    assert dataset.train.owners is not None
    assert dataset.train.owners.tolist() == np.repeat(range(6), [5, 6, 7, 5, 6, 7]).tolist()
    assert dataset.train.labels[:7].tolist() == [0, 1, 2, 3, 4, 1, 2]
    assert (dataset.num_classes, dataset.class_names[10]) == (62, "A")


def test_owners_become_clients(tmp_path: Path) -> None:
    write_leaf(tmp_path)
    dataset = load_dataset("femnist", data_dir=tmp_path)
    partition = split(dataset, "owner", min_examples=6, seed=0)
    assert partition.owners is not None
    assert partition.owners.tolist() == ["f0_1", "f0_2", "f1_1", "f1_2"]
    assert partition.num_examples.tolist() == [6, 7, 6, 7]


def test_one_part_alone_is_not_enough(tmp_path: Path) -> None:
    write_leaf(tmp_path)
    for path in (tmp_path / "test").iterdir():
        path.unlink()
    with pytest.raises(MissingDataError, match=r"but not test/\*\.json"):
        load_dataset("femnist", data_dir=tmp_path)


def _with(**changes: Any) -> str:
    document = json.loads(leaf_file({"a": (images(2, 28, 28), [1, 2])}))
    for key, value in changes.items():
        if key in ("x", "y"):
            document["user_data"]["a"][key] = value
        elif value is None:
            del document[key]
        else:
            document[key] = value
    return json.dumps(document)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "ends in the middle"),
        ("[]", "stands where '{' must"),
        (_with()[:-1], "ends in the middle"),
        (_with()[: len(_with()) // 2], "file ends"),
        (_with() + "{}", "follows the end"),
        (_with(user_data=None), "no 'user_data'"),
        (_with().replace('"a": {', '"a": {"x": [], "y": []}, "a": {'), "user 'a' is in it twice"),
        (_with().replace('"a": {', '"a": {"x": [], '), "user 'a' has 'x' twice"),
        (_with(users=None), "'users' and 'num_samples'"),
        (_with(num_samples=[3]), "should have 3 examples and has 2"),
        (_with(users=["b"]), "should have"),
        (_with(y=[1]), "2 images and 1 labels"),
        (_with(y=[1, 62]), "label 62"),
        (_with(y=[1, -1]), "label -1"),
        (_with(y=[1, 2.5]), "label 2.5"),
        (_with(y=[1, True]), "label True"),
        (_with(x=[[0.0] * 783, [0.0] * 783]), "not 784 numbers"),
        (_with(x=[[0.0] * 784, [0.0] * 783]), "not 784 numbers"),
        (_with(x=[["0"] * 783 + ["a"], [0.0] * 784]), "stands where a number must"),
        (_with(x=[[[0.0]] * 784, [0.0] * 784]), "not 784 numbers"),
        (_with(x=[[0.0] * 783 + [[0.0]], [0.0] * 784]), "'\\[0.0' stands where a number must"),
        (_with(x=[0.0, 0.0]), "'0' stands where '\\[' must"),
        (_with(x=[[0.501] * 784, [0.0] * 784]), "is no byte divided by 255"),
        (_with(x=[[1.5] * 784, [0.0] * 784]), "is no byte divided by 255"),
        (_with(x=[[float("nan")] * 784, [0.0] * 784]), "'NaN' stands where a number must"),
        (_with(x=[[1e300] * 784, [0.0] * 784]), "is no byte divided by 255"),
        (_with(x=[[-0.1] * 784, [0.0] * 784]), "is no byte divided by 255"),
    ],
)
def test_damaged_files_are_refused_with_the_reason(tmp_path: Path, text: str, reason: str) -> None:
    write_leaf(tmp_path)
    path = tmp_path / "train" / "all_data_1.json"
    path.write_text(text)
    with pytest.raises(DataFileError, match=reason) as caught:
        load_dataset("femnist", data_dir=tmp_path)
    assert repr(str(path)) in str(caught.value)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@hypothesis.given(_VALUES, st.integers(1, 9), st.sampled_from([None, 1]))
def test_the_stream_reads_what_json_reads(value: Any, ahead: int, indent: int | None) -> None:
    before = _json_stream._AHEAD
    _json_stream._AHEAD = ahead  # every value lies across a border
    try:
        stream = JsonStream(io.StringIO(json.dumps([value, value], indent=indent) + "\n"))
        assert list(stream.array()) == [value, value]
        stream.end()
    finally:
        _json_stream._AHEAD = before


@pytest.mark.parametrize("number", ["0", "0.0", "-0.5", "12.75e3", "1.5E-7", "1e+9", "2E5"])
@pytest.mark.parametrize("before", range(1, 9))
def test_a_number_across_the_border_of_what_is_read(
    number: str, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_json_stream, "_AHEAD", 1)
    stream = JsonStream(io.StringIO(f"[{' ' * before}{number},{number}]"))
    assert list(stream.array()) == [float(number)] * 2
    stream.end()


class TestCache:
    """What is slow to decode is decoded once."""

    @pytest.fixture(autouse=True)
    def _small_files_count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_cache, "_WORTH", 0)

    def _files(self) -> list[Path]:
        folder = _cache.cache_folder()
        assert folder is not None
        return sorted(folder.rglob("*")) if folder.is_dir() else []

    def test_the_second_time_comes_from_the_cache(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_leaf(tmp_path)
        first = load_dataset("femnist", data_dir=tmp_path)
        monkeypatch.setattr("fedcbs.data._leaf._Bytes", None)
        again = load_dataset("femnist", data_dir=tmp_path)
        for one, other in ((first.train, again.train), (first.test, again.test)):
            assert np.array_equal(one.features, other.features)
            assert np.array_equal(one.labels, other.labels)
            assert one.owners is not None
            assert other.owners is not None
            assert np.array_equal(one.owners, other.owners)
            assert one.owner_names == other.owner_names

    def test_a_file_that_changed_is_decoded_anew(self, tmp_path: Path) -> None:
        write_leaf(tmp_path)
        load_dataset("femnist", data_dir=tmp_path)
        changed = images(1, 28, 28, seed=9)
        (tmp_path / "test" / "all_data_0.json").write_text(leaf_file({"new": (changed, [5])}))
        dataset = load_dataset("femnist", data_dir=tmp_path)
        assert np.array_equal(dataset.test.features[:1], changed[:, None])

    def test_it_can_be_left_out(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write_leaf(tmp_path)
        load_dataset("femnist", data_dir=tmp_path, cache=False)
        assert self._files() == []
        monkeypatch.setenv("FEDCBS_CACHE", "off")
        load_dataset("femnist", data_dir=tmp_path)
        assert _cache.cache_folder() is None

    def test_a_damaged_entry_is_decoded_anew(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        write_leaf(tmp_path)
        first = load_dataset("femnist", data_dir=tmp_path)
        entry = next(path for path in self._files() if path.suffix == ".npz")
        content = bytearray(entry.read_bytes())
        content[len(content) // 2] ^= 255
        entry.write_bytes(content)
        with caplog.at_level(logging.WARNING):
            again = load_dataset("femnist", data_dir=tmp_path)
        assert "damaged" in caplog.text
        assert np.array_equal(first.train.features, again.train.features)

    def test_a_folder_that_cannot_be_written_only_costs_time(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        write_leaf(tmp_path / "femnist")
        (tmp_path / "file").write_text("no folder")
        monkeypatch.setenv("FEDCBS_CACHE", str(tmp_path / "file"))
        with caplog.at_level(logging.WARNING):
            assert len(load_dataset("femnist", data_dir=tmp_path).train) == 36
        assert "FEDCBS_CACHE" in caplog.text


MEASURE = """
import resource, sys
import numpy as np
from fedcbs.data import from_arrays, load_dataset
from_arrays(np.zeros((10, 2)), np.arange(10) % 2)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
dataset = load_dataset("femnist", data_dir=sys.argv[1], cache=sys.argv[2] == "cache")
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) * 1024, dataset.train.nbytes + dataset.test.nbytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the unit of the peak is the system's own")
def test_the_peak_of_memory_is_a_little_over_that_of_the_arrays(tmp_path: Path) -> None:
    row = (images(1, 28, 28) // 255).reshape(-1).tolist()  # short numbers, for the sake of time
    for part, count in (("train", 19_900), ("test", 100)):
        (tmp_path / part).mkdir()
        text = f'{{"users": ["a"], "num_samples": [{count}], "user_data": {{"a": {{"x": [{", ".join([json.dumps(row)] * count)}], '
        (tmp_path / part / "all.json").write_text(text + f'"y": {[3] * count}}}}}}}')
    for cache in ("no", "cache"):
        run = [sys.executable, "-c", MEASURE, str(tmp_path), cache]
        peak, size = map(int, subprocess.run(run, capture_output=True, check=True, text=True).stdout.split())
        # 800,000 images are 627 MB; a factor of 2 and 64 MB of buffers keep them well under 2 GB.
        assert peak < 2 * size + 2**26


@pytest.mark.skipif(
    not (SHARED / "leaf_json.py").is_file(), reason="the real FEMNIST is not beside the repository"
)
def test_real_writers_are_loaded_from_json(tmp_path: Path) -> None:
    script = [sys.executable, str(SHARED / "leaf_json.py"), str(tmp_path), "--writers", "3"]
    subprocess.run(script, check=True, capture_output=True)
    dataset = load_dataset("femnist", data_dir=tmp_path)
    with np.load(SHARED / "femnist" / "femnist-subset.npz") as archive:
        names, writers = archive["writer_ids"], archive["writer_index"]
        name = dataset.train.owner_names[0]
        real = archive["images"][writers == int(np.flatnonzero(names == name)[0])]
    owned = [part.features[part.owners == 0] for part in (dataset.train, dataset.test)]
    found = np.concatenate(owned)[:, 0]
    assert len(found) == len(real)
    assert {image.tobytes() for image in found} == {image.tobytes() for image in real}
