"""Scheduler process of the fault tests, connected to the API server through the proxy.

Its memory and connections are read from /proc, the number of its asyncio tasks from its log; its own metrics are used
only for the length of the queue.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import signal
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import yaml

from tests.e2e.client import ApiClient
from tests.e2e.metrics_page import Page, page
from tests.e2e.plane import Plane
from tests.e2e.scheduler import Configured, SchedulerProcess, kubeconfig_of, replica
from tests.faults.proxy import FaultProxy
from tests.faults.waiting import until

PLAIN, FAULTY = "faults", "faults-faulty"
"""Scheduler names of its profiles: with the default plugins, and with the plugin Faulty in addition."""
INSIDE = Path(__file__).parent / "inside"
CALL_TIMEOUT = 2.0
"""Timeout of API calls in seconds; 30 in production."""
GIVEN_UP_AFTER = 5.0
"""Seconds after which a blocked event loop counts as dead; 60 in production."""
MEMORY_SLACK = 24 * 2**20
"""Bytes that memory may grow during all tests, because of the allocator."""


class ResourceUsage(NamedTuple):
    """Resources that the scheduler uses."""

    memory: int
    tasks: int
    connections: int
    """Connections to the proxy that the proxy does not have open."""
    waiting: int
    """Pods in the queue, in binding cycles, or assumed."""
    watches: int


@asynccontextmanager
async def start_proxy(plane: Plane) -> AsyncIterator[FaultProxy]:
    """Start a proxy to the control plane's API server, with TLS if the server has it."""
    if plane.real is None:
        async with FaultProxy(plane.api.server) as proxy:
            yield proxy
        return
    flags = dict(flag.removeprefix("--").split("=", 1) for flag in plane.real.serving_flags)
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(flags["tls-cert-file"], flags["tls-private-key-file"])
    trusting = ssl.create_default_context(cafile=str(plane.real.authority))
    async with FaultProxy(plane.api.server, trusting, serving) as proxy:
        yield proxy


async def kubeconfig_through(proxy: FaultProxy, plane: Plane, folder: Path) -> Path:
    """Write a kubeconfig with the scheduler's credentials and the proxy as server."""
    document = yaml.safe_load((await kubeconfig_of(plane)).read_text())
    document["clusters"][0]["cluster"]["server"] = proxy.url
    path = folder / "kubeconfig"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document))
    return path


def configuration(plain: str = PLAIN, faulty: str = FAULTY, sane: bool = False) -> str:
    """Return a configuration with both profiles, without the plugin Faulty if `sane`, and with short backoffs."""
    misbehaving = {"name": "faulty:Faulty"}
    binders = {"disabled": [{"name": "*"}], "enabled": [misbehaving, {"name": "DefaultBinder"}]}
    plugins = {} if sane else {"multiPoint": {"enabled": [misbehaving]}, "bind": binders}
    document = yaml.safe_load(Configured(plain).document())
    document["profiles"] += yaml.safe_load(Configured(faulty, plugins).document())["profiles"]
    return yaml.safe_dump({**document, "podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 2})


@asynccontextmanager
async def run_scheduler(
    plane: Plane,
    text: str,
    folder: Path,
    proxy: FaultProxy | None = None,
    call_timeout: float = CALL_TIMEOUT,
    watch: float = math.inf,
) -> AsyncIterator[SchedulerProcess]:
    """Run a scheduler with this configuration, through the proxy if there is one; it is killed when the block ends.

    Its calls time out after at most `call_timeout` seconds; its watches are renewed after at most `watch` seconds.
    """
    os.environ |= {"FAULTS_CALL_TIMEOUT": str(call_timeout), "FAULTS_WATCH": str(watch)}
    os.environ["FAULTS_GIVEN_UP_AFTER"] = str(GIVEN_UP_AFTER)
    config = _written(folder, text)
    kubeconfig = None if proxy is None else await kubeconfig_through(proxy, plane, folder)
    async with replica(plane, config, folder, INSIDE, kubeconfig) as running:
        yield running


@dataclass
class SchedulerUnderTest:
    """Running scheduler, with measurements from outside."""

    running: SchedulerProcess
    api: ApiClient
    proxy: FaultProxy

    async def level(self) -> ResourceUsage:
        """Return the current resource usage."""
        metrics = await self.metrics()
        connections = self._connections() - self.proxy.connections
        return ResourceUsage(
            self.memory(), await self._tasks(), connections, waiting(metrics), self.proxy.watches.total()
        )

    async def wait_until_back_at(self, before: ResourceUsage, seconds: float = 60.0) -> None:
        """Wait until it uses no more resources than before and has as many watches."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not _is_at_most(current := await self.level(), before):
            assert asyncio.get_running_loop().time() < deadline, f"{current}, and before {before}"
            await asyncio.sleep(0.2)

    async def wait_until_assumed(self, count: int) -> None:
        """Wait until the cache has exactly `count` assumed pods."""

        async def is_reached() -> bool:
            return assumed(await self.metrics()) == count

        await until(is_reached)

    async def wait_until_node_removed(self, before: int) -> None:
        """Wait until the cache has fewer nodes than before."""

        async def is_reached() -> bool:
            return cached_nodes(await self.metrics()) < before

        await until(is_reached)

    async def metrics(self) -> Page:
        """Return its metrics."""
        return page(await self.running.text(self.api, "/metrics"))

    def memory(self) -> int:
        """Return the resident memory in bytes."""
        pages = int(self._proc("statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def _connections(self) -> int:
        """Return the number of its TCP connections to the proxy."""
        links = (_target(link) for link in self._proc("fd").iterdir())
        own = {match[1] for link in links if (match := re.fullmatch(r"socket:\[(\d+)\]", link))}
        port = f"{int(self.proxy.url.rpartition(':')[2]):04X}"
        rows = (line.split() for line in self._proc("net/tcp").read_text().splitlines()[1:])
        return sum(row[2].endswith(f":{port}") and row[9] in own for row in rows)

    async def _tasks(self) -> int:
        before = len(self._logged_tasks())
        self.running.process.send_signal(signal.SIGUSR1)

        async def is_logged() -> bool:
            return len(self._logged_tasks()) > before

        await until(is_logged)
        return self._logged_tasks()[-1]

    def _logged_tasks(self) -> list[int]:
        return [int(number) for number in re.findall(r"^tasks=(\d+)$", self.running.log.read_text(), re.M)]

    def _proc(self, name: str) -> Path:
        return Path(f"/proc/{self.running.process.pid}/{name}")


def waiting(metrics: Page) -> int:
    """Return the number of pods in the queue, in binding cycles, or assumed."""
    names = ("scheduler_pending_pods", "scheduler_goroutines")
    return int(sum(number for name in names for _, number in metrics[name].values)) + assumed(metrics)


def assumed(metrics: Page) -> int:
    """Return the number of assumed pods."""
    return _cache_size(metrics, "assumed_pods")


def cached_nodes(metrics: Page) -> int:
    """Return the number of nodes in the cache."""
    return _cache_size(metrics, "nodes")


def _cache_size(metrics: Page, kind: str) -> int:
    sizes = metrics["scheduler_cache_size"].values
    return int(next(number for labels, number in sizes if labels["type"] == kind))


def _written(folder: Path, text: str) -> Path:
    """Write the configuration to a file in the folder, which is created."""
    folder.mkdir(exist_ok=True)
    file = folder / "config.yaml"
    file.write_text(text)
    return file


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:  # closed meanwhile
        return ""


def _is_at_most(current: ResourceUsage, before: ResourceUsage) -> bool:
    return (
        current.memory <= before.memory + MEMORY_SLACK
        and current.watches == before.watches
        and all(now <= then for now, then in zip(current[1:], before[1:], strict=True))
    )
