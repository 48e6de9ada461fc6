"""The scheduler that is put to the test: a process of its own, whose way to the API server leads through the proxy.

What it takes of the machine is read from the kernel, and the number of its tasks is counted inside of it; its own word
counts only for what nobody else can know, the length of its queue.
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
"""The names that it schedules for: with kube-scheduler's plugins, and with one more that misbehaves on demand."""
INSIDE = Path(__file__).parent / "inside"
PATIENCE = 2.0
"""Seconds after which it gives a call up; in earnest they are 30."""
GIVEN_UP_AFTER = 5.0
"""Seconds after which a blocked loop counts as dead; in earnest they are 60."""
MEMORY_SLACK = 24 * 2**20
"""Bytes that all stories together may leave behind: the allocator's, not the scheduler's."""


class ResourceUsage(NamedTuple):
    """What the scheduler takes while it has nothing to do."""

    memory: int
    tasks: int
    connections: int
    """Beyond those that the proxy knows of."""
    waiting: int
    """Pods in its queue or on the way to a node, and pods that it takes to be there and are not."""
    watches: int


@asynccontextmanager
async def proxied(plane: Plane) -> AsyncIterator[FaultProxy]:
    """A proxy to the plane's API server, over TLS where that is."""
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
    """The scheduler's own credentials, for the way through the proxy."""
    document = yaml.safe_load((await kubeconfig_of(plane)).read_text())
    document["clusters"][0]["cluster"]["server"] = proxy.url
    path = folder / "kubeconfig"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document))
    return path


def configuration(plain: str = PLAIN, faulty: str = FAULTY, sane: bool = False) -> str:
    """Both profiles, the second like the first if `sane`; pods that fail are tried again soon."""
    misbehaving = {"name": "faulty:Faulty"}
    binders = {"disabled": [{"name": "*"}], "enabled": [misbehaving, {"name": "DefaultBinder"}]}
    plugins = {} if sane else {"multiPoint": {"enabled": [misbehaving]}, "bind": binders}
    document = yaml.safe_load(Configured(plain).document())
    document["profiles"] += yaml.safe_load(Configured(faulty, plugins).document())["profiles"]
    return yaml.safe_dump({**document, "podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 2})


@asynccontextmanager
async def started(
    plane: Plane,
    text: str,
    folder: Path,
    proxy: FaultProxy | None = None,
    patience: float = PATIENCE,
    watch: float = math.inf,
) -> AsyncIterator[SchedulerProcess]:
    """A scheduler with that configuration, through the proxy if there is one; killed when the block ends.

    Its calls are given up after `patience` seconds, its watches renewed every `watch` seconds, or sooner.
    """
    os.environ |= {"FAULTS_PATIENCE": str(patience), "FAULTS_WATCH": str(watch)}
    os.environ["FAULTS_GIVEN_UP_AFTER"] = str(GIVEN_UP_AFTER)
    config = _written(folder, text)
    kubeconfig = None if proxy is None else await kubeconfig_through(proxy, plane, folder)
    async with replica(plane, config, folder, INSIDE, kubeconfig) as running:
        yield running


@dataclass
class SchedulerUnderTest:
    """A running scheduler, and the way to look at it from outside."""

    running: SchedulerProcess
    api: ApiClient
    proxy: FaultProxy

    async def level(self) -> ResourceUsage:
        """What it takes at this moment."""
        metrics = await self.metrics()
        connections = self._connections() - self.proxy.connections
        return ResourceUsage(
            self.memory(), await self._tasks(), connections, waiting(metrics), self.proxy.watches.total()
        )

    async def back_at(self, before: ResourceUsage, seconds: float = 60.0) -> None:
        """Wait until it takes no more than it did, and watches as much: the next story counts on that."""
        deadline = asyncio.get_running_loop().time() + seconds
        found = await self.level()
        while not _no_more(found, before):
            assert asyncio.get_running_loop().time() < deadline, f"{found}, and before {before}"
            await asyncio.sleep(0.2)
            found = await self.level()

    async def has_assumed(self, count: int) -> None:
        """Wait until so many pods have a place that nobody else knows of yet."""

        async def has() -> bool:
            return assumed(await self.metrics()) == count

        await until(has)

    async def metrics(self) -> Page:
        """What it counts."""
        return page(await self.running.text(self.api, "/metrics"))

    def memory(self) -> int:
        """Resident, in bytes."""
        pages = int(self._proc("statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def _connections(self) -> int:
        """Its sockets whose other end is the proxy."""
        links = (_target(link) for link in self._proc("fd").iterdir())
        own = {found[1] for link in links if (found := re.fullmatch(r"socket:\[(\d+)\]", link))}
        port = f"{int(self.proxy.url.rpartition(':')[2]):04X}"
        rows = (line.split() for line in self._proc("net/tcp").read_text().splitlines()[1:])
        return sum(row[2].endswith(f":{port}") and row[9] in own for row in rows)

    async def _tasks(self) -> int:
        before = len(self._told())
        self.running.process.send_signal(signal.SIGUSR1)

        async def told() -> bool:
            return len(self._told()) > before

        await until(told)
        return self._told()[-1]

    def _told(self) -> list[int]:
        return [int(number) for number in re.findall(r"^tasks=(\d+)$", self.running.log.read_text(), re.M)]

    def _proc(self, name: str) -> Path:
        return Path(f"/proc/{self.running.process.pid}/{name}")


def waiting(metrics: Page) -> int:
    """The pods that it has something left to do for."""
    counted = ("scheduler_pending_pods", "scheduler_goroutines")
    return int(sum(number for name in counted for _, number in metrics[name].values)) + assumed(metrics)


def assumed(metrics: Page) -> int:
    """The pods that have a place of which the API server has not told yet."""
    sizes = metrics["scheduler_cache_size"].values
    return int(next(number for labels, number in sizes if labels["type"] == "assumed_pods"))


def _written(folder: Path, text: str) -> Path:
    """The configuration as a file in the folder, which is made."""
    folder.mkdir(exist_ok=True)
    file = folder / "config.yaml"
    file.write_text(text)
    return file


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:  # it has been closed meanwhile
        return ""


def _no_more(found: ResourceUsage, before: ResourceUsage) -> bool:
    return (
        found.memory <= before.memory + MEMORY_SLACK
        and found.watches == before.watches
        and all(now <= then for now, then in zip(found[1:], before[1:], strict=True))
    )
