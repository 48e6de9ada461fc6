"""Queues: 1,000 in four levels, and 1,000 below one parent, which request twice the cluster together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import cycle, islice

from bench.decide.cluster import Actions, Cluster
from bench.decide.objects import pod
from bench.decide.scenario import Row
from bench.pod_features import Json
from pyscheduler.core.commands import Command
from pyscheduler_plugins.queues.plugin import QUEUE_ANNOTATION, Queues
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


def _queue(i: int, fanout: int) -> Json:
    """Return the queue of a number; the first ones are below the root, and each has `fanout` children."""
    spec = {"weight": 2 + i % 2, "parent": f"q{i // fanout - 1}" if i >= fanout else "root"}
    return {"metadata": {"name": f"q{i}", "resourceVersion": "1"}, "spec": spec}


def _pod(queue: str, cpu: str) -> Json:
    """Return a pod of a queue."""
    obj = pod({}, 0, {"app": "queued"}, cpu)
    obj["metadata"]["annotations"] = {QUEUE_ANNOTATION: queue}
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
