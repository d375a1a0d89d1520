"""JSON read piece by piece: a file of gigabytes takes the memory of its largest value that is asked for whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TextIO

__all__ = ["JsonStream"]

_AHEAD = 2**18
_LARGEST = 2**28
_BLANK = " \t\n\r"
_NUMBER_GOES_ON = {"", ".", "e", "E", "e+", "e-", "E+", "E-"}
"""What may be left of the text behind a number whose other part is not read yet: ``1`` of ``1.5``, ``1.5`` of ``1.5e-3``."""


class JsonStream:
    """A position in JSON text. Values must be taken in the order in which they stand.

    Parameters
    ----------
    file
        The text.

    Examples
    --------
    >>> import io
    >>> stream = JsonStream(io.StringIO('{"a": [1, 2], "b": {"c": null}}'))
    >>> [(key, list(stream.array()) if key == "a" else stream.value()) for key in stream.object()]
    [('a', [1, 2]), ('b', {'c': None})]
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._text = ""
        self._at = 0
        self._ended = False
        self._decoder = json.JSONDecoder()

    def object(self) -> Iterator[str]:
        """Yield the keys of an object; take the value of each before the next."""
        for _ in self._inside("{", "}"):
            key = self.value()
            if not isinstance(key, str):
                raise ValueError(f"a key is {key!r} and no text")
            self._expect(":")
            yield key

    def array(self) -> Iterator[Any]:
        """Yield the elements of an array, each whole."""
        for _ in self._inside("[", "]"):
            yield self.value()

    def rows(self) -> Iterator[list[str]]:
        """Yield the elements of each array in an array, as they are written; for arrays of numbers alone.

        >>> import io
        >>> list(JsonStream(io.StringIO("[[1, 2.50], []]")).rows())
        [['1', ' 2.50'], ['']]
        """
        for _ in self._inside("[", "]"):
            self._expect("[")
            while (end := self._text.find("]", self._at)) < 0:
                if self._ended or len(self._text) - self._at > _LARGEST:
                    raise ValueError("an array of numbers does not end, or the file ends in it")
                self._read(len(self._text) - self._at)
            found = self._text[self._at : end]
            self._at = end + 1
            yield found.split(",")

    def value(self) -> Any:
        """Return the next value whole."""
        self._next()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._ended or len(self._text) - self._at > _LARGEST:
                    raise ValueError(error.msg + (", where the file ends" if self._ended else "")) from None
            else:
                if self._ended or self._text[end : end + 3] not in _NUMBER_GOES_ON:
                    self._at = end
                    return value
            self._read(len(self._text) - self._at)

    def end(self) -> None:
        """Refuse anything but blanks in the rest of the file."""
        if self._next(optional=True):
            raise ValueError("something follows the end of the document")

    def _inside(self, opening: str, closing: str) -> Iterator[None]:
        self._expect(opening)
        if self._next() == closing:
            self._at += 1
            return
        while True:
            yield
            mark = self._next()
            self._at += 1
            if mark == closing:
                return
            if mark != ",":
                raise ValueError(f"{mark!r} stands where ',' or {closing!r} must")

    def _expect(self, mark: str) -> None:
        found = self._next()
        if found != mark:
            raise ValueError(f"{found!r} stands where {mark!r} must")
        self._at += 1

    def _next(self, *, optional: bool = False) -> str:
        """Go to the next character that is no blank, with some more behind it, and return it."""
        while True:
            if len(self._text) - self._at < _AHEAD and not self._ended:
                self._read(_AHEAD)
            while self._at < len(self._text) and self._text[self._at] in _BLANK:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if self._ended:
                if optional:
                    return ""
                raise ValueError("the file ends in the middle of a value")

    def _read(self, size: int) -> None:
        more = self._file.read(max(size, 4 * _AHEAD))
        self._ended = not more
        self._text = self._text[self._at :] + more
        self._at = 0
