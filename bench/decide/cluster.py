"""Cluster of a scenario: a machine with nodes and pods; the bench confirms its bindings as the watch would."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from bench.decide.objects import node, pod
from bench.pod_features import Json
from pyscheduler.api.objects import NodeObject, PodObject
from pyscheduler.cli.progress_bar import ProgressBar
from pyscheduler.config.build import build_profiles
from pyscheduler.config.load import default, loads
from pyscheduler.core.commands import Bind, Command
from pyscheduler.core.events import Bound, Event, NodeChanged, ObjectChanged, PodChanged, PodGone, Tick
from pyscheduler.core.machine import CycleStep, Machine


class Size(msgspec.Struct, frozen=True):
    """Dimensions of a measurement."""

    nodes: int
    per_node: int = 2
    """Pods already running on each node, where the scenario does not set another number."""
    pods: int = 400
    """Actions in a round, where the scenario does not set a smaller number."""
    rounds: int = 5
    scale: float = 1.0
    """Factor on the numbers of templates, ReplicaSets, apps and waiting pods."""
    churn: bool = False
    """True lets a node report another image before each attempt of the kinds of pods."""


class Cluster:
    """A machine, its virtual clock, and the pods that are bound or pending."""

    def __init__(self, size: Size, progress: ProgressBar, nodes: int, config: str = "") -> None:
        """Create a cluster with this number of nodes; scenarios may add the rest of `size.nodes` themselves.

        `config` is YAML; by default, the cluster has kube-scheduler's default profile.
        """
        self.size, self.progress, self.now = size, progress, 1000.0
        self.machine = Machine(partial(build_profiles, loads(config) if config else default()))
        self.kinds = {kind.kind: kind for p in self.machine.context.profiles.values() for kind in p.watches}
        self.pods: dict[str, PodObject] = {}
        """Pods by UID as the API server has them."""
        self._named = 0
        for i in progress.track(range(nodes), "adding nodes", nodes):
            self.handle(NodeChanged(self.now, msgspec.convert(node(i), NodeObject)))

    def scaled(self, count: int) -> int:
        """Return the number multiplied by `--scale`, at least 2."""
        return max(2, round(count * self.size.scale))

    def scaled_all(self, counts: Iterable[int]) -> list[int]:
        """Return the numbers multiplied by `--scale`, without repetitions."""
        return list(dict.fromkeys(map(self.scaled, counts)))

    def populate(self, per_node: int, source: Callable[[int], Json] | None = None) -> list[PodObject]:
        """Place pods on all nodes round robin; by default small ones of which half match the scenarios' selectors."""
        source = source or (lambda i: pod({}, 0, {"app": "web" if i % 2 else "other"}))
        count, placed = per_node * self.size.nodes, []
        for i in self.progress.track(range(count), "placing pods", count):
            placed.append(self.new(source(i)))
            self.place(placed[-1], f"node-{i * 7 % self.size.nodes}")
        return placed

    def new(self, source: Json) -> PodObject:
        """Return a pod with a new name; the cluster does not have it yet."""
        self._named += 1
        name = f"pod-{self._named}"
        return msgspec.convert({**source, "metadata": {**source["metadata"], "name": name, "uid": name}}, PodObject)

    def submit(self, obj: PodObject) -> list[Command]:
        """Create a pending pod."""
        self.pods[obj.metadata.uid] = obj
        return self.handle(PodChanged(self.now, obj))

    def place(self, obj: PodObject, node_name: str) -> None:
        """Show the pod on its node."""
        self.submit(msgspec.structs.replace(obj, spec=msgspec.structs.replace(obj.spec, node_name=node_name)))

    def delete(self, uid: str) -> list[Command]:
        """Delete a pod."""
        name = self.pods.pop(uid).metadata.name
        return self.handle(PodGone(self.now, "default", name, uid))

    def apply(self, kind: str, obj: Json) -> list[Command]:
        """Create or update an object of a kind that plugins watch."""
        return self.handle(ObjectChanged(self.now, self.kinds[kind], obj))

    def handle(self, event: Event) -> list[Command]:
        """Handle an event with all work that it causes before the next attempt."""
        return self.machine.handle(event) + self._finish_work()

    @property
    def ready_pods(self) -> int:
        """Number of pods that can be attempted now."""
        return len(self.machine.active_pods)

    @property
    def pending_pods(self) -> int:
        """Number of pods in the scheduling queue."""
        return len(self.machine.context.queue)

    @property
    def attempts(self) -> int:
        """Number of attempts so far."""
        return self.machine.context.attempts

    def schedule(self) -> list[Command]:
        """Make one scheduling attempt."""
        commands = self.machine.cycle(self.now) or []
        while self.machine.is_attempt_paused:
            commands += self.machine.cycle(self.now) or []
        return commands + self._finish_work()

    def schedule_all(self) -> list[Command]:
        """Make attempts until no pod is ready."""
        commands: list[Command] = []
        while self.ready_pods:
            commands += self.schedule()
        return commands

    def advance(self, seconds: float) -> list[Command]:
        """Advance the clock and end the backoffs that are due."""
        self.now += seconds
        return self.handle(Tick(self.now))

    def confirm(self, commands: Iterable[Command]) -> int:
        """Complete the bindings among the commands; return their number."""
        binds = [command for command in commands if isinstance(command, Bind)]
        for bind in binds:
            self.handle(Bound(self.now, bind.pod.uid))
            self.place(self.pods[bind.pod.uid], bind.node_name)
        return len(binds)

    def _finish_work(self) -> list[Command]:
        commands: list[Command] = []
        while self.machine.next_step is CycleStep.BACKLOG:
            commands += self.machine.cycle(self.now) or []
        return commands


Actions = Iterable[Callable[[], list[Command]]]


def decisions(cluster: Cluster, source: Callable[[int], Json]) -> Callable[[int], Actions]:
    """Return a `Row.prepare` that queues pods and then makes one attempt for each; `source` takes their number."""
    made = 0

    def prepare(count: int) -> Actions:
        nonlocal made
        for i in range(made, made + count):
            cluster.submit(cluster.new(source(i)))
        made += count
        return [cluster.schedule] * count

    return prepare
