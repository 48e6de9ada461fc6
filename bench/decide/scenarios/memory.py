"""Resident memory: a populated cluster, and the cached results of 200 templates."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

from bench.decide.cluster import Cluster, decisions
from bench.decide.objects import pod
from bench.decide.scenario import Reading

PER_NODE = 10
TEMPLATES = 200


def memory(cluster: Cluster) -> Iterator[Reading]:
    """Yield the memory of the process with 10 pods on each node, and after one decision of each template."""
    cluster.populate(PER_NODE)
    # The machine has its own copies: what this process keeps for the API server's sake does not count.
    cluster.pods.clear()
    yield Reading(f"{PER_NODE} pods per node", resident_megabytes(), "MB")
    templates = cluster.scaled(TEMPLATES)
    prepare = decisions(cluster, lambda i: pod({}, i % templates, {"app": "web"}))
    done = cluster.confirm([command for action in prepare(2 * templates) for command in action()])
    assert done == 2 * templates, f"{done} of {2 * templates} pods were scheduled"
    yield Reading(f"and {templates} templates", resident_megabytes(), "MB")


def resident_megabytes() -> float:
    """Return the resident memory of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
