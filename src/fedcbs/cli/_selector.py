"""``fedcbs selector``: the selector as a service, with what its operator needs."""

from __future__ import annotations

import argparse
import dataclasses
import logging
import os
import sys
from typing import TYPE_CHECKING

from fedcbs.cli._commands import Subparsers
from fedcbs.cli._console import print_json, show, tell
from fedcbs.cli._parser import Parser, at_least, positive
from fedcbs.errors import InvalidArgumentError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fedcbs.service import FederationStatus

__all__ = ["add_parser", "run"]

DESCRIPTION = """\
Run the selector as a party of its own. It holds the secret keys, opens the label statistics that a federation's server
computed on encrypted uploads, and answers which of the available clients train next. The server learns the cohort."""

EXAMPLES = """\
examples:
  fedcbs selector certificates --out certs --host selector.example.org
      an authority, the service's certificate, and one for the caller "server"
  fedcbs selector serve --state selector.sqlite --certificates certs --host 0.0.0.0
      serve with TLS; callers without a certificate of that authority are turned away
  fedcbs selector status --url https://localhost:8443 --certificates certs
      whether it answers, and how each federation stands
  fedcbs selector serve --mode plain --certificates certs
      clients send counts themselves: one self-contained process, for an enclave

'fedcbs selector --help' shows this page, 'fedcbs selector COMMAND --help' more."""

SERVE = """\
Serve until SIGTERM or SIGINT; requests that are under way are finished first. The state is one file, written in
transactions: a crash loses nothing, and a request that is asked again gets the same answer."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``fedcbs selector``."""
    parser = subparsers.add_parser(
        "selector",
        help="run the selector as a service that holds the secret keys",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    _add_serve(commands)
    _add_certificates(commands)
    _add_status(commands)
    _add_upkeep(commands)


def run(args: argparse.Namespace) -> int:
    """Run one of the commands."""
    code: int = args.run(args)
    return code


def _add_serve(commands: Subparsers) -> None:
    parser = commands.add_parser("serve", help="serve until told to end", description=SERVE)
    parser.set_defaults(run=_serve)
    _add_state(parser, "keys, statistics and state; made where there is none, readable by its owner only")
    parser.add_argument(
        "--certificates", metavar="DIR", help="folder with selector.pem, selector.key and ca.pem"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port",
        type=at_least(0),
        default=8443,
        help="port to listen on; 0 for a free one (default: %(default)s)",
    )
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="plain HTTP without certificates, on the loopback interface only",
    )
    parser.add_argument(
        "--mode",
        action="append",
        metavar="MODE",
        help="offer this private mode only; may be given again (default: all)",
    )
    parser.add_argument(
        "--server",
        action="append",
        metavar="NAME",
        help="let this certificate's name make federations; may be given again (default: any)",
    )
    parser.add_argument(
        "--report-qcid",
        choices=("no", "rounded", "exact"),
        default="no",
        help="what servers are told of a cohort's QCID: nothing, one digit, or all (default: %(default)s)",
    )
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--largest-request",
        type=at_least(1),
        default=1024,
        metavar="MB",
        help="of a server (default: %(default)s)",
    )
    limits.add_argument(
        "--largest-upload",
        type=at_least(1),
        default=4,
        metavar="MB",
        help="of a client (default: %(default)s)",
    )
    limits.add_argument(
        "--requests-per-second",
        type=positive,
        default=50.0,
        metavar="R",
        help="of one caller (default: %(default)g)",
    )
    parser.add_argument("--quiet", action="store_true", help="log problems only")


def _add_certificates(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "certificates",
        help="make certificates for the service and its callers",
        description="Make what is missing in a folder: an authority, the service's certificate, one for each caller. Run it again\n"
        "with other --name to add callers. Hand a caller ca.pem, NAME.pem and NAME.key; keep ca.key off the service's machine.",
    )
    parser.set_defaults(run=_certificates)
    parser.add_argument("-o", "--out", required=True, metavar="DIR", help="the folder")
    parser.add_argument(
        "--host",
        action="append",
        metavar="HOST",
        help="name or address under which the service is reached; may be given again (default: localhost and 127.0.0.1)",
    )
    parser.add_argument(
        "--name", action="append", metavar="NAME", help="a caller; may be given again (default: server)"
    )
    parser.add_argument(
        "--days", type=at_least(1), default=825, help="days that they are good (default: %(default)s)"
    )


def _add_status(commands: Subparsers) -> None:
    parser = commands.add_parser("status", help="whether a service answers, and how its federations stand")
    parser.set_defaults(run=_status)
    parser.add_argument("--url", default="https://localhost:8443", help="its address (default: %(default)s)")
    parser.add_argument("--certificates", metavar="DIR", help="folder with ca.pem, NAME.pem and NAME.key")
    parser.add_argument("--name", default="server", help="the caller's name (default: %(default)s)")
    parser.add_argument(
        "--json", action="store_true", help="print JSON, and nothing else, on the standard output"
    )


def _add_upkeep(commands: Subparsers) -> None:
    rotate = commands.add_parser(
        "rotate",
        help="give a federation new keys",
        description="Give a federation new keys, while the service runs or not. Clients must encrypt for the new key from then on;\n"
        "statistics that were opened stay in use.",
    )
    rotate.set_defaults(run=_rotate)
    _add_state(rotate, "the service's state")
    rotate.add_argument("federation", metavar="FEDERATION", help="its name")
    backup = commands.add_parser(
        "backup",
        help="copy the state, also while the service runs",
        description="Copy the state to a new file, also while the service runs. The copy holds the secret keys: keep it as safe.",
    )
    backup.set_defaults(run=_backup)
    _add_state(backup, "the service's state")
    backup.add_argument("-o", "--out", required=True, metavar="FILE", help="the new file")


def _add_state(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        "--state", default="selector.sqlite", metavar="FILE", help=f"{what} (default: %(default)s)"
    )


def _serve(args: argparse.Namespace) -> int:
    from fedcbs.private import known_modes, make_mode
    from fedcbs.service import Limits, Listen, LocalSelector, make_app, serve

    listen = Listen(args.host, args.port, args.certificates, args.insecure)
    listen.context()  # a mistake in it is told before anything is made
    for mode in args.mode or known_modes():
        make_mode(mode, num_classes=1)
    limits = Limits(
        largest_request=args.largest_request * 2**20,
        largest_upload=args.largest_upload * 2**20,
        requests_per_second=args.requests_per_second,
    )
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.WARNING if args.quiet else logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    with LocalSelector(args.state, report_qcid=args.report_qcid) as link:
        app = make_app(link, limits=limits, servers=args.server, modes=args.mode)
        serve(app, listen, limits=limits, ready=lambda url: tell(f"listening on {url}"))
    return 0


def _certificates(args: argparse.Namespace) -> int:
    from fedcbs.service import make_certificates

    written = make_certificates(
        args.out,
        hosts=args.host or ["localhost", "127.0.0.1"],
        callers=args.name or ["server"],
        days=args.days,
    )
    tell("\n".join(f"written: {path}" for path in written) or f"nothing is missing in {args.out}")
    return 0


def _status(args: argparse.Namespace) -> int:
    from fedcbs.service import SelectorClient

    with SelectorClient(
        args.url, certificates=args.certificates, name=args.name, patience=0, timeout=30
    ) as client:
        found = [client.status(name) for name in client.federations()]
    if args.json:
        print_json({"url": args.url, "federations": [dataclasses.asdict(one) for one in found]})
    elif found:
        show(_table(found))
    else:
        show(f"{args.url} answers; it has no federations of {args.name!r}")
    return 0


def _rotate(args: argparse.Namespace) -> int:
    from fedcbs.service import LocalSelector

    _existing_state(args.state)
    with LocalSelector(args.state) as link:
        fingerprint = link.rotate(args.federation)
    show(f"new fingerprint of {args.federation}: {fingerprint}")
    tell("clients must pin it, fetch the new public key, and send their counts again")
    return 0


def _backup(args: argparse.Namespace) -> int:
    from fedcbs.service import LocalSelector

    _existing_state(args.state)
    if os.path.lexists(args.out):
        raise InvalidArgumentError(f"--out {args.out!r} exists; name a new file")
    with LocalSelector(args.state) as link:
        link.backup(args.out)
    tell(f"copied to {args.out}; it holds the secret keys")
    return 0


def _existing_state(path: str) -> None:
    from fedcbs._files import existing_file

    existing_file(path, "state")


def _table(found: list[FederationStatus]) -> RenderableType:
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, header_style="bold")
    for column in (
        "federation",
        "mode",
        "selector",
        "classes",
        "clients",
        "round",
        "observed",
        "fingerprint",
    ):
        grid.add_column(
            column, justify="right" if column in ("classes", "clients", "round", "observed") else "left"
        )
    for one in found:
        numbers = (one.num_classes, one.clients, one.last_round, one.observed_round)
        grid.add_row(one.name, one.mode, one.selector, *map(str, numbers), one.fingerprint)
    return grid
