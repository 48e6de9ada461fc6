"""Common credentials of kubeconfigs and pods; exec plugins are left to kubernetes_asyncio."""

from __future__ import annotations

import base64
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from pyscheduler.kube.credentials import REREAD_AFTER, ConnectionProblem, load
from pyscheduler.kube.kubeconfig import NotInCluster, from_kubeconfig, in_cluster_config, in_cluster_namespace
from tests.unit.kube.fixtures import write_kubeconfig
from tests.unit.kube.virtual import VirtualClock

CLUSTER = {"server": "https://api:6443/"}
POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.fixture
def account(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("abc\n")
    (tmp_path / "ca.crt").write_text("an authority")
    return tmp_path


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({}, ""),
        ({"token": "abc"}, "Bearer abc"),
        ({"tokenFile": "token"}, "Bearer abc"),
        ({"token": "first", "tokenFile": "token"}, "Bearer first"),
        ({"username": "me", "password": "it"}, f"Basic {encoded('me:it')}"),
        ({"token": "abc", "username": "me", "password": "it"}, "Bearer abc"),
        ({"username": "me"}, ""),
    ],
)
def test_authorization_header(account: Path, user: dict[str, Any], header: str) -> None:
    found = from_kubeconfig(CLUSTER, user, account, account)
    assert found is not None
    assert (found.host, found.header) == ("https://api:6443", header)


@pytest.mark.parametrize("user", [{"exec": {"command": "aws"}}, {"auth-provider": {"name": "oidc"}}])
def test_unsupported_credentials(tmp_path: Path, user: dict[str, Any]) -> None:
    assert from_kubeconfig(CLUSTER, user, tmp_path, tmp_path) is None


def test_certificates_from_files_and_from_the_kubeconfig(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    folder.mkdir()
    cluster = {**CLUSTER, "certificate-authority": "ca.crt", "tls-server-name": "api", "proxy-url": "http://proxy"}
    user = {"client-certificate-data": encoded("a certificate"), "client-key-data": encoded("a key"), "client-key": "x"}
    found = from_kubeconfig(cluster, user, tmp_path, folder)
    assert found is not None
    assert found.cert_file is not None
    assert found.key_file is not None
    assert found.ssl_ca_cert == str(tmp_path / "ca.crt")
    assert Path(found.cert_file).read_text() == "a certificate"
    assert Path(found.key_file).read_text() == "a key"
    assert (found.tls_server_name, found.proxy, found.verify_ssl) == ("api", "http://proxy", True)


async def test_inlined_certificates_are_not_left_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lines = f"client-certificate-data: {encoded('no certificate')}\nclient-key-data: {encoded('a key')}"
    file = write_kubeconfig(tmp_path, "https://api", user=lines)
    with pytest.raises(ConnectionProblem, match="certificates of context dev"):
        await load(file, VirtualClock())
    assert os.listdir(tmp_path) == [file.name]


@pytest.mark.parametrize(
    ("host", "server"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_in_cluster_config(account: Path, host: str, server: str) -> None:
    found = in_cluster_config({**POD, "KUBERNETES_SERVICE_HOST": host}, account)
    assert (found.host, found.header, found.ssl_ca_cert) == (server, "Bearer abc", str(account / "ca.crt"))


def test_namespace_of_the_service_account(account: Path) -> None:
    assert in_cluster_namespace(account) == ""
    (account / "namespace").write_text("shop\n")
    assert in_cluster_namespace(account) == "shop"
    (account / "namespace").write_bytes(b"\xff")
    assert in_cluster_namespace(account) == ""


@pytest.mark.parametrize("gone", ["token", "ca.crt"])
def test_a_pod_without_a_service_account(account: Path, gone: str) -> None:
    (account / gone).unlink()
    with pytest.raises(NotInCluster, match=f"{gone} is missing or empty"):
        in_cluster_config(POD, account)


async def test_replaced_token_is_read_again(account: Path) -> None:
    clock = VirtualClock()
    credentials = await load(write_kubeconfig(account, "http://api", user="tokenFile: token"), clock)
    (account / "token").write_text("xyz")
    assert credentials.static_authorization is None
    assert await credentials.authorization() == "Bearer abc"
    await clock.sleep(REREAD_AFTER + 1)
    assert await credentials.authorization() == "Bearer xyz"


async def test_an_exec_plugin_is_run(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    answer = '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "abc"}}'
    plugin.write_text(f"#!{sys.executable}\nprint('''{answer}''')\n")
    plugin.chmod(0o755)
    user = f"exec: {{apiVersion: client.authentication.k8s.io/v1, command: {plugin}, args: []}}"
    credentials = await load(write_kubeconfig(tmp_path, "http://api", user=user), VirtualClock())
    assert credentials.static_authorization is None
    assert await credentials.authorization() == "Bearer abc"


def merged(folder: Path, monkeypatch: pytest.MonkeyPatch, *contents: str) -> None:
    """Set KUBECONFIG to files with these contents, each in a folder of its own."""
    files = []
    for number, content in enumerate(contents):
        (folder / str(number)).mkdir()
        file = folder / str(number) / "config"
        file.write_text(content)
        files.append(str(file))
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(files))


async def test_files_of_kubeconfig_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    merged(
        tmp_path,
        monkeypatch,
        "users: [{name: me, user: {tokenFile: token}}]\n",
        "current-context: dev\ncontexts: [{name: dev, context: {cluster: here, user: me}}]\n"
        "users: [{name: me, user: {token: unused}}]\n",
        "current-context: other\nclusters: [{name: here, cluster: {server: 'https://api'}}]\n",
    )
    (tmp_path / "0" / "token").write_text("abc")
    credentials = await load(None, VirtualClock())
    assert (credentials.host, await credentials.authorization()) == ("https://api", "Bearer abc")
    assert credentials.described.startswith(f"context dev of {tmp_path / '0' / 'config'}{os.pathsep}")


async def test_missing_files_of_kubeconfig_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_kubeconfig(tmp_path, "https://api")
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join((str(tmp_path / "none"), "", str(file))))
    assert (await load(None, VirtualClock())).host == "https://api"
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(ConnectionProblem, match=f"KUBECONFIG names {tmp_path / 'none'}, which does not exist"):
        await load(None, VirtualClock())


async def test_kubeconfig_is_not_read_with_a_file_or_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert (await load(write_kubeconfig(tmp_path, "https://api"), VirtualClock())).host == "https://api"
    assert (await load(None, VirtualClock(), "https://other")).static_authorization == ""
