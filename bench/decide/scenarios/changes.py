"""Changes of nodes and running pods before each decision: of one template, of 200, of 200 sets with hard spreading."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, cycle

import msgspec

from bench.decide.cluster import Actions, Cluster, decisions
from bench.decide.objects import node, pod
from bench.decide.scenario import Row
from bench.decide.scenarios.hard_spread import KEYS, constraints
from bench.pod_features import Json
from pyscheduler.api.objects import NodeObject, PodCondition
from pyscheduler.core.commands import Command
from pyscheduler.core.events import Event, NodeChanged, NodeGone, PodChanged, PodGone

NUMBER = 200
"""Templates, and sets."""
PER_ROUND = 100


def after_changes(cluster: Cluster, events: Callable[[Cluster, int], Iterator[Event]]) -> Iterator[Row]:
    """Yield a row for each sort of pods, on a cluster of its own; `events` takes the maximum number of them."""
    number = cluster.scaled(NUMBER)
    per_round = min(PER_ROUND, cluster.size.pods)
    for name, templates, source in (
        ("1 template", 1, _plain),
        (f"{number} templates", number, _plain),
        (f"{number} sets, hard spreading", number, _spread),
    ):
        cluster.populate(max(1, cluster.size.per_node))
        warm_up = 2 * templates
        changes = events(cluster, warm_up + per_round * cluster.size.rounds)
        prepare = partial(_after, cluster, changes, decisions(cluster, partial(_in_turn, source, templates)))
        yield Row(name, prepare, cluster.confirm, warm_up, per_round)
        cluster = Cluster(cluster.size, cluster.progress, cluster.size.nodes)


def _after(cluster: Cluster, changes: Iterator[Event], prepare: Callable[[int], Actions], number: int) -> Actions:
    return [partial(_handle_first, cluster, next(changes), action) for action in prepare(number)]


def _handle_first(cluster: Cluster, event: Event, action: Callable[[], list[Command]]) -> list[Command]:
    return cluster.handle(event) + action()


def _in_turn(source: Callable[[int], Json], templates: int, i: int) -> Json:
    return source(i % templates)


def _plain(template: int) -> Json:
    return pod({}, template, {"app": "web"})


def _spread(template: int) -> Json:
    labels = {"app": f"app-{template}"}
    return pod({"topologySpreadConstraints": constraints(labels, *KEYS)}, template, labels)


def _named(name: str, unschedulable: bool = False) -> NodeObject:
    obj = node(0)
    obj["metadata"]["name"] = obj["metadata"]["labels"]["kubernetes.io/hostname"] = name
    return msgspec.convert({**obj, "spec": {"unschedulable": unschedulable}}, NodeObject)


def _added(cluster: Cluster, _: int) -> Iterator[Event]:
    return (NodeChanged(cluster.now, _named(f"added-{i}")) for i in count())


def _removed(cluster: Cluster, number: int) -> Iterator[Event]:
    """Return the removals of empty nodes, which are cordoned as by `kubectl drain`."""
    names = [f"drained-{i}" for i in range(number)]
    for name in names:
        cluster.handle(NodeChanged(cluster.now, _named(name, unschedulable=True)))
    return (NodeGone(cluster.now, name) for name in names)


def _changed(fields: Json, cluster: Cluster, _: int) -> Iterator[Event]:
    """Return changes of nodes, of which every second one reverts an earlier one: up to 100 nodes have the fields."""
    at_once = max(1, min(100, cluster.size.nodes // 4))
    for i in count():
        number, is_reverted = divmod(i, 2)
        if is_reverted and number < at_once:
            continue  # not changed yet
        obj = node((number if is_reverted else number + at_once) % cluster.size.nodes)
        if not is_reverted:
            obj |= fields
        obj["metadata"]["resourceVersion"] = str(i + 1)
        yield NodeChanged(cluster.now, msgspec.convert(obj, NodeObject))


TAINT: Json = {"spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}}
ALLOCATABLE: Json = {"status": {"allocatable": {"cpu": "64", "memory": "255Gi", "pods": "110"}}}


def _statuses(cluster: Cluster, _: int) -> Iterator[Event]:
    """Return changes of the Ready condition of the running pods in turn."""
    pods = list(cluster.pods.values())
    for version, obj in enumerate(cycle(pods)):
        meta = msgspec.structs.replace(obj.metadata, resource_version=str(version))
        ready = PodCondition(type="Ready", status="True" if version // len(pods) % 2 else "False")
        status = msgspec.structs.replace(obj.status, phase="Running", conditions=(ready,))
        yield PodChanged(cluster.now, msgspec.structs.replace(obj, metadata=meta, status=status))


def _deletions(cluster: Cluster, _: int) -> Iterator[Event]:
    """Return the deletions of the oldest pods."""
    while True:
        uid = next(iter(cluster.pods))
        yield PodGone(cluster.now, "default", cluster.pods.pop(uid).metadata.name, uid)


CHANGES: dict[str, tuple[str, Callable[[Cluster, int], Iterator[Event]]]] = {
    "node-added": ("a node is added", _added),
    "node-removed": ("a drained node is removed", _removed),
    "node-tainted": ("a node gets or loses a taint", partial(_changed, TAINT)),
    "node-allocatable": ("a node's allocatable memory changes", partial(_changed, ALLOCATABLE)),
    "pod-status": ("the Ready condition of a running pod changes", _statuses),
    "pod-deleted": ("a running pod is deleted", _deletions),
}
