"""TLS context of the HTTPS endpoints: server certificate, protocol versions, client CAs.

A context is created for the first connection, and again when the files or CAs have changed, so that a renewed
certificate is served without a restart, and the start does not wait for a self-signed one.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

import msgspec

from pyscheduler import logs
from pyscheduler.private_file import write_private
from pyscheduler.shell.serving.client_ca import ClientAuthorities
from pyscheduler.shell.serving.http import ServerProblem

VERSIONS: Final = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}
"""Values of --tls-min-version; kube-scheduler's older ones are not supported."""
_ALWAYS = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
"""Cipher suites of TLS 1.3, which cannot be configured, as in Go."""
CIPHERS: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
"""Further values of --tls-cipher-suites, with OpenSSL's names; suites that Go calls insecure are not supported."""
PAIR_NAME: Final = "pyscheduler"
"""--cert-dir contains `pyscheduler.crt` and `pyscheduler.key`."""
_log = logs.get("tls")


class TlsOptions(msgspec.Struct, frozen=True):
    """Values of kube-scheduler's flags of these names; without a file, a self-signed certificate is used."""

    cert_file: Path | None = None
    key_file: Path | None = None
    cert_dir: Path | None = None
    min_version: str = ""
    cipher_suites: str = ""


class Files(msgspec.Struct, frozen=True):
    """Paths of a certificate and its key."""

    certificate: Path
    key: Path

    def state(self) -> object:
        """Return a value that changes when a file does; None if one is missing."""
        try:
            found = [file.stat() for file in (self.certificate, self.key)]
        except OSError:
            return None
        return [(f.st_ino, f.st_mtime_ns, f.st_size) for f in found]


class Tls:
    """Provides the TLS context of each connection. `make` returns a new certificate and key as PEM; it may be slow."""

    def __init__(
        self,
        options: TlsOptions,
        make: Callable[[], tuple[bytes, bytes]],
        authorities: ClientAuthorities | None = None,
    ) -> None:
        """ServerProblem for contradictory options, or unusable files."""
        self._make = make
        self._authorities = authorities
        self._version = minimum_version(options.min_version)
        self._ciphers = openssl_ciphers(options.cipher_suites)
        self._files = _files(options)
        self._has_file_flags = options.cert_file is not None
        self._created: tuple[bytes, bytes] | None = None
        self._context: ssl.SSLContext | None = None
        self._context_state: object = None
        self._renewing = asyncio.Lock()
        if self._files and (self._has_file_flags or self._files.state()):
            self._load_context(self._files.state(), "")

    async def context(self) -> ssl.SSLContext:
        """Return the context for the next connection. OSError if there is none."""
        authorities_pem = await self._authorities.current() if self._authorities else ""
        async with self._renewing:
            if self._context is None and not self._has_file_flags:
                await self._create_certificate()
            state = self._files.state() if self._files else None
            if (state, authorities_pem) != self._context_state:
                self._renew(state, authorities_pem)
            if self._context is None:
                raise OSError("there is no certificate to serve")
            return self._context

    async def _create_certificate(self) -> None:
        """Use the pair in --cert-dir, or create one and store it there, in memory if that fails."""
        if self._files and self._files.state():
            return
        self._created = await asyncio.to_thread(self._make)
        if self._files is None:
            return
        try:
            await asyncio.to_thread(_write, self._files, self._created)
            _log.info("Created a self-signed certificate", cert=str(self._files.certificate))
        except OSError as problem:
            _log.warning("Cannot write to --cert-dir, keeping the self-signed certificate in memory", problem)
            self._files = None

    def _renew(self, state: object, authorities_pem: str) -> None:
        before, self._context_state = self._context_state, (state, authorities_pem)
        try:
            self._load_context(state, authorities_pem)
        except ServerProblem as problem:
            _log.warning("Cannot load the changed certificate, keeping the current one", problem)
            return
        if before is not None:
            _log.info("Reloaded the certificate or the client CAs", v=2)

    def _load_context(self, state: object, authorities_pem: str) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = self._version
        context.num_tickets = 0  # without session resumption, each connection presents its certificate
        context.options |= ssl.OP_NO_TICKET
        context.set_alpn_protocols(["http/1.1"])
        try:
            if self._ciphers:
                context.set_ciphers(self._ciphers)
            if self._files:
                context.load_cert_chain(self._files.certificate, self._files.key, password="")
            elif self._created:
                _load(context, self._created)
        except (OSError, ValueError) as problem:
            where = f"{self._files.certificate} and {self._files.key}" if self._files else "TLS"
            raise ServerProblem(f"{where} cannot be served: {' '.join(str(problem).split())}") from None
        if authorities_pem:
            _request_client_certificates(context, authorities_pem)
        self._context, self._context_state = context, (state, authorities_pem)


def _request_client_certificates(context: ssl.SSLContext, authorities: str) -> None:
    """Request an optional client certificate; without one, or if the CAs are malformed, clients may be anonymous."""
    try:
        context.load_verify_locations(cadata=authorities)
    except (OSError, ValueError) as problem:
        _log.warning("Cannot verify client certificates, the CAs are malformed", problem)
        return
    context.verify_mode = ssl.CERT_OPTIONAL
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # each of them is a trust anchor, as in Go


def minimum_version(name: str) -> ssl.TLSVersion:
    """Return the version of --tls-min-version. ServerProblem if it is not supported."""
    version = VERSIONS.get(name or "VersionTLS12")
    if version is None:
        raise ServerProblem(f"--tls-min-version {name} is not supported; choose {' or '.join(VERSIONS)}")
    return version


def openssl_ciphers(names: str) -> str:
    """Return OpenSSL's names of --tls-cipher-suites in the given order; "" for its default. ServerProblem."""
    chosen = [name.strip() for name in names.split(",") if name.strip()]
    for name in chosen:
        if name not in CIPHERS and name not in _ALWAYS:
            raise ServerProblem(
                f"--tls-cipher-suites {name} is not supported; choose from {', '.join((*_ALWAYS, *CIPHERS))}"
            )
    return ":".join(CIPHERS[name] for name in chosen if name in CIPHERS)


def _files(options: TlsOptions) -> Files | None:
    if (options.cert_file is None) != (options.key_file is None):
        raise ServerProblem("--tls-cert-file and --tls-private-key-file must be given together")
    if options.cert_file is not None and options.key_file is not None:
        return Files(options.cert_file, options.key_file)
    folder = options.cert_dir
    return Files(folder / f"{PAIR_NAME}.crt", folder / f"{PAIR_NAME}.key") if folder else None


def _write(files: Files, pair: tuple[bytes, bytes]) -> None:
    """Store a pair for the next start; the key file is private from its creation on."""
    certificate, key = pair
    files.key.parent.mkdir(parents=True, exist_ok=True)
    write_private(files.key, key)
    files.certificate.write_bytes(certificate)


def _load(context: ssl.SSLContext, pair: tuple[bytes, bytes]) -> None:
    with NamedTemporaryFile(prefix="pyscheduler-") as both:  # the ssl module loads only files
        both.write(b"".join(pair))
        both.flush()
        context.load_cert_chain(both.name)
