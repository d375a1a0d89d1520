"""What each step of ``fedcbs private`` does."""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from fedcbs._files import existing_file, write_whole
from fedcbs.cli._console import check_target, print_json, progress_bar, show, tell, write_bytes
from fedcbs.cli._private_noise import noised_counts
from fedcbs.errors import InvalidArgumentError, ProtocolError, UploadError, WrongKeyError

if TYPE_CHECKING:
    from fedcbs.private import Mode, PublicKeys, SecretKeys, UploadFolder, Work
    from fedcbs.private._wire import Buffer

REFUSED = 3
"""Exit code where the work was done, but without some uploads."""


def modes(args: argparse.Namespace) -> int:
    """List the modes."""
    from fedcbs.private import known_modes

    if args.json:
        print_json(known_modes())
    else:
        from rich.table import Table

        grid = Table(box=None, pad_edge=False, header_style="bold")
        grid.add_column("mode", no_wrap=True)
        grid.add_column("who learns what")
        for name, learns in known_modes().items():
            grid.add_row(name, learns)
        show(grid)
    return 0


def keygen(args: argparse.Namespace) -> int:
    """Make a pair of keys."""
    from fedcbs.private import DEFAULT_MAX_EXAMPLES, make_mode

    cap = DEFAULT_MAX_EXAMPLES if args.max_examples is None else args.max_examples
    keys = make_mode(args.mode, num_classes=args.classes, max_examples=cap).keygen()
    keys.save(args.out)
    tell(f"public keys, to hand out: {Path(args.out) / 'public'}")
    tell(f"secret keys, to keep:     {Path(args.out) / 'secret'}")
    tell("fingerprint, for clients to pin (tell them by another way than the server's):")
    show(keys.public.fingerprint)
    return 0


def encrypt(args: argparse.Namespace) -> int:
    """Make an upload."""
    from fedcbs.partition import load_label_counts

    check_target(args.out, "--out")
    mode, public = _public(args.public, args.fingerprint)
    rows = load_label_counts(args.counts)
    if args.row is None and len(rows) != 1:
        raise InvalidArgumentError(f"--counts {args.counts!r} has {len(rows)} rows; pick one with --row")
    if args.row is not None and args.row >= len(rows):
        raise InvalidArgumentError(f"--row {args.row}: {args.counts!r} has rows 0 to {len(rows) - 1}")
    class_secret = _class_secret(args, mode)  # a mistake in it is told before noise is charged
    counts = noised_counts(args, mode._checked_counts(rows[args.row or 0]), mode.max_examples)
    upload = mode.encrypt(public, counts, args.client, class_secret=class_secret)
    write_bytes(upload, args.out)
    if args.fingerprint is None:
        tell(
            f"encrypted for the key {public.fingerprint}; compare it with the selector's, or pin it with --fingerprint"
        )
    return 0


def seeds(args: argparse.Namespace) -> int:
    """Split off sealed seeds."""
    from fedcbs.private._masked import Masked

    uploads = _uploads(args.uploads)
    target = Path(args.out)
    target.mkdir(parents=True, exist_ok=True)
    refused: dict[str, str] = {}
    for client in uploads:
        try:
            write_bytes(Masked.seed(uploads[client]), str(target / f"{client}.seed"))
        except ProtocolError as error:
            refused[client] = error.reason if isinstance(error, UploadError) else str(error)
    return _report(
        args, {"clients": len(uploads) - len(refused), "out": args.out}, refused, "sealed seeds of"
    )


def masks(args: argparse.Namespace) -> int:
    """Make encrypted masks."""
    from fedcbs.private import UploadFolder
    from fedcbs.private._masked import Masked

    check_target(args.out, "--out")
    mode, secret = _secret(args.secret)
    found = UploadFolder(args.uploads, suffix=".seed")
    if not found:
        found = _uploads(args.uploads)
        if mode.exchanges_masks:
            tell(
                "whole uploads: with the secret key, their shares give the counts away. Let the server send seeds only "
                "(fedcbs private seeds), and delete these"
            )
    made = mode.masks(secret, found)
    write_bytes(made, args.out)
    refused = mode.refused_seeds(made) if isinstance(mode, Masked) else {}
    return _report(args, {"clients": len(found) - len(refused), "out": args.out}, refused, "masks for")


def gram(args: argparse.Namespace) -> int:
    """Compute the result."""
    check_target(args.out, "--out")
    mode, public = _public(args.public, None)
    uploads = _uploads(args.uploads)
    mask = None if args.masks is None else existing_file(args.masks, "--masks").read_bytes()
    refused: dict[str, str] = {}
    with _work(args, mode, refused) as work:
        _write_pieces(args.out, mode.gram_pieces(public, uploads, mask, work=work))
    done = {"mode": mode.name, "clients": len(uploads) - len(refused), "out": args.out}
    return _report(args, done, refused, "result of", told=True)


def open_gram(args: argparse.Namespace) -> int:
    """Open a result."""
    check_target(args.out, "--out")
    _check_npz(args.out)
    mode, secret = _secret(args.secret)
    with _naming("--gram", args.gram):
        opened = mode.open(secret, existing_file(args.gram, "--gram").read_bytes())
    opened.save(args.out)
    done = {"mode": mode.name, "clients": len(opened.clients), "out": args.out}
    return _report(args, done, dict(opened.refused), "inner products of")


def rows(args: argparse.Namespace) -> int:
    """Compute single rows, or open them."""
    check_target(args.out, "--out")
    server, selector = args.public and args.uploads, args.secret and args.rows
    if bool(server) == bool(selector):
        raise InvalidArgumentError(
            "rows: the server gives --public and --uploads, the selector --secret and --rows"
        )
    return _compute_rows(args) if server else _open_rows(args)


def _compute_rows(args: argparse.Namespace) -> int:
    from fedcbs.private._fhe import Fhe

    mode, public = _public(args.public, None)
    if not isinstance(mode, Fhe):
        raise InvalidArgumentError(
            f"rows: the keys are of mode {mode.name!r}; only 'fhe' computes single rows"
        )
    refused: dict[str, str] = {}
    with (
        _work(args, mode, refused) as work,
        mode.rows(public, _uploads(args.uploads), work=work) as computation,
    ):
        _write_pieces(args.out, computation.setup_pieces(args.client))
        done = {"mode": mode.name, "clients": len(computation.clients), "rows": args.client, "out": args.out}
    return _report(args, done, refused, f"{len(args.client)} rows of", told=True)


def _open_rows(args: argparse.Namespace) -> int:
    import numpy as np

    from fedcbs.private._fhe import Fhe

    _check_npz(args.out)
    mode, secret = _secret(args.secret)
    if not isinstance(mode, Fhe):
        raise InvalidArgumentError(
            f"rows: the keys are of mode {mode.name!r}; only 'fhe' computes single rows"
        )
    with _naming("--rows", args.rows):
        found = mode.open_rows(secret, existing_file(args.rows, "--rows").read_bytes())
    names = list(found.rows)

    def write(file: BinaryIO) -> None:
        np.savez(
            file,
            clients=np.array(found.clients, np.str_),
            num_examples=found.num_examples,
            diagonal=found.diagonal,
            row_clients=np.array(names, np.str_),
            rows=np.array([found.rows[name] for name in names], np.int64).reshape(len(names), -1),
        )

    write_whole(args.out, write)
    done = {"mode": mode.name, "clients": len(found.clients), "rows": names, "out": args.out}
    return _report(args, done, found.refused, f"{len(names)} rows of")


def fingerprint(args: argparse.Namespace) -> int:
    """Print a fingerprint."""
    show(_public(args.public, None)[1].fingerprint)
    return 0


def rotate_keys(args: argparse.Namespace) -> int:
    """Replace a pair of keys."""
    from fedcbs.private import rotate

    public, old = rotate(args.keys)
    tell(f"the old pair is in {old}; delete it when nothing made for it is needed any more")
    tell("hand out the new public keys, and tell the clients the new fingerprint; they must encrypt again:")
    show(public.fingerprint)
    return 0


def remove(args: argparse.Namespace) -> int:
    """Delete a client's upload."""
    from fedcbs.private import forget

    uploads = _uploads(args.uploads)
    uploads.remove(args.client)
    gone = 0 if args.state is None else forget(args.state, args.client)
    blocks = f", and {gone} blocks that it went into" if gone else ""
    tell(f"the upload of {args.client!r} is deleted{blocks}; compute again without it")
    return 0


def class_secret(args: argparse.Namespace) -> int:
    """Make the secret that hides the order of the classes."""
    check_target(args.out, "--out")
    try:
        handle = os.open(args.out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InvalidArgumentError(f"--out {args.out!r} exists; name a new file") from None
    with os.fdopen(handle, "wb") as file:
        file.write(secrets.token_bytes(32))
    tell(f"class secret: {args.out}; give it to all clients, and to neither the server nor the selector")
    return 0


class _work:  # noqa: N801  # used as a function
    """How the server works, with a bar while it does."""

    def __init__(self, args: argparse.Namespace, mode: Mode, refused: dict[str, str]) -> None:
        self._args, self._mode, self._refused = args, mode, refused
        self._bar = progress_bar("computing", quiet=args.quiet or args.json)

    def __enter__(self) -> Work:
        from fedcbs.private import Work

        def note(error: UploadError) -> None:
            self._refused[error.client] = error.reason
            if not self._args.json:
                tell(f"refused: {error.client}: {error.reason}")

        state = Path(self._args.state or f"{self._args.out}.state") if self._mode.keeps_blocks else None
        return Work(self._args.processes, state, self._bar.__enter__(), note)

    def __exit__(self, *error: object) -> None:
        self._bar.__exit__(None, None, None)


def _public(folder: str, pinned: str | None) -> tuple[Mode, PublicKeys]:
    from fedcbs.private import PublicKeys, mode_of

    public = PublicKeys.load(folder, fingerprint=pinned)
    return mode_of(public), public


def _secret(folder: str) -> tuple[Mode, SecretKeys]:
    from fedcbs.private import SecretKeys, mode_of

    secret = SecretKeys.load(folder)
    exposed = SecretKeys.exposed(folder)
    if exposed:
        tell(f"others than you can read {exposed[0]!r}: chmod 700 the folder and 600 the files in it")
    return mode_of(secret), secret


def _uploads(folder: str) -> UploadFolder:
    from fedcbs.private import UploadFolder

    found = UploadFolder(folder)
    if not found:
        raise InvalidArgumentError(
            f"--uploads {folder!r} holds no file NAME.upload; put the clients' uploads there"
        )
    return found


def _class_secret(args: argparse.Namespace, mode: Mode) -> bytes | None:
    if args.class_secret is not None:
        return existing_file(args.class_secret, "--class-secret").read_bytes()
    if mode.hides_order:
        tell("without --class-secret the selector sees which class is which")
    return None


@contextlib.contextmanager
def _naming(option: str, path: str) -> Iterator[None]:
    """Name the file that an error is about."""
    try:
        yield
    except (ProtocolError, WrongKeyError) as error:
        if isinstance(error, UploadError):
            raise
        raise type(error)(f"{option} {path!r}: {error}") from error


def _check_npz(path: str) -> None:
    if not path.lower().endswith(".npz"):
        raise InvalidArgumentError(f"--out {path!r} must end in .npz")


def _write_pieces(path: str, pieces: Iterable[Buffer]) -> None:
    def write(file: BinaryIO) -> None:
        for piece in pieces:
            file.write(piece)

    write_whole(path, write)


def _report(
    args: argparse.Namespace,
    done: Mapping[str, object],
    refused: Mapping[str, str],
    what: str,
    *,
    told: bool = False,
) -> int:
    """Say what was done and who was refused, and return the exit code."""
    if args.json:
        print_json({**done, "refused": dict(refused)})
    else:
        for client, reason in () if told else refused.items():
            tell(f"refused: {client}: {reason}")
        tell(
            f"{what} {done['clients']} clients: {done['out']}"
            + (f" ({len(refused)} refused)" if refused else "")
        )
    return REFUSED if refused else 0
