"""Preemption by a pod group: each node runs ten pods of a lower priority, one of which makes room for a member."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial

from bench.decide.cluster import Actions, Cluster
from bench.decide.objects import pod
from bench.decide.scenario import Row
from bench.decide.scenarios.pod_groups import member
from bench.pod_features import Json
from pyscheduler.core.commands import Command, Evict

LOWER = 10
"""Pods of 6 cores on each node of 64."""
MEMBERS = (1, 10, 100)


def group_preemption(cluster: Cluster) -> Iterator[Row]:
    """Yield the rows of groups of several sizes; each member needs the room of one running pod."""
    cluster.populate(LOWER, _lower)
    for size in dict.fromkeys(min(size, cluster.size.nodes) for size in MEMBERS):
        prepare, finish = partial(_submit_group, cluster, size), partial(_restore, cluster, size)
        yield Row(f"{size} members", prepare, finish, 1, 1, unit="ms", per_microsecond=1e-3)


def _lower(number: int) -> Json:
    """Return a pod that started later the greater its number is; consecutive ones are on different nodes."""
    started = datetime.fromtimestamp(number, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return pod({"priority": 0}, 0, {"app": "lower"}, cpu="6") | {"status": {"startTime": started}}


def _member(size: int) -> Json:
    source = member("preemptor", size, cpu="9")
    source["spec"]["priority"] = 1000
    return source


def _submit_group(cluster: Cluster, size: int, _: int) -> Actions:
    for _ in range(size):
        cluster.submit(cluster.new(_member(size)))
    return [cluster.schedule]


def _restore(cluster: Cluster, size: int, commands: Sequence[Command]) -> int:
    """Delete the group and its victims and place new pods; return 1 if there was one victim for each member."""
    victims = [cluster.pods[command.victim.uid] for command in commands if isinstance(command, Evict)]
    for obj in victims:
        cluster.delete(obj.metadata.uid)
    for uid in [uid for uid, obj in cluster.pods.items() if not obj.spec.node_name]:
        cluster.delete(uid)
    for obj in victims:
        cluster.place(obj, obj.spec.node_name)
    return int(len(victims) == size)
