"""Longest call of the attempts of pod groups and queues, and of preemptions with many potential victims."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from bench.decide.cluster import Cluster, Size
from bench.decide.objects import pod
from bench.decide.scenarios.pod_groups import POD_GROUPS, member
from bench.decide.scenarios.queues import QUEUES
from bench.longest_calls import Row, timed
from bench.pod_features import Json
from pyscheduler.cli.progress_bar import ProgressBar
from pyscheduler.core.commands import Bind, Command, Evict, PatchStatus
from pyscheduler.core.events import Event, ObjectChanged, PodChanged
from pyscheduler.core.machine import CycleStep
from pyscheduler_plugins.pod_groups.pod_annotations import QUEUES as QUEUE_ANNOTATIONS

_GROUP_API = "scheduling.k8s.io/v1beta1"
_COMPOSITE_API = "scheduling.k8s.io/v1alpha3"
_CORES = 64
"""Cores of a node."""
_LOWER = 10
"""Pods on each node, most of which leave too little room for a member."""
_PER_SUBGROUP = 4


class _Calls:
    """Calls of one cluster's machine: events, and attempts until no pod is ready."""

    def __init__(self, nodes: int, per_node: int, running: Callable[[int], Json], config: str = POD_GROUPS) -> None:
        self.cluster = Cluster(Size(nodes), ProgressBar("", lines=False), nodes, config)
        self.running = self.cluster.populate(per_node, running)
        self.longest, self.calls = 0.0, 0
        self.commands: list[Command] = []

    def apply(self, kind: str, obj: Json) -> None:
        """Handle the creation of an object, and what follows from it."""
        self.handle(ObjectChanged(self.cluster.now, self.cluster.kinds[kind], obj))

    def submit(self, sources: Sequence[Json]) -> None:
        """Handle the creation of pods, and what follows from it."""
        for source in sources:
            obj = self.cluster.new(source)
            self.cluster.pods[obj.metadata.uid] = obj
            self.handle(PodChanged(self.cluster.now, obj))

    def handle(self, event: Event) -> None:
        self._call(partial(self.cluster.machine.handle, event))
        self._finish_work()

    def attempt(self) -> None:
        """Make attempts until no pod is ready."""
        while self.cluster.ready_pods or self.cluster.machine.is_attempt_paused:
            self._call(partial(self.cluster.machine.cycle, self.cluster.now))
            self._finish_work()

    def row(self, what: str, kind: type[Command], count: int) -> Row:
        """Return the row; fails unless there were that many commands of a kind, or more."""
        found = sum(isinstance(command, kind) for command in self.commands)
        assert found >= count, f"{what}: {found:,} {kind.__name__}, expected {count:,}"
        return Row(what, self.longest, self.calls)

    def _finish_work(self) -> None:
        machine = self.cluster.machine
        while machine.next_step is CycleStep.BACKLOG:
            self._call(partial(machine.cycle, self.cluster.now))

    def _call(self, call: Callable[[], list[Command] | None]) -> None:
        spent, commands = timed(call)
        self.longest, self.calls = max(self.longest, spent), self.calls + 1
        self.commands += commands or []


def measure_groups(nodes: int, members: int) -> Iterator[Row]:
    """Measure attempts of large groups: placed, one short, in subgroups, and with victims."""
    members = min(members, nodes)
    yield from _large_groups(nodes, members)
    yield _composite(nodes, members)
    yield _composite(nodes, members, short=True)
    yield _group_preemption(nodes, members)
    yield _group_preemption(nodes, members, differ=True)
    yield _reclaim(nodes, nodes)
    yield _victims_in_groups(nodes)


def _large_groups(nodes: int, members: int) -> Iterator[Row]:
    """Yield the rows of groups of which each member needs a node of its own."""
    for what, differ in ("equal", False), ("different", True):
        for lacking in 0, 1:
            calls = _Calls(nodes, 0, _filler)
            for i in range(members - lacking, nodes):
                calls.cluster.place(calls.cluster.new(_filler(i)), f"node-{i}")
            calls.submit([member("large", members, f"{33_000 + i * differ}m") for i in range(members)])
            calls.attempt()
            kind, count = (PatchStatus, members) if lacking else (Bind, members)
            yield calls.row(f"group of {members:,} {what}{', one short' if lacking else ''}", kind, count)


def _filler(_: int) -> Json:
    return pod({"priority": 0}, 0, {"app": "filler"}, "62")


def _lower(i: int) -> Json:
    source = pod({"priority": 0}, 0, {"app": "lower"}, "6")
    source["status"] = {"startTime": f"2026-01-01T{i // 3600 % 24:02}:{i // 60 % 60:02}:{i % 60:02}Z"}
    return source


def _composite(nodes: int, members: int, *, short: bool = False) -> Row:
    """Return the row of a CompositePodGroup with many children, whose objects are created after their pods."""
    children = members // _PER_SUBGROUP
    calls = _Calls(nodes, 0, _filler)
    for i in range(children * _PER_SUBGROUP - short, nodes):
        calls.cluster.place(calls.cluster.new(_filler(i)), f"node-{i}")
    for i in range(children):
        calls.apply("PodGroup", _native_group(f"child-{i}"))
    calls.apply("CompositePodGroup", _root(children))
    calls.submit([_child_pod(i // _PER_SUBGROUP) for i in range(children * _PER_SUBGROUP)])
    calls.attempt()
    text = f"CompositePodGroup with {children:,} children{', one pod short' if short else ''}"
    kind: type[Command] = PatchStatus if short else Bind
    return calls.row(text, kind, children * _PER_SUBGROUP)


def _native_group(name: str) -> Json:
    spec = {"schedulingPolicy": {"gang": {"minCount": _PER_SUBGROUP}}, "parentCompositePodGroupName": "root"}
    return {"apiVersion": _GROUP_API, "kind": "PodGroup", "metadata": _meta(name), "spec": spec}


def _root(children: int) -> Json:
    spec = {"schedulingPolicy": {"gang": {"minGroupCount": children}}}
    return {"apiVersion": _COMPOSITE_API, "kind": "CompositePodGroup", "metadata": _meta("root"), "spec": spec}


def _meta(name: str) -> Json:
    return {"namespace": "default", "name": name, "uid": name, "resourceVersion": "1"}


def _child_pod(child: int) -> Json:
    return pod({"schedulingGroup": {"podGroupName": f"child-{child}"}}, 0, {"app": "group"}, "33")


def _group_preemption(nodes: int, members: int, *, differ: bool = False) -> Row:
    """Return the row of a group of which each member needs the room of one running pod."""
    calls = _Calls(nodes, _LOWER, _lower)
    sources = [member("preemptor", members, f"{9_000 + i * differ}m") for i in range(members)]
    for source in sources:
        source["spec"]["priority"] = 1000
    calls.submit(sources)
    calls.attempt()
    return calls.row(f"preemption by a group of {members:,}{' different' if differ else ''}", Evict, members)


def _reclaim(nodes: int, pods: int) -> Row:
    """Return the row of a group that reclaims the room of many pods from another queue."""
    calls = _Calls(nodes, 2, partial(_in_queue, "a", cpu="32"), QUEUES)
    for name in "a", "b":
        calls.apply("Queue", {"metadata": {**_meta(name), "namespace": ""}, "spec": {"weight": 1}})
    sources = [member("reclaiming", pods, "32") for _ in range(pods)]
    for source in sources:
        source["metadata"]["annotations"][QUEUE_ANNOTATIONS[0]] = "b"
    calls.submit(sources)
    calls.attempt()
    return calls.row(f"reclaim of {pods:,} pods of another queue", Evict, pods)


def _in_queue(queue: str, _: int, cpu: str) -> Json:
    source = pod({"priority": 0}, 0, {"app": "queued"}, cpu)
    source["metadata"]["annotations"] = {QUEUE_ANNOTATIONS[0]: queue}
    return source


def _victims_in_groups(nodes: int) -> Row:
    """Return the row of a single pod that can only preempt pods of groups."""
    calls = _Calls(nodes, _LOWER, lambda i: _member_of_running_group(i, nodes))
    single = pod({"priority": 1000}, 0, {"app": "single"}, "9")
    calls.submit([single])
    calls.attempt()
    return calls.row(f"preemption among {nodes:,} groups of {_LOWER}", Evict, _LOWER)


def _member_of_running_group(i: int, nodes: int) -> Json:
    source = member(f"running-{i % nodes}", _LOWER, "6")
    source["spec"]["priority"] = 0
    return source
