"""What the control plane's programs are started with: one function a program, from options to command-line flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.controlplane.access import Access

HOUR = 3600.0
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a control plane differs from the usual one. Seconds are float.

    `node_monitor_grace` is how long a node may stay silent before it is taken for dead. It is an hour unless set,
    because nodes made by `create_nodes` have no kubelet that renews a lease.
    `controllers` leaves out the one that writes a hint for kubelets on every node, each time the cluster grows.
    `taint_new_nodes` is the API server's own default; without it `create_nodes` is three times as fast.
    `extra` adds flags per program: {"kube-apiserver": ["--runtime-config=api/alpha=true"]}.
    """

    scheduler: bool = False
    controllers: str = "*,-ttl-controller"
    node_monitor_grace: float = HOUR
    taint_new_nodes: bool = True
    max_requests_inflight: int = 800
    max_mutating_requests_inflight: int = 400
    client_qps: int = 1000
    start_seconds: float = 120.0
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Ports:
    """The loopback ports of one control plane."""

    etcd: int
    etcd_peer: int
    api_server: int
    controller_manager: int


def etcd(ports: Ports, data: Path) -> list[str]:
    """etcd without fsync: the data does not outlive the tests. Room for benches: 8 GiB instead of 2."""
    client, peer = f"http://{LOOPBACK}:{ports.etcd}", f"http://{LOOPBACK}:{ports.etcd_peer}"
    return [
        "--name=default",
        f"--data-dir={data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        f"--quota-backend-bytes={8 * 2**30}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def api_server(ports: Ports, access: Access, options: Options) -> list[str]:
    """TLS, certificates and service-account tokens as identities, Node and RBAC authorization.

    The endpoint reconciler is off: it refuses loopback addresses, and no pod here calls the API.
    """
    untainted = [] if options.taint_new_nodes else ["--disable-admission-plugins=TaintNodesByCondition"]
    return [
        f"--etcd-servers=http://{LOOPBACK}:{ports.etcd}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        f"--secure-port={ports.api_server}",
        "--endpoint-reconciler-type=none",
        f"--tls-cert-file={access.server_certificate}",
        f"--tls-private-key-file={access.server_key}",
        f"--client-ca-file={access.authority}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={access.service_account_public}",
        f"--service-account-signing-key-file={access.service_account_private}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--allow-privileged=true",
        f"--max-requests-inflight={options.max_requests_inflight}",
        f"--max-mutating-requests-inflight={options.max_mutating_requests_inflight}",
        *untainted,
    ]


def controller_manager(ports: Ports, access: Access, options: Options, kubeconfig: Path) -> list[str]:
    """Every controller that needs no cloud, each with its own service account, as in a real cluster."""
    return [
        f"--kubeconfig={kubeconfig}",
        f"--controllers={options.controllers}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={ports.controller_manager}",
        f"--tls-cert-file={access.server_certificate}",
        f"--tls-private-key-file={access.server_key}",
        f"--root-ca-file={access.authority}",
        f"--service-account-private-key-file={access.service_account_private}",
        f"--node-monitor-grace-period={options.node_monitor_grace:g}s",
        f"--node-startup-grace-period={max(options.node_monitor_grace, 60.0):g}s",
        f"--node-monitor-period={min(options.node_monitor_grace / 4, 5.0):g}s",
        f"--kube-api-qps={options.client_qps}",
        f"--kube-api-burst={2 * options.client_qps}",
    ]


def scheduler(port: int, access: Access, config: Path, kubeconfig: Path) -> list[str]:
    """kube-scheduler with a config file; its metrics are open to the admin's client certificate."""
    return [
        f"--config={config}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        *serving(access),
    ]


def serving(access: Access) -> list[str]:
    """What a scheduler serves its endpoints with: a certificate of the cluster's authority, which signs clients too."""
    return [
        f"--client-ca-file={access.authority}",
        f"--tls-cert-file={access.server_certificate}",
        f"--tls-private-key-file={access.server_key}",
    ]
