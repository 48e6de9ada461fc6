"""Node changes between decisions: an image is pulled, a label or a condition changes, a heartbeat arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

import msgspec

from bench.decide.cluster import Actions, Cluster, decisions
from bench.decide.objects import node, pod
from bench.decide.scenario import Row
from bench.pod_features import Json
from pyscheduler.api.objects import NodeObject
from pyscheduler.core.commands import Command
from pyscheduler.core.events import NodeChanged


def pull_image(obj: Json, turn: int) -> None:
    obj["status"]["images"] = [{"names": [f"image-{turn}:1"], "sizeBytes": 100_000_000}]


def change_label(obj: Json, turn: int) -> None:
    obj["metadata"]["labels"]["turn"] = str(turn % 2)


def change_condition(obj: Json, turn: int) -> None:
    obj["status"]["conditions"][1]["status"] = "True" if turn % 2 else "False"


def send_heartbeat(obj: Json, turn: int) -> None:
    obj["status"]["conditions"][0]["lastHeartbeatTime"] = f"2026-01-01T00:{turn // 60 % 60:02}:{turn % 60:02}Z"


CHANGES: dict[str, Callable[[Json, int], None]] = {
    "image": pull_image,
    "label": change_label,
    "condition": change_condition,
    "heartbeat": send_heartbeat,
}


class ChangingNodes:
    """The nodes' objects, which change one after another."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._objects = [_with_conditions(node(i)) for i in range(cluster.size.nodes)]
        self._versions = count(1)
        for obj in self._objects:
            cluster.handle(NodeChanged(cluster.now, msgspec.convert(obj, NodeObject)))

    def before_each(self, actions: Actions, change: Callable[[Json, int], None]) -> Actions:
        """Return the actions, each after the change of a node."""
        return [partial(self._change_first, self._changed(change), action) for action in actions]

    def _change_first(self, changed: NodeObject, action: Callable[[], list[Command]]) -> list[Command]:
        return self._cluster.handle(NodeChanged(self._cluster.now, changed)) + action()

    def _changed(self, change: Callable[[Json, int], None]) -> NodeObject:
        version = next(self._versions)
        obj = self._objects[version % len(self._objects)]
        obj["metadata"]["resourceVersion"] = str(version)
        change(obj, version // len(self._objects))
        return msgspec.convert(obj, NodeObject)


def node_changes(cluster: Cluster) -> Iterator[Row]:
    """Yield a row for each kind of change."""
    cluster.populate(cluster.size.per_node)
    nodes = ChangingNodes(cluster)
    pods = decisions(cluster, lambda _: pod({}, 0, {"app": "web"}))
    for name, change in CHANGES.items():
        yield Row(name, changing(nodes, change, pods), cluster.confirm, warm_up=20)


def changing(
    nodes: ChangingNodes, change: Callable[[Json, int], None], prepare: Callable[[int], Actions]
) -> Callable[[int], Actions]:
    """Return a `Row.prepare` with actions that each follow the change of a node."""
    return lambda count: nodes.before_each(prepare(count), change)


def _with_conditions(obj: Json) -> Json:
    conditions = [{"type": "Ready", "status": "True"}, {"type": "MemoryPressure", "status": "Unknown"}]
    return {**obj, "status": {**obj["status"], "conditions": conditions}}
