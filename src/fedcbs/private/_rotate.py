"""A new pair of keys in the place of the old one, which is put away and refused from then on."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

from fedcbs.errors import InvalidArgumentError
from fedcbs.private._keys import Keys, PublicKeys
from fedcbs.private._registry import mode_of

__all__ = ["rotate"]

NEXT, RETIRED = "next", "retired"
PARTS = ("secret", "public")


def rotate(folder: str | os.PathLike[str]) -> tuple[PublicKeys, Path]:
    """Replace the keys in a folder that ``keygen`` made; return the new public keys, and where the old pair is now.

    The old secret key still opens what was made for it, until you delete it. Uploads made for the old key are refused with
    that reason. A rotation that was interrupted is finished by the next one.
    """
    home = Path(folder)
    if not (home / NEXT / "complete").exists():
        _prepare(home)
    return _put_in_place(home)


def _prepare(home: Path) -> None:
    if not (home / "public").is_dir() or not (home / "secret").is_dir():
        raise InvalidArgumentError(
            f"keys={str(home)!r} holds no pair of keys; name the folder that keygen wrote, with public/ and secret/ in it"
        )
    old = PublicKeys.load(home / "public")
    made = mode_of(old).keygen()
    public = dataclasses.replace(made.public, retired=(*old.retired, old.fingerprint))
    _discard(home / NEXT)
    Keys(public, made.secret).save(home / NEXT)
    (home / NEXT / "complete").write_text(old.fingerprint[:16])


def _put_in_place(home: Path) -> tuple[PublicKeys, Path]:
    old = (home / NEXT / "complete").read_text()
    away = home / RETIRED / old
    away.mkdir(mode=0o700, parents=True, exist_ok=True)
    for part in PARTS:
        if (home / NEXT / part).exists():
            if (home / part).exists() and not (away / part).exists():
                (home / part).rename(away / part)
            (home / NEXT / part).rename(home / part)
    _discard(home / NEXT)
    return PublicKeys.load(home / "public"), away


def _discard(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
