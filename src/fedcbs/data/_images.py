"""Images, from files or bytes, as bytes with the channel first. Needs Pillow, of the extra ``data``."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedcbs.data._spec import DatasetSpec
from fedcbs.errors import DataFileError, InvalidArgumentError, MissingExtraError

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["ImageForm", "decode", "image_form", "is_colour", "open_image", "require_pillow", "upright_size"]

_MOST_PIXELS = 2**26
_ORIENTATION = 0x0112
_GREY = ("1", "L", "LA", "La")
_COLOUR = ("P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "LAB", "HSV")


@dataclass(frozen=True)
class ImageForm:
    """What images become.

    Parameters
    ----------
    mode
        ``L`` for grey, ``RGB`` for colour; None to go by the images.
    size
        Height and width to resize to; None to leave the size, which all must share then.
    """

    mode: str | None = None
    size: tuple[int, int] | None = None


def image_form(spec: DatasetSpec) -> ImageForm:
    """Return the form that the options `mode` and `size` of a spec ask for."""
    mode = spec.choice("mode", "auto", "L", "RGB")
    text = spec.options.get("size")
    if text is None:
        return ImageForm(None if mode == "auto" else mode)
    sides = text.lower().split("x")
    if len(sides) > 2 or not all(side.isdecimal() and 0 < int(side) <= 2**13 for side in sides):
        raise InvalidArgumentError(
            f"dataset={spec.text!r}: size={text!r} must be a side such as 32, or HEIGHTxWIDTH such as 32x48"
        )
    return ImageForm(None if mode == "auto" else mode, (int(sides[0]), int(sides[-1])))


def require_pillow(purpose: str) -> None:
    """Refuse to go on without Pillow."""
    try:
        import PIL.Image  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("pillow", extra="data", purpose=purpose) from error


def open_image(source: Path | bytes, where: str) -> Image:
    """Open an image, of which only the head is read yet.

    Parameters
    ----------
    source
        The file, or its contents.
    where
        What messages call it.
    """
    from PIL import Image

    try:
        image = Image.open(io.BytesIO(source) if isinstance(source, bytes) else source)
    except _broken() as error:
        raise DataFileError(
            f"{where} is no image that can be read ({_said(error)}); repair or remove it"
        ) from error
    if image.width * image.height > _MOST_PIXELS:
        trouble = f"has {image.width} x {image.height} pixels, too many; make it smaller"
    elif image.mode not in (*_GREY, *_COLOUR):
        trouble = f"has pixels of kind {image.mode!r}; save it with 8 bits a channel"
    else:
        return image
    image.close()
    raise DataFileError(f"{where} {trouble}")


def upright_size(image: Image, where: str) -> tuple[int, int]:
    """Height and width of an opened image once it is turned as its camera says."""
    try:
        sideways = image.getexif().get(_ORIENTATION, 1) >= 5
    except _broken() as error:
        raise DataFileError(f"{where} is broken ({_said(error)}); repair or remove it") from error
    return (image.width, image.height) if sideways else (image.height, image.width)


def is_colour(image: Image) -> bool:
    """Whether an image has more than one channel, transparency aside."""
    return image.mode not in _GREY


def decode(image: Image, mode: str, size: tuple[int, int] | None, where: str) -> NDArray[np.uint8]:
    """Return the pixels of an opened image: channels x height x width."""
    from PIL import Image, ImageOps

    try:
        turned: Any = ImageOps.exif_transpose(image)
        if turned.mode in ("P", "PA") and mode == "RGB":
            turned = turned.convert("RGBA")  # a palette may hold transparency
        turned = turned.convert(mode)
        if size is not None and (turned.height, turned.width) != size:
            turned = turned.resize((size[1], size[0]), Image.Resampling.BILINEAR)
    except _broken() as error:
        raise DataFileError(f"{where} is broken ({_said(error)}); repair or remove it") from error
    pixels = np.asarray(turned)
    return pixels[None] if mode == "L" else np.moveaxis(pixels, -1, 0)


def _broken() -> tuple[type[Exception], ...]:
    """What Pillow raises for damaged files; one of no known format is an OSError."""
    from PIL import Image

    bombs = (Image.DecompressionBombError, Image.DecompressionBombWarning)
    return (
        OSError,
        SyntaxError,
        ValueError,
        EOFError,
        struct.error,
        MemoryError,
        IndexError,
        TypeError,
        *bombs,
    )


def _said(error: Exception) -> str:
    """The message without the address of an object that Pillow puts into it."""
    return str(error).partition("<_io")[0].strip() or type(error).__name__
