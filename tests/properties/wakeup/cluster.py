"""A cluster of the conformance generator with a whole scheduler, to which events happen one by one."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from random import Random

from pyscheduler.api.events import ResourceKind
from pyscheduler.config.load import default, from_value
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.core.context import Context
from pyscheduler.testing import Harness, NodeBuilder, PodBuilder
from tests.conformance.generator.case import populate
from tests.conformance.generator.generated_cluster import GeneratedCluster, Manifest, key_of
from tests.conformance.generator.profiles import configuration

BACKOFF = 11.0
"""Seconds after which every pod that was woken has been tried again."""


class Cluster:
    """The objects as an API server holds them. Every method is an event of a watch."""

    def __init__(self, seed: str, feature: str = "") -> None:
        """`feature` names one of the generator's groups that the cluster must have."""
        self.world = GeneratedCluster(Random(f"wakeup/{seed}"))
        self.groups = populate(self.world, feature)
        self.harness = Harness(_loaded(configuration(self.world)), seed=1)
        self.harness.graceful = self.world.chance(0.7)
        self.nodes: dict[str, Manifest] = {}
        self._kinds = {
            (f"{kind.group}/{kind.version}".lstrip("/"), kind.kind): kind
            for profile in self.context.profiles.values()
            for kind in profile.watches
        }
        self._shown = 0
        self.show_drawn()
        for node in self.world.nodes:
            self.show_node(node)
        for pod in (*self.world.assigned, *self.world.pending):
            self.show_pod(pod)

    @property
    def context(self) -> Context:
        return self.harness.machine.context

    # -- events ----------------------------------------------------------------------------------------------------

    def show_pod(self, pod: Manifest) -> str:
        self.harness.add(PodBuilder(copy.deepcopy(pod)))
        return f"pod {key_of(pod)}"

    def delete_pod(self, pod: Manifest) -> str:
        self.harness.delete_pod(pod["metadata"]["name"], pod["metadata"]["namespace"])
        return f"pod {key_of(pod)} deleted"

    def show_node(self, node: Manifest) -> str:
        name = node["metadata"]["name"]
        self.nodes[name] = copy.deepcopy(node)
        self.harness.add(NodeBuilder(node))
        return f"node {name}"

    def delete_node(self, name: str) -> str:
        del self.nodes[name]
        self.harness.delete_node(name)
        return f"node {name} deleted"

    def show(self, obj: Manifest) -> str:
        """An object of another kind is created or updated; kinds that no plugin watches are not seen."""
        kind = self._kinds.get((obj["apiVersion"], obj["kind"]))
        if kind is not None:
            self.harness.add_object(kind, copy.deepcopy(obj))
        return _title(obj)

    def delete(self, obj: Manifest) -> str:
        kind = self._kinds[obj["apiVersion"], obj["kind"]]
        self.harness.remove_object(kind, obj["metadata"]["name"], obj["metadata"].get("namespace", ""))
        return f"{_title(obj)} deleted"

    def show_drawn(self) -> None:
        """Show the objects that have been drawn since the last call."""
        drawn = self.world.others[self._shown :]
        self._shown = len(self.world.others)
        for obj in drawn:
            self.show(obj)

    # -- what there is ---------------------------------------------------------------------------------------------

    def objects(self, kind: str) -> list[Manifest]:
        """Copies of the objects of a kind, to be changed and shown."""
        known: Iterable[ResourceKind] = (k for (_, name), k in self._kinds.items() if name == kind)
        return [copy.deepcopy(obj) for k in known for obj in self.harness.handle.objects(k).values()]

    def pods(self, assigned: bool | None = None) -> list[Manifest]:
        """Copies of the pods; `assigned` keeps those that have a node, or those that have none."""
        pods = [pod.manifest for pod in self.harness.pods.values()]
        kept = [pod for pod in pods if assigned is None or bool(pod["spec"].get("nodeName")) == assigned]
        return [copy.deepcopy(pod) for pod in kept]

    # -- time ------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Every pod that is woken is tried, and bindings end."""
        self.harness.run()
        self.harness.advance(BACKOFF)


def _loaded(config: Manifest | None) -> LoadedConfig:
    return from_value(config) if config else default()


def _title(obj: Manifest) -> str:
    meta = obj["metadata"]
    return f"{obj['kind']} {meta.get('namespace', '')}{'/' if meta.get('namespace') else ''}{meta['name']}"
