"""Selection of nodes by name, or of some of a pool or of all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from pyscheduler.api.counts import counted
from pyscheduler.cli.command_problem import CommandProblem
from pyscheduler.config.problems import did_you_mean
from pyscheduler.embedded.hollow.pools import POOL_LABEL
from pyscheduler.embedded.objects import Json, labels_of
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler.kube.paths import NODES


@dataclass(frozen=True, slots=True)
class NodeSelection:
    """Values of the options: names, or a number of nodes and perhaps their pool."""

    names: tuple[str, ...]
    count: int | None
    pool: str | None


async def nodes_of(client: ObjectClient) -> list[Json]:
    """Return all nodes of the cluster."""
    return [msgspec.json.decode(raw) for raw in (await client.list(NODES)).items]


def select(
    existing: Iterable[Json], selection: NodeSelection, wanted: Callable[[Json], bool] = lambda _: True
) -> list[Json]:
    """Return the selected nodes; of --count the youngest ones that are `wanted`. CommandProblem if some are missing."""
    by_name = {node_name(node): node for node in existing}
    if selection.names:
        missing = [name for name in selection.names if name not in by_name]
        if missing:
            raise CommandProblem(f"there is no node {', '.join(missing)}{did_you_mean(missing[0], by_name)}")
        return [by_name[name] for name in dict.fromkeys(selection.names)]
    pools = {labels_of(node).get(POOL_LABEL, "") for node in by_name.values()}
    if selection.pool is not None and selection.pool not in pools:
        raise CommandProblem(f"--pool: no node is of the pool {selection.pool!r}{did_you_mean(selection.pool, pools)}")
    candidates = [
        node for node in by_name.values() if wanted(node) and selection.pool in (None, labels_of(node).get(POOL_LABEL))
    ]
    if len(candidates) < (selection.count or 0):
        raise CommandProblem(f"--count: {selection.count} are to be chosen of {counted(len(candidates), 'such node')}")
    return sorted(candidates, key=_age, reverse=True)[: selection.count]


def _age(node: Json) -> tuple[str, int, str]:
    """Return the sort key of a node: creation time, then the length of the name, so that node-10 follows node-9."""
    name = node_name(node)
    return str(node["metadata"].get("creationTimestamp", "")), len(name), name


def node_name(node: Json) -> str:
    """Return the name of a node."""
    return str(node["metadata"]["name"])
