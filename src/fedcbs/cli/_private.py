"""``fedcbs private``: the private protocol over files, one command for each step of each party."""

from __future__ import annotations

import os

from fedcbs.cli import _private_run as steps
from fedcbs.cli._commands import Subparsers
from fedcbs.cli._parser import Parser, at_least, listing
from fedcbs.cli._private_noise import add_noise_options

__all__ = ["add_parser"]

DESCRIPTION = """\
The private protocol, by moving files between three parties. Clients encrypt their label counts; the server computes on what it
cannot read; the selector, who alone holds the secret key, gets inner products, which is what balanced selection needs."""

EXAMPLES = """\
an example with three organisations (mode masked has one more step, see below):
  selector    fedcbs private keygen --mode fhe --classes 10 --out KEYS
              hand out KEYS/public, keep KEYS/secret; read the fingerprint out to the clients
  client      fedcbs private encrypt --public public --counts counts.csv --client hospital-a --out hospital-a.upload \\
                  --fingerprint 3f9c...
              send the upload to the server, who collects all of them in one folder
  server      fedcbs private gram --public public --uploads uploads --out gram.enc
              send gram.enc to the selector
  selector    fedcbs private open --secret KEYS/secret --gram gram.enc --out gram.npz
in mode masked, before gram:
  server      fedcbs private seeds --uploads uploads --out seeds          send the folder seeds to the selector
  selector    fedcbs private masks --secret KEYS/secret --uploads seeds --out masks.enc        send it to the server
  server      fedcbs private gram --public public --uploads uploads --masks masks.enc --out gram.enc

fedcbs private --help shows this; fedcbs private STEP --help tells more. Exit code 3: done, but uploads were refused."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``fedcbs private``."""
    parser = subparsers.add_parser(
        "private",
        help="label statistics that the server cannot read: keys, encryption, computation, opening",
        description=DESCRIPTION,
        late_epilog=_epilog,
    )
    found = parser.add_subparsers(title="steps", metavar="STEP", required=True, parser_class=Parser)
    for add in (
        _modes,
        _keygen,
        _encrypt,
        _seeds,
        _masks,
        _gram,
        _open,
        _rows,
        _fingerprint,
        _rotate,
        _remove,
        _class_secret,
    ):
        add(found)


def _modes(found: Subparsers) -> None:
    step = found.add_parser("modes", help="list the modes, and who learns what in each")
    step.set_defaults(run=steps.modes)
    step.add_argument("--json", action="store_true", help="print JSON, and nothing else")


def _keygen(found: Subparsers) -> None:
    step = found.add_parser("keygen", help="selector: make a pair of keys")
    step.set_defaults(run=steps.keygen)
    step.add_argument(
        "--mode", required=True, metavar="MODE", help="plain, sealed, masked or fhe; see 'modes'"
    )
    step.add_argument("--classes", required=True, type=at_least(1), metavar="B", help="number of classes")
    step.add_argument(
        "--max-examples",
        type=at_least(1),
        metavar="Q",
        help="most examples that a client may claim: bounds how much one client weighs (default: 65535)",
    )
    step.add_argument(
        "-o", "--out", required=True, metavar="DIR", help="new folder: public/ to hand out, secret/ to keep"
    )


def _encrypt(found: Subparsers) -> None:
    step = found.add_parser("encrypt", help="client: make an upload of its label counts")
    step.set_defaults(run=steps.encrypt)
    step.add_argument("--public", required=True, metavar="DIR", help="the selector's public keys")
    step.add_argument(
        "--counts",
        required=True,
        metavar="FILE",
        help=".csv or .npy with a row of counts, a cell for each class",
    )
    step.add_argument(
        "--row", type=at_least(0), metavar="I", help="which row, from 0, where the file has several"
    )
    step.add_argument(
        "--client", required=True, metavar="NAME", help="the client's name; it is bound to the upload"
    )
    step.add_argument("-o", "--out", required=True, metavar="FILE", help="the upload: NAME.upload")
    step.add_argument(
        "--fingerprint",
        metavar="HEX",
        help="the fingerprint of the selector's key, learnt by another way than the server's; another key is refused",
    )
    step.add_argument(
        "--class-secret",
        metavar="FILE",
        help="mode sealed: a file that all clients share and nobody else has; hides the order of the classes",
    )
    add_noise_options(step)


def _seeds(found: Subparsers) -> None:
    step = found.add_parser(
        "seeds", help="server, mode masked: split off what the selector may see of uploads"
    )
    step.set_defaults(run=steps.seeds)
    _add_uploads(step)
    step.add_argument(
        "-o",
        "--out",
        required=True,
        metavar="DIR",
        help="folder for the sealed seeds, to send to the selector",
    )
    step.add_argument("--json", action="store_true", help="print JSON, and nothing else")


def _masks(found: Subparsers) -> None:
    step = found.add_parser("masks", help="selector, mode masked: make encrypted masks from sealed seeds")
    step.set_defaults(run=steps.masks)
    _add_secret(step)
    step.add_argument(
        "--uploads",
        required=True,
        metavar="DIR",
        help="folder of sealed seeds that the server split off; whole uploads work, but say too much to the selector",
    )
    step.add_argument("-o", "--out", required=True, metavar="FILE", help="the masks, to send to the server")
    step.add_argument("--json", action="store_true", help="print JSON, and nothing else")


def _gram(found: Subparsers) -> None:
    step = found.add_parser("gram", help="server: compute what the selector opens, from all uploads")
    step.set_defaults(run=steps.gram)
    step.add_argument("--public", required=True, metavar="DIR", help="the selector's public keys")
    _add_uploads(step)
    step.add_argument("--masks", metavar="FILE", help="mode masked: what the selector made with 'masks'")
    step.add_argument(
        "-o", "--out", required=True, metavar="FILE", help="the result, to send to the selector"
    )
    _add_work(step)


def _add_work(step: Parser) -> None:
    step.add_argument(
        "--processes",
        type=at_least(1),
        default=os.cpu_count() or 1,
        metavar="P",
        help="processes that compute (default: one for each core)",
    )
    step.add_argument(
        "--state",
        metavar="DIR",
        help="folder for finished blocks: an interrupted run goes on from there, and new clients cost only what is new "
        "(default: the result's name with .state)",
    )
    step.add_argument("--json", action="store_true", help="print JSON, and nothing else")
    step.add_argument("--quiet", action="store_true", help="show no progress")


def _open(found: Subparsers) -> None:
    step = found.add_parser("open", help="selector: open a result, check it, and write the inner products")
    step.set_defaults(run=steps.open_gram)
    _add_secret(step)
    step.add_argument("--gram", required=True, metavar="FILE", help="what the server computed")
    step.add_argument(
        "-o",
        "--out",
        required=True,
        metavar="FILE",
        help=".npz with arrays gram, num_examples, clients (in order of names)",
    )
    step.add_argument("--json", action="store_true", help="print JSON, and nothing else")


def _rows(found: Subparsers) -> None:
    step = found.add_parser(
        "rows", help="mode fhe: sizes, diagonal and single rows instead of the whole matrix"
    )
    step.set_defaults(run=steps.rows)
    step.add_argument("--public", metavar="DIR", help="server: the selector's public keys")
    step.add_argument("--uploads", metavar="DIR", help="server: folder of uploads")
    step.add_argument(
        "--client", action="append", default=[], metavar="NAME", help="whose row; may be given several times"
    )
    step.add_argument("--secret", metavar="DIR", help="selector: open the file of --rows with these keys")
    step.add_argument("--rows", metavar="FILE", help="selector: what the server computed")
    step.add_argument(
        "-o",
        "--out",
        required=True,
        metavar="FILE",
        help="server: the result; selector: .npz with num_examples, diagonal, clients, row_clients, rows",
    )
    _add_work(step)


def _fingerprint(found: Subparsers) -> None:
    step = found.add_parser("fingerprint", help="print the fingerprint of public keys, which clients pin")
    step.set_defaults(run=steps.fingerprint)
    step.add_argument("--public", required=True, metavar="DIR", help="the selector's public keys")


def _rotate(found: Subparsers) -> None:
    step = found.add_parser(
        "rotate", help="selector: replace a pair of keys; the old one is put away and refused"
    )
    step.set_defaults(run=steps.rotate_keys)
    step.add_argument("--keys", required=True, metavar="DIR", help="the folder that keygen wrote")


def _remove(found: Subparsers) -> None:
    step = found.add_parser(
        "remove", help="server: delete the upload of a client that leaves, and all made from it"
    )
    step.set_defaults(run=steps.remove)
    _add_uploads(step)
    step.add_argument("--client", required=True, metavar="NAME", help="who leaves")
    step.add_argument(
        "--state", metavar="DIR", help="the folder of finished blocks, where its ciphertexts went into"
    )


def _class_secret(found: Subparsers) -> None:
    step = found.add_parser("class-secret", help="clients, mode sealed: make the secret that they share")
    step.set_defaults(run=steps.class_secret)
    step.add_argument(
        "-o",
        "--out",
        required=True,
        metavar="FILE",
        help="new file; give it to all clients and to nobody else",
    )


def _add_secret(step: Parser) -> None:
    step.add_argument("--secret", required=True, metavar="DIR", help="the selector's secret keys")


def _add_uploads(step: Parser) -> None:
    step.add_argument(
        "--uploads", required=True, metavar="DIR", help="folder of uploads, NAME.upload for each client"
    )


def _epilog() -> str:
    from fedcbs.private import known_modes

    return "\n\n".join([listing("modes", known_modes()), EXAMPLES])
