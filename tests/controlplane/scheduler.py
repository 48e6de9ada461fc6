"""The real kube-scheduler for comparisons: its configuration for this control plane, CPU time and metrics."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiohttp
import yaml

from tests.controlplane.process import Process
from tests.e2e.client import ApiClient, ApiError

CLIENT_QPS = 5000
POLL_SECONDS = 0.05


def config_document(config: str | None, kubeconfig: str) -> str:
    """Return the KubeSchedulerConfiguration to start with: `config` (YAML text), or the default one.

    Missing fields are set: the kubeconfig, no leader election, and a client rate that does not slow it down in
    comparisons (the default of 50 requests a second would).
    """
    document: dict[str, Any] = yaml.safe_load(config) if config else {}
    document.setdefault("apiVersion", "kubescheduler.config.k8s.io/v1")
    document.setdefault("kind", "KubeSchedulerConfiguration")
    rates = {"qps": CLIENT_QPS, "burst": 2 * CLIENT_QPS}
    document["clientConnection"] = {**rates, **document.get("clientConnection", {}), "kubeconfig": kubeconfig}
    document["leaderElection"] = {**document.get("leaderElection", {}), "leaderElect": False}
    return yaml.safe_dump(document)


class KubeScheduler:
    """A running kube-scheduler."""

    def __init__(self, process: Process, port: int, api: ApiClient) -> None:
        self.process = process
        self.port = port
        self._api = api

    def cpu_seconds(self) -> float:
        """Return the CPU time used since it started, user and system, in seconds."""
        return self.process.cpu_seconds()

    async def metrics(self) -> str:
        """Return its metrics in Prometheus' text format."""
        return await self._api.text("/metrics", server=f"https://127.0.0.1:{self.port}")

    async def metrics_with(self, line: str, seconds: float = 60.0) -> str:
        """Return its metrics once they contain `line`: it counts an attempt shortly after its outcome is visible.

        TimeoutError with the current lines of that metric.
        """
        deadline = time.monotonic() + seconds
        name = line.partition("{")[0]
        while line not in (found := (await self.metrics()).splitlines()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"no {line} after {seconds:g} s, but {[other for other in found if name in other]}")
            await asyncio.sleep(POLL_SECONDS)
        return "\n".join(found)

    async def ready(self) -> bool:
        """Return True if it is healthy and its informers have synced."""
        return await is_healthy(self._api, "/readyz", f"https://127.0.0.1:{self.port}")


async def is_healthy(api: ApiClient, path: str, server: str | None = None) -> bool:
    """Return True if a health endpoint returns ok; False also while the port is closed."""
    try:
        return (await api.text(path, server=server)).strip() == "ok"
    except (aiohttp.ClientError, ApiError, OSError):
        return False
