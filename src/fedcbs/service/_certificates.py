"""Certificates for the service and its callers, of an authority that exists for nothing else."""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fedcbs import _checks
from fedcbs._files import existing_file
from fedcbs.errors import InvalidArgumentError, MissingExtraError
from fedcbs.private._wire import check_name

__all__ = ["make_certificates"]

AUTHORITY, SERVICE = "ca", "selector"
AUTHORITY_DAYS = 3650


def make_certificates(
    folder: str | os.PathLike[str],
    *,
    hosts: Sequence[str] = ("localhost",),
    callers: Iterable[str] = ("server",),
    days: int = 825,
) -> list[Path]:
    """Make what is missing in a folder: an authority, the service's certificate, and one for each caller.

    What is there already stays, so that a caller can be added later. Keys are readable by their owner only.

    Parameters
    ----------
    folder
        Where; made if it is not there.
    hosts
        Names and addresses under which the service is reached.
    callers
        Names of those who may call it; a federation belongs to the name that made it.
    days
        How long the service's and the callers' certificates are good.

    Returns
    -------
    list of Path
        The files that were written.
    """
    tools = _Tools()
    _checks.integer(days, "days", minimum=1, maximum=AUTHORITY_DAYS)
    names = [check_name(caller) for caller in callers]
    for name in names:
        if name in (AUTHORITY, SERVICE) or len(name) > 64:
            raise InvalidArgumentError(
                f"name={name!r} cannot be a caller's; choose another, of at most 64 characters"
            )
    if not hosts:
        raise InvalidArgumentError("hosts is empty; name the host under which the service is reached")
    alternatives = [tools.alternative(host) for host in hosts]
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise InvalidArgumentError(f"out={str(target)!r} is a file; name a folder")
    target.mkdir(parents=True, exist_ok=True)
    written = []
    if not (target / f"{AUTHORITY}.pem").exists():
        written += tools.authority(target)
    if not (target / f"{SERVICE}.pem").exists():
        written += tools.signed(target, SERVICE, days, alternatives)
    for name in names:
        if not (target / f"{name}.pem").exists():
            written += tools.signed(target, name, days, None)
    return written


class _Tools:
    """The library that makes certificates, and how it is used."""

    def __init__(self) -> None:
        try:
            from cryptography import x509
            from cryptography.hazmat.primitives import hashes, serialization
            from cryptography.hazmat.primitives.asymmetric import ec
        except ImportError:
            raise MissingExtraError("cryptography", extra="serve", purpose="making certificates") from None
        self._x509, self._hashes, self._serialization, self._ec = x509, hashes, serialization, ec

    def alternative(self, host: str) -> Any:
        """A host as a certificate names it."""
        try:
            return self._x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            pass
        try:
            return self._x509.DNSName(host)
        except (ValueError, TypeError):
            raise InvalidArgumentError(f"host={host!r} is neither a host name nor an address") from None

    def authority(self, folder: Path) -> list[Path]:
        """Make the authority, which signs the others and nothing else."""
        key = self._ec.generate_private_key(self._ec.SECP256R1())
        name = self._name("fedcbs authority")
        builder = (
            self._builder(name, name, key, AUTHORITY_DAYS)
            .add_extension(self._x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(self._usage(signs=True), critical=True)
        )
        return self._write(folder, AUTHORITY, builder.sign(key, self._hashes.SHA256()), key)

    def signed(self, folder: Path, name: str, days: int, hosts: list[Any] | None) -> list[Path]:
        """Make a certificate that the authority signs: for the service if it has hosts, else for a caller."""
        authority, signer = self._load(folder)
        key = self._ec.generate_private_key(self._ec.SECP256R1())
        purposes = self._x509.oid.ExtendedKeyUsageOID
        purpose = purposes.CLIENT_AUTH if hosts is None else purposes.SERVER_AUTH
        identifier = self._x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
        builder = (
            self._builder(self._name(name), authority.subject, key, days)
            .add_extension(self._x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(self._usage(signs=False), critical=True)
            .add_extension(self._x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(identifier, critical=False)
        )
        if hosts is not None:
            builder = builder.add_extension(self._x509.SubjectAlternativeName(hosts), critical=False)
        return self._write(folder, name, builder.sign(signer, self._hashes.SHA256()), key)

    def _load(self, folder: Path) -> tuple[Any, Any]:
        certificate = existing_file(folder / f"{AUTHORITY}.pem", "out").read_bytes()
        key_file = folder / f"{AUTHORITY}.key"
        if not key_file.is_file():
            raise InvalidArgumentError(
                f"out={str(folder)!r} has the authority's certificate but not its key, ca.key; bring it, or name a new folder"
            )
        try:
            key = self._serialization.load_pem_private_key(key_file.read_bytes(), None)
            return self._x509.load_pem_x509_certificate(certificate), key
        except ValueError as error:
            raise InvalidArgumentError(
                f"out={str(folder)!r}: the authority in it cannot be read ({error}); name a new folder"
            ) from None

    def _name(self, common: str) -> Any:
        return self._x509.Name([self._x509.NameAttribute(self._x509.NameOID.COMMON_NAME, common)])

    def _builder(self, subject: Any, issuer: Any, key: Any, days: int) -> Any:
        now = datetime.datetime.now(datetime.UTC)
        return (
            self._x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(self._x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))  # clocks differ
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(self._x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )

    def _usage(self, *, signs: bool) -> Any:
        return self._x509.KeyUsage(
            digital_signature=not signs,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=signs,
            crl_sign=signs,
            encipher_only=False,
            decipher_only=False,
        )

    def _write(self, folder: Path, name: str, certificate: Any, key: Any) -> list[Path]:
        """Write the key first: a certificate without its key would look finished."""
        secret = key.private_bytes(
            self._serialization.Encoding.PEM,
            self._serialization.PrivateFormat.PKCS8,
            self._serialization.NoEncryption(),
        )
        key_file, file = folder / f"{name}.key", folder / f"{name}.pem"
        key_file.unlink(missing_ok=True)  # of a run that was cut short
        handle = os.open(key_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as target:
            target.write(secret)
            target.flush()
            os.fsync(target.fileno())
        part = folder / f".{name}.pem.part"
        part.write_bytes(certificate.public_bytes(self._serialization.Encoding.PEM))
        part.replace(file)
        return [key_file, file]
