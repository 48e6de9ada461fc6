"""Resident memory: the nodes and running pods of a cluster, and the cached results of 200 templates."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Iterator
from pathlib import Path

from bench.decide.cluster import Cluster, decisions
from bench.decide.listed import list_objects
from bench.decide.objects import pod
from bench.decide.scenario import Reading
from bench.decide.stored_objects import stored_nodes, stored_pods
from pyscheduler.api.objects import NodeObject, PodObject
from pyscheduler.core.events import NodeChanged, PodChanged
from pyscheduler.kube.paths import NODES, PODS
from pyscheduler.kube.reflector import Reflector

PER_NODE = 10
DEPLOYMENTS = 1000
TEMPLATES = 200


def memory(cluster: Cluster) -> Iterator[Reading]:
    """Yield the memory of the process with all nodes, with 10 pods on each, and after decisions of 200 templates."""
    count, rng = cluster.size.nodes, random.Random(0)
    node_reflector = _list_nodes(cluster, rng)
    yield Reading("nodes", resident_megabytes(), "MB")
    running = stored_pods(PER_NODE * count, count, DEPLOYMENTS, rng)
    pods = cluster.progress.track(running, "listing pods", PER_NODE * count)
    pod_reflector = list_objects(PODS, PodObject, pods, lambda obj: cluster.machine.handle(PodChanged(0.0, obj)))
    yield Reading(f"{PER_NODE} pods per node", resident_megabytes(), "MB")
    yield _after_decisions(cluster)
    assert (len(node_reflector), len(pod_reflector)) == (count, PER_NODE * count)


def memory_of_templates(cluster: Cluster) -> Iterator[Reading]:
    """Yield the memory of the process with nodes that run no pods, and after decisions of 200 templates."""
    reflector = _list_nodes(cluster, random.Random(0))
    yield Reading("nodes", resident_megabytes(), "MB")
    yield _after_decisions(cluster)
    assert len(reflector) == cluster.size.nodes


def _list_nodes(cluster: Cluster, rng: random.Random) -> Reflector[NodeObject]:
    count = cluster.size.nodes
    nodes = cluster.progress.track(stored_nodes(count, rng), "listing nodes", count)
    return list_objects(NODES, NodeObject, nodes, lambda obj: cluster.machine.handle(NodeChanged(0.0, obj)))


def _after_decisions(cluster: Cluster) -> Reading:
    templates = cluster.scaled(TEMPLATES)
    prepare = decisions(cluster, lambda i: pod({}, i % templates, {"app": "web"}))
    done = cluster.confirm([command for action in prepare(2 * templates) for command in action()])
    assert done == 2 * templates, f"{done} of {2 * templates} pods were scheduled"
    return Reading(f"and {templates} templates", resident_megabytes(), "MB")


def resident_megabytes() -> float:
    """Return the resident memory of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
