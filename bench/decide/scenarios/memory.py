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

PER_NODE = 10
DEPLOYMENTS = 1000
TEMPLATES = 200


def memory(cluster: Cluster) -> Iterator[Reading]:
    """Yield the memory of the process with all nodes, with 10 pods on each, and after decisions of 200 templates."""
    count, rng, progress = cluster.size.nodes, random.Random(0), cluster.progress
    nodes = progress.track(stored_nodes(count, rng), "listing nodes", count)
    node_reflector = list_objects(NODES, NodeObject, nodes, lambda obj: cluster.machine.handle(NodeChanged(0.0, obj)))
    yield Reading("nodes", resident_megabytes(), "MB")
    running = stored_pods(PER_NODE * count, count, DEPLOYMENTS, rng)
    pods = progress.track(running, "listing pods", PER_NODE * count)
    pod_reflector = list_objects(PODS, PodObject, pods, lambda obj: cluster.machine.handle(PodChanged(0.0, obj)))
    yield Reading(f"{PER_NODE} pods per node", resident_megabytes(), "MB")
    templates = cluster.scaled(TEMPLATES)
    prepare = decisions(cluster, lambda i: pod({}, i % templates, {"app": "web"}))
    done = cluster.confirm([command for action in prepare(2 * templates) for command in action()])
    assert done == 2 * templates, f"{done} of {2 * templates} pods were scheduled"
    yield Reading(f"and {templates} templates", resident_megabytes(), "MB")
    assert (len(node_reflector), len(pod_reflector)) == (count, PER_NODE * count)


def resident_megabytes() -> float:
    """Return the resident memory of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
