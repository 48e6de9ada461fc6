"""HTTP client of an extender: requests, TLS, failures."""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pyscheduler.config.types import ExtenderConfig, ExtenderTLS
from pyscheduler.core.extenders.extender import ExtenderFailed
from pyscheduler.shell.extenders import client as client_module
from pyscheduler.shell.extenders.client import Client, UnusableTLS, tls_of
from tests.controlplane.certs import Authority, Pair

from .fake_extender import FakeExtender


@asynccontextmanager
async def calling(url: str, **fields: Any) -> AsyncIterator[Client]:
    client = Client(ExtenderConfig(url, **fields))
    yield client
    await client.close()


async def test_a_call_is_a_post_of_json_below_the_prefix(extender: FakeExtender) -> None:
    extender.responses["filter"] = {"NodeNames": ["n1"]}
    async with calling(extender.url + "/") as client:
        assert await client.send("filter", b'{"Pod":{}}') == b'{"NodeNames":["n1"]}'
    assert extender.calls == [("filter", {"Pod": {}})]
    assert extender.types == ["application/json"]


@pytest.mark.parametrize("status", [201, 404, 500])
async def test_any_other_status_than_200_is_a_failure(extender: FakeExtender, status: int) -> None:
    extender.responses["filter"] = status
    async with calling(extender.url) as client:
        with pytest.raises(ExtenderFailed) as failed:
            await client.send("filter", b"{}")
    assert str(failed.value) == f"failed filter with extender at URL {extender.url}/filter, code {status}"


async def test_an_extender_that_does_not_answer_in_time(extender: FakeExtender) -> None:
    async with calling(extender.url, http_timeout=0.05) as client:
        with pytest.raises(ExtenderFailed, match=r"failed slow with extender at URL .*/slow: no answer within 0\.05s"):
            await client.send("slow", b"{}")


async def test_unreachable_extender(extender: FakeExtender) -> None:
    await extender.stop()
    async with calling(extender.url) as client:
        with pytest.raises(ExtenderFailed, match=f"^failed filter with extender at URL {extender.url}/filter: Cannot"):
            await client.send("filter", b"{}")


@pytest.mark.parametrize("url", ["", "not a url", "http://", "ftp://e"])
async def test_invalid_url_prefix(url: str) -> None:
    async with calling(url) as client:
        with pytest.raises(ExtenderFailed, match=r"^failed filter with extender at URL "):
            await client.send("filter", b"{}")


async def test_response_beyond_the_maximum_size(extender: FakeExtender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "MOST_BYTES", 100)
    extender.responses["filter"] = b" " * 101
    async with calling(extender.url) as client:
        with pytest.raises(ExtenderFailed, match=re.escape("/filter: its answer is longer than 100 bytes")):
            await client.send("filter", b"{}")


# -- TLS ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parties:
    """A CA, an extender's certificate for `extender.example.com`, and a client certificate."""

    authority: Authority
    server: Pair
    ours: Pair

    def context(self, folder: Path, clients: bool = False) -> ssl.SSLContext:
        """Return the extender's TLS context; `clients` requires a client certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.server.write(folder, "server"))
        if clients:
            context.load_verify_locations(cadata=self.authority.certificate)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


@pytest.fixture(scope="module")
def parties() -> Parties:
    authority = Authority()
    return Parties(authority, authority.server(["extender.example.com"], []), authority.client("pyscheduler"))


@asynccontextmanager
async def secure(context: ssl.SSLContext) -> AsyncIterator[FakeExtender]:
    extender = FakeExtender()
    extender.responses["filter"] = {}
    await extender.start(context)
    yield extender
    await extender.stop()


def data(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


async def test_extender_is_verified_by_ca_and_server_name(parties: Parties, tmp_path: Path) -> None:
    tls = ExtenderTLS(server_name="extender.example.com", ca_data=data(parties.authority.certificate))
    async with secure(parties.context(tmp_path)) as extender, calling(extender.url, tls_config=tls) as client:
        assert await client.send("filter", b"{}") == b"{}"


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="untrusted CA"),
        pytest.param({"server_name": "another.example.com"}, id="another name"),
    ],
)
async def test_extender_with_an_untrusted_certificate_receives_nothing(
    parties: Parties, tmp_path: Path, fields: dict[str, Any]
) -> None:
    tls = ExtenderTLS(**fields, ca_data=data(parties.authority.certificate)) if fields else None
    async with secure(parties.context(tmp_path)) as extender, calling(extender.url, tls_config=tls) as client:
        with pytest.raises(ExtenderFailed, match="certificate verify failed"):
            await client.send("filter", b"{}")
        assert not extender.calls


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"enable_https": True}, id="enableHTTPS without a CA"),
        pytest.param({"tls_config": ExtenderTLS(insecure=True)}, id="insecure"),
    ],
)
async def test_any_certificate_is_accepted_if_configured(
    parties: Parties, tmp_path: Path, fields: dict[str, Any]
) -> None:
    async with secure(parties.context(tmp_path)) as extender, calling(extender.url, **fields) as client:
        assert await client.send("filter", b"{}") == b"{}"


@pytest.mark.parametrize("files", [True, False], ids=["files", "data"])
async def test_client_certificate_is_presented(parties: Parties, tmp_path: Path, files: bool) -> None:
    certificate, key = parties.ours.write(tmp_path, "ours")
    if files:
        tls = ExtenderTLS(insecure=True, cert_file=str(certificate), key_file=str(key))
    else:
        tls = ExtenderTLS(insecure=True, cert_data=data(parties.ours.certificate), key_data=data(parties.ours.key))
    context = parties.context(tmp_path, clients=True)
    async with secure(context) as extender, calling(extender.url, tls_config=tls) as client:
        assert await client.send("filter", b"{}") == b"{}"


def test_default_tls_settings_use_the_systems_cas() -> None:
    assert tls_of(ExtenderConfig("https://e")) is None


@pytest.mark.parametrize(
    ("tls", "expected"),
    [
        (ExtenderTLS(insecure=True, ca_file="ca"), "specifying a root certificates file with the insecure flag"),
        (ExtenderTLS(cert_file="cert"), "a client certificate needs its key"),
        (ExtenderTLS(key_data="a2V5"), "a client certificate needs its key"),
        (ExtenderTLS(ca_file="/does/not/exist"), "the certificates cannot be used: "),
        (ExtenderTLS(ca_data="???"), "the certificates cannot be used: "),
        (ExtenderTLS(ca_data=data("no certificate")), "the certificates cannot be used: "),
    ],
)
def test_invalid_tls_settings(tls: ExtenderTLS, expected: str) -> None:
    with pytest.raises(UnusableTLS, match=f"^{expected}"):
        tls_of(ExtenderConfig("https://e", tls_config=tls))
