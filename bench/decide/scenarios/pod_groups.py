"""Pod groups: many pods in groups of several sizes, one large group, and groups that wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial

from bench.decide.cluster import Actions, Cluster
from bench.decide.objects import pod
from bench.decide.scenario import Row
from bench.pod_features import Json
from pyscheduler.api.objects import PodObject
from pyscheduler.core.commands import Bind, Command

POD_GROUPS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins: {multiPoint: {enabled: [{name: PodGroups}]}}
"""
"""Configuration of the scenarios."""
PODS = 10_000
GROUPS = (1, 20, 500, 10_000)
LARGE = 1_000
WAITING = 1_000
MEMBERS = 10
"""Pods of a group that waits."""
ALONE_ON_NODE, FILLER = "33", "62"
SMALL = "1"
MAX_BACKOFF = 11.0
SECONDS = 60


def member(name: str, min_count: int, cpu: str = "") -> Json:
    """Return a pod of a group."""
    obj = pod({}, 0, {"app": "group"}, cpu)
    obj["metadata"]["annotations"] = {
        "pyscheduler.io/pod-group": name,
        "pyscheduler.io/pod-group-min-count": str(min_count),
    }
    return obj


def groups(cluster: Cluster) -> Iterator[Row]:
    """Yield the rows of pods without groups, and of the same number of pods in 1, 20, 500 and 10,000 groups."""
    total = cluster.scaled(PODS)
    yield _bound_row(cluster, "none", [pod({}, 0, {"app": "group"})] * total)
    for number in dict.fromkeys(max(1, round(number * cluster.size.scale)) for number in GROUPS):
        size = total // number
        yield _bound_row(cluster, f"{number:,}", [member(f"group-{i // size}", size) for i in range(size * number)])


def _bound_row(cluster: Cluster, name: str, sources: Sequence[Json]) -> Row:
    """Return the row of pods that are created, scheduled and confirmed; the cluster is empty before and after."""

    def schedule(last: PodObject) -> list[Command]:
        commands = cluster.submit(last) + cluster.schedule_all()
        cluster.confirm(commands)
        return commands

    def prepare(number: int) -> Actions:
        *others, last = [cluster.new(source) for source in sources[:number]]
        return [*(partial(cluster.submit, obj) for obj in others), partial(schedule, last)]

    def finish(commands: Sequence[Command]) -> int:
        return _delete(cluster, [command.pod.uid for command in commands if isinstance(command, Bind)])

    return Row(name, prepare, finish, 0, len(sources), rounds=3)


def large_group(cluster: Cluster) -> Iterator[Row]:
    """Yield the rows of a group of 1,000 on as many free nodes, on one less, and of the end of a pod then.

    Its pods are equal, or each has requests of its own.
    """
    size = min(cluster.scaled(LARGE), cluster.size.nodes // 2)
    for i in range(size, cluster.size.nodes):
        cluster.place(cluster.new(pod({}, 0, {"app": "filler"}, FILLER)), f"node-{i}")
    finish = partial(_outcome, cluster)
    row = Row("fits", partial(_submit_group, cluster, size), partial(finish, size), 1, 1, None, "ms", 1e-3)
    different = row._replace(
        name="fits, all different", prepare=partial(_submit_group, cluster, size, each_differs=True)
    )
    yield row
    yield different
    cluster.place(cluster.new(pod({}, 0, {"app": "filler"}, FILLER)), "node-0")
    short = row._replace(name="one short", finish=partial(finish, 0))
    yield short
    yield different._replace(name="one short, all different", finish=partial(finish, 0))
    yield short._replace(name="one short, a pod ends", prepare=partial(_pod_end, cluster, size))


def _submit_group(cluster: Cluster, size: int, _: int, *, each_differs: bool = False) -> Actions:
    """Create the pods of a group of which each needs a node of its own; the action is its attempt."""
    for i in range(size):
        cpu = f"{ALONE_ON_NODE}{i:03}m" if each_differs else ALONE_ON_NODE
        cluster.submit(cluster.new(member("large", size, cpu)))
    return [cluster.schedule]


def _pod_end(cluster: Cluster, size: int, _: int) -> Actions:
    """Make the first attempt; the action is the end of a small pod on a full node, which does not help the group."""
    small = cluster.new(pod({}, 0, {"app": "small"}, SMALL))
    cluster.place(small, "node-0")
    (attempt,) = _submit_group(cluster, size, 1)
    attempt()

    def end_pod() -> list[Command]:
        return cluster.delete(small.metadata.uid) + cluster.advance(MAX_BACKOFF) + cluster.schedule_all()

    return [end_pod]


def _outcome(cluster: Cluster, expected: int, commands: Sequence[Command]) -> int:
    """Delete the group. Return 1 if the expected number of its pods was bound."""
    found = sum(isinstance(command, Bind) for command in commands)
    _delete(cluster, [uid for uid, obj in cluster.pods.items() if (obj.metadata.labels or {}).get("app") == "group"])
    return int(found == expected)


def waiting_groups(cluster: Cluster) -> Iterator[Row]:
    """Yield the share of a core while 1,000 groups wait that lack one node each, and while a pod ends each second."""
    for i in range(MEMBERS - 1, cluster.size.nodes):
        cluster.place(cluster.new(pod({}, 0, {"app": "filler"}, FILLER)), f"node-{i}")
    small = deque[PodObject]()
    for i in range(cluster.scaled(SECONDS)):
        small.append(cluster.new(pod({}, 0, {"app": "small"}, SMALL)))
        cluster.place(small[-1], f"node-{MEMBERS + i % (cluster.size.nodes - MEMBERS)}")
    for group in range(cluster.scaled(WAITING)):
        for _ in range(MEMBERS):
            cluster.submit(cluster.new(member(f"waiting-{group}", MEMBERS, ALONE_ON_NODE)))
        cluster.schedule_all()
    cluster.advance(MAX_BACKOFF)
    cluster.schedule_all()

    def wait() -> list[Command]:
        return cluster.advance(1.0) + cluster.schedule_all()

    def end_pod() -> list[Command]:
        return cluster.delete(small.popleft().metadata.uid) + wait()

    def finish(commands: Sequence[Command]) -> int:
        return 0 if any(isinstance(command, Bind) for command in commands) else seconds

    seconds = len(small)
    row = Row("idle", lambda count: [wait] * count, finish, 0, seconds, 1, "% of a core", 1e-4)
    yield row
    yield row._replace(name="a pod ends each second", prepare=lambda count: [end_pod] * count)


def _delete(cluster: Cluster, uids: Sequence[str]) -> int:
    """Delete pods; return their number."""
    for uid in uids:
        cluster.delete(uid)
    return len(uids)
