"""Queues: 1,000 in four levels, and 1,000 below one parent, which request twice the cluster together; reservations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import cycle, islice

from bench.decide.cluster import Actions, Cluster
from bench.decide.objects import pod
from bench.decide.scenario import Row
from bench.decide.scenarios.pod_groups import ALONE_ON_NODE, member
from bench.pod_features import Json
from pyscheduler.core.commands import Command, PatchStatus
from pyscheduler_plugins.pod_groups.pod_annotations import QUEUES as QUEUE_ANNOTATIONS
from pyscheduler_plugins.queues.plugin import Queues
from pyscheduler_plugins.queues.tree import JobUsage

QUEUES = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins: {multiPoint: {enabled: [{name: Queues}, {name: PodGroups}]}}
"""
"""Configuration of the scenario."""
COUNT = 1_000
FANOUT = 10
"""Children of a queue in four levels, the root being the first one."""
NODE_CORES = 64
IN_SHARE = 4
"""Pods in the mean share of a queue, if they fit on a node."""
MAX_MILLI = 62_000
RUNNING = 20
"""Pods on each node while nodes are reserved."""
WARM_UP = 2


def queues(cluster: Cluster) -> Iterator[Row]:
    """Yield for each shape the rows of attempts, and of the shares of all queues after an event."""
    yield from _rows(cluster, "4 levels", FANOUT)
    flat = Cluster(cluster.size, cluster.progress, cluster.size.nodes, QUEUES)
    yield from _rows(flat, "flat", cluster.scaled(COUNT))


def _rows(cluster: Cluster, shape: str, fanout: int) -> Iterator[Row]:
    count = cluster.scaled(COUNT)
    for i in range(count):
        cluster.apply("Queue", _queue(i, fanout))
    leaves = [f"q{i}" for i in range(count) if (i + 1) * fanout >= count]
    cores = NODE_CORES * cluster.size.nodes
    milli = min(MAX_MILLI, 1000 * cores // (IN_SHARE * len(leaves)))
    for queue in islice(cycle(leaves), 2 * 1000 * cores // milli):
        cluster.submit(cluster.new(_pod(queue, f"{milli}m")))
    per_round = max(1, min(cluster.size.pods, (len(leaves) * IN_SHARE // 2 - WARM_UP) // cluster.size.rounds))
    attempts = Row(f"attempt, {shape}", lambda number: [cluster.schedule] * number, cluster.confirm, WARM_UP, per_round)
    yield attempts
    events = cluster.size.pods
    yield Row(f"shares, {shape}", partial(_share_events, cluster, leaves), lambda _: events, 0, events)


def reservation(cluster: Cluster) -> Iterator[Row]:
    """Yield the row of groups that lack room, of which each takes the reservation from the one before."""
    cluster.populate(RUNNING, lambda _: pod({"priority": 1_000_000}, 0, {"app": "running"}, f"{60 // RUNNING}"))

    def attempt(priority: int) -> list[Command]:
        for _ in range(2):
            obj = member(f"group-{priority}", 2, ALONE_ON_NODE)
            obj["spec"]["priority"] = priority
            cluster.submit(cluster.new(obj))
        return cluster.schedule()

    def prepare(number: int) -> Actions:
        return [partial(attempt, cluster.attempts + i) for i in range(number)]

    def finish(commands: Sequence[Command]) -> int:
        current = cluster.machine.context.reservations.current
        for uid in [uid for uid, obj in cluster.pods.items() if (obj.metadata.labels or {}).get("app") == "group"]:
            cluster.delete(uid)
        return sum(isinstance(command, PatchStatus) for command in commands) // 2 if current is not None else 0

    yield Row("attempt", prepare, finish, 1, cluster.size.pods // 20)


def _queue(i: int, fanout: int) -> Json:
    """Return the queue of a number; the first ones are below the root, and each has `fanout` children."""
    spec = {"weight": 2 + i % 2, "parent": f"q{i // fanout - 1}" if i >= fanout else "root"}
    return {"metadata": {"name": f"q{i}", "resourceVersion": "1"}, "spec": spec}


def _pod(queue: str, cpu: str) -> Json:
    """Return a pod of a queue."""
    obj = pod({}, 0, {"app": "queued"}, cpu)
    obj["metadata"]["annotations"] = {QUEUE_ANNOTATIONS[0]: queue}
    return obj


def _share_events(cluster: Cluster, leaves: Sequence[str], number: int) -> Actions:
    """Return events of jobs that change the request of a queue; with each, the shares of all queues are computed."""
    plugin = cluster.machine.context.groups.quota
    assert isinstance(plugin, Queues)
    tree = plugin.tree

    def change(i: int) -> list[Command]:
        tree.set_usage(i % 7, leaves[i % len(leaves)], JobUsage({}, {"cpu": 10_000 + i, "memory": (i + 1) << 30}))
        tree.refresh()
        return []

    return [partial(change, i) for i in range(number)]
