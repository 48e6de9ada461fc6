"""Certificates of the authority: client identities and server addresses."""

from __future__ import annotations

import ssl
import stat
from pathlib import Path

import yaml
from cryptography import x509

from tests.controlplane.access import Access
from tests.controlplane.certs import Authority
from tests.controlplane.scheduler import config_document
from tests.e2e.client import ApiClient


def test_client_certificate_contains_user_and_groups() -> None:
    pair = Authority().client("alice", ["dev", "ops"])

    subject = x509.load_pem_x509_certificate(pair.certificate.encode()).subject

    assert subject.rfc4514_string() == "CN=alice,O=ops,O=dev"


def test_kubeconfig_is_readable_by_its_owner_only_and_accepted_by_the_client(tmp_path: Path) -> None:
    access = Access(tmp_path)

    kubeconfig = access.for_user("https://127.0.0.1:6443", "system:node:a", ["system:nodes"])

    assert kubeconfig == tmp_path / "system_node_a.kubeconfig"
    assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
    assert ApiClient(kubeconfig).server == "https://127.0.0.1:6443"


def test_server_certificate_passes_pythons_strict_checks(tmp_path: Path) -> None:
    access = Access(tmp_path)
    client, server = ssl.create_default_context(cafile=str(access.authority)), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    server.load_cert_chain(access.server_certificate, access.server_key)

    assert handshake(client, server, "127.0.0.1")


def handshake(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> bool:
    """Do a TLS handshake in memory; return True if it completes. ssl.SSLError if it fails."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client.wrap_bio(down, up, server_hostname=name), server.wrap_bio(up, down, server_side=True)]
    for _ in range(5):
        waiting = []
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                waiting.append(side)
        if not waiting:
            return True
    return False


def test_scheduler_config_gets_missing_fields_only() -> None:
    given = "clientConnection: {qps: 50}\nprofiles: [{schedulerName: rival}]\nleaderElection: {leaderElect: true}\n"

    document = yaml.safe_load(config_document(given, "/tmp/kubeconfig"))

    assert document["kind"] == "KubeSchedulerConfiguration"
    assert document["clientConnection"] == {"qps": 50, "burst": 10000, "kubeconfig": "/tmp/kubeconfig"}
    assert document["leaderElection"] == {"leaderElect": False}
    assert document["profiles"] == [{"schedulerName": "rival"}]
