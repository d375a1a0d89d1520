"""What a damaged ``.npz`` archive raises, of NumPy's and of the zip file that it is."""

from __future__ import annotations

import struct
import zipfile
import zlib

__all__ = ["DAMAGED"]

DAMAGED = (
    *(OSError, EOFError, ValueError, KeyError, MemoryError, zipfile.BadZipFile, zlib.error, struct.error),
    RuntimeError,  # damaged flags make zipfile believe in encryption and in later versions of itself
    *(AttributeError, TypeError, SyntaxError),  # a damaged header of an array
)
