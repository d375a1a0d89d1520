"""The datasets that are known by name: where they lie, what is in them, what they must hash to."""

from __future__ import annotations

import math
import string
from dataclasses import dataclass, field

from fedcbs.data._cifar import CifarBinary, CifarPython
from fedcbs.data._columns import Wanted
from fedcbs.data._hub import Hub
from fedcbs.data._images import ImageForm
from fedcbs.data._layout import Layout
from fedcbs.data._leaf import LeafLayout
from fedcbs.data._mnist import IdxLayout
from fedcbs.data._tables import TableLayout

__all__ = ["KNOWN", "Known"]


@dataclass(frozen=True)
class Known:
    """A published dataset.

    Parameters
    ----------
    name
        What specs call it.
    summary
        One line about it.
    num_classes
        Number of classes.
    num_examples
        Examples to train and to test on, together.
    shape
        Shape of an example.
    folders
        What its folder is usually called.
    layouts
        How it lies on disk.
    mean, std
        Published normalisation; computed from the train part where None.
    class_names
        What the classes are called, where the files do not say.
    hub
        Where the hub has it.
    digests
        What the train and the test part must come to, however they were stored; see :func:`fedcbs.data._digest.digest`.
    held_out
        Share to hold out for testing where the files have no test part.
    options
        Other forms of it, by option and value.
    """

    name: str
    summary: str
    num_classes: int
    num_examples: int
    shape: tuple[int, ...]
    folders: tuple[str, ...]
    layouts: tuple[Layout, ...]
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    class_names: tuple[str, ...] = ()
    hub: Hub | None = None
    digests: tuple[str, str] | None = None
    held_out: float | None = None
    options: dict[tuple[str, str], Known] = field(default_factory=dict)

    @property
    def num_bytes(self) -> int:
        """Bytes that its examples take in memory."""
        return self.num_examples * math.prod(self.shape)


_FASHION = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)

_MNIST_SHA256 = {
    "train-images": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "test-images": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "test-labels": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
"""Of the unzipped contents; the gzipped files have been made anew by some who distribute them."""

_FASHION_SHA256 = {
    "train-images": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "test-images": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "test-labels": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}

_CIFAR10_MD5 = {
    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
_CIFAR100_MD5 = {
    "train": "16019d7e3df5f24257cddd939b257f8d",
    "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
}

_CIFAR10_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))


def _cifar10() -> Known:
    return Known(
        "cifar10",
        "10 kinds of animals and vehicles, in colour",
        10,
        60_000,
        (3, 32, 32),
        ("cifar10", "cifar-10-batches-bin", "cifar-10-batches-py", "CIFAR10", "cifar-10"),
        (
            CifarBinary(tuple(f"{name}.bin" for name in _BATCHES), ("test_batch.bin",), 10, md5=_CIFAR10_MD5),
            CifarPython(_BATCHES, ("test_batch",), 10, md5=_CIFAR10_MD5),
            TableLayout(Wanted("img", "label"), ImageForm("RGB"), places=("plain_text", ".")),
        ),
        (0.4914, 0.4822, 0.4465),
        (0.2470, 0.2435, 0.2616),
        _CIFAR10_NAMES,
        Hub(
            "uoft-cs/cifar10",
            "0b2714987fa478483af9968de7c934580d0bb9a2",
            {
                "plain_text/train-00000-of-00001.parquet": "8428b53a88a11ac374111006708df51469e315a22ac6d66470afd9c78d2ae883",
                "plain_text/test-00000-of-00001.parquet": "841389e6f2d64f28bf17310e430aebac20ec3ba611a3c5e231dc93c645ce84de",
            },
        ),
        (
            "6b6f8381d5e22cceb4111721dc1e618ca4d7a404d5687895f9a50d4f979bd212",
            "82126a25dc838811a70208e55fa6304b0596d89b19fc1930ee0317cf354b1c45",
        ),
    )


def _cifar100(kind: str, num_classes: int, options: dict[tuple[str, str], Known] | None = None) -> Known:
    return Known(
        "cifar100",
        "100 kinds of things, in colour; their 20 groups with labels=coarse",
        num_classes,
        60_000,
        (3, 32, 32),
        ("cifar100", "cifar-100-binary", "cifar-100-python", "CIFAR100", "cifar-100"),
        (
            CifarBinary(
                ("train.bin",), ("test.bin",), num_classes, (f"{kind}_label_names.txt",),
                label_bytes=2, label_at=int(kind == "fine"),
            ),
            CifarPython(
                ("train",), ("test",), num_classes, ("meta",), _CIFAR100_MD5,
                labels=f"{kind}_labels", names_key=f"{kind}_label_names",
            ),
            TableLayout(Wanted("img", f"{kind}_label"), ImageForm("RGB"), places=("cifar100", ".")),
        ),
        (0.5071, 0.4865, 0.4409),
        (0.2673, 0.2564, 0.2762),
        hub=Hub(
            "uoft-cs/cifar100",
            "aadb3af77e9048adbea6b47c21a81e47dd092ae5",
            {
                "cifar100/train-00000-of-00001.parquet": "694865d6b990e234804f01268586c41e88bcbbb75e20858432c05ad4081aca23",
                "cifar100/test-00000-of-00001.parquet": "98776c529bb146a9c791229df74a5cf076be9b43d82dbbd334b6a7788d73dc68",
            },
        ),
        options=options or {},
    )  # fmt: skip


KNOWN = {
    known.name: known
    for known in (
        Known(
            "mnist",
            "handwritten digits",
            10,
            70_000,
            (1, 28, 28),
            ("mnist", "MNIST"),
            (
                IdxLayout(_MNIST_SHA256),
                TableLayout(Wanted("image", "label"), ImageForm("L"), places=("mnist", ".")),
            ),
            (0.1307,),
            (0.3081,),
            tuple("0123456789"),
            Hub(
                "ylecun/mnist",
                "77f3279092a1c1579b2250db8eafed0ad422088c",
                {
                    "mnist/train-00000-of-00001.parquet": "f2c01285a9f89399335b00ee4e8d499dc4e46db5e39c74903ce5618d895eb3bf",
                    "mnist/test-00000-of-00001.parquet": "d49fcf556ce25b002b302e318ce4a11098bbfe5d4499c3f35d7c72297c52374b",
                },
            ),
            (
                "722cc6b62346d34f98e429033eb9bc74b0aa71b4cd53ae39517b0c7585e202b6",
                "72d9846d678346f07bc4aef3bc7d458450b05f19f2356ee7100cea74f4bf7ad4",
            ),
        ),
        Known(
            "fashion-mnist",
            "10 kinds of clothing",
            10,
            70_000,
            (1, 28, 28),
            ("fashion-mnist", "FashionMNIST", "fashion_mnist", "fashion"),
            (
                IdxLayout(_FASHION_SHA256),
                TableLayout(Wanted("image", "label"), ImageForm("L"), places=("fashion_mnist", ".")),
            ),
            (0.2860,),
            (0.3530,),
            _FASHION,
            Hub("zalando-datasets/fashion_mnist", "531be5e2ccc9dba0c201ad3ae567a4f3d16ecdd2"),
            (
                "e8d9ef27024b57b08490098a9dab0ca75efc0c177759f3d4e20b503360d42778",
                "3028651fe4e445623bad270836e03c7f78cbf6d4e7a825790beffe2fb50256eb",
            ),
        ),
        _cifar10(),
        _cifar100(
            "fine",
            100,
            {("labels", "fine"): _cifar100("fine", 100), ("labels", "coarse"): _cifar100("coarse", 20)},
        ),
        Known(
            "femnist",
            "handwritten digits and letters of 3,500 writers, who are owners (LEAF)",
            62,
            805_263,
            (1, 28, 28),
            ("femnist", "FEMNIST"),
            (
                LeafLayout(),
                TableLayout(Wanted("image", "character", "writer_id"), ImageForm("L"), places=("data", ".")),
            ),
            class_names=tuple("0123456789" + string.ascii_uppercase + string.ascii_lowercase),
            hub=Hub("flwrlabs/femnist", "5c617740df553a6d3e666035d29fb5d85e1c59a2"),
            held_out=0.1,
        ),
    )
}
