"""A connection that the server resets during the TLS handshake closes its own descriptor, and no other."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import socket
import ssl
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Iterator

import pytest
import uvloop

from pyscheduler.config.types import ExtenderConfig
from pyscheduler.core.extenders.extender import ExtenderFailed
from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.kube.errors import RequestError
from pyscheduler.kube.http_connection import Address, HttpConnection, open_connection
from pyscheduler.kube.pool import Call
from pyscheduler.kube.proxy_transport import ProxyTransport, Route
from pyscheduler.shell.extenders.client import Client

ATTEMPTS = 200
DESCRIPTORS = "/proc/self/fd"
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER that makes `close` send RST."""


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a server that resets each connection while its client sends the first bytes."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=ATTEMPTS)
    wait = random.Random(1)

    def serve() -> None:
        while True:
            try:
                accepted, _ = listener.accept()
            except OSError:
                return
            time.sleep(wait.random() * 0.0004)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            accepted.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


async def open_pool_connection(port: int) -> None:
    address = Address.of(f"https://127.0.0.1:{port}", TLS, "localhost")
    await open_connection(address, lambda: HttpConnection(lambda _: None, lambda _: None), 5.0)


async def call_extender(port: int) -> None:
    client = Client(ExtenderConfig(f"https://127.0.0.1:{port}"))
    try:
        await client.send("filter", b"{}")
    finally:
        await client.close()


async def call_through_proxy(port: int) -> None:
    transport = ProxyTransport(Route("https://server", f"https://127.0.0.1:{port}", TLS, None), 1, Deadlines(), "tests")
    try:
        await transport.call(Call("GET", "/"), "")
    finally:
        await transport.close()


@pytest.mark.parametrize("open_one", [open_pool_connection, call_extender, call_through_proxy])
@pytest.mark.parametrize("runner", [uvloop.run, asyncio.run])
def test_reset_during_the_handshake_closes_its_own_descriptor_and_no_other(
    port: int, open_one: Callable[[int], Awaitable[None]], runner: Callable[..., object]
) -> None:
    problems: list[BaseException] = []
    """Errors that keep the sockets of failed attempts alive, as the last error of an outage does."""

    async def fail() -> None:
        for _ in range(ATTEMPTS):
            try:
                await open_one(port)
            except (RequestError, ExtenderFailed) as problem:
                problems.append(problem)
            await asyncio.sleep(0)
        others = [each for _ in range(ATTEMPTS) for each in socket.socketpair()]  # they take the numbers that are free
        problems.clear()
        gc.collect()
        for other in others:
            os.fstat(other.fileno())  # OSError if it was closed
            other.close()

    before = len(os.listdir(DESCRIPTORS))
    runner(fail())
    assert len(os.listdir(DESCRIPTORS)) < before + ATTEMPTS // 10  # the first loop of a process keeps two
