"""Calls to a slow, busy, broken or unreachable server, and the messages for operators."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pyscheduler.api import ApiError
from pyscheduler.kube.client_metrics import ClientMetrics
from pyscheduler.kube.connection import (
    LOST,
    MERGE_PATCH,
    TIMEOUT,
    UNAVAILABLE_RETRY,
    UNREACHABLE,
    Connection,
    ConnectionOptions,
    ConnectionProblem,
    connect,
    connect_when_available,
    unanswered,
)
from pyscheduler.kube.credentials import load
from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.kube.http1 import JSON, PROTOBUF, Response
from pyscheduler.kube.pool import Pool
from tests.unit.kube.fake_api import FakeApi, Hangup, Reply, Stream, ok, refused
from tests.unit.kube.fixtures import write_kubeconfig
from tests.unit.kube.test_protobuf import refusal
from tests.unit.kube.virtual import VirtualClock

PATH = "/api/v1/things"


async def test_sends_body_and_content_type(api: FakeApi, connection: Connection) -> None:
    api.script(PATH, ok({"x": 1}))
    assert await connection.request("PATCH", f"{PATH}?dryRun=All", b'{"a":1}', MERGE_PATCH) == b'{"x":1}'
    [call] = api.calls
    assert (call.method, call.query, call.body, call.content_type) == (
        "PATCH",
        {"dryRun": "All"},
        b'{"a":1}',
        MERGE_PATCH,
    )


async def test_error_has_the_reason_and_message_of_the_status(api: FakeApi, connection: Connection) -> None:
    api.script(PATH, refused(409, "Conflict", "object was modified"))
    with pytest.raises(ApiError, match=r"^object was modified$") as caught:
        await connection.request("POST", PATH, b"{}")
    assert (caught.value.status, caught.value.reason) == (409, "Conflict")
    assert not unanswered(caught.value)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(502, b"<h1>Bad\ngateway</h1>"), "<h1>Bad gateway</h1>"),
        (Reply(503, b""), "HTTP 503 Service Unavailable"),
        (Reply(500, b"\xff\xfe"), "��"),
        (Reply(302, b"", {"Location": "/login"}), "HTTP 302 Found"),
    ],
)
async def test_error_response_without_a_status(
    api: FakeApi, connection: Connection, reply: Reply, message: str
) -> None:
    api.script(PATH, reply)
    with pytest.raises(ApiError) as caught:
        await connection.request("POST", PATH, b"{}")
    assert (caught.value.status, str(caught.value)) == (reply.status, message)


async def test_refused_connection_is_retried_and_then_unreachable(tmp_path: Path, clock: VirtualClock) -> None:
    file = write_kubeconfig(tmp_path, f"http://127.0.0.1:{free_port()}")
    connection = Connection(await load(file, clock), ConnectionOptions(qps=-1), clock)
    with pytest.raises(ApiError, match=r"^connection refused$") as caught:
        await connection.request("POST", PATH, b"{}")
    await connection.close()
    assert (caught.value.status, caught.value.reason) == (0, UNREACHABLE)
    assert not unanswered(caught.value)
    assert clock.slept == pytest.approx([0.1, 0.2, 0.4])


async def test_call_without_a_response_times_out(api: FakeApi, kubeconfig: Path, clock: VirtualClock) -> None:
    connection = await connect(kubeconfig, ConnectionOptions(qps=-1, deadlines=Deadlines(response=0.3)), clock)
    with pytest.raises(ApiError) as caught:
        await connection.request("POST", f"{PATH}?watch=1")
    await connection.close()
    assert (caught.value.reason, str(caught.value)) == (TIMEOUT, "no answer in time")


async def test_stream_yields_chunks_until_it_ends(api: FakeApi, connection: Connection) -> None:
    api.script(PATH, Stream((b"one", b"two")))
    assert await drained(connection, PATH, seconds=5) == b"onetwo"


async def drained(connection: Connection, path: str, seconds: float) -> bytes:
    async with connection.watching(path, seconds) as chunks:
        return b"".join([chunk async for chunk in chunks])


async def test_a_stream_that_breaks_is_an_error(api: FakeApi, connection: Connection) -> None:
    api.script(PATH, Stream((b"one",), cut=True))
    with pytest.raises(ApiError) as caught:
        await drained(connection, PATH, seconds=5)
    assert caught.value.reason == LOST


async def test_silent_watch_times_out(api: FakeApi, connection: Connection) -> None:
    with pytest.raises(ApiError) as caught:
        await drained(connection, f"{PATH}?watch=1", seconds=0.3)
    assert caught.value.reason == TIMEOUT


async def test_streams_do_not_use_the_connections_of_calls(api: FakeApi, kubeconfig: Path, clock: VirtualClock) -> None:
    connection = await connect(kubeconfig, ConnectionOptions(connections=1, qps=-1), clock)
    api.script(PATH, ok({}))
    async with connection.watching(f"{PATH}/a?watch=1", 5), connection.watching(f"{PATH}/b?watch=1", 5):
        async with asyncio.timeout(5):
            await connection.request("GET", PATH)
    await connection.close()


async def test_calls_share_a_bounded_number_of_connections(api: FakeApi, kubeconfig: Path, clock: VirtualClock) -> None:
    connection = await connect(kubeconfig, ConnectionOptions(connections=2, qps=-1), clock)
    waiting = [asyncio.create_task(connection.request("GET", f"{PATH}?watch={i}")) for i in range(5)]
    await api.called(2)
    await asyncio.sleep(0.02)
    assert len(api.calls) == 2
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await connection.close()


async def test_separate_connections_do_not_share_their_limit(
    api: FakeApi, kubeconfig: Path, clock: VirtualClock
) -> None:
    connection = await connect(kubeconfig, ConnectionOptions(connections=1, qps=-1), clock)
    another = connection.new_connection()
    waiting = [asyncio.create_task(c.request("GET", f"{PATH}?watch=1")) for c in (connection, another)]
    await api.called(2)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await connection.close()
    await another.close()


async def test_the_rate_limit_spaces_calls(api: FakeApi, kubeconfig: Path, clock: VirtualClock) -> None:
    connection = await connect(kubeconfig, ConnectionOptions(qps=2, burst=3), clock)  # reads /version
    api.script(PATH, *[ok({})] * 4)
    for _ in range(4):
        await connection.request("GET", PATH)
    await connection.close()
    assert clock.slept == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("status", [pytest.param(200, id="version"), pytest.param(403, id="refusal")])
async def test_latency_is_the_minimum_of_a_few_small_reads(
    kubeconfig: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """The first read may have to open the connection."""
    connection = await connect(kubeconfig, ConnectionOptions(qps=-1), clock)
    seconds = iter([0.15, 0.05])

    async def call(*_: object) -> Response:
        clock.at += next(seconds)
        return Response(status, b"{}")

    monkeypatch.setattr(Pool, "call", call)
    assert await connection.latency() == pytest.approx(0.05)
    await connection.close()


async def test_latency_is_0_without_a_response(api: FakeApi, kubeconfig: Path, clock: VirtualClock) -> None:
    connection = await connect(kubeconfig, ConnectionOptions(qps=-1), clock)
    api.script("/version", Hangup())
    assert await connection.latency() == 0.0
    await connection.close()


async def test_rejected_token_is_read_again_once(api: FakeApi, tmp_path: Path, clock: VirtualClock) -> None:
    (tmp_path / "token").write_text("old\n")
    kubeconfig = write_kubeconfig(tmp_path, api.url, user=f"tokenFile: {tmp_path}/token")
    connection = await connect(kubeconfig, ConnectionOptions(qps=-1), clock)
    (tmp_path / "token").write_text("new\n")
    api.script(PATH, refused(401, "Unauthorized"), ok({}))
    await connection.request("POST", PATH, b"{}")
    await connection.close()
    assert [call.authorization for call in api.calls] == ["Bearer old", "Bearer new"]


async def test_a_token_file_is_read_again_every_minute(api: FakeApi, tmp_path: Path, clock: VirtualClock) -> None:
    (tmp_path / "token").write_text("old")
    kubeconfig = write_kubeconfig(tmp_path, api.url, user="tokenFile: token")
    connection = await connect(kubeconfig, ConnectionOptions(qps=-1), clock)
    (tmp_path / "token").write_text("new")
    api.script(PATH, ok({}), ok({}))
    await connection.request("GET", PATH)
    await clock.sleep(61)
    await connection.request("GET", PATH)
    await connection.close()
    assert [call.authorization for call in api.calls] == ["Bearer old", "Bearer new"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_connect_to_an_unreachable_server(tmp_path: Path, clock: VirtualClock) -> None:
    server = f"https://127.0.0.1:{free_port()}"
    file = write_kubeconfig(tmp_path, server)
    with pytest.raises(ConnectionProblem) as caught:
        await connect(file, None, clock)
    expected = f"cannot reach {server} named by context dev of {file}: connection refused; is the API server running?"
    assert str(caught.value) == expected


async def test_connect_with_rejected_credentials(api: FakeApi, kubeconfig: Path, clock: VirtualClock) -> None:
    api.script("/version", refused(401, "Unauthorized", "Unauthorized"))
    with pytest.raises(ConnectionProblem, match=r"does not accept the credentials of context dev of .*: Unauthorized$"):
        await connect(kubeconfig, None, clock)


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_connect_waits_for_a_server_that_is_not_ready(
    api: FakeApi, kubeconfig: Path, clock: VirtualClock, status: int
) -> None:
    api.script("/version", refused(status), refused(status), ok({}))
    connection = await connect_when_available(kubeconfig, ConnectionOptions(), clock)
    await connection.close()
    assert clock.slept == [UNAVAILABLE_RETRY] * 2


async def test_connect_does_not_wait_for_rejected_credentials(
    api: FakeApi, kubeconfig: Path, clock: VirtualClock
) -> None:
    api.script("/version", refused(401, "Unauthorized", "Unauthorized"))
    with pytest.raises(ConnectionProblem, match="does not accept the credentials"):
        await connect_when_available(kubeconfig, ConnectionOptions(), clock)


async def test_connect_to_a_server_without_tls(api: FakeApi, tmp_path: Path, clock: VirtualClock) -> None:
    file = write_kubeconfig(tmp_path, api.url.replace("http:", "https:"))
    with pytest.raises(
        ConnectionProblem, match=r"cannot reach https://127.0.0.1:.* named by context dev of "
    ) as caught:
        await connect(file, None, clock)
    assert "\n" not in str(caught.value)


async def test_connect_to_a_server_with_an_untrusted_certificate(tmp_path: Path, clock: VirtualClock) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed(tmp_path))
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    file = write_kubeconfig(tmp_path, f"https://127.0.0.1:{port}")
    with pytest.raises(ConnectionProblem) as caught:
        await connect(file, None, clock)
    server.close()
    assert re.fullmatch(
        r"cannot reach https://.* named by context dev of .*: its certificate is not trusted: self-signed certificate; "
        r"is the certificate-authority the right one\?",
        str(caught.value),
    )


def self_signed(folder: Path, host: str = "") -> Path:
    """Write a key and a self-signed certificate, for `host` if given, and return the file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "self-signed")])
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), begin, begin.replace(2126)
    )
    if host:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
    file = folder / "server.pem"
    plain = serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    file.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
        + builder.sign(key, hashes.SHA256()).public_bytes(pem)
    )
    return file


# -- encoding of created objects ---------------------------------------------------------------------------------------


async def in_protobuf(kubeconfig: Path, clock: VirtualClock) -> Connection:
    return await connect(kubeconfig, ConnectionOptions(qps=-1, content_type=PROTOBUF), clock)


def form(content_type: str) -> bytes:
    return b"k8s\x00..." if content_type == PROTOBUF else b"{}"


async def test_objects_are_sent_as_json_by_default(api: FakeApi, connection: Connection) -> None:
    api.script(PATH, Reply(201))
    await connection.request("POST", PATH, form)
    assert [(call.body, call.content_type, call.accept) for call in api.calls] == [(b"{}", JSON, JSON)]


async def test_objects_are_sent_as_protobuf_if_configured(api: FakeApi, kubeconfig: Path, clock: VirtualClock) -> None:
    connection = await in_protobuf(kubeconfig, clock)
    api.script(PATH, Reply(201), ok({}))
    await connection.request("POST", PATH, form)
    await connection.request("GET", PATH)
    sent, read = api.calls
    assert (sent.body, sent.content_type, sent.accept) == (b"k8s\x00...", PROTOBUF, f"{PROTOBUF},{JSON}")
    assert read.accept == JSON, "everything else is JSON"
    await connection.close()


@pytest.mark.parametrize("status", [406, 415])
async def test_a_server_without_protobuf_gets_json_from_then_on(
    api: FakeApi, kubeconfig: Path, clock: VirtualClock, status: int
) -> None:
    connection = await in_protobuf(kubeconfig, clock)
    api.script(PATH, refused(status, "UnsupportedMediaType"), Reply(201), Reply(201))
    await connection.request("POST", PATH, form)
    await connection.request("POST", PATH, form)
    assert [call.content_type for call in api.calls] == [PROTOBUF, JSON, JSON]
    await connection.close()


async def test_protobuf_status_is_raised_like_a_json_status(
    api: FakeApi, kubeconfig: Path, clock: VirtualClock
) -> None:
    connection = await in_protobuf(kubeconfig, clock)
    busy = Reply(429, refusal("too many requests", "TooManyRequests", retry_after=7))
    api.script(PATH, busy, Reply(404, refusal('pods "a" not found', "NotFound")))
    with pytest.raises(ApiError, match=r'^pods "a" not found$') as caught:
        await connection.request("POST", PATH, form)
    assert (caught.value.status, caught.value.reason) == (404, "NotFound")
    assert (len(api.calls), clock.slept) == (2, [7])
    await connection.close()


async def test_malformed_protobuf_status_is_raised_with_its_code(
    api: FakeApi, kubeconfig: Path, clock: VirtualClock
) -> None:
    connection = await in_protobuf(kubeconfig, clock)
    api.script(PATH, Reply(403, b"k8s\x00\x12\xff"))
    with pytest.raises(ApiError) as caught:
        await connection.request("POST", PATH, form)
    assert caught.value.status == 403
    await connection.close()


class RecordedMetrics(ClientMetrics):
    """Stores all observations."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.answers: list[tuple[str, int, bool]] = []
        self.sizes: list[tuple[str, int, int]] = []
        self.seconds: list[tuple[str, float]] = []
        self.waits: list[tuple[str, float]] = []

    def observe_rate_limiter_wait(self, method: str, seconds: float) -> None:
        self.waits.append((method, seconds))

    def count_result(self, method: str, status: int, again: bool) -> None:
        self.answers.append((method, status, again))

    def observe_sizes(self, method: str, sent: int, received: int) -> None:
        self.sizes.append((method, sent, received))

    def observe_latency(self, method: str, seconds: float) -> None:
        self.seconds.append((method, seconds))


async def recorded_connection(kubeconfig: Path, clock: VirtualClock) -> tuple[Connection, RecordedMetrics]:
    """Return a connection and what it observes from now on."""
    recorded = RecordedMetrics()
    connection = await connect(kubeconfig, ConnectionOptions(qps=-1), clock, metrics=lambda _: recorded)
    recorded.clear()
    return connection, recorded


async def test_metrics_include_each_retry_and_the_total_time(
    api: FakeApi, kubeconfig: Path, clock: VirtualClock
) -> None:
    connection, recorded = await recorded_connection(kubeconfig, clock)
    api.script(PATH, refused(429, retry_after=3), ok({"x": 1}))
    await connection.request("POST", PATH, b"{}")
    assert recorded.answers == [("POST", 429, False), ("POST", 200, True)]
    assert [(method, sent) for method, sent, _ in recorded.sizes] == [("POST", 2), ("POST", 2)]
    assert recorded.sizes[1][2] == len(b'{"x":1}')
    assert recorded.seconds == [("POST", 3.0)]
    assert recorded.waits == [("POST", 0.0), ("POST", 0.0)]


async def test_metrics_include_calls_without_a_response(api: FakeApi, kubeconfig: Path, clock: VirtualClock) -> None:
    connection, recorded = await recorded_connection(kubeconfig, clock)
    api.script(PATH, Hangup())
    with pytest.raises(ApiError):
        await connection.request("POST", PATH, b"{}")
    assert recorded.answers == [("POST", 0, False)]
    assert recorded.sizes == []
    assert len(recorded.seconds) == 1


async def test_metrics_include_watches(api: FakeApi, kubeconfig: Path, clock: VirtualClock) -> None:
    connection, recorded = await recorded_connection(kubeconfig, clock)
    api.script(PATH, refused(403), Stream((b"{}\n",)))
    with pytest.raises(ApiError):
        async with connection.watching(PATH, 1.0):
            pass
    async with connection.watching(PATH, 1.0):
        pass
    assert recorded.answers == [("GET", 403, False), ("GET", 200, False)]
    assert (recorded.sizes, recorded.seconds) == ([], [])


@pytest.mark.parametrize("body", [b"[" * 100_000, b"\xff", b"k8s\0\xff\xff", b'{"details":7}', b"null", b""])
async def test_error_response_may_have_any_body(api: FakeApi, connection: Connection, body: bytes) -> None:
    api.script(PATH, Reply(403, body))
    with pytest.raises(ApiError) as caught:
        await connection.request("POST", PATH, b"{}")
    assert caught.value.status == 403
