"""Longest call: the maximum time that one event, one attempt or one scrape occupies the scheduler's thread.

Run `pyscheduler bench longest`. A machine has 50,000 nodes and 100,000 pending pods of several kinds; then each kind of
event is handled, pods with new signatures are scheduled, and metrics are read. What is measured is CPU time of single
calls of the machine, between which the shell reads watches and renews its lease. Each row is repeated and the fastest
repetition counts, since noise only adds. The garbage collector's own pauses have a row of their own.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table

from bench.longest_calls import Row, timed
from bench.longest_groups import measure_groups
from bench.pod_features import POD_SPECS, Json
from pyscheduler.api.objects import NodeObject, PodObject
from pyscheduler.config.build import build_profiles
from pyscheduler.config.load import loads
from pyscheduler.core.commands import Bind, Command, Evict
from pyscheduler.core.events import (
    Event,
    NodeChanged,
    NodeGone,
    ObjectChanged,
    ObjectGone,
    PodChanged,
    PodGone,
    Reconfigured,
    Tick,
)
from pyscheduler.core.machine import CycleStep, Machine
from pyscheduler.core.state.cluster import DEFAULT_TOPOLOGY_KEYS
from pyscheduler.shell.gc_tuning import GcTuning

ZONES = 10
PER_NODE = 2
"""Pods running on each node."""
REPEATS = 3
LIMIT_MS = 50.0
MOST_ATTEMPTS = 20
"""Attempts after an event."""
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
"""
GANG = CONFIG + "  plugins: {multiPoint: {enabled: [{name: Gang}]}}\n"
EXHAUSTIVE = (
    CONFIG
    + """  pluginConfig:
  - {name: DefaultPreemption, args: {minCandidateNodesPercentage: 100, minCandidateNodesAbsolute: 100}}
"""
)
OTHERS = CONFIG + "- schedulerName: others\n"

WAITING: dict[str, tuple[Json, frozenset[str]]] = {
    "resources": ({"nodeSelector": {"pool": "a"}}, frozenset({"NodeResourcesFit"})),
    "node affinity": ({"nodeSelector": {"pool": "none"}}, frozenset({"NodeAffinity"})),
    "pod affinity": (POD_SPECS["affinity-required"], frozenset({"InterPodAffinity"})),
    "hard spread": (POD_SPECS["spread-hard"], frozenset({"PodTopologySpread", "NodeResourcesFit"})),
    "volumes": (
        {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}]},
        frozenset({"VolumeBinding"}),
    ),
    "taints": ({}, frozenset({"TaintToleration", "NodeResourcesFit", "PodTopologySpread", "NodeVolumeLimits"})),
    "gated": ({"schedulingGates": [{"name": "example.com/hold"}]}, frozenset()),
    "error": ({}, frozenset()),
}
"""Spec fields of the pending pods, and the plugins that have rejected them."""
SHAPES = 100
"""Templates of each kind."""


class MachineFixture:
    """A machine with nodes, bound and pending pods; only `wait_out_backoff` advances the clock."""

    def __init__(self, nodes: int, pods: int, config: str = CONFIG, per_node: int = PER_NODE) -> None:
        self.now = 1000.0
        self.machine = Machine(partial(build_profiles, loads(config)))
        self.handle = self.machine.context.handle
        self.kinds = {k.kind: k for p in self.machine.context.profiles.values() for k in p.watches}
        self.sources: dict[str, Json] = {}
        self.pauses: list[float] = []
        self.serial = 0
        for i in range(nodes):
            self.machine.handle(NodeChanged(self.now, msgspec.convert(node(f"node-{i}", i), NodeObject)))
        for i in range(nodes * per_node):
            labels = {"app": "web" if i % 2 else "other"}
            self.machine.handle(PodChanged(self.now, _object(pod(f"old-{i}", {}, labels, f"node-{i * 7 % nodes}"))))
        for key in DEFAULT_TOPOLOGY_KEYS:
            self.machine.build_topology_column(key)
        self._wait(pods)

    def _wait(self, count: int) -> None:
        kinds = list(WAITING)
        for i in range(count):
            kind = kinds[i % len(kinds)]
            fields, _ = WAITING[kind]
            own = {**fields, "terminationGracePeriodSeconds": i // len(kinds) % SHAPES}
            source = pod(f"waits-{i}", own, {"app": "web", "kind": kind.replace(" ", "-")}, cpu="1000")
            source["spec"]["preemptionPolicy"] = "Never"
            source["spec"]["containers"][0]["image"] = f"image-{i // len(kinds) % SHAPES}"
            self.sources[source["metadata"]["name"]] = source
            self.machine.handle(PodChanged(self.now, _object(source)))
        self.wait_out_backoff()

    def wait_out_backoff(self) -> None:
        """Let every pod fail one attempt, and wait until all backoffs have ended."""
        queue = self.machine.context.queue
        while True:
            while self._busy():
                timed(lambda: self.machine.cycle(self.now))
            _, queued = timed(lambda: queue.pop(self.now))
            if queued is None:
                break
            kind = queued.pod.labels.get("kind", "error").replace("-", " ")
            queue.add_unschedulable(queued, queued.pod, set(WAITING[kind][1]), set(), self.now)
            queued.unschedulable_count = queued.error_count = 1
        self.now += 11.0

    def event(self, *events: Event) -> tuple[float, int]:
        """Return the longest call, and the number of calls, until the machine has no more work."""
        longest, calls = 0.0, 0
        for each in events:
            spent, _ = timed(partial(self.machine.handle, each))
            longest, calls = max(longest, spent), calls + 1
        while self._busy():
            spent, _ = timed(lambda: self.machine.cycle(self.now))
            longest, calls = max(longest, spent), calls + 1
        return longest, calls

    def attempt(self, fields: Json, **more: Any) -> tuple[float, int, list[Command]]:
        """Schedule a pod with a new signature; return the longest call, the number of calls, and the commands."""
        self.serial += 1
        name = f"new-{self.serial}"
        source = pod(name, fields, {"app": "web"}, cpu=more.pop("cpu", "100m"))
        source["spec"] |= {"priority": 1000, **more}
        source["spec"]["containers"][0]["image"] = f"new-{self.serial}"
        longest, calls = self.event(PodChanged(self.now, _object(source)))
        commands: list[Command] = []
        while not commands:
            spent, done = timed(lambda: self.machine.cycle(self.now))
            longest, calls = max(longest, spent), calls + 1
            assert done is not None, name
            commands += done
        self.machine.handle(PodGone(self.now, "default", name, name))
        while self._busy():
            self.machine.cycle(self.now)
        return longest, calls, commands

    def _busy(self) -> bool:
        return self.machine.next_step is CycleStep.BACKLOG


def node(name: str, i: int, cpu: str = "64", **labels: str) -> Json:
    """Return a node; zones are assigned round robin."""
    own = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{i % ZONES}", "pool": f"{i % 7}"}
    allocatable = {"cpu": cpu, "memory": "256Gi", "pods": "110"}
    return {"metadata": {"name": name, "labels": {**own, **labels}}, "spec": {}, "status": {"allocatable": allocatable}}


def pod(name: str, fields: Json, labels: dict[str, str], node_name: str = "", cpu: str = "100m") -> Json:
    """Return a pod with one container."""
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu, "memory": "200Mi"}}}
    spec = {"containers": [container], "schedulerName": "default-scheduler", "nodeName": node_name, **fields}
    return {"metadata": {"namespace": "default", "name": name, "uid": name, "labels": labels}, "spec": spec}


def _object(source: Json) -> PodObject:
    return msgspec.convert(source, PodObject)


def _named(name: str, **fields: Any) -> Json:
    return {"metadata": {"name": name, "namespace": fields.pop("namespace", ""), **fields.pop("meta", {})}, **fields}


def event_rows(fixture: MachineFixture) -> Iterator[tuple[str, Callable[[int], Sequence[Event]]]]:
    """Yield events by name; each function takes the number of earlier repetitions."""
    kinds = fixture.kinds

    def changed_node(name: str, i: int, **fields: Any) -> NodeChanged:
        obj = node(name, i, fields.pop("cpu", "64"), **fields.pop("labels", {}))
        obj["spec"] |= fields
        return NodeChanged(fixture.now, msgspec.convert(obj, NodeObject))

    def of_kind(kind: str, obj: Json) -> ObjectChanged:
        return ObjectChanged(fixture.now, kinds[kind], obj)

    def running(i: int, **labels: str) -> PodChanged:
        source = pod(f"old-{i}", {}, {"app": "web", **labels}, f"node-{i * 7 % len(fixture.machine.context.state)}")
        return PodChanged(fixture.now, _object(source))

    def waiting(i: int, **labels: str) -> PodChanged:
        source = fixture.sources[f"waits-{i}"]
        meta = {**source["metadata"], "labels": {**source["metadata"]["labels"], **labels}, "resourceVersion": f"{i}"}
        return PodChanged(fixture.now, _object({**source, "metadata": meta}))

    claim = {"spec": {"volumeName": "pv-1", "storageClassName": "fast", "accessModes": ["ReadWriteOnce"]}}
    yield "node added", lambda i: [changed_node(f"extra-{i}", i)]
    yield "node label", lambda i: [changed_node(f"node-{i}", i, labels={"turn": f"{i}"})]
    yield "node has more cpu", lambda i: [changed_node(f"node-{i + 10}", i + 10, cpu="96")]
    yield (
        "node tainted",
        lambda i: [changed_node(f"node-{i + 20}", i + 20, taints=[{"key": "k", "effect": "NoSchedule"}])],
    )
    yield "node cordoned", lambda i: [changed_node(f"node-{i + 30}", i + 30, unschedulable=True)]
    yield "node gone", lambda i: [NodeGone(fixture.now, f"node-{i + 40}")]
    yield "running pod gone", lambda i: [PodGone(fixture.now, "default", f"old-{2 * i + 301}", f"old-{2 * i + 301}")]
    yield "running pod relabelled", lambda i: [running(2 * i + 501, turn=f"{i}")]
    yield (
        "running pod added",
        lambda i: [PodChanged(fixture.now, _object(pod(f"more-{i}", {}, {"app": "web"}, "node-100")))],
    )
    yield "waiting pod added", lambda i: [PodChanged(fixture.now, _object(pod(f"late-{i}", {}, {"app": "web"})))]
    yield "waiting pod relabelled", lambda i: [waiting(8 * i, turn=f"{i}")]
    yield "waiting pod gone", lambda i: [PodGone(fixture.now, "default", f"waits-{8 * i + 803}", "")]
    yield "namespace", lambda i: [of_kind("Namespace", _named("default", meta={"labels": {"t": f"{i}"}}))]
    yield "volume", lambda i: [of_kind("PersistentVolume", _named(f"pv-{i}", spec={}))]
    yield "claim", lambda i: [of_kind("PersistentVolumeClaim", _named(f"c-{i}", namespace="default", **claim))]
    yield (
        "missing claim",
        lambda i: [of_kind("PersistentVolumeClaim", _named("missing", namespace="default", **claim, turn=i))],
    )
    yield (
        "missing claim gone",
        lambda _: [ObjectGone(fixture.now, kinds["PersistentVolumeClaim"], "default", "missing")],
    )
    yield "storage class", lambda i: [of_kind("StorageClass", _named(f"class-{i}", provisioner="x"))]
    yield "CSI node", lambda i: [of_kind("CSINode", _named(f"node-{i}", spec={"drivers": []}))]
    yield "volume attachment", lambda i: [of_kind("VolumeAttachment", _named(f"va-{i}", spec={}))]
    yield "a flood of 50 nodes", lambda i: [changed_node(f"flood-{i}-{j}", j) for j in range(50)]
    yield "leftovers flushed", lambda _: [Tick(_later(fixture, 400.0))]


def _later(fixture: MachineFixture, seconds: float) -> float:
    fixture.now += seconds
    return fixture.now


def measure_events(fixture: MachineFixture) -> Iterator[Row]:
    """Measure each event a few times, on an idle queue."""
    for what, events in event_rows(fixture):
        found = []
        for i in range(REPEATS):
            found.append(fixture.event(*events(i)))
            fixture.wait_out_backoff()
        yield Row(what, *min(found))


def measure_backoff(fixture: MachineFixture) -> Iterator[Row]:
    """Measure the end of all pods' backoffs in the same second."""
    found = []
    for _ in range(REPEATS):
        queue = fixture.machine.context.queue
        queue.activate(list(fixture.machine.context.pods.values()), fixture.now)
        while (queued := queue.pop(fixture.now)) is not None:
            timed(partial(queue.add_unschedulable, queued, queued.pod, frozenset(), frozenset(), fixture.now))
        fixture.now += 12.0
        found.append(fixture.event(Tick(fixture.now)))
        fixture.wait_out_backoff()
    yield Row("all backoffs end", *min(found))


def measure_reconfigured(fixture: MachineFixture) -> Iterator[Row]:
    """Measure a change of profiles, then the addition of a profile for pending pods."""
    loaded = loads(CONFIG)
    found = []
    for _ in range(REPEATS):
        profiles = tuple(build_profiles(loaded, fixture.handle))
        found.append(fixture.event(Reconfigured(fixture.now, profiles, 1.0, 10.0)))
        fixture.wait_out_backoff()
    yield Row("reconfigured", *min(found))
    for i in range(len(fixture.sources)):
        source = pod(f"foreign-{i}", {"schedulerName": "others"}, {"app": "web"})
        timed(partial(fixture.machine.handle, PodChanged(fixture.now, _object(source))))
    profiles = tuple(build_profiles(loads(OTHERS), fixture.handle))
    yield Row("a new profile for pending pods", *fixture.event(Reconfigured(fixture.now, profiles, 1.0, 10.0)))


ATTEMPTS: dict[str, Json] = {
    **POD_SPECS,
    "node affinity": {"nodeSelector": {"pool": "3"}},
    "a label no pod selected before": {"nodeSelector": {"kubernetes.io/hostname": "node-17"}},
    "volume": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "bound"}}]},
    "default spreading": {},
}


def measure_attempts(fixture: MachineFixture) -> Iterator[Row]:
    """Measure the first pod of each kind, then unschedulable pods, with and without victims."""
    volume = {"spec": {"csi": {"driver": "d", "volumeHandle": "h"}, "accessModes": ["ReadWriteOnce"]}}
    claim = {"spec": {"volumeName": "pv-b", "storageClassName": "", "accessModes": ["ReadWriteOnce"]}}
    bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    fixture.machine.handle(ObjectChanged(fixture.now, fixture.kinds["PersistentVolume"], _named("pv-b", **volume)))
    claimed = _named("bound", namespace="default", meta=bound, **claim)
    fixture.machine.handle(ObjectChanged(fixture.now, fixture.kinds["PersistentVolumeClaim"], claimed))
    service = _named("web", namespace="default", spec={"selector": {"app": "web"}})
    fixture.machine.handle(ObjectChanged(fixture.now, fixture.kinds["Service"], service))
    for what, fields in ATTEMPTS.items():
        found = []
        for i in range(REPEATS):
            # A node has changed since, as in a real cluster: results over all nodes are out of date.
            changed = node(f"x-{what}-{i}", i, cpu="1")
            fixture.machine.handle(NodeChanged(fixture.now, msgspec.convert(changed, NodeObject)))
            while fixture._busy():
                fixture.machine.cycle(fixture.now)
            found.append(fixture.attempt(fields))
        least = min(found, key=lambda each: each[0])
        kind = "" if any(isinstance(c, Bind) for c in least[2]) else " (fits nowhere)"
        yield Row(f"first pod: {what}{kind}", least[0], least[1], found[0][0])
    templates: dict[str, Json] = {
        "nothing": {},
        "spread": POD_SPECS["spread-hard"],
        "affinity": POD_SPECS["affinity-required"],
    }
    for what, fields in templates.items():
        for kind, cpu in ("preemption", "63950m"), ("fits nowhere", "70"):
            found = [fixture.attempt(fields, cpu=cpu) for _ in range(REPEATS)]
            assert any(isinstance(c, Evict) for c in found[0][2]) == (kind == "preemption"), found[0]
            least = min(found, key=lambda each: each[0])
            yield Row(f"{kind}: {what}", least[0], least[1], found[0][0])


def measure_victims(nodes: int) -> Iterator[Row]:
    """Measure preemption with a hundred victims on every node and a dry run on all nodes."""
    fixture = MachineFixture(nodes, 0, EXHAUSTIVE, per_node=100)
    for what, fields in {"nothing": {}, "spread": POD_SPECS["spread-hard"]}.items():
        found = [fixture.attempt(fields, cpu="63950m") for _ in range(REPEATS)]
        assert any(isinstance(c, Evict) for c in found[0][2]), found[0][2]
        least = min(found, key=lambda each: each[0])
        yield Row(f"preemption with 100 victims per node: {what}", least[0], least[1], found[0][0])


def measure_metrics(fixture: MachineFixture) -> Iterator[Row]:
    """Measure the reads of the queue by one scrape."""
    queue = fixture.machine.context.queue
    for what, read in {
        "pending_pods": queue.pending_counts,
        "unschedulable_pods": queue.rejected_by,
        "inflight_events": queue.in_flight_counts,
        "next_wake": fixture.machine.next_wake,
    }.items():
        yield Row(f"metric {what}", min(timed(read)[0] for _ in range(REPEATS)), 1)


def measure_gang(nodes: int, members: int) -> Iterator[Row]:
    """Measure a gang that waits in Permit: its last member releases all of them."""
    fixture = MachineFixture(nodes, 0, GANG)
    group = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": members}}
    fixture.machine.handle(ObjectChanged(fixture.now, fixture.kinds["PodGroup"], group))
    labels = {"scheduling.x-k8s.io/pod-group": "g"}
    for i in range(members):
        fixture.machine.handle(PodChanged(fixture.now, _object(pod(f"m-{i}", {}, labels))))
    while len(fixture.handle.waiting_pods.by_uid) < members - 1:
        assert fixture.machine.cycle(fixture.now) is not None, f"{len(fixture.handle.waiting_pods.by_uid)} wait"
    longest, calls = 0.0, 0
    while True:
        spent, commands = timed(lambda: fixture.machine.cycle(fixture.now))
        if commands is None:
            break
        longest, calls = max(longest, spent), calls + 1
    yield Row(f"a gang of {members:,} is released", longest, calls)


class GcPauses:
    """Pauses of the garbage collector; `longest` is in milliseconds."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._began = 0.0

    def __call__(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.process_time()
        else:
            self.longest = max(self.longest, (time.process_time() - self._began) * 1e3)


def table(rows: Sequence[Row], limit: float) -> Table:
    """Return the rows as a table."""
    shown = Table("event", "longest call, ms CPU", "calls", "first repetition, ms")
    for row in rows:
        style = "bold red" if row.longest > limit else ""
        first = f"{row.first:,.1f}" if row.first else ""
        shown.add_row(row.what, f"{row.longest:,.1f}", f"{row.calls:,}", first, style=style)
    return shown


SHARED_FIXTURE_PARTS: dict[str, Callable[[MachineFixture], Iterator[Row]]] = {
    "attempts": measure_attempts,
    "metrics": measure_metrics,
    "backoff": measure_backoff,
    "events": measure_events,
    "reconfigured": measure_reconfigured,
}
PARTS = (*SHARED_FIXTURE_PARTS, "victims", "gang", "groups")


def _measure_shared(
    fixture: MachineFixture, parts: Sequence[Callable[[MachineFixture], Iterator[Row]]]
) -> Iterator[Row]:
    """Yield the rows of some parts, and of the garbage collector, which runs as in the scheduler."""
    pauses = GcPauses()
    gc.enable()
    with GcTuning():
        gc.callbacks.append(pauses)
        for measure in parts:
            for row in measure(fixture):
                click.echo(f"{row.what}: {row.longest:.1f} ms", err=True)
                yield row
        gc.callbacks.remove(pauses)
    yield Row("a garbage collection", pauses.longest, 1)
    click.echo(f"{gc.collect():,} garbage objects had not been collected", err=True)


@click.command(context_settings={"show_default": True})
@click.option("--nodes", type=click.IntRange(min=200), default=50_000, help="Nodes of the cluster.")
@click.option("--pods", type=click.IntRange(min=100), default=100_000, help="Pending pods.")
@click.option("--members", type=click.IntRange(min=2), default=10_000, help="Members of a gang.")
@click.option("--limit", type=click.FloatRange(min=0), default=LIMIT_MS, help="Maximum milliseconds of a call.")
@click.option("--only", default="", help=f"Parts to measure, comma-separated: {', '.join(PARTS)}.")
def main(nodes: int, pods: int, members: int, limit: float, only: str) -> None:
    """Measure the longest single call of the machine; exit code 1 if one exceeds the limit."""
    wanted = set(only.split(",")) if only else set(PARTS)
    rows: list[Row] = []
    gc.disable()
    if wanted & SHARED_FIXTURE_PARTS.keys():
        rows += _measure_shared(
            MachineFixture(nodes, pods), [part for name, part in SHARED_FIXTURE_PARTS.items() if name in wanted]
        )
    gc.enable()
    if "victims" in wanted:
        rows += measure_victims(min(nodes, 1000))
    if "gang" in wanted:
        rows += measure_gang(min(nodes, 5000), members)
    if "groups" in wanted:
        rows += measure_groups(min(nodes, 5000), members)
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(table(rows, limit))
    sys.exit(any(row.longest > limit for row in rows))


if __name__ == "__main__":
    main()
