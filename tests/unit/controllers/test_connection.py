"""kopf's connection has the token, the TLS context and the proxy of the kubeconfig."""

from __future__ import annotations

from pathlib import Path

from pyscheduler.controllers.connection import connection_info
from pyscheduler.kube.credentials import load
from tests.unit.kube.fixtures import write_kubeconfig
from tests.unit.kube.virtual import VirtualClock

CLUSTER = "insecure-skip-tls-verify: true\nproxy-url: http://proxy.example:3128"


async def test_credentials_are_those_of_the_kubeconfig(tmp_path: Path) -> None:
    file = write_kubeconfig(tmp_path, "https://api.example", cluster=CLUSTER, user="token: secret")
    credentials = await load(file, VirtualClock())
    info = await connection_info(credentials)
    assert (info.server, info.proxy_url) == ("https://api.example", "http://proxy.example:3128")
    assert info.as_http_headers() == {"Authorization": "Bearer secret"}
    assert info.as_ssl_context() is credentials.ssl


async def test_password_is_sent_as_basic_authorization(tmp_path: Path) -> None:
    file = write_kubeconfig(tmp_path, "http://api.example", user="username: me\npassword: word")
    info = await connection_info(await load(file, VirtualClock()))
    assert info.as_http_headers() == {"Authorization": "Basic bWU6d29yZA=="}


async def test_connections_with_equal_tokens_are_equal(tmp_path: Path) -> None:
    file = write_kubeconfig(tmp_path, "https://api.example", cluster=CLUSTER, user="token: secret")
    first, second = [await connection_info(await load(file, VirtualClock())) for _ in range(2)]
    write_kubeconfig(tmp_path, "https://api.example", cluster=CLUSTER, user="token: renewed")
    assert first == second != await connection_info(await load(file, VirtualClock()))
