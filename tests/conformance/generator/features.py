"""All features that a case may have, with the functions that draw them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.conformance.generator import (
    devices,
    disks,
    gates,
    images,
    node_affinity,
    pod_affinity,
    ports,
    preemption,
    resources,
    spread,
    storage,
    taints,
    volumes,
)
from tests.conformance.generator.generated_cluster import GeneratedCluster, Manifest

Touch = Callable[[GeneratedCluster, Manifest], None]
Step = Callable[[GeneratedCluster], None]


class Group(NamedTuple):
    """One feature: functions that change the empty cluster, each node, each pod, and the complete cluster."""

    before: Step | None = None
    node: Touch | None = None
    pod: Touch | None = None
    after: Step | None = None
    weight: int = 4
    """Relative frequency."""


GROUPS: dict[str, Group] = {
    "amounts": Group(pod=resources.odd_amounts),
    "large": Group(pod=resources.large_amounts, weight=2),
    "extended": Group(node=resources.extended_on_node, pod=resources.extended_in_pod),
    "init": Group(pod=resources.init_containers, weight=3),
    "pod-level": Group(pod=resources.pod_level, weight=3),
    "resize": Group(pod=resources.resize, weight=3),
    "taints": Group(node=taints.on_node, pod=taints.in_pod, weight=5),
    "node-affinity": Group(pod=node_affinity.in_pod, weight=5),
    "daemon": Group(pod=node_affinity.in_daemon_pod),
    "ports": Group(pod=ports.in_pod),
    "images": Group(node=images.on_node, pod=images.in_pod),
    "spread": Group(pod=spread.in_pod, weight=7),
    "owners": Group(after=spread.owners, weight=5),
    "pod-affinity": Group(pod=pod_affinity.in_pod, weight=8),
    "volumes": Group(before=storage.before, node=storage.on_node, pod=volumes.in_pod, after=storage.after, weight=8),
    "disks": Group(pod=disks.in_pod, weight=3),
    "preemption": Group(preemption.before, preemption.on_node, preemption.in_pod, preemption.start_together, weight=8),
    "budgets": Group(after=preemption.budgets, weight=6),
    "nominated": Group(after=preemption.nominations),
    "terminating": Group(pod=gates.terminating, weight=3),
    "gates": Group(pod=gates.scheduling_gates, weight=1),
    "devices": Group(pod=devices.extended_in_pod, after=devices.after, weight=8),
    "declared": Group(node=gates.declared_on_node, pod=gates.declared_in_pod, weight=2),
}
"""In the order of their application: resizes read the containers that other features added."""
