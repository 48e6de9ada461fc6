"""TLS of the HTTPS endpoints: real handshakes, renewal of certificates, client CAs."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from pyscheduler.shell.serving import self_signed
from pyscheduler.shell.serving.client_ca import FileAuthorities, Proxies, TrustedAuthorities
from pyscheduler.shell.serving.http import ServerProblem
from pyscheduler.shell.serving.messages import ServerRequest, ServerResponse
from pyscheduler.shell.serving.tls import Tls, TlsOptions
from pyscheduler.shell.serving.webserver import WebServer
from tests.controlplane.certs import Authority, Pair

WALL = 1_800_000_000.0
GET = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


class Maker:
    """Creates valid certificates and stores them."""

    def __init__(self) -> None:
        self.made: list[tuple[bytes, bytes]] = []

    def __call__(self) -> tuple[bytes, bytes]:
        pair = Authority().server(["localhost"], ["127.0.0.1"])
        self.made.append((pair.certificate.encode(), pair.key.encode()))
        return self.made[-1]


def issued(authority: Authority) -> Pair:
    return authority.server(["localhost"], ["127.0.0.1"])


def options_of(pair: Pair, folder: Path, **more: Any) -> TlsOptions:
    certificate, key = pair.write(folder, "tls")
    return TlsOptions(certificate, key, **more)


async def subject_of(request: ServerRequest) -> ServerResponse:
    return ServerResponse(str(request.subject).encode())


@asynccontextmanager
async def served(
    context: Callable[[], Awaitable[ssl.SSLContext]],
    answer: Callable[[ServerRequest], Awaitable[ServerResponse]] = subject_of,
) -> AsyncIterator[int]:
    server = WebServer(answer, "127.0.0.1", 0, context)
    await server.start()
    yield server.port
    await server.stop()


def trusting(authority: str) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority)


async def get(port: int, client: ssl.SSLContext) -> str:
    """Return the body of the server's response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname="localhost")
    writer.write(GET)
    response = await reader.read()
    writer.close()
    return response.decode().rpartition("\r\n\r\n")[2]


async def shown(port: int) -> bytes:
    """Return the server's certificate."""
    anyone = ssl.create_default_context()
    anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=anyone)
    found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return found


async def test_certificate_of_the_files_is_served(tmp_path: Path) -> None:
    authority, maker = Authority(), Maker()
    async with served(Tls(options_of(issued(authority), tmp_path), maker).context) as port:
        assert await get(port, trusting(authority.certificate)) == "None"
    assert maker.made == []


async def test_a_changed_certificate_is_served_without_a_restart(tmp_path: Path) -> None:
    old, new = Authority(), Authority()
    async with served(Tls(options_of(issued(old), tmp_path), Maker()).context) as port:
        await get(port, trusting(old.certificate))
        options_of(issued(new), tmp_path)
        assert await get(port, trusting(new.certificate)) == "None"


async def test_malformed_certificate_keeps_the_old_one(tmp_path: Path) -> None:
    authority = Authority()
    options = options_of(issued(authority), tmp_path)
    assert options.cert_file is not None
    async with served(Tls(options, Maker()).context) as port:
        options.cert_file.write_text("truncated")
        assert await get(port, trusting(authority.certificate)) == "None"
        options.cert_file.unlink()
        assert await get(port, trusting(authority.certificate)) == "None"


async def test_self_signed_certificate_is_created_once() -> None:
    maker = Maker()
    async with served(Tls(TlsOptions(), maker).context) as port:
        first, second = await asyncio.gather(shown(port), shown(port))
    assert first == second == ssl.PEM_cert_to_DER_cert(maker.made[0][0].decode())
    assert len(maker.made) == 1


async def test_self_signed_certificate_is_stored_in_cert_dir(tmp_path: Path) -> None:
    folder, maker = tmp_path / "certs", Maker()
    async with served(Tls(TlsOptions(cert_dir=folder), maker).context) as port:
        before = await shown(port)
    assert sorted(f.name for f in folder.iterdir()) == ["pyscheduler.crt", "pyscheduler.key"]
    assert (folder / "pyscheduler.key").stat().st_mode & 0o777 == 0o600
    async with served(Tls(TlsOptions(cert_dir=folder), maker).context) as port:
        assert await shown(port) == before
    assert len(maker.made) == 1


async def test_unwritable_cert_dir_keeps_the_certificate_in_memory(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    async with served(Tls(TlsOptions(cert_dir=blocked / "certs"), Maker()).context) as port:
        assert await shown(port)


async def test_client_certificate_of_a_client_ca_is_passed_on(tmp_path: Path) -> None:
    authority, theirs = Authority(), Authority()
    (tmp_path / "clients.crt").write_text(theirs.certificate)
    tls = Tls(options_of(issued(authority), tmp_path), Maker(), FileAuthorities(tmp_path / "clients.crt"))
    client = trusting(authority.certificate)
    async with served(tls.context) as port:
        assert await get(port, client) == "None"
        client.load_cert_chain(*theirs.client("alice", ["system:masters"]).write(tmp_path, "alice"))
        assert await get(port, client) == "((('organizationName', 'system:masters'),), (('commonName', 'alice'),))"


async def test_client_certificate_of_another_ca_is_rejected(tmp_path: Path) -> None:
    authority, theirs = Authority(), Authority()
    (tmp_path / "clients.crt").write_text(theirs.certificate)
    tls = Tls(options_of(issued(authority), tmp_path), Maker(), FileAuthorities(tmp_path / "clients.crt"))
    client = trusting(authority.certificate)
    client.load_cert_chain(*authority.client("alice", ["system:masters"]).write(tmp_path, "alice"))
    async with served(tls.context) as port:
        with suppress(ssl.SSLError, ConnectionError):
            assert await get(port, client) == ""


async def test_malformed_client_cas_disable_client_certificates(tmp_path: Path) -> None:
    authority = Authority()
    (tmp_path / "clients.crt").write_text("nonsense")
    tls = Tls(options_of(issued(authority), tmp_path), Maker(), FileAuthorities(tmp_path / "clients.crt"))
    client = trusting(authority.certificate)
    client.load_cert_chain(*authority.client("alice").write(tmp_path, "alice"))
    async with served(tls.context) as port:
        assert await get(port, client) == "None"


async def test_other_versions_and_ciphers_are_rejected(tmp_path: Path) -> None:
    authority = Authority()
    cipher = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    client = trusting(authority.certificate)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    options = options_of(issued(authority), tmp_path, cipher_suites=f"TLS_AES_128_GCM_SHA256,{cipher}")
    async with served(Tls(options, Maker()).context) as port:
        assert await get(port, client) == "None"
        client.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await get(port, client)
    newest = options_of(issued(authority), tmp_path, min_version="VersionTLS13")
    async with served(Tls(newest, Maker()).context) as port:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await get(port, client)
        assert await get(port, trusting(authority.certificate)) == "None"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        pytest.param(
            {"cert_file": "a"}, "--tls-cert-file and --tls-private-key-file must be given together", id="no key"
        ),
        pytest.param(
            {"key_file": "a"}, "--tls-cert-file and --tls-private-key-file must be given together", id="no certificate"
        ),
        pytest.param({"cert_file": "a", "key_file": "b"}, "a and b cannot be served: .*No such file", id="no files"),
        pytest.param({"min_version": "VersionTLS10"}, "--tls-min-version VersionTLS10 is not supported", id="too old"),
        pytest.param(
            {"cipher_suites": "TLS_RSA_WITH_RC4_128_SHA"}, "RC4_128_SHA is not supported; choose from", id="weak"
        ),
    ],
)
def test_invalid_options_are_reported_at_start(options: dict[str, str], reason: str) -> None:
    paths = {key: Path(value) if key.endswith("file") else value for key, value in options.items()}
    with pytest.raises(ServerProblem, match=reason) as caught:
        Tls(TlsOptions(**paths), Maker())  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


async def test_plain_text_on_the_tls_port_closes_the_connection(tmp_path: Path) -> None:
    authority = Authority()
    async with served(Tls(options_of(issued(authority), tmp_path), Maker()).context) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET)
        with suppress(ConnectionError):
            assert b"HTTP" not in await reader.read()
        writer.close()
        assert await get(port, trusting(authority.certificate)) == "None"


def test_self_signed_certificate_has_names_and_validity(tmp_path: Path) -> None:
    certificate, key = self_signed.make("10.0.0.7", WALL)
    (tmp_path / "both.pem").write_bytes(certificate + key)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tmp_path / "both.pem")
    (known,) = trusting(certificate.decode()).get_ca_certs()
    assert known["subjectAltName"] == (
        ("DNS", "localhost"),
        ("IP Address", "127.0.0.1"),
        ("IP Address", "0:0:0:0:0:0:0:1"),
        ("IP Address", "10.0.0.7"),
    )
    assert known["notBefore"] == "Jan 15 07:00:00 2027 GMT"
    assert known["notAfter"] == "Jan 15 08:00:00 2028 GMT"


async def test_client_can_verify_the_self_signed_certificate() -> None:
    made = self_signed.make("0.0.0.0", time.time())
    async with served(Tls(TlsOptions(), lambda: made).context) as port:
        assert await get(port, trusting(made[0].decode())) == "None"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=lambda each: each.name)
async def test_signer_of_the_client_certificate_is_passed_on(tmp_path: Path, version: ssl.TLSVersion) -> None:
    """The signer distinguishes equal names of two CAs."""
    clients, proxies, own = Authority(), Authority(), Authority()
    for name, authority in (("clients", clients), ("proxies", proxies)):
        (tmp_path / f"{name}.crt").write_text(authority.certificate)
    files = FileAuthorities(tmp_path / "clients.crt"), FileAuthorities(tmp_path / "proxies.crt")
    trusted = TrustedAuthorities(files[0], proxies=(files[1], Proxies()))
    signers: list[bytes] = []

    async def answer(request: ServerRequest) -> ServerResponse:
        signers.append(request.signer)
        return await subject_of(request)

    tls = Tls(options_of(issued(own), tmp_path), Maker(), trusted)
    async with served(tls.context, answer) as port:
        for authority in (clients, proxies):
            client = trusting(own.certificate)
            client.maximum_version = version
            client.load_cert_chain(*authority.client("alice").write(tmp_path, "alice"))
            assert "alice" in await get(port, client)
        assert await get(port, trusting(own.certificate)) == "None"
    assert signers == [ssl.PEM_cert_to_DER_cert(each.certificate) for each in (clients, proxies)] + [b""]
