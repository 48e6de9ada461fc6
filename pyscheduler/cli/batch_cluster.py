"""Pod groups and queues of a cluster, read from the API server and computed as the scheduler does.

The objects are given to a machine with the scheduler's own plugins, which makes no attempt. So the commands need no
access to the scheduler's endpoints and work while it is stopped. They need the rights that kubectl needs to list the
same objects; the reason of the last attempt, which no other program can compute, is in the conditions of the pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from pyscheduler import logs
from pyscheduler.api import ResourceKind
from pyscheduler.api.objects import NodeObject, ObjectMeta, PodObject
from pyscheduler.config.build import build_profiles
from pyscheduler.config.load import from_value
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.config.types import KUBE_API_VERSION, KUBE_KIND
from pyscheduler.core.context import Context, Settings
from pyscheduler.core.events import NodeChanged, ObjectChanged, PodChanged
from pyscheduler.core.machine import Machine
from pyscheduler.kube.paths import NODES
from pyscheduler_plugins.queues.plugin import Queues

_PLUGINS: Final = ("Queues", "PodGroups")
_log = logs.get("batch")


def batch_config(scheduler: str) -> LoadedConfig:
    """Return a configuration with the plugins for groups and queues."""
    enabled = [{"name": name} for name in _PLUGINS]
    profile = {"schedulerName": scheduler, "plugins": {"multiPoint": {"enabled": enabled}}}
    return from_value({"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, "profiles": [profile]})


class ReadScope(NamedTuple):
    """Namespace and kinds to which the list of objects is limited, and Jobs that have succeeded."""

    namespace: str = ""
    """The only namespace that was read; "" if all were."""
    forbidden: tuple[ResourceKind, ...] = ()
    """Kinds that the user may not list."""
    succeeded_jobs: frozenset[str] = frozenset()
    """UIDs of Jobs that met their success policy; empty if they were not listed."""

    @property
    def is_whole(self) -> bool:
        """True if all objects were read, so that shares and positions in queues are known."""
        return not self.namespace and not self.forbidden


class ListedObjects(NamedTuple):
    """Objects of a cluster, and what is missing of them."""

    pods: Sequence[PodObject]
    nodes: Sequence[NodeObject]
    others: Sequence[tuple[ResourceKind, dict[str, Any]]]
    """PodGroups, queues, quotas and PriorityClasses."""
    scope: ReadScope = ReadScope()


class BatchCluster:
    """Builds the state of the plugins from objects; plugins are constructed anew for each list."""

    def __init__(self, config: LoadedConfig) -> None:
        self._config = config
        self._machine = self._new_machine()
        profiles = self._machine.context.profiles.values()
        self.has_groups = any(profile.pod_group is not None for profile in profiles)
        self.has_queues = any(isinstance(profile.quota, Queues) for profile in profiles)
        plugins = [plugin for profile in profiles for plugin in (profile.pod_group, profile.quota) if plugin]
        self.kinds: list[ResourceKind] = list(dict.fromkeys(kind for plugin in plugins for kind in plugin.watches))
        """Kinds that groups and queues are declared by; of one kind the newest version first."""

    @property
    def watched(self) -> list[ResourceKind]:
        """Kinds that any plugin watches."""
        profiles = self._machine.context.profiles.values()
        return list(dict.fromkeys(kind for profile in profiles for kind in profile.watches))

    def load(self, objects: ListedObjects) -> Context:
        """Return the context of a machine with these objects."""
        return self.machine(objects).context

    def machine(self, objects: ListedObjects) -> Machine:
        """Return a machine with these objects."""
        machine = self._new_machine()
        for kind, obj in objects.others:
            machine.handle(ObjectChanged(0.0, kind, obj))
        for node in objects.nodes:
            self._handle(machine, NodeChanged(0.0, node))
        if NODES in objects.scope.forbidden:  # a pod counts for its group while its node exists
            for name in {pod.spec.node_name for pod in objects.pods if pod.spec.node_name}:
                self._handle(machine, NodeChanged(0.0, NodeObject(ObjectMeta(name))))
        for pod in objects.pods:
            self._handle(machine, PodChanged(0.0, pod))
        return machine

    @staticmethod
    def _handle(machine: Machine, event: NodeChanged | PodChanged) -> None:
        try:
            machine.handle(event)
        except ValueError as problem:
            _log.warning("Skipped an object that cannot be read", problem, name=event.object.metadata.name)

    def _new_machine(self) -> Machine:
        return Machine(partial(build_profiles, self._config), None, Settings(self._config.python.seed))
