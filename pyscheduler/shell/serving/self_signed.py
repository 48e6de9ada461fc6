"""Self-signed certificate for a server without a configured one: encrypts connections, but proves no identity.

Imported on demand: the library takes more CPU to import than a hundred scheduling decisions.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LASTS = timedelta(days=365)
_SKEW = timedelta(hours=1)
"""Tolerance for clients with a slow clock."""
_ANY = ("0.0.0.0", "::")


def make(bind_address: str, wall: float) -> tuple[bytes, bytes]:
    """Return a certificate and its key as PEM, valid for a year from `wall` (seconds since 1970).

    It is valid for localhost and, if specific, the bind address. The elliptic key (P-256) makes creation and handshakes
    cheap.
    """
    now = datetime.fromtimestamp(wall, UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"pyscheduler@{int(wall)}")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - _SKEW).not_valid_after(now + _LASTS)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    # It is its own CA, so that clients can verify it with this certificate.
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    builder = builder.add_extension(x509.SubjectAlternativeName(_names(bind_address)), critical=False)
    certificate = builder.sign(key, hashes.SHA256())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM), private


def _names(bind_address: str) -> list[x509.GeneralName]:
    addresses = ["127.0.0.1", "::1"]
    if bind_address not in (*_ANY, *addresses):
        addresses.append(bind_address)
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    for address in addresses:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(address)))
        except ValueError:
            names.append(x509.DNSName(address))
    return names


def _usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
