"""Partitions as values, on disk, by owner; label counts from files."""

from __future__ import annotations

import copy
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcbs.errors import InvalidArgumentError
from fedcbs.partition import GivenCounts, Partition, by_owner, load_label_counts


@pytest.fixture
def partition() -> Partition:
    return Partition(np.array([4, 0, 2, 7]), np.array([0, 1, 1, 4]), np.array(["ann", "bob", "eve"]))


def test_a_client_is_a_view_that_cannot_be_written(partition: Partition) -> None:
    assert [client.tolist() for client in partition] == [[4], [], [0, 2, 7]]
    assert partition[2].base is not None
    with pytest.raises(ValueError, match="read-only"):
        partition[2][0] = 5


def test_freezing_leaves_the_callers_arrays_alone() -> None:
    indices = np.array([1, 0])
    Partition(indices, np.array([0, 2]))
    indices[0] = 5  # still writable


@pytest.mark.parametrize("client", [-1, 3, 1.5, "0", True])
def test_no_such_client_is_refused(partition: Partition, client: object) -> None:
    with pytest.raises(InvalidArgumentError, match="client="):
        partition[client]  # type: ignore[index]


def test_partitions_compare_by_value_and_survive_copying(partition: Partition) -> None:
    assert partition == copy.deepcopy(partition)
    assert partition == pickle.loads(pickle.dumps(partition))
    assert partition != Partition(partition.indices, partition.offsets)
    assert partition != Partition(partition.indices, np.array([0, 1, 2, 4]), partition.owners)
    assert partition != "partition"


def test_taking_clients_keeps_their_examples_and_names(partition: Partition) -> None:
    some = partition.take([2, 0])
    assert [client.tolist() for client in some] == [[0, 2, 7], [4]]
    assert some.owners is not None
    assert some.owners.tolist() == ["eve", "ann"]
    assert len(partition.take([])) == 0
    with pytest.raises(InvalidArgumentError, match="no clients"):
        partition.take([]).take([0])


def test_label_counts_need_the_datasets_labels(partition: Partition) -> None:
    assert partition.label_counts([0, 0, 1, 0, 2, 0, 0, 1]).tolist() == [[0, 0, 1], [0, 0, 0], [1, 2, 0]]
    assert partition.label_counts([0] * 8, num_classes=3).shape == (3, 3)
    with pytest.raises(InvalidArgumentError, match="labels has 5 entries, but the partition holds example 7"):
        partition.label_counts([0] * 5)
    with pytest.raises(InvalidArgumentError, match="num_classes=1"):
        partition.label_counts([1] * 8, num_classes=1)


@pytest.mark.parametrize(
    ("indices", "offsets", "owners", "message"),
    [
        ([1, 1], [0, 2], None, "holds example 1 twice"),
        ([1, -1], [0, 2], None, r"indices\[1\]=-1"),
        ([1, 2], [0, 1], None, "end at the number of indices, 2"),
        ([1, 2], [1, 2], None, "must start at 0"),
        ([1, 2], [], None, "must start at 0"),
        ([1, 2, 3], [0, 2, 1, 3], None, r"offsets\[2\]=1 lies below"),
        ([1, 2], [0, 2], np.array(["a", "b"]), "must name each of 1 clients"),
        ([1, 2], [0, 2], np.array([None]), "owners has dtype object"),
        ([1.5, 2], [0, 2], None, r"indices\[0\]=1.5"),
    ],
)
def test_what_is_no_partition_is_refused(
    indices: list[int], offsets: list[int], owners: np.ndarray | None, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Partition(np.array(indices), np.array(offsets), owners)


@settings(max_examples=25, deadline=None)
@given(sizes=st.lists(st.integers(0, 5), max_size=6), owned=st.booleans(), seed=st.integers(0, 99))
def test_saving_and_loading_gives_the_same_partition(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], owned: bool, seed: int
) -> None:
    path = tmp_path_factory.mktemp("saved") / "p.npz"
    indices = np.random.default_rng(seed).permutation(100)[: sum(sizes)]
    owners = np.arange(len(sizes)) * 7 if owned else None
    partition = Partition(indices, np.cumsum([0, *sizes]), owners)
    partition.save(path)
    assert Partition.load(path) == partition
    assert [file.name for file in path.parent.iterdir()] == ["p.npz"]


def test_equal_partitions_are_saved_as_equal_bytes(partition: Partition, tmp_path: Path) -> None:
    for name in ("a", "b"):
        partition.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_write_that_fails_leaves_the_old_file(
    partition: Partition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.npz"
    path.write_bytes(b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, f"No space left for {descriptor}")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        partition.save(path)
    assert path.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


def test_saving_where_nothing_can_be_is_refused(partition: Partition, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="there is no folder"):
        partition.save(tmp_path / "missing" / "p.npz")
    with pytest.raises(InvalidArgumentError, match="is a folder"):
        partition.save(tmp_path)


def test_every_truncation_and_a_flipped_byte_anywhere_is_noticed_or_harmless(
    partition: Partition, tmp_path: Path
) -> None:
    path, broken = tmp_path / "p.npz", tmp_path / "broken.npz"
    partition.save(path)
    content = path.read_bytes()
    for end in range(0, len(content), 7):
        broken.write_bytes(content[:end])
        with pytest.raises(InvalidArgumentError, match="holds no partition"):
            Partition.load(broken)
    for at in range(0, len(content), 3):
        broken.write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
        try:
            assert Partition.load(broken) == partition
        except InvalidArgumentError as error:
            assert "holds no partition" in str(error)  # noqa: PT017 - either outcome is right


def test_other_files_are_no_partition(tmp_path: Path) -> None:
    for name, write in {
        "array.npz": lambda file: np.save(file, np.arange(3)),
        "other.npz": lambda file: np.savez(file, x=np.arange(3)),
        "version.npz": lambda file: np.savez(file, format=np.array("other-2")),
        "pickled.npz": lambda file: np.savez(file, format=np.array([{}], dtype=object)),
        "missing.npz": lambda file: np.savez(file, format=np.array("fedcbs-partition-1")),
        "twice.npz": lambda file: np.savez(
            file, format=np.array("fedcbs-partition-1"), indices=np.array([1, 1]), offsets=np.array([0, 2])
        ),
        "text.npz": lambda file: file.write(b"indices: 1, 2"),
    }.items():
        with (tmp_path / name).open("wb") as file:
            write(file)
        with pytest.raises(InvalidArgumentError, match="holds no partition"):
            Partition.load(tmp_path / name)
    with pytest.raises(InvalidArgumentError, match="is no file"):
        Partition.load(tmp_path / "nothing.npz")
    with pytest.raises(InvalidArgumentError, match="is no file"):
        Partition.load(tmp_path)
    with pytest.raises(InvalidArgumentError, match="is no file"):
        Partition.load("a\0b")


def test_owners_become_clients_in_ascending_order() -> None:
    partition = by_owner([30, 10, 30, 20, 10, 30], min_examples=2)
    assert partition.owners is not None
    assert partition.owners.tolist() == [10, 30]
    assert [client.tolist() for client in partition] == [[1, 4], [0, 2, 5]]


@settings(max_examples=40, deadline=None)
@given(
    owners=st.lists(st.integers(-5, 5), min_size=1, max_size=40)
    | st.lists(st.sampled_from(["", "a", "ä", "zz"]), min_size=1, max_size=40)
)
def test_every_example_stays_with_its_owner(owners: list[int] | list[str]) -> None:
    partition = by_owner(owners)
    assert partition.owners is not None
    assert partition.indices.size == len(owners)
    for owner, examples in zip(partition.owners.tolist(), partition, strict=True):
        assert [owners[i] for i in examples] == [owner] * len(examples)


@pytest.mark.parametrize(
    ("owners", "options", "message"),
    [
        ([], {}, "owners has shape"),
        ([[1, 2]], {}, "owners has 2 dimensions"),
        ([["a", "b"]], {}, "owners has shape"),
        ([1.5], {}, r"owners\[0\]=1.5"),
        ([1, 1, 2], {"min_examples": 3}, "no owner has more than 2 examples"),
        ([1], {"min_examples": 0}, "min_examples=0"),
        ([None], {}, "owners"),
    ],
)
def test_owners_that_cannot_be_are_refused(
    owners: list[object], options: dict[str, int], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        by_owner(owners, **options)  # type: ignore[arg-type]


def test_handwriting_is_partitioned_by_writer() -> None:
    folder = Path(__file__).resolve().parents[2] / "shared" / "data" / "qmnist"
    file = folder / "qmnist-train-labels-idx2-int.gz"
    if not file.is_file():
        pytest.skip("the QMNIST labels are not beside this checkout")
    import gzip

    rows = np.frombuffer(gzip.decompress(file.read_bytes())[12:], dtype=">i4").reshape(60_000, 8)
    partition = by_owner(rows[:, 2].astype(np.int64))
    counts = partition.label_counts(rows[:, 0])
    assert len(partition) == 539
    assert np.array_equal(counts.sum(axis=1), partition.num_examples)
    assert counts.shape[1] == 10


def test_label_counts_come_from_text_and_from_arrays(tmp_path: Path) -> None:
    expected = [[3, 0], [1, 2]]
    (tmp_path / "a.csv").write_text("cats,dogs\n3,0\n\n 1 , 2\r\n")
    (tmp_path / "b.CSV").write_bytes(b"\xef\xbb\xbf3,0\n1,2")
    np.save(tmp_path / "c.npy", np.array(expected, dtype=np.uint8))
    np.save(tmp_path / "d.npy", np.asfortranarray(np.array(expected, dtype=float)))
    for name in ("a.csv", "b.CSV", "c.npy", "d.npy"):
        counts = load_label_counts(tmp_path / name)
        assert counts.tolist() == expected
        assert counts.dtype == np.int64


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no clients"),
        ("cats,dogs\n", "has no clients"),
        ("1,2\n3\n", "line 2 has 1 cells, the lines before it 2"),
        ("1,2\n3,-1\n", "line 2, column 2: '-1' is no whole number"),
        ("1,2\n3,nan\n", "line 2, column 2: 'nan'"),
        ("nan,nan\n1,2\n", "line 1, column 1: 'nan'"),
        ("1.5,2\n", "line 1, column 1: '1.5'"),
        ("-1,-2\n", "line 1, column 1: '-1'"),
        ("1,2\ncats,dogs\n", "line 2, column 1: 'cats'"),
        ("1,,2\n", "line 1, column 2: ''"),
        ("1;2\n", "line 1, column 1: '1;2'"),
        ("1_0,2\n", "line 1, column 1: '1_0'"),
        ("\u0661,2\n", "line 1, column 1"),  # a digit, but not one of ours
        ("9" * 5000 + ",1\n", "line 1, column 1: '9999"),
        ("9999999999999999,1\n", "must be a whole number from 0 to 9007199254740992"),
        ("9007199254740992,9\n", "more than 2\\*\\*53 examples"),
        ("=cmd|' /C calc'!A0,1\n3,4\n", "line 1, column 2|line 1, column 1"),
    ],
)
def test_hostile_text_is_refused_by_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "counts.csv").write_text(content, encoding="utf-8")
    with pytest.raises(InvalidArgumentError, match=message):
        load_label_counts(tmp_path / "counts.csv")


def test_hostile_arrays_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "counts.npy"
    for array in ([1, 2], [[1.5]], [[float("nan")]], [["a"]], np.zeros((0, 3)), np.zeros((3, 0))):
        np.save(path, np.array(array))
        with pytest.raises(InvalidArgumentError):
            load_label_counts(path)
    np.save(path, np.array([{}]), allow_pickle=True)
    with pytest.raises(InvalidArgumentError, match="holds no array"):
        load_label_counts(path)
    path.write_bytes(b"\x93NUMPY rubbish")
    with pytest.raises(InvalidArgumentError, match="holds no array"):
        load_label_counts(path)
    header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (99999999999, 1000), }\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\0" * 80)
    with pytest.raises(InvalidArgumentError, match="holds no array"):
        load_label_counts(path)


def test_other_endings_and_bytes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "counts.txt").write_text("1,2")
    with pytest.raises(InvalidArgumentError, match=r"must end in \.csv or \.npy"):
        load_label_counts(tmp_path / "counts.txt")
    (tmp_path / "counts.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidArgumentError, match="is no text"):
        load_label_counts(tmp_path / "counts.csv")


def test_given_counts_are_kept_and_checked() -> None:
    counts = np.array([[3, 0], [1, 2]])
    scheme = GivenCounts(counts)
    counts[0, 0] = 9
    rng = np.random.default_rng(0)
    assert scheme.draw_counts([4, 2], 2, rng).tolist() == [[3, 0], [1, 2]]
    with pytest.raises(InvalidArgumentError, match=r"class_totals\[0\]=3, but label_counts deals out 4"):
        scheme.draw_counts([3, 2], 2, rng)
    with pytest.raises(InvalidArgumentError, match="num_clients=3, but 'counts' makes 2"):
        scheme.draw_counts([4, 2], 3, rng)
    with pytest.raises(InvalidArgumentError, match="num_classes=3, but label_counts has 2"):
        scheme.draw_counts([4, 2, 2], 2, rng)
    with pytest.raises(InvalidArgumentError, match="has its sizes"):
        GivenCounts(counts, examples_per_client=3)
    with pytest.raises(InvalidArgumentError, match="no clients"):
        GivenCounts(np.zeros((0, 2), dtype=np.int64))
