"""Full cluster: one pod ends and one is created, which fits only on the node that became free."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count

from bench.decide.cluster import Actions, Cluster
from bench.decide.objects import pod
from bench.decide.scenario import Row
from bench.pod_features import Json
from pyscheduler.api.objects import PodObject
from pyscheduler.core.commands import Bind, Command

PER_NODE = 4
"""Pods of 16 cores that fill a node."""


def full_cluster(cluster: Cluster) -> Iterator[Row]:
    """Yield the rows of pods with one shape and with 100 shapes."""
    running = deque(obj.metadata.uid for obj in cluster.populate(PER_NODE, partial(_pod_of, 1)))
    for shapes in (1, cluster.scaled(100)):
        prepare = partial(_prepare, cluster, running, shapes, count())
        warm_up = 2 * shapes
        yield Row(
            f"{shapes} shapes" if shapes > 1 else "1 shape",
            prepare,
            partial(_confirm, cluster, running),
            warm_up,
            min(PER_NODE * cluster.size.nodes, cluster.size.pods),
        )


def _prepare(cluster: Cluster, running: deque[str], shapes: int, numbers: Iterator[int], number: int) -> Actions:
    return [
        partial(_replace, cluster, running.popleft(), cluster.new(_pod_of(shapes, next(numbers))))
        for _ in range(number)
    ]


def _replace(cluster: Cluster, ended: str, created: PodObject) -> list[Command]:
    return cluster.delete(ended) + cluster.submit(created) + cluster.schedule()


def _confirm(cluster: Cluster, running: deque[str], commands: Sequence[Command]) -> int:
    running.extend(command.pod.uid for command in commands if isinstance(command, Bind))
    return cluster.confirm(commands)


def _pod_of(shapes: int, i: int) -> Json:
    return pod({}, i % shapes, {"app": f"shape-{i % shapes}"}, cpu="16")
