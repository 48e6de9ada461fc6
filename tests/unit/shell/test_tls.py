"""TLS as clients meet it: real handshakes with a server that renews its certificate while it runs."""

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
from pyscheduler.shell.serving.tls import Tls, TlsOptions
from pyscheduler.shell.serving.webserver import Request, Response, WebServer
from tests.controlplane.certs import Authority, Pair

WALL = 1_800_000_000.0
GET = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


class Maker:
    """Makes certificates that are good today, and counts them."""

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


async def subject_of(question: Request) -> Response:
    return Response(str(question.subject).encode())


@asynccontextmanager
async def served(
    context: Callable[[], Awaitable[ssl.SSLContext]], answer: Callable[[Request], Awaitable[Response]] = subject_of
) -> AsyncIterator[int]:
    server = WebServer(answer, "127.0.0.1", 0, context)
    await server.start()
    yield server.port
    await server.stop()


def trusting(authority: str) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority)


async def asked(port: int, client: ssl.SSLContext) -> str:
    """What the server says, once it is trusted."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname="localhost")
    writer.write(GET)
    heard = await reader.read()
    writer.close()
    return heard.decode().rpartition("\r\n\r\n")[2]


async def shown(port: int) -> bytes:
    """The certificate that the server shows."""
    anyone = ssl.create_default_context()
    anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=anyone)
    found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return found


async def test_the_certificate_of_the_files_is_served(tmp_path: Path) -> None:
    authority, maker = Authority(), Maker()
    async with served(Tls(options_of(issued(authority), tmp_path), maker).context) as port:
        assert await asked(port, trusting(authority.certificate)) == "None"
    assert maker.made == []


async def test_a_changed_certificate_is_served_without_a_restart(tmp_path: Path) -> None:
    old, new = Authority(), Authority()
    async with served(Tls(options_of(issued(old), tmp_path), Maker()).context) as port:
        await asked(port, trusting(old.certificate))
        options_of(issued(new), tmp_path)
        assert await asked(port, trusting(new.certificate)) == "None"


async def test_a_broken_certificate_leaves_the_old_one(tmp_path: Path) -> None:
    authority = Authority()
    options = options_of(issued(authority), tmp_path)
    assert options.cert_file is not None
    async with served(Tls(options, Maker()).context) as port:
        options.cert_file.write_text("half of a fi")
        assert await asked(port, trusting(authority.certificate)) == "None"
        options.cert_file.unlink()
        assert await asked(port, trusting(authority.certificate)) == "None"


async def test_a_certificate_is_made_once_and_in_memory() -> None:
    maker = Maker()
    async with served(Tls(TlsOptions(), maker).context) as port:
        first, second = await asyncio.gather(shown(port), shown(port))
    assert first == second == ssl.PEM_cert_to_DER_cert(maker.made[0][0].decode())
    assert len(maker.made) == 1


async def test_a_certificate_that_was_made_is_kept_in_its_folder(tmp_path: Path) -> None:
    folder, maker = tmp_path / "certs", Maker()
    async with served(Tls(TlsOptions(cert_dir=folder), maker).context) as port:
        before = await shown(port)
    assert sorted(f.name for f in folder.iterdir()) == ["pyscheduler.crt", "pyscheduler.key"]
    assert (folder / "pyscheduler.key").stat().st_mode & 0o777 == 0o600
    async with served(Tls(TlsOptions(cert_dir=folder), maker).context) as port:
        assert await shown(port) == before
    assert len(maker.made) == 1


async def test_a_folder_that_cannot_be_written_is_no_hindrance(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    async with served(Tls(TlsOptions(cert_dir=blocked / "certs"), Maker()).context) as port:
        assert await shown(port)


async def test_a_certificate_of_the_clients_authorities_says_who_one_is(tmp_path: Path) -> None:
    authority, theirs = Authority(), Authority()
    (tmp_path / "clients.crt").write_text(theirs.certificate)
    tls = Tls(options_of(issued(authority), tmp_path), Maker(), FileAuthorities(tmp_path / "clients.crt"))
    client = trusting(authority.certificate)
    async with served(tls.context) as port:
        assert await asked(port, client) == "None"
        client.load_cert_chain(*theirs.client("alice", ["system:masters"]).write(tmp_path, "alice"))
        assert await asked(port, client) == "((('organizationName', 'system:masters'),), (('commonName', 'alice'),))"


async def test_a_certificate_of_somebody_else_is_not_believed(tmp_path: Path) -> None:
    authority, theirs = Authority(), Authority()
    (tmp_path / "clients.crt").write_text(theirs.certificate)
    tls = Tls(options_of(issued(authority), tmp_path), Maker(), FileAuthorities(tmp_path / "clients.crt"))
    client = trusting(authority.certificate)
    client.load_cert_chain(*authority.client("alice", ["system:masters"]).write(tmp_path, "alice"))
    async with served(tls.context) as port:
        with suppress(ssl.SSLError, ConnectionError):
            assert await asked(port, client) == ""


async def test_authorities_that_cannot_be_read_make_nobody_known(tmp_path: Path) -> None:
    authority = Authority()
    (tmp_path / "clients.crt").write_text("nonsense")
    tls = Tls(options_of(issued(authority), tmp_path), Maker(), FileAuthorities(tmp_path / "clients.crt"))
    client = trusting(authority.certificate)
    client.load_cert_chain(*authority.client("alice").write(tmp_path, "alice"))
    async with served(tls.context) as port:
        assert await asked(port, client) == "None"


async def test_older_versions_and_other_ciphers_are_refused(tmp_path: Path) -> None:
    authority = Authority()
    cipher = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    client = trusting(authority.certificate)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    options = options_of(issued(authority), tmp_path, cipher_suites=f"TLS_AES_128_GCM_SHA256,{cipher}")
    async with served(Tls(options, Maker()).context) as port:
        assert await asked(port, client) == "None"
        client.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asked(port, client)
    newest = options_of(issued(authority), tmp_path, min_version="VersionTLS13")
    async with served(Tls(newest, Maker()).context) as port:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asked(port, client)
        assert await asked(port, trusting(authority.certificate)) == "None"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        pytest.param({"cert_file": "a"}, "--tls-cert-file and --tls-private-key-file must be given together", id="no key"),
        pytest.param({"key_file": "a"}, "--tls-cert-file and --tls-private-key-file must be given together", id="no certificate"),
        pytest.param({"cert_file": "a", "key_file": "b"}, "a and b cannot be served: .*No such file", id="no files"),
        pytest.param({"min_version": "VersionTLS10"}, "--tls-min-version VersionTLS10 is not supported", id="too old"),
        pytest.param({"cipher_suites": "TLS_RSA_WITH_RC4_128_SHA"}, "RC4_128_SHA is not supported; choose from", id="weak"),
    ],
)
def test_what_cannot_be_served_is_told_at_start(options: dict[str, str], reason: str) -> None:
    paths = {key: Path(value) if key.endswith("file") else value for key, value in options.items()}
    with pytest.raises(ServerProblem, match=reason) as caught:
        Tls(TlsOptions(**paths), Maker())  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


async def test_plain_text_on_a_port_for_tls_ends(tmp_path: Path) -> None:
    authority = Authority()
    async with served(Tls(options_of(issued(authority), tmp_path), Maker()).context) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET)
        with suppress(ConnectionError):
            assert b"HTTP" not in await reader.read()
        writer.close()
        assert await asked(port, trusting(authority.certificate)) == "None"


def test_the_certificate_that_we_make_is_for_this_machine_and_can_betrusting(tmp_path: Path) -> None:
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


async def test_a_client_can_trust_the_certificate_that_we_make() -> None:
    made = self_signed.make("0.0.0.0", time.time())
    async with served(Tls(TlsOptions(), lambda: made).context) as port:
        assert await asked(port, trusting(made[0].decode())) == "None"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=lambda each: each.name)
async def test_it_is_told_whose_authority_has_signed(tmp_path: Path, version: ssl.TLSVersion) -> None:
    """The same name by another authority is somebody else."""
    clients, proxies, own = Authority(), Authority(), Authority()
    for name, authority in (("clients", clients), ("proxies", proxies)):
        (tmp_path / f"{name}.crt").write_text(authority.certificate)
    files = FileAuthorities(tmp_path / "clients.crt"), FileAuthorities(tmp_path / "proxies.crt")
    trusted = TrustedAuthorities(files[0], proxies=(files[1], Proxies()))
    signers: list[bytes] = []

    async def answer(question: Request) -> Response:
        signers.append(question.signer)
        return await subject_of(question)

    tls = Tls(options_of(issued(own), tmp_path), Maker(), trusted)
    async with served(tls.context, answer) as port:
        for authority in (clients, proxies):
            client = trusting(own.certificate)
            client.maximum_version = version
            client.load_cert_chain(*authority.client("alice").write(tmp_path, "alice"))
            assert "alice" in await asked(port, client)
        assert await asked(port, trusting(own.certificate)) == "None"
    assert signers == [ssl.PEM_cert_to_DER_cert(each.certificate) for each in (clients, proxies)] + [b""]
