"""Make a federation at the selector's service, and print the fingerprint that nodes pin.

Run by the server's operator; the selector's operator reads the same fingerprint with ``fedcbs selector status``, and tells
it to the nodes' operators by another way than the server's.

    python make_federation.py https://selector.example.org:8443 digits --certificates certs --classes 10 --mode fhe
"""

from __future__ import annotations

import argparse

from fedcbs.service import FederationOptions, SelectorClient


def main() -> None:
    """Make it, or find it as it is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("federation")
    parser.add_argument("--classes", type=int, required=True)
    parser.add_argument("--mode", default="fhe")
    parser.add_argument("--selector", default="fedcbs-sharp")
    parser.add_argument("--certificates", help="folder with ca.pem and the caller's certificate and key")
    parser.add_argument("--caller", default="server", help="name of the caller's certificate")
    options = parser.parse_args()
    with SelectorClient(options.url, certificates=options.certificates, name=options.caller) as link:
        made = FederationOptions(num_classes=options.classes, mode=options.mode, selector=options.selector)
        print(link.create(options.federation, made).fingerprint)


if __name__ == "__main__":
    main()
