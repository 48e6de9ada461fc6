"""Two schedulers that receive equal events, one with the result cache and one without: their commands must be equal."""

from __future__ import annotations

from collections import Counter
from functools import cache

from pyscheduler.config.load import loads
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.core.events import NodeChanged
from pyscheduler.testing import Harness, PodBuilder
from tests.properties.described import describe
from tests.properties.object_fixture import ObjectFixture
from tests.properties.sample_objects import NAMES, node_of, pod_builder
from tests.properties.state_steps import Step

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [PLUGINS]}}
---
apiVersion: pyscheduler.io/v1
kind: PySchedulerConfiguration
nodeOrder: ORDER
resultCache: STATE
"""


@cache
def config(plugins: str, order: str, state: str) -> LoadedConfig:
    """Return the configuration of default plugins and those of these import paths, separated by spaces."""
    enabled = ", ".join(f"{{name: '{plugin}'}}" for plugin in plugins.split())
    return loads(CONFIG.replace("PLUGINS", enabled).replace("ORDER", order).replace("STATE", state))


class SchedulerPair:
    """Both schedulers; each step is an event for both, followed by all attempts."""

    def __init__(self, plugins: str, order: str) -> None:
        self._schedulers = [_Scheduler(config(plugins, order, state)) for state in ("On", "Off")]
        self.outcomes: Counter[str] = Counter()
        """Number of commands by type."""

    def do(self, step: Step) -> None:
        what, number, kind, where = step
        cached, uncached = [scheduler.do(what, number, kind, where) for scheduler in self._schedulers]
        assert cached == uncached, f"{cached}\nare the commands, without the result cache they are\n{uncached}"
        self.outcomes.update(command.split()[0] for command in cached)


class _Scheduler:
    """One scheduler with the objects of its cluster."""

    def __init__(self, loaded: LoadedConfig) -> None:
        self._harness = Harness(loaded)
        self._harness.graceful = True
        self._objects = ObjectFixture(
            self._harness.add_object,
            lambda kind, namespace, name: self._harness.remove_object(kind, name, namespace),
        )
        self._created = self._read = 0

    def do(self, what: str, number: int, kind: int, where: int) -> list[str]:
        """Send one event and return the commands that follow."""
        getattr(self, f"_{what}")(number, kind, where)
        self._harness.run()
        commands = self._harness.commands[self._read :]
        self._read += len(commands)
        return [describe(command) for command in commands]

    def _pod(self, _number: int, kind: int, _where: int) -> None:
        """Create a pending pod."""
        self._harness.add(self._new_pod(kind))

    def _running(self, _number: int, kind: int, where: int) -> None:
        """Create a pod of another scheduler on a node."""
        self._harness.add(self._new_pod(kind).on(NAMES[where]))

    def _nominee(self, _number: int, kind: int, where: int) -> None:
        """Create a pod that is nominated to a node and never fits."""
        big = self._new_pod(kind).requests(cpu="100").spec(preemptionPolicy="Never")
        self._harness.add(big.nominated(NAMES[where]))

    def _urgent(self, _number: int, kind: int, _where: int) -> None:
        """Create a pod that needs nearly a whole node and may preempt."""
        self._harness.add(self._new_pod(kind).requests(cpu="3600m").priority(100))

    def _new_pod(self, kind: int) -> PodBuilder:
        self._created += 1
        return pod_builder(f"p{self._created}", kind)

    def _delete(self, number: int, _kind: int, _where: int) -> None:
        """Delete one of the pods on nodes."""
        if name := self._name(number, assigned=True):
            self._harness.delete_pod(name)

    def _give_up(self, number: int, _kind: int, _where: int) -> None:
        """Delete one of the pending pods."""
        if name := self._name(number, assigned=False):
            self._harness.delete_pod(name)

    def _mark(self, number: int, _kind: int, _where: int) -> None:
        """Set the deletion timestamp of a pod on a node."""
        if name := self._name(number, assigned=True):
            self._harness.add(self._harness.pods[f"default/{name}"].deleting())

    def _relabel(self, number: int, kind: int, _where: int) -> None:
        """Change a label of a pod on a node."""
        if name := self._name(number, assigned=True):
            self._harness.add(self._harness.pods[f"default/{name}"].label("team", ("red", "blue")[kind % 2]))

    def _name(self, number: int, assigned: bool) -> str | None:
        """Return the name of a pod that is on a node or not."""
        on_nodes = self._harness.assignments
        names = [key.removeprefix("default/") for key in self._harness.pods]
        names = [name for name in names if (name in on_nodes) is assigned]
        return names[number % len(names)] if names else None

    def _node(self, _number: int, kind: int, where: int) -> None:
        self._harness.handle_event(NodeChanged(self._harness.now, node_of(NAMES[where], kind)))

    def _many(self, _number: int, kind: int, where: int) -> None:
        """Create more nodes than are evaluated by per-node calls."""
        for i in range(where, len(NAMES)):
            self._node(0, kind + i - where, i)

    def _drop(self, _number: int, _kind: int, where: int) -> None:
        self._harness.delete_node(NAMES[where])

    def _object(self, number: int, kind: int, where: int) -> None:
        """Create, update or delete an object that plugins look up."""
        self._objects.put(number + 8 * kind, where)

    def _time(self, _number: int, kind: int, _where: int) -> None:
        self._harness.advance((0.5, 3.0, 30.0)[kind % 3])
