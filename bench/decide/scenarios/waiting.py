"""Waiting pods: the retry of one of many, an event that helps none of them, and a busy cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count

import msgspec

from bench.decide.cluster import Actions, Cluster
from bench.decide.objects import node, pod
from bench.decide.scenario import Row
from bench.pod_features import Json
from pyscheduler.api.objects import NodeObject, PodObject
from pyscheduler.core.commands import Bind, Command
from pyscheduler.core.events import NodeChanged

WAITING = 10_000
WAITING_IN_BUSY_CLUSTER = 100_000
SHAPES = 100
TOO_LARGE = "1000"
NO_NODE: Json = {"nodeSelector": {"pool": "none"}}
MAX_BACKOFF = 11.0
"""Seconds after which every backoff has ended."""
STEP = 0.01
"""Seconds of virtual time between two pods that end in the busy cluster."""
RETRY_PERIOD = 1001
"""Steps from one retry of the waiting pods to the next: the maximum backoff, and the event that wakes them again."""


def add_waiting(cluster: Cluster, number: int, fields: Json, cpu: str) -> None:
    """Add pods of 100 shapes that fit no node, and make their first attempts."""
    for i in cluster.progress.track(range(number), "adding waiting pods", number):
        cluster.submit(cluster.new(pod({"preemptionPolicy": "Never", **fields}, i % SHAPES, {"app": "waiting"}, cpu)))
        assert not any(isinstance(command, Bind) for command in cluster.schedule())


def waiting_retry(cluster: Cluster) -> Iterator[Row]:
    """Yield the row of pods that were all woken by the end of a pod, and do not fit."""
    running = deque(obj.metadata.uid for obj in cluster.populate(cluster.size.per_node))
    number = cluster.scaled(WAITING)
    add_waiting(cluster, number, {}, TOO_LARGE)
    attempts = 0

    def prepare(_: int) -> Actions:
        nonlocal attempts
        cluster.delete(running.popleft())
        cluster.advance(MAX_BACKOFF)
        attempts = cluster.attempts
        return _while_pods_are_ready(cluster)

    def finish(commands: Sequence[Command]) -> int:
        return cluster.attempts - attempts - cluster.confirm(commands)

    yield Row("", prepare, finish, warm_up=number, per_round=number)


def _while_pods_are_ready(cluster: Cluster) -> Actions:
    """Yield attempts; in one of them, several equal pods may fail."""
    while cluster.ready_pods:
        yield cluster.schedule


def waiting_event(cluster: Cluster) -> Iterator[Row]:
    """Yield the row of label changes of nodes, none of which makes a pod's node affinity match."""
    cluster.populate(cluster.size.per_node)
    add_waiting(cluster, cluster.scaled(WAITING), NO_NODE, "1")
    versions, changed = count(1), 0

    def prepare(number: int) -> Actions:
        nonlocal changed
        changed = number
        return [partial(cluster.handle, _relabelled(cluster, next(versions))) for _ in range(number)]

    def finish(commands: Sequence[Command]) -> int:
        return changed - cluster.ready_pods - len(commands)

    yield Row("", prepare, finish, per_round=min(50, cluster.size.pods))


def waiting_busy(cluster: Cluster) -> Iterator[Row]:
    """Yield the share of a core while 100 pods a second end and are replaced.

    Half of the waiting pods are too large: each end of a pod wakes them. The others match no node.
    """
    running = deque(obj.metadata.uid for obj in cluster.populate(max(1, cluster.size.per_node)))
    number = cluster.scaled(WAITING_IN_BUSY_CLUSTER)
    add_waiting(cluster, number // 2, {}, TOO_LARGE)
    add_waiting(cluster, number // 2, NO_NODE, "1")

    def prepare(number: int) -> Actions:
        sources = [cluster.new(pod({}, 0, {"app": "web"})) for _ in range(number)]
        return [partial(_replace_later, cluster, running.popleft(), source) for source in sources]

    def finish(commands: Sequence[Command]) -> int:
        running.extend(command.pod.uid for command in commands if isinstance(command, Bind))
        return cluster.confirm(commands)

    steps = min(cluster.scaled(RETRY_PERIOD), len(running))
    yield Row("", prepare, finish, steps, steps, rounds=2, unit="% of a core", per_microsecond=1e-6 / STEP * 100)


def _replace_later(cluster: Cluster, ended: str, created: PodObject) -> list[Command]:
    return cluster.advance(STEP) + cluster.delete(ended) + cluster.submit(created) + cluster.schedule_all()


def _relabelled(cluster: Cluster, version: int) -> NodeChanged:
    obj = node(version % cluster.size.nodes)
    obj["metadata"]["labels"]["turn"] = str(version // cluster.size.nodes % 2)
    return NodeChanged(cluster.now, msgspec.convert(obj, NodeObject))
