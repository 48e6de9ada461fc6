"""Preemption of three victims, with every node a candidate: equal preemptors, and preemptors that differ.

The first ones find no pod sorted and no sums of requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from bench.decide.cluster import Cluster, decisions
from bench.decide.objects import pod
from bench.decide.scenario import Row
from bench.pod_features import Json
from pyscheduler.core.commands import Command, Evict

VICTIMS = 3
"""Pods of 20 cores on each node of 64."""


def preemption(cluster: Cluster) -> Iterator[Row]:
    """Yield the rows of the first preemptors, of equal ones, and of ones with requests of their own."""
    cluster.populate(VICTIMS, lambda _: _victim())
    finish = partial(_restore, cluster)
    per_round = min(20, cluster.size.nodes, cluster.size.pods)
    yield Row("first", decisions(cluster, lambda _: _preemptor(0)), finish, per_round=per_round, rounds=1)
    yield Row("equal", decisions(cluster, lambda _: _preemptor(0)), finish, per_round=per_round)
    yield Row("different", decisions(cluster, lambda i: _preemptor(1 + i)), finish, per_round=per_round)


def _victim() -> Json:
    return pod({"priority": 0}, 0, {"app": "victim"}, cpu="20")


def _preemptor(template: int) -> Json:
    return pod({"priority": 1000}, template, {"app": "preemptor"}, cpu="62")


def _restore(cluster: Cluster, commands: Sequence[Command]) -> int:
    """Delete preemptors and victims and place new victims; return the number of preemptors with three victims."""
    evictions = [command for command in commands if isinstance(command, Evict)]
    victims_of = Counter(command.preemptor.uid for command in evictions)
    for uid in victims_of:
        cluster.delete(uid)
    for command in evictions:
        cluster.delete(command.victim.uid)
        cluster.place(cluster.new(_victim()), command.victim.node_name)
    return sum(victims == VICTIMS for victims in victims_of.values())
