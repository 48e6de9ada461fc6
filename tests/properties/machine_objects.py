"""Nodes and pods of the machine model, in a few variants."""

from __future__ import annotations

from pyscheduler.testing import NodeBuilder, PodBuilder, node, pod


def node_of(name: str, kind: int) -> NodeBuilder:
    built = node(name, cpu=("1", "2", "3", "0")[kind % 4], pods=("3", "110")[kind % 2])
    return (built, built.label("disk", "ssd"), built.taint("odd"))[kind % 3]


def pod_of(name: str, kind: int) -> PodBuilder:
    """Return a pod of one of a few signatures, so that many pods share one."""
    return (
        pod(name).requests(cpu="1"),
        pod(name).requests(cpu="2").priority(10),
        pod(name).requests(cpu="500m").node_selector(disk="ssd"),
        pod(name).requests(cpu="1").tolerates("odd", operator="Exists").host_port(80),
    )[kind % 4]
