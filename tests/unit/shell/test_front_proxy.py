"""Front proxies: who is believed to ask for somebody else, and for whom."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from pyscheduler.shell.kube.connection import Connection
from pyscheduler.shell.serving.client_ca import ConfigMapAuthorities, FileAuthorities, Proxies, TrustedAuthorities
from pyscheduler.shell.serving.front_proxy import user_of
from pyscheduler.shell.serving.reviews import User
from pyscheduler.shell.serving.webserver import Request
from tests.controlplane.certs import Authority

from .fake_api import FakeApi, ok
from .virtual import VirtualClock

CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
CLIENTS, PROXIES = Authority().certificate, Authority().certificate
ADMIN = (("organizationName", "system:masters"),), (("commonName", "admin"),)
PROXY = ((("commonName", "front-proxy-client"),),)
ALICE = ("x-remote-user", "alice")


def der(pem: str) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem)


def asked(subject: Any, signer: str, *pairs: tuple[str, str]) -> Request:
    return Request("/metrics", {}, dict(pairs), subject=subject, signer=der(signer), pairs=pairs)


def by_proxy(*pairs: tuple[str, str]) -> Request:
    return asked(PROXY, PROXIES, *pairs)


def proxies(**said: Any) -> Proxies:
    return Proxies(PROXIES, **{"names": ("front-proxy-client",), **said})


def test_a_proxy_asks_for_whom_it_says() -> None:
    extra = [("x-remote-extra-example.com%2froles", "a"), ("x-remote-extra-example.com%2froles", "b")]
    question = by_proxy(ALICE, ("x-remote-group", "dev"), ("x-remote-group", "ops"), *extra)
    assert user_of(question, CLIENTS, proxies()) == User(
        "alice", groups=("dev", "ops", "system:authenticated"), extra={"example.com/roles": ("a", "b")}
    )


def test_headers_go_by_the_names_that_are_configured_the_first_that_is_there() -> None:
    said = proxies(user_headers=("X-One", "X-Two"), uid_headers=("X-Uid",), group_headers=(), extra_prefixes=())
    question = by_proxy(("x-two", "bob"), ("x-one", ""), ("x-uid", "7"), ALICE, ("x-remote-group", "dev"))
    assert user_of(question, CLIENTS, said) == User("bob", "7", ("system:authenticated",))


def test_nobody_becomes_authenticated_by_being_passed_on() -> None:
    question = by_proxy(("x-remote-user", "system:anonymous"), ("x-remote-group", "system:unauthenticated"))
    assert user_of(question, CLIENTS, proxies()) == User("system:anonymous", groups=("system:unauthenticated",))


@pytest.mark.parametrize(
    ("question", "said"),
    [
        pytest.param(by_proxy(), proxies(), id="it says nobody"),
        pytest.param(by_proxy(("x-remote-user", "")), proxies(), id="it says an empty name"),
        pytest.param(by_proxy(ALICE), proxies(names=("another",)), id="it is none of those that may"),
        pytest.param(asked(((("commonName", ""),),), PROXIES, ALICE), proxies(names=()), id="it has no name"),
        pytest.param(Request("/", {}, {}, pairs=(ALICE,)), proxies(), id="it shows no certificate"),
        pytest.param(asked(PROXY, Authority().certificate, ALICE), proxies(), id="of another authority"),
        pytest.param(asked(ADMIN, PROXIES), proxies(), id="an administrator of the proxies' authority"),
    ],
)
def test_whoever_is_not_believed_is_nobody(question: Request, said: Proxies) -> None:
    assert user_of(question, CLIENTS, said) is None


def test_any_name_will_do_where_none_is_given() -> None:
    user = user_of(by_proxy(ALICE), CLIENTS, proxies(names=()))
    assert user is not None
    assert user.name == "alice"


@pytest.mark.parametrize("said", [proxies(), None], ids=["beside proxies", "without"])
def test_a_client_is_whom_its_certificate_names_whatever_headers_say(said: Proxies | None) -> None:
    user = user_of(asked(ADMIN, CLIENTS, ALICE, ("x-remote-group", "dev")), CLIENTS, said)
    assert user == User("admin", groups=("system:masters", "system:authenticated"))


def test_one_authority_may_sign_both() -> None:
    said = Proxies(CLIENTS, ("front-proxy-client",))
    alice, admin = asked(PROXY, CLIENTS, ALICE), asked(ADMIN, CLIENTS, ALICE)
    assert [user.name for question in (alice, admin) if (user := user_of(question, CLIENTS, said))] == [
        "alice",
        "admin",
    ]


# -- where it is said --------------------------------------------------------------------------------------------------


async def test_the_cluster_says_who_its_proxies_are(api: FakeApi, connection: Connection, clock: VirtualClock) -> None:
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


async def test_flags_go_before_what_the_cluster_says(
    api: FakeApi, connection: Connection, clock: VirtualClock, tmp_path: Path
) -> None:
    file = tmp_path / "proxies.crt"
    file.write_text(PROXIES)
    api.script(CONFIG_MAP, ok({"data": {"client-ca-file": CLIENTS, "requestheader-client-ca-file": CLIENTS}}))
    lookup = ConfigMapAuthorities(connection, clock)
    trusted = TrustedAuthorities(lookup, lookup, (FileAuthorities(file), Proxies(names=("mine",))))
    assert await trusted.current() == f"{CLIENTS}\n{PROXIES}"
    assert trusted.known == (CLIENTS, Proxies(PROXIES, ("mine",)))


async def test_without_either_there_are_none(api: FakeApi, connection: Connection, clock: VirtualClock) -> None:
    api.script(CONFIG_MAP, ok({"data": {"client-ca-file": CLIENTS}}))
    lookup = ConfigMapAuthorities(connection, clock)
    assert await TrustedAuthorities(lookup, lookup).current() == CLIENTS
    assert lookup.proxies is None
    assert await TrustedAuthorities(None).current() == ""


async def test_what_cannot_be_read_of_the_cluster_leaves_what_was_known(
    api: FakeApi, connection: Connection, clock: VirtualClock
) -> None:
    broken = {"client-ca-file": CLIENTS, "requestheader-client-ca-file": PROXIES, "requestheader-allowed-names": "7"}
    api.script(CONFIG_MAP, ok({"data": broken}))
    lookup = ConfigMapAuthorities(connection, clock)
    assert await TrustedAuthorities(lookup, lookup).current() == ""
    assert lookup.proxies is None
