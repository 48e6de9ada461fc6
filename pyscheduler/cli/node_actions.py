"""Actions of `pyscheduler nodes` on hollow nodes, as writes of Node objects that `up` follows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from pyscheduler.api import ApiError
from pyscheduler.cli.command_problem import CommandProblem
from pyscheduler.cli.node_selection import NodeSelection, node_name, nodes_of, select
from pyscheduler.clock import SystemClock
from pyscheduler.config.problems import did_you_mean
from pyscheduler.embedded.hollow.node_types import HEARTBEATS, STOPPED
from pyscheduler.embedded.hollow.pools import CONFIG_MAPS, POOLS_CONFIG_MAP, NodePool, pools_of
from pyscheduler.embedded.hollow.template import RUNTIME, NodeTemplate, node_object
from pyscheduler.embedded.objects import Json, dig
from pyscheduler.kube.errors import is_not_found
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler.kube.paths import NODES

CONCURRENCY: Final = 16
"""Writes at a time."""


class NodeActions:
    """Adds, deletes, fails and recovers hollow nodes. Each action returns the lines to print."""

    def __init__(self, client: ObjectClient) -> None:
        self._client = client

    async def add(self, count: int, pool: str | None) -> list[str]:
        """Create nodes. CommandProblem if the cluster is not one of `up`, or the pool is unknown or ambiguous."""
        chosen = _chosen_pool(await self._pools(), pool)
        existing = [node_name(node) for node in await nodes_of(self._client)]
        templates, now = chosen.new_templates(count, existing), SystemClock().wall()

        async def create(template: NodeTemplate) -> None:
            await self._client.create(NODES, node_object(template, "", now))

        await for_each(templates, create)
        return [f"node/{template.name} added" for template in templates]

    async def remove(self, selection: NodeSelection) -> list[str]:
        """Delete the selected nodes."""
        selected = await self._hollow(selection)
        await for_each(selected, lambda name: self._client.delete(NODES, ("", name)))
        return [f"node/{name} removed" for name in selected]

    async def fail(self, selection: NodeSelection) -> list[str]:
        """Stop the heartbeats of the selected nodes; of --count those that have not failed."""
        selected = await self._hollow(selection, lambda node: not _has_failed(node))
        await for_each(selected, lambda name: self._annotate(name, STOPPED))
        return [f"node/{name} failed" for name in selected]

    async def recover(self, selection: NodeSelection) -> list[str]:
        """Resume the heartbeats of the selected nodes; of --count those that have failed."""
        selected = await self._hollow(selection, _has_failed)
        await for_each(selected, lambda name: self._annotate(name, None))
        return [f"node/{name} recovered" for name in selected]

    async def _annotate(self, name: str, value: str | None) -> None:
        await self._client.patch(NODES, ("", name), {"metadata": {"annotations": {HEARTBEATS: value}}})

    async def _hollow(self, selection: NodeSelection, wanted: Callable[[Json], bool] = lambda _: True) -> list[str]:
        selected = select(await nodes_of(self._client), selection, wanted)
        real = [node_name(node) for node in selected if not is_hollow(node)]
        if real:
            raise CommandProblem(
                f"{', '.join(real[:3])}: not a hollow node of `pyscheduler up`; "
                "real nodes can only be drained: pyscheduler nodes drain"
            )
        return [node_name(node) for node in selected]

    async def _pools(self) -> Mapping[str, NodePool]:
        namespace, name = POOLS_CONFIG_MAP
        try:
            return pools_of(await self._client.get(CONFIG_MAPS, namespace, name))
        except ApiError as error:
            if not is_not_found(error):
                raise
        except msgspec.MsgspecError as error:
            raise CommandProblem(f"configmap {namespace}/{name}: not a node pool: {error}") from None
        raise CommandProblem("this cluster is not one of `pyscheduler up`: it has no node pools to add nodes to")


def _chosen_pool(pools: Mapping[str, NodePool], name: str | None) -> NodePool:
    if name is None and len(pools) == 1:
        return next(iter(pools.values()))
    if name is None:
        raise CommandProblem(f"--pool is required, as there are several: {', '.join(pools) or 'none'}")
    if name not in pools:
        hint = did_you_mean(name, pools) or (f"; pools: {', '.join(pools)}" if pools else "")
        raise CommandProblem(f"--pool: there is no pool {name!r}{hint}")
    return pools[name]


async def for_each(items: Iterable[Any], work: Callable[[Any], Awaitable[object]]) -> None:
    """Await `work` of all items, a few at a time. The first exception is raised after all have ended."""
    limit = asyncio.Semaphore(CONCURRENCY)

    async def limited(item: Any) -> None:
        async with limit:
            await work(item)

    results = await asyncio.gather(*(limited(item) for item in items), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


def is_hollow(node: Json) -> bool:
    """Return True if the node has a hollow kubelet."""
    return bool(dig(node, "status", "nodeInfo", "containerRuntimeVersion") == RUNTIME)


def _has_failed(node: Json) -> bool:
    return (node["metadata"].get("annotations") or {}).get(HEARTBEATS) == STOPPED
