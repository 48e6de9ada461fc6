"""The scheduler under test: a process with the permissions of the manifests."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.controlplane.certs import Authority
from tests.controlplane.process import free_ports
from tests.e2e.client import ApiClient, ApiError, Json
from tests.e2e.plane import Plane

ROOT = Path(__file__).parents[2]
BASE = ROOT / "manifests" / "base"
READY_SECONDS = 60.0
STOP_SECONDS = 40.0
_PATHS = {
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
}
_INSTALLED = (
    "crds/podgroups.yaml",
    "service-account.yaml",
    "cluster-role.yaml",
    "lease-role.yaml",
    "podgroup-users.yaml",
)


async def install(api: ApiClient) -> None:
    """Create what `kubectl apply -k manifests/` would, but for the Deployment; what is there already stays."""
    for name in _INSTALLED:
        await create_documents(api, BASE / name)
    await api.until("/apis/scheduling.x-k8s.io/v1alpha1/podgroups", lambda found: "items" in found)


async def install_batch(api: ApiClient) -> None:
    """Install the base manifests, the CRDs of pod groups, queues and Volcano Jobs, and the right to remove gates."""
    await install(api)
    await create_documents(api, ROOT / "manifests" / "overlays" / "batch" / "queue-admission.yaml")
    crds = ROOT / "manifests" / "crds"
    for name in yaml.safe_load((crds / "kustomization.yaml").read_text())["resources"]:
        await create_documents(api, crds / name)


async def create_documents(api: ApiClient, manifest: Path) -> None:
    """Create the objects of a manifest; what is there already stays."""
    for document in _documents(manifest):
        path = _PATHS[document["kind"]].format(namespace=document["metadata"].get("namespace", ""))
        try:
            await api.create(path, document)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise


def _documents(manifest: Path) -> list[Json]:
    return list(yaml.safe_load_all(manifest.read_text()))


@dataclass(frozen=True)
class Configured:
    """A configuration for one profile. `plugins` is the profile's `plugins` section."""

    name: str
    plugins: Json = field(default_factory=dict)
    args: Sequence[Json] = ()

    def document(self) -> str:
        """Return the file's text: unlimited requests, no leader election."""
        profile: Json = {"schedulerName": self.name, "plugins": dict(self.plugins), "pluginConfig": list(self.args)}
        return yaml.safe_dump(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "leaderElection": {"leaderElect": False},
                "clientConnection": {"qps": 5000, "burst": 5000},
                "profiles": [profile],
            }
        )


class SchedulerProcess:
    """A running `pyscheduler run`."""

    def __init__(
        self, process: asyncio.subprocess.Process, log: Path, port: int, tls: ssl.SSLContext | None = None
    ) -> None:
        self.process = process
        self.log = log
        self.port = port
        self.address = f"https://127.0.0.1:{port}"
        self._tls = tls

    async def text(self, api: ApiClient, path: str) -> str:
        """Return a page of its endpoints, as the administrator. ApiError for an error status."""
        return await api.text(path, self.address, self._tls)

    def cpu_seconds(self) -> float:
        """Return its user and system time."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_memory(self) -> int:
        """Return its peak memory in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024


@asynccontextmanager
async def scheduler(
    plane: Plane, configured: Configured, folder: Path, python_path: Path | None = None
) -> AsyncIterator[SchedulerProcess]:
    """Run the scheduler with a configuration until the block ends; it must stop cleanly then."""
    config = folder / "config.yaml"
    config.write_text(configured.document())
    async with scheduler_with(plane, config, folder, python_path) as running:
        yield running


@asynccontextmanager
async def scheduler_with(
    plane: Plane,
    config: Path,
    folder: Path,
    python_path: Path | None = None,
    kubeconfig: Path | None = None,
    flags: Sequence[str] = (),
) -> AsyncIterator[SchedulerProcess]:
    """Run the scheduler with a configuration file, and optionally another user than the manifests' service account."""
    running = await _started(plane, config, folder, python_path, kubeconfig, flags)
    try:
        await _ready(running, plane.api)
        yield running
    finally:
        code = await _stopped(running.process)
    assert code == 0, f"the scheduler ended with {code}:\n{running.log.read_text()[-4000:]}"


@asynccontextmanager
async def replica(
    plane: Plane, config: Path, folder: Path, python_path: Path | None = None, kubeconfig: Path | None = None
) -> AsyncIterator[SchedulerProcess]:
    """Run a scheduler that the test may stop, freeze or kill; it is killed at the end."""
    running = await _started(plane, config, folder, python_path, kubeconfig)
    try:
        await _ready(running, plane.api)
        yield running
    finally:
        if running.process.returncode is None:
            running.process.kill()
            await running.process.wait()


async def _started(
    plane: Plane,
    config: Path,
    folder: Path,
    python_path: Path | None = None,
    kubeconfig: Path | None = None,
    flags: Sequence[str] = (),
) -> SchedulerProcess:
    folder, config, kubeconfig = _from_anywhere(folder, config, kubeconfig or await kubeconfig_of(plane))
    log, (port,) = folder / "scheduler.log", free_ports(1)
    command = [sys.executable, "-m", "pyscheduler", "run", "--config", config, "--kubeconfig", kubeconfig]
    serving, tls = _serving(plane, folder)
    environment = {**os.environ, "PYTHONPATH": str(python_path or "")}
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *map(str, command),
            *("--bind-address", "127.0.0.1", "--secure-port", str(port), "--v", "1", *serving, *flags),
            stdout=out,
            stderr=out,
            cwd=folder,
            env=environment,
        )
    return SchedulerProcess(process, log, port, tls)


def _from_anywhere(*paths: Path) -> tuple[Path, ...]:
    """Return absolute paths; links stay links, since a mounted ConfigMap changes by one."""
    return tuple(path.absolute() for path in paths)


async def kubeconfig_of(plane: Plane, server: str | None = None) -> Path:
    """Return a kubeconfig with the manifests' permissions, on the real control plane; `server` may be a proxy's URL."""
    await install(plane.api)
    if plane.real is None:
        return plane.kubeconfig
    return await plane.real.kubeconfig_for_service_account("kube-system", "pyscheduler", server)


def _serving(plane: Plane, folder: Path) -> tuple[list[str], ssl.SSLContext | None]:
    """Return the serving flags, and the client's TLS context where the default does not verify the certificate."""
    if plane.real is not None:
        return plane.real.serving_flags, None
    authority = Authority()
    certificate, key = authority.server(["localhost"], ["127.0.0.1"]).write(folder, "endpoints")
    trusting = ssl.create_default_context(cadata=authority.certificate)
    return ["--tls-cert-file", str(certificate), "--tls-private-key-file", str(key)], trusting


async def _ready(running: SchedulerProcess, api: ApiClient) -> None:
    """Wait until /readyz succeeds."""
    last: Any = None
    for _ in range(int(READY_SECONDS / 0.1)):
        if running.process.returncode is not None:
            break
        try:
            await running.text(api, "/readyz")
            return
        except (ApiError, OSError, aiohttp.ClientError) as problem:
            last = problem
        await asyncio.sleep(0.1)
    raise AssertionError(f"the scheduler is not ready: {last}\n{running.log.read_text()[-4000:]}")


async def _stopped(process: asyncio.subprocess.Process) -> int | None:
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
    return process.returncode
