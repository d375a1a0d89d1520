"""The Hugging Face hub: what of it lies in its cache, and downloads, which happen on an explicit command alone."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcbs.errors import DataFileError, InvalidArgumentError, MissingDataError, MissingExtraError

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoSibling

__all__ = ["Hub", "check_blob", "check_pinned", "download", "hub_cache", "snapshot"]

_REPO = re.compile(r"(?!.*\.\.)\w[\w.-]*(/\w[\w.-]*)?")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_CONVERTED = "refs/convert/parquet"
"""Where the hub keeps parquet files that it made itself of datasets in other formats."""


@dataclass(frozen=True)
class Hub:
    """A dataset on the hub.

    Parameters
    ----------
    repo
        Its name there.
    revision
        The commit to use; whatever is there last when None.
    sha256
        Checksums of its files, where they are known.
    """

    repo: str
    revision: str | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _REPO.fullmatch(self.repo):
            raise InvalidArgumentError(
                f"dataset='hf:{self.repo}' is neither a folder nor a name of the hub, such as 'hf:user/name'"
            )


def hub_cache() -> Path:
    """Return the folder in which the hub's library keeps what it downloaded."""
    named = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    if named:
        return Path(named).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("HF_HOME") or Path(cache) / "huggingface").expanduser() / "hub"


def snapshot(hub: Hub) -> Path | None:
    """Return the folder of a dataset in the cache, or None; no server is asked."""
    base = hub_cache() / f"datasets--{hub.repo.replace('/', '--')}"
    named = [hub.revision] if hub.revision else ["main", _CONVERTED]
    for name in named:
        ref = base / "refs" / name
        commit = ref.read_text(encoding="ascii").strip() if ref.is_file() else name
        found = base / "snapshots" / commit
        if found.is_dir():
            return found
    return None


def check_blob(path: Path) -> None:
    """Refuse a file of the cache that has changed since; a large one is stored under its own SHA-256."""
    name = path.resolve().name
    if _SHA256.fullmatch(name) and _sha256(path) != name:
        raise DataFileError(
            f"{str(path)!r} is damaged: its contents have another checksum than the hub's; delete"
            f" {str(path.resolve())!r} and get it again"
        )


def check_pinned(path: Path, hub: Hub) -> None:
    """Refuse a file that is called as one of the hub's is, and is another."""
    for name, wanted in hub.sha256.items():
        if path.as_posix().endswith(f"/{name}") and _sha256(path) != wanted:
            raise DataFileError(
                f"{str(path)!r} is not the file of {hub.repo!r} on the hub; get it again, or, for other data in this"
                " layout, say verify=no"
            )


def download(hub: Hub, *, folder: Path | None = None, note: Callable[[str], None] = lambda _: None) -> Path:
    """Download the tables of a dataset, and return the folder that they are in.

    Parameters
    ----------
    hub
        What to download.
    folder
        Where to; the hub's cache when None.
    note
        Told what is done.
    """
    library = _library()
    if library.constants.HF_HUB_OFFLINE:
        raise MissingDataError(
            f"HF_HUB_OFFLINE is set, so {hub.repo!r} cannot be downloaded; unset it, or copy the files into a folder"
            " and name that"
        )
    endpoint = os.environ.get("HF_ENDPOINT") or None
    try:
        revision, commit, files = _listing(library, hub, endpoint)
        paths = []
        for file in files:
            note(f"{file.rfilename} ({(file.size or 0) / 1e6:.1f} MB)")
            paths.append(_fetch(library, hub, revision, file, folder, endpoint))
    except (MissingDataError, DataFileError):
        raise
    except Exception as error:  # the library's errors, its HTTP client's, the system's
        raise MissingDataError(_trouble(library, hub, error)) from error
    if folder is not None:
        return folder
    found = paths[0].parents[len(Path(files[0].rfilename).parts) - 1]
    if found.name != commit:
        raise MissingDataError(f"{hub.repo!r} changed on the hub during the download; try again")
    return found


def _library() -> Any:
    """The hub's library, with its telemetry off."""
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    try:
        import huggingface_hub
        import huggingface_hub.constants
        import huggingface_hub.errors
        import huggingface_hub.utils
    except ImportError as error:
        raise MissingExtraError("huggingface_hub", extra="data", purpose="a download from the hub") from error
    huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY = True  # where it was imported before
    library: Any = huggingface_hub
    if not sys.stderr.isatty():
        library.utils.disable_progress_bars()
    return library


def _listing(library: Any, hub: Hub, endpoint: str | None) -> tuple[str, str, list[RepoSibling]]:
    """The revision, its commit, and its tables; those that the hub made itself where the dataset has none."""
    api = library.HfApi(endpoint=endpoint, library_name="fedcbs")
    for revision in [hub.revision] if hub.revision else ["main", _CONVERTED]:
        info = api.dataset_info(hub.repo, revision=revision, files_metadata=True, timeout=30)
        tables = [file for file in info.siblings or () if file.rfilename.endswith(".parquet")]
        known = [file for file in tables if file.rfilename in hub.sha256]
        if tables:
            return revision, str(info.sha), sorted(known or tables, key=lambda file: file.rfilename)
    raise MissingDataError(
        f"{hub.repo!r} has no parquet files on the hub; download it by hand, and name its folder, as in 'folder:PATH'"
    )


def _fetch(
    library: Any, hub: Hub, revision: str, file: RepoSibling, folder: Path | None, endpoint: str | None
) -> Path:
    path = Path(
        library.hf_hub_download(
            hub.repo,
            file.rfilename,
            repo_type="dataset",
            revision=revision,
            local_dir=folder,
            endpoint=endpoint,
            library_name="fedcbs",
        )
    )
    said = {file.lfs.sha256} if file.lfs is not None else set()
    pinned = {hub.sha256[file.rfilename]} if file.rfilename in hub.sha256 else set()
    for wanted in said | pinned:
        found = _sha256(path)
        if found != wanted:
            path.resolve().unlink()
            raise DataFileError(
                f"{file.rfilename!r} of {hub.repo!r} arrived with SHA-256 {found}, not {wanted}; it was deleted, try again"
            )
    return path


def _trouble(library: Any, hub: Hub, error: Exception) -> str:
    errors = library.errors
    if isinstance(error, errors.GatedRepoError):
        return f"{hub.repo!r} asks for consent on the hub; give it there, and log in with 'hf auth login'"
    if isinstance(error, errors.RevisionNotFoundError):
        return (
            f"{hub.repo!r} has no revision {hub.revision!r} on the hub; choose another with revision=COMMIT"
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"{hub.repo!r} is not on the hub, or is private; check the spelling, or log in with 'hf auth login'"
    first = str(error).strip().partition("\n")[0]
    return (
        f"{hub.repo!r} could not be downloaded ({type(error).__name__}: {first}); check the network and try again, or"
        " copy the files into a folder and name that by --data-dir"
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
