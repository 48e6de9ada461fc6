"""A certificate of our own for whoever gave us none: the connection is private, but nothing says who answers.

Imported when it is needed: the library costs more CPU than the decision of a hundred pods.
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
"""How far the clocks of others may be behind ours."""
_ANY = ("0.0.0.0", "::")


def make(bind_address: str, wall: float) -> tuple[bytes, bytes]:
    """A certificate and its key in PEM, good for a year from `wall` (seconds since 1970) on.

    It is for localhost, and for the address that is served if that is one; elliptic (P-256), so that making it and
    each handshake cost little.
    """
    now = datetime.fromtimestamp(wall, UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"pyscheduler@{int(wall)}")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - _SKEW).not_valid_after(now + _LASTS)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    # It is its own authority, so that a client can be given this certificate to check it with.
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
