"""Certificates and keys of a federation on the loopback interface."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def make_tls(folder: Path) -> None:
    """An authority (``ca.pem``), and a certificate for 127.0.0.1 (``server.pem``, ``server.key``)."""
    folder.mkdir(parents=True, exist_ok=True)
    authority = ec.generate_private_key(ec.SECP384R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
    ca = _builder(issuer, issuer, authority.public_key())
    ca = ca.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    ca = ca.add_extension(_usage(signs=True), critical=True)
    own = x509.SubjectKeyIdentifier.from_public_key(authority.public_key())
    ca = ca.add_extension(own, critical=False)
    (folder / "ca.pem").write_bytes(_pem(ca.sign(authority, hashes.SHA384())))
    server = ec.generate_private_key(ec.SECP384R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
    certificate = _builder(subject, issuer, server.public_key())
    certificate = certificate.add_extension(x509.SubjectAlternativeName(names), critical=False)
    certificate = certificate.add_extension(_usage(signs=False), critical=True)
    certificate = certificate.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own), critical=False
    )
    (folder / "server.pem").write_bytes(_pem(certificate.sign(authority, hashes.SHA384())))
    _write_key(folder / "server.key", server, serialization.PrivateFormat.PKCS8)


def make_node_key(folder: Path, name: str) -> None:
    """A SuperNode's key: ``NAME`` and ``NAME.pub``, as ``ssh-keygen -t ecdsa -b 384`` makes them."""
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP384R1())
    _write_key(folder / name, key, serialization.PrivateFormat.OpenSSH)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    (folder / f"{name}.pub").write_bytes(public + b"\n")


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=2))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat) -> None:
    content = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    path.touch(mode=0o600)
    path.write_bytes(content)
