"""A generated cluster with a whole scheduler, to which events are applied one by one."""

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
"""Seconds after which every requeued pod has been retried."""


class Cluster:
    """The objects as stored by an API server. Every method is a watch event."""

    def __init__(self, seed: str, feature: str = "") -> None:
        """`feature` names a group of the generator that the cluster must contain."""
        self.generated = GeneratedCluster(Random(f"wakeup/{seed}"))
        self.groups = populate(self.generated, feature)
        self.harness = Harness(_loaded(configuration(self.generated)), seed=1)
        self.harness.graceful = self.generated.chance(0.7)
        self.nodes: dict[str, Manifest] = {}
        self._kinds = {
            (f"{kind.group}/{kind.version}".lstrip("/"), kind.kind): kind
            for profile in self.context.profiles.values()
            for kind in profile.watches
        }
        self._shown = 0
        self.show_drawn()
        for node in self.generated.nodes:
            self.show_node(node)
        for pod in (*self.generated.assigned, *self.generated.pending):
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
        """Create or update an object of another kind; kinds that no plugin watches are ignored."""
        kind = self._kinds.get((obj["apiVersion"], obj["kind"]))
        if kind is not None:
            self.harness.add_object(kind, copy.deepcopy(obj))
        return _title(obj)

    def delete(self, obj: Manifest) -> str:
        kind = self._kinds[obj["apiVersion"], obj["kind"]]
        self.harness.remove_object(kind, obj["metadata"]["name"], obj["metadata"].get("namespace", ""))
        return f"{_title(obj)} deleted"

    def show_drawn(self) -> None:
        """Show the objects drawn since the last call."""
        drawn = self.generated.others[self._shown :]
        self._shown = len(self.generated.others)
        for obj in drawn:
            self.show(obj)

    # -- objects ---------------------------------------------------------------------------------------------------

    def objects(self, kind: str) -> list[Manifest]:
        """Return copies of the objects of a kind, for modification."""
        kinds: Iterable[ResourceKind] = (k for (_, name), k in self._kinds.items() if name == kind)
        return [copy.deepcopy(obj) for k in kinds for obj in self.harness.handle.objects[k].values()]

    def pods(self, assigned: bool | None = None) -> list[Manifest]:
        """Return copies of the pods; `assigned` selects those with a node (True) or without (False)."""
        pods = [pod.manifest for pod in self.harness.pods.values()]
        selected = [pod for pod in pods if assigned is None or bool(pod["spec"].get("nodeName")) == assigned]
        return [copy.deepcopy(pod) for pod in selected]

    # -- time ------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Retry every requeued pod and complete the bindings."""
        self.harness.run()
        self.harness.advance(BACKOFF)


def _loaded(config: Manifest | None) -> LoadedConfig:
    return from_value(config) if config else default()


def _title(obj: Manifest) -> str:
    meta = obj["metadata"]
    return f"{obj['kind']} {meta.get('namespace', '')}{'/' if meta.get('namespace') else ''}{meta['name']}"
