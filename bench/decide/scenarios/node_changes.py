"""Node changes between decisions: an image is pulled, a label or a condition changes, a heartbeat arrives."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

import msgspec

from bench.decide.cluster import Actions, Cluster
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
    obj["status"]["conditions"] = [{"type": "MemoryPressure", "status": "True" if turn % 2 else "False"}]


def send_heartbeat(obj: Json, turn: int) -> None:
    at = f"2026-01-01T00:{turn // 60 % 60:02}:{turn % 60:02}Z"
    obj["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastHeartbeatTime": at}]


CHANGES: dict[str, Callable[[Json, int], None]] = {
    "image": pull_image,
    "label": change_label,
    "condition": change_condition,
    "heartbeat": send_heartbeat,
}


def node_changes(cluster: Cluster) -> Iterator[Row]:
    """Yield a row for each kind of change."""
    cluster.populate(cluster.size.per_node)
    versions = count(1)
    for name, change in CHANGES.items():
        yield Row(name, partial(_prepare, cluster, change, versions), cluster.confirm, warm_up=20)


def _prepare(cluster: Cluster, change: Callable[[Json, int], None], versions: Iterator[int], number: int) -> Actions:
    for _ in range(number):
        cluster.submit(cluster.new(pod({}, 0, {"app": "web"})))
    return [partial(_change_and_schedule, cluster, _changed(cluster, change, next(versions))) for _ in range(number)]


def _changed(cluster: Cluster, change: Callable[[Json, int], None], version: int) -> NodeObject:
    obj = copy.deepcopy(node(version % cluster.size.nodes))
    obj["metadata"]["resourceVersion"] = str(version)
    change(obj, version // cluster.size.nodes + version)
    return msgspec.convert(obj, NodeObject)


def _change_and_schedule(cluster: Cluster, changed: NodeObject) -> list[Command]:
    return cluster.handle(NodeChanged(cluster.now, changed)) + cluster.schedule()
