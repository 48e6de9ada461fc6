"""Contenders: how each is started and where its metrics are. All of them use the same configuration file."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import Process
from tests.e2e.plane import Plane
from tests.e2e.scheduler import Configured, kubeconfig_of, scheduler_with

Metrics = Callable[[], Awaitable[str]]


@dataclass(frozen=True)
class Running:
    """A contender's process: its log, a check for life, and a reader of its /metrics if it has them."""

    pid: int
    alive: Callable[[], bool]
    log: Path
    metrics: Metrics | None = None


@dataclass(frozen=True)
class Site:
    """Control plane for a contender; `server` is a proxy's URL, None for that of the API server itself."""

    plane: Plane
    server: str | None = None


Start = Callable[[Site, str, Path], AbstractAsyncContextManager[Running]]
"""Starts a contender for the pods of a scheduler name; the folder is for its files and logs."""


@dataclass(frozen=True)
class Contender:
    """A scheduler to measure. `writes_events`: an Event for each bound pod. `decides`: it obeys constraints."""

    name: str
    start: Start
    writes_events: bool = True
    decides: bool = True

    @property
    def scheduler_name(self) -> str:
        """spec.schedulerName of its pods."""
        return f"bench-{self.name.replace('@', '-').lower()}"


@asynccontextmanager
async def pyscheduler(
    site: Site, scheduler_name: str, folder: Path, checkout: Path | None = None, enabled: Sequence[str] = ()
) -> AsyncIterator[Running]:
    """Run this scheduler as its manifests install it: with a service account's permissions and token.

    `checkout` is the root of another version of it; `enabled` are plugins that its default profile has not.
    """
    config = folder / "config.yaml"
    plugins = {"multiPoint": {"enabled": [{"name": name} for name in enabled]}} if enabled else {}
    config.write_text(Configured(scheduler_name, plugins).document())
    kubeconfig = await kubeconfig_of(site.plane, site.server)
    async with scheduler_with(site.plane, config, folder, checkout, kubeconfig) as running:

        async def metrics() -> str:
            return await running.text(site.plane.api, "/metrics")

        yield Running(running.process.pid, lambda: running.process.returncode is None, running.log, metrics)


@asynccontextmanager
async def kube_scheduler(
    site: Site,
    scheduler_name: str,
    folder: Path,  # noqa: ARG001 - its files are the control plane's
) -> AsyncIterator[Running]:
    """Run the real kube-scheduler as kubeadm installs it: with a client certificate and protobuf."""
    async with _real(site.plane).kube_scheduler(Configured(scheduler_name).document(), site.server) as running:
        process = running.process
        yield Running(process.pid, lambda: process.alive, process.log, running.metrics)


def _real(plane: Plane) -> ControlPlane:
    if plane.real is None:
        raise ValueError("this contender needs the real control plane")
    return plane.real


def bare_client(events: bool) -> Start:
    """Return the starter of the client that only binds, or that writes an Event after each binding too."""

    @asynccontextmanager
    async def start(site: Site, scheduler_name: str, folder: Path) -> AsyncIterator[Running]:
        kubeconfig = await kubeconfig_of(site.plane, site.server)
        program = [sys.executable, str(Path(__file__).with_name("bare_client.py")), str(kubeconfig), scheduler_name]
        process = Process("bare client", [*program, *(["--events"] if events else [])], folder / "log")
        try:
            yield Running(process.pid, lambda: process.alive, process.log)
        finally:
            await process.stop()

    return start


def contender_of(checkout: Path) -> Contender:
    """Return the contender for another checkout of this scheduler. ValueError if it is none."""
    if not (checkout / "pyscheduler" / "__main__.py").is_file():
        raise ValueError(f"{checkout} is not a checkout of pyscheduler")
    return Contender(f"{OURS}@{checkout.name}", partial(pyscheduler, checkout=checkout.absolute()))


OURS, THEIRS, CEILING, CEILING_WITH_EVENTS = "pyscheduler", "kube-scheduler", "bare-client", "bare-client-events"
WITH_GROUPS, WITH_QUEUES = "pyscheduler-groups", "pyscheduler-queues"
CONTENDERS = {
    contender.name: contender
    for contender in (
        Contender(OURS, pyscheduler),
        Contender(THEIRS, kube_scheduler),
        Contender(WITH_GROUPS, partial(pyscheduler, enabled=("PodGroups",))),
        Contender(WITH_QUEUES, partial(pyscheduler, enabled=("Queues", "PodGroups"))),
        Contender(CEILING, bare_client(events=False), writes_events=False, decides=False),
        Contender(CEILING_WITH_EVENTS, bare_client(events=True), decides=False),
    )
}
