"""A folder of images, a subfolder for each class; ``train`` and ``test`` above these, or a share held out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcbs.data._dataset import Examples
from fedcbs.data._images import ImageForm, decode, is_colour, open_image, require_pillow, upright_size
from fedcbs.data._layout import Files, Layout, Parts
from fedcbs.errors import DataFileError

__all__ = ["ImageFolder"]

_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".pgm", ".ppm", ".pbm", ".tif", ".tiff", ".webp"}
_TRAIN = ("train", "training")
_TEST = ("test", "testing", "val", "valid", "validation", "eval")


@dataclass(frozen=True)
class ImageFolder(Layout):
    """Images by class.

    Parameters
    ----------
    form
        What the images become.
    """

    form: ImageForm = field(default_factory=ImageForm)
    slow: ClassVar[bool] = True

    @property
    def expects(self) -> str:
        """The files, in words."""
        return "CLASS/*.png (or .jpg ...), or train/CLASS/*.png and test/CLASS/*.png"

    def find(self, folder: Path) -> Files | None:
        """Return the images of each part."""
        train = next((folder / name for name in _TRAIN if (folder / name).is_dir()), None)
        if train is None:
            images = _images(folder)
            return Files(folder, {"train": images}) if images else None
        test = next((folder / name for name in _TEST if (folder / name).is_dir()), None)
        parts = {"train": _images(train)} | ({"test": _images(test)} if test is not None else {})
        return Files(folder, parts, tuple(f"{part}/CLASS/*.png" for part in parts if not parts[part]))

    def read(self, files: Files, *, verify: bool) -> Parts:  # noqa: ARG002 - nothing is published about it
        """Decode the images."""
        require_pillow("an image folder")
        classes = sorted({path.parent.name for path in files.paths["train"]})
        if len(classes) < 2:
            raise DataFileError(
                f"{str(files.folder)!r} has images of {len(classes)} class; put those of each class into a folder of its own"
            )
        mode, shape = self._common_form([path for paths in files.paths.values() for path in paths])
        parts = {part: self._decode(paths, classes, mode, shape) for part, paths in files.paths.items()}
        return Parts(parts["train"], parts.get("test"), tuple(classes))

    def _common_form(self, paths: list[Path]) -> tuple[str, tuple[int, int]]:
        """Look at the heads of all files before long work starts: their sizes must agree."""
        sizes: Counter[tuple[int, int]] = Counter()
        first: dict[tuple[int, int], Path] = {}
        colour = False
        for path in paths:
            with open_image(path, repr(str(path))) as image:
                size = upright_size(image, repr(str(path)))
                colour = colour or is_colour(image)
            sizes[size] += 1
            first.setdefault(size, path)
        mode = self.form.mode or ("RGB" if colour else "L")
        if self.form.size is not None:
            return mode, self.form.size
        if len(sizes) > 1:
            (usual, _), (other, number), *_ = sizes.most_common()
            raise DataFileError(
                f"{str(first[other])!r} has {other[0]} x {other[1]} pixels, {str(first[usual])!r} {usual[0]} x {usual[1]}"
                f" ({len(sizes)} sizes in all, {number} files of the former); make them alike with the option size={usual[0]}"
            )
        return mode, next(iter(sizes))

    def _decode(
        self, paths: tuple[Path, ...], classes: list[str], mode: str, size: tuple[int, int]
    ) -> Examples:
        number = {name: label for label, name in enumerate(classes)}
        labels = np.empty(len(paths), np.int64)
        pixels: NDArray[np.uint8] = np.empty((len(paths), 3 if mode == "RGB" else 1, *size), np.uint8)
        for at, path in enumerate(paths):
            if path.parent.name not in number:
                raise DataFileError(
                    f"{str(path.parent)!r} is a class that the train part does not have; remove it, or add its images there"
                )
            labels[at] = number[path.parent.name]
            with open_image(path, repr(str(path))) as image:
                pixels[at] = decode(image, mode, self.form.size, repr(str(path)))
        return Examples(pixels, labels)


def _images(folder: Path) -> tuple[Path, ...]:
    """Images by class, in an order that does not depend on the file system."""
    classes = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    return tuple(
        path
        for name in classes
        for path in sorted(name.iterdir())
        if path.suffix.lower() in _SUFFIXES and not path.name.startswith(".") and path.is_file()
    )
