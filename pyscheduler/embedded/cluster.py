"""A whole cluster in this process: API server, hollow nodes and controllers, for trials, tests and simulations.

Start a scheduler, in this process or elsewhere, and pods run. Nothing is persisted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, Self

from pyscheduler.clock import Clock, SystemClock
from pyscheduler.embedded.api import Api
from pyscheduler.embedded.hollow import HollowNodes, LifecycleTimings, NodeTemplate, node_templates
from pyscheduler.embedded.server import ApiServer
from pyscheduler.embedded.uncontrolled import UncontrolledKinds
from pyscheduler.embedded.workloads import ControllerManager, ControllerSettings
from pyscheduler.kube.connection import ConnectionOptions, connect
from pyscheduler.kube.object_client import ObjectClient

HEARTBEATS_PER_SECOND = 50


@dataclass(frozen=True)
class ClusterSettings:
    """Optional settings of an embedded cluster."""

    timings: LifecycleTimings = field(default_factory=LifecycleTimings)
    heartbeat_seconds: float | None = None
    """Interval of each node's heartbeat. None: 10 s, and longer in clusters of thousands of nodes."""
    controllers: ControllerSettings = field(default_factory=ControllerSettings)


def settings_for_size(settings: ClusterSettings, nodes: int) -> tuple[float, ControllerSettings]:
    """Return the heartbeat interval and the controller settings for a cluster of `nodes` nodes.

    Thousands of nodes with a heartbeat every 10 s would use a whole core, so interval and grace period grow with them.
    """
    if settings.heartbeat_seconds is not None:
        return settings.heartbeat_seconds, settings.controllers
    heartbeat = max(10.0, nodes / HEARTBEATS_PER_SECOND)
    grace = max(settings.controllers.node_grace_seconds, 5 * heartbeat)
    return heartbeat, replace(settings.controllers, node_grace_seconds=grace)


class _Components(NamedTuple):
    """Components that exist only once the API server has a URL."""

    client: ObjectClient
    nodes: HollowNodes


class EmbeddedCluster:
    """Async context manager; inside it, `.url` and `.kubeconfig` (a path) lead to a running cluster.

    `nodes` is a number of nodes of one size (`node_cpu`, `node_memory`) or a list of templates. `port` 0 takes any free
    port; ApiServerError if the port is in use. On exit everything is stopped and removed. `api` may hold objects
    already; its nodes, and those that clients create later, become hollow nodes too.
    """

    def __init__(
        self,
        nodes: int | Sequence[NodeTemplate] = 3,
        *,
        node_cpu: str = "4",
        node_memory: str = "32Gi",
        port: int = 0,
        settings: ClusterSettings | None = None,
        clock: Clock | None = None,
        api: Api | None = None,
    ) -> None:
        if isinstance(nodes, int):
            nodes = node_templates(nodes, cpu=node_cpu, memory=node_memory)
        self._templates, self._clock = nodes, clock or SystemClock()
        self._settings = settings if settings is not None else ClusterSettings()
        self.server = ApiServer(port=port, api=api)
        self._folder = tempfile.TemporaryDirectory(prefix="pyscheduler-", ignore_cleanup_errors=True)
        self._cleanup = AsyncExitStack()
        self._cleanup.callback(self._folder.cleanup)
        self._components: _Components | None = None

    @property
    def url(self) -> str:
        """URL of the API server."""
        return self.server.url

    @property
    def kubeconfig(self) -> Path:
        """Path of a kubeconfig for kubectl and any other client."""
        return Path(self._folder.name) / "kubeconfig"

    @property
    def nodes(self) -> HollowNodes:
        """The hollow nodes: add, kill and revive them. RuntimeError outside of the block."""
        return self._started.nodes

    @property
    def client(self) -> ObjectClient:
        """Client of the API server, for other components of the cluster. RuntimeError outside of the block."""
        return self._started.client

    @property
    def _started(self) -> _Components:
        if self._components is None:
            raise RuntimeError("the cluster is not started; use it in an `async with` block")
        return self._components

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _start(self) -> None:
        self._cleanup.push_async_callback(self.server.stop)
        await self.server.start()
        self.server.write_kubeconfig(self.kubeconfig)
        heartbeat, settings = settings_for_size(self._settings, len(self._templates) + self._stored_nodes())
        connection = await connect(self.kubeconfig, ConnectionOptions(qps=-1), self._clock)
        self._cleanup.push_async_callback(connection.close)
        nodes = HollowNodes(
            connection,
            self._templates,
            clock=self._clock,
            timings=self._settings.timings,
            heartbeat_seconds=heartbeat,
            adopt=True,
        )
        self._components = _Components(ObjectClient(connection), nodes)
        self._cleanup.push_async_callback(nodes.stop)
        await nodes.start()
        controllers = ControllerManager(connection, clock=self._clock, settings=settings)
        self._cleanup.push_async_callback(controllers.stop)
        await controllers.start()
        uncontrolled = UncontrolledKinds(self.server.api)
        self._cleanup.callback(uncontrolled.stop)
        uncontrolled.start()

    def _stored_nodes(self) -> int:
        return len(self.server.api.state.store.bucket("nodes").objects)

    async def stop(self) -> None:
        """Stop all components, the API server last, so that none of them loses its connection while it runs."""
        await self._cleanup.aclose()

    async def add_node(self, template: NodeTemplate) -> None:
        """Add one node now."""
        await self.nodes.add(template)

    def kill_node(self, name: str) -> None:
        """Stop the heartbeats of a node, as after a power failure. KeyError if there is no such node."""
        self.nodes.kill(name)

    def revive_node(self, name: str) -> None:
        """Restart a killed node. KeyError if there is no such node."""
        self.nodes.revive(name)
