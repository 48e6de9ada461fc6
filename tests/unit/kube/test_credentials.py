"""Problems of kubeconfigs: one sentence with the file and the problem."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from pyscheduler.kube.credentials import ConnectionProblem, load
from tests.unit.kube.fixtures import write_kubeconfig
from tests.unit.kube.virtual import VirtualClock

SERVER = "https://127.0.0.1:1"


async def problem_of(file: Path | None) -> str:
    with pytest.raises(ConnectionProblem) as caught:
        await load(file, VirtualClock())
    text = str(caught.value)
    assert "\n" not in text
    return text.replace(str(file), "FILE")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a: [", "kubeconfig FILE is not YAML at line 1: expected the node content, but found '<stream end>'"),
        ("- just a list", "kubeconfig FILE is not a kubeconfig: it should hold clusters, users and contexts"),
        ("", "kubeconfig FILE is not a kubeconfig: it should hold clusters, users and contexts"),
        (
            "contexts: [{name: b}, {name: a}]",
            "kubeconfig FILE has no current-context; choose one (kubectl config use-context): a, b",
        ),
        ("current-context: x", "kubeconfig FILE names the context 'x', which it does not define"),
        (
            "{current-context: x, contexts: [{name: x, context: {cluster: y}}]}",
            "kubeconfig FILE names the cluster 'y', which it does not define",
        ),
        (
            "{current-context: x, contexts: [{name: x, context: {cluster: y}}], clusters: [{name: y, cluster: {}}]}",
            "kubeconfig FILE: cluster 'y' has no server URL (https://…)",
        ),
    ],
)
async def test_broken_files(tmp_path: Path, content: str, expected: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(content)
    assert await problem_of(file) == expected


async def test_a_missing_file(tmp_path: Path) -> None:
    assert await problem_of(tmp_path / "nowhere") == "kubeconfig FILE does not exist"


async def test_full_disk_is_one_line_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    file = write_kubeconfig(tmp_path, SERVER)
    assert (await problem_of(file)).startswith(
        "certificates need a writable temporary directory; free space, or set TMPDIR ([Errno 2]"
    )


async def test_a_folder(tmp_path: Path) -> None:
    assert await problem_of(tmp_path) == "kubeconfig FILE cannot be read: Is a directory"


@pytest.mark.parametrize(
    ("cluster", "user", "expected"),
    [
        ("certificate-authority: ca.crt", "", "names the certificate-authority ca.crt, which does not exist"),
        (
            "",
            "client-certificate: /nowhere/me.crt",
            "names the client-certificate /nowhere/me.crt, which does not exist",
        ),
        ("", "tokenFile: token", "names the tokenFile token, which does not exist"),
    ],
)
async def test_missing_certificates(tmp_path: Path, cluster: str, user: str, expected: str) -> None:
    file = write_kubeconfig(tmp_path, SERVER, cluster=cluster, user=user)
    assert await problem_of(file) == f"kubeconfig FILE {expected}"


async def test_malformed_certificate(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("not a certificate")
    file = write_kubeconfig(tmp_path, SERVER, cluster="certificate-authority: ca.crt")
    assert (await problem_of(file)).startswith("the certificates of context dev of FILE cannot be used: ")


async def test_invalid_base64(tmp_path: Path) -> None:
    file = write_kubeconfig(tmp_path, SERVER, cluster="certificate-authority-data: 'x'")
    assert (await problem_of(file)).startswith("cannot read the credentials of context dev of FILE: ")


async def test_neither_kubeconfig_nor_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBERNETES_SERVICE_HOST", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    assert await problem_of(None) == (
        "no kubeconfig was given and this is not a pod of a cluster (Service host/port is not set); "
        "pass --kubeconfig FILE, or set KUBECONFIG or clientConnection.kubeconfig"
    )


async def test_basic_credentials_and_insecure_tls(tmp_path: Path) -> None:
    file = write_kubeconfig(
        tmp_path, SERVER, cluster="insecure-skip-tls-verify: true\ntls-server-name: api", user="token: secret"
    )
    credentials = await load(file, VirtualClock())
    assert await credentials.authorization() == credentials.static_authorization == "Bearer secret"
    assert credentials.server_hostname == "api"
    assert credentials.ssl is not None
    assert not credentials.ssl.check_hostname


async def test_server_argument_overrides_the_kubeconfig(tmp_path: Path, clock: VirtualClock) -> None:
    file = write_kubeconfig(tmp_path, SERVER, user="token: secret")
    credentials = await load(file, clock, "http://elsewhere:1")
    assert (credentials.host, await credentials.authorization()) == ("http://elsewhere:1", "Bearer secret")


async def test_server_argument_without_a_kubeconfig_uses_no_credentials(clock: VirtualClock) -> None:
    credentials = await load(None, clock, "http://elsewhere:1/")
    assert (credentials.host, await credentials.authorization()) == ("http://elsewhere:1", "")
    assert credentials.static_authorization == ""


async def test_server_argument_must_be_a_url(clock: VirtualClock) -> None:
    with pytest.raises(ConnectionProblem, match="--master elsewhere:1 is not a URL"):
        await load(None, clock, "elsewhere:1")


@pytest.mark.parametrize(
    ("server", "proxy"),
    [
        ("http://api.example", "http://proxy.example:3128"),
        ("http://10.0.0.1:6443", "http://proxy.example:3128"),
        ("http://localhost:6443", None),
        ("http://127.0.0.1:6443", None),
        ("http://[::1]:6443", None),
    ],
)
async def test_proxy_of_the_environment_is_not_used_for_this_machine(
    server: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.delenv("no_proxy", raising=False)
    assert (await load(None, VirtualClock(), server)).proxy == proxy


async def test_context_argument_overrides_the_current_context(tmp_path: Path, clock: VirtualClock) -> None:
    file = tmp_path / "two"
    file.write_text(
        "current-context: a\n"
        "contexts: [{name: a, context: {cluster: a}}, {name: b, context: {cluster: b}}]\n"
        "clusters: [{name: a, cluster: {server: 'http://a:1'}}, {name: b, cluster: {server: 'http://b:2'}}]\n"
    )
    assert (await load(file, clock, context="b")).host == "http://b:2"
    with pytest.raises(ConnectionProblem, match="names the context 'c', which it does not define"):
        await load(file, clock, context="c")


@pytest.mark.parametrize(
    ("context", "namespace"),
    [
        ("{cluster: a, namespace: shop}", "shop"),
        ("{cluster: a, namespace: ''}", "default"),
        ("{cluster: a}", "default"),
    ],
)
async def test_namespace_of_the_context(tmp_path: Path, clock: VirtualClock, context: str, namespace: str) -> None:
    file = tmp_path / "one"
    file.write_text(
        "current-context: a\n"
        f"contexts: [{{name: a, context: {context}}}]\n"
        "clusters: [{name: a, cluster: {server: 'http://a:1'}}]\n"
    )
    assert (await load(file, clock)).namespace == namespace
