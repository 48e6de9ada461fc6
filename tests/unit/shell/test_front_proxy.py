"""Front proxies: which clients may name a user in headers."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from pyscheduler.kube.connection import Connection
from pyscheduler.shell.serving.client_ca import ConfigMapAuthorities, FileAuthorities, Proxies, TrustedAuthorities
from pyscheduler.shell.serving.front_proxy import user_of
from pyscheduler.shell.serving.messages import ServerRequest
from pyscheduler.shell.serving.reviews import User
from tests.controlplane.certs import Authority
from tests.unit.kube.fake_api import FakeApi, ok
from tests.unit.kube.virtual import VirtualClock

CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
CLIENTS, PROXIES = Authority().certificate, Authority().certificate
ADMIN = (("organizationName", "system:masters"),), (("commonName", "admin"),)
PROXY = ((("commonName", "front-proxy-client"),),)
ALICE = ("x-remote-user", "alice")


def der(pem: str) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem)


def request_from(subject: Any, signer: str, *pairs: tuple[str, str]) -> ServerRequest:
    return ServerRequest("/metrics", {}, dict(pairs), subject=subject, signer=der(signer), pairs=pairs)


def by_proxy(*pairs: tuple[str, str]) -> ServerRequest:
    return request_from(PROXY, PROXIES, *pairs)


def proxies(**fields: Any) -> Proxies:
    return Proxies(PROXIES, **{"names": ("front-proxy-client",), **fields})


def test_proxy_names_user_groups_and_extra_in_headers() -> None:
    extra = [("x-remote-extra-example.com%2froles", "a"), ("x-remote-extra-example.com%2froles", "b")]
    request = by_proxy(ALICE, ("x-remote-group", "dev"), ("x-remote-group", "ops"), *extra)
    assert user_of(request, CLIENTS, proxies()) == User(
        "alice", groups=("dev", "ops", "system:authenticated"), extra={"example.com/roles": ("a", "b")}
    )


def test_first_present_configured_header_is_used() -> None:
    settings = proxies(user_headers=("X-One", "X-Two"), uid_headers=("X-Uid",), group_headers=(), extra_prefixes=())
    request = by_proxy(("x-two", "bob"), ("x-one", ""), ("x-uid", "7"), ALICE, ("x-remote-group", "dev"))
    assert user_of(request, CLIENTS, settings) == User("bob", "7", ("system:authenticated",))


def test_anonymous_user_of_a_proxy_is_not_authenticated() -> None:
    request = by_proxy(("x-remote-user", "system:anonymous"), ("x-remote-group", "system:unauthenticated"))
    assert user_of(request, CLIENTS, proxies()) == User("system:anonymous", groups=("system:unauthenticated",))


@pytest.mark.parametrize(
    ("received", "settings"),
    [
        pytest.param(by_proxy(), proxies(), id="no user header"),
        pytest.param(by_proxy(("x-remote-user", "")), proxies(), id="empty user name"),
        pytest.param(by_proxy(ALICE), proxies(names=("another",)), id="name not allowed"),
        pytest.param(
            request_from(((("commonName", ""),),), PROXIES, ALICE), proxies(names=()), id="certificate without a name"
        ),
        pytest.param(ServerRequest("/", {}, {}, pairs=(ALICE,)), proxies(), id="no certificate"),
        pytest.param(request_from(PROXY, Authority().certificate, ALICE), proxies(), id="another CA"),
        pytest.param(request_from(ADMIN, PROXIES), proxies(), id="user certificate of the proxy CA"),
    ],
)
def test_untrusted_proxy_names_no_user(received: ServerRequest, settings: Proxies) -> None:
    assert user_of(received, CLIENTS, settings) is None


def test_any_name_is_allowed_without_allowed_names() -> None:
    user = user_of(by_proxy(ALICE), CLIENTS, proxies(names=()))
    assert user is not None
    assert user.name == "alice"


@pytest.mark.parametrize("settings", [proxies(), None], ids=["with proxies", "without"])
def test_headers_of_a_client_are_ignored(settings: Proxies | None) -> None:
    user = user_of(request_from(ADMIN, CLIENTS, ALICE, ("x-remote-group", "dev")), CLIENTS, settings)
    assert user == User("admin", groups=("system:masters", "system:authenticated"))


def test_one_ca_may_sign_clients_and_proxies() -> None:
    settings = Proxies(CLIENTS, ("front-proxy-client",))
    alice, admin = request_from(PROXY, CLIENTS, ALICE), request_from(ADMIN, CLIENTS, ALICE)
    assert [user.name for request in (alice, admin) if (user := user_of(request, CLIENTS, settings))] == [
        "alice",
        "admin",
    ]


# -- configuration -----------------------------------------------------------------------------------------------------


async def test_proxies_are_read_from_the_config_map(api: FakeApi, connection: Connection, clock: VirtualClock) -> None:
    data = {
        "client-ca-file": CLIENTS,
        "requestheader-client-ca-file": PROXIES,
        "requestheader-allowed-names": '["front-proxy-client"]',
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    }
    api.script(CONFIG_MAP, ok({"data": data}))
    lookup = ConfigMapAuthorities(connection, clock)
    trusted = TrustedAuthorities(lookup, lookup)
    assert await trusted.current() == f"{CLIENTS}\n{PROXIES}"
    user = user_of(by_proxy(ALICE, ("x-remote-group", "dev")), *trusted.known)
    assert user == User("alice", groups=("dev", "system:authenticated"))


async def test_flags_override_the_config_map(
    api: FakeApi, connection: Connection, clock: VirtualClock, tmp_path: Path
) -> None:
    file = tmp_path / "proxies.crt"
    file.write_text(PROXIES)
    api.script(CONFIG_MAP, ok({"data": {"client-ca-file": CLIENTS, "requestheader-client-ca-file": CLIENTS}}))
    lookup = ConfigMapAuthorities(connection, clock)
    trusted = TrustedAuthorities(lookup, lookup, (FileAuthorities(file), Proxies(names=("mine",))))
    assert await trusted.current() == f"{CLIENTS}\n{PROXIES}"
    assert trusted.known == (CLIENTS, Proxies(PROXIES, ("mine",)))


async def test_no_proxies_without_flags_and_config_map(
    api: FakeApi, connection: Connection, clock: VirtualClock
) -> None:
    api.script(CONFIG_MAP, ok({"data": {"client-ca-file": CLIENTS}}))
    lookup = ConfigMapAuthorities(connection, clock)
    assert await TrustedAuthorities(lookup, lookup).current() == CLIENTS
    assert lookup.proxies is None
    assert await TrustedAuthorities(None).current() == ""


async def test_malformed_config_map_is_ignored(api: FakeApi, connection: Connection, clock: VirtualClock) -> None:
    broken = {"client-ca-file": CLIENTS, "requestheader-client-ca-file": PROXIES, "requestheader-allowed-names": "7"}
    api.script(CONFIG_MAP, ok({"data": broken}))
    lookup = ConfigMapAuthorities(connection, clock)
    assert await TrustedAuthorities(lookup, lookup).current() == ""
    assert lookup.proxies is None
