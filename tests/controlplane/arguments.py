"""Command lines of the control plane's programs: one function per program, from options to flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.controlplane.access import Access

HOUR = 3600.0
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Differences from the default control plane. Seconds are float.

    `node_monitor_grace` is the time without heartbeat after which a node is unhealthy. It is an hour by default,
    because nodes of `create_nodes` have no kubelet that renews a lease. `controllers` excludes the one that annotates
    every node for kubelets each time the cluster grows. `taint_new_nodes` is the API server's own default; without it
    `create_nodes` is three times as fast. `extra` adds flags per program: {"kube-apiserver":
    ["--runtime-config=api/alpha=true"]}. `release` is another release than that of go.mod, without kube-scheduler.
    """

    scheduler: bool = False
    release: str = ""
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
    """Return etcd's flags: no fsync, as the data does not outlive the tests, and 8 GiB instead of 2 for benchmarks."""
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
    """Return the API server's flags: TLS, certificates and service-account tokens, Node and RBAC authorization.

    The endpoint reconciler is off: it rejects loopback addresses, and no pod here calls the API.
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
    """Return the flags of a controller manager with a service account per controller, as in a real cluster."""
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
    """Return kube-scheduler's flags with a config file; the admin's client certificate may read its metrics."""
    return [
        f"--config={config}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        *serving(access),
    ]


def serving(access: Access) -> list[str]:
    """Return the serving flags of a scheduler: a certificate of the cluster's authority, which signs clients too."""
    return [
        f"--client-ca-file={access.authority}",
        f"--tls-cert-file={access.server_certificate}",
        f"--tls-private-key-file={access.server_key}",
    ]
