"""One pod with 30,000 node affinity terms beside 1,000 nodes: among the most expensive pods there are.

It costs neither of two replicas the lease, and its neighbours are bound within 5 s. The same test is run with
kube-scheduler, for comparison: `pytest -s` shows the seconds.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.e2e.client import Json
from tests.e2e.plane import Plane
from tests.e2e.scheduler import Configured, replica
from tests.e2e.test_failover import LEASES, NAME, Times, configuration, holder, until_held, without_lease
from tests.e2e.workloads import hollow_nodes, placed, pod, pod_spec

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning"),
]

NODES = 1_000
TERMS = 30_000
NEIGHBOURS = 20
DEFAULT = Times(lease=15.0, deadline=10.0, retry=2.0)
PROMPT = 5.0
"""Seconds within which the last neighbour is bound."""
PATIENCE = 300.0
"""Seconds that kube-scheduler may take."""


def poison(scheduler: str, pool: str) -> Json:
    """Return a pod with many node affinity terms that match no node, so all are evaluated on each node."""
    terms = [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Gt", "values": [str(n)]}]}
        for n in range(TERMS)
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return pod("poison", pod_spec(scheduler, pool, cpu="10m", affinity={"nodeAffinity": required}))


async def seconds_until_neighbours_are_bound(plane: Plane, namespace: str) -> float:
    """Create the pod and, a second later, its neighbours."""
    pods, spec = f"/api/v1/namespaces/{namespace}/pods", pod_spec(namespace, namespace, cpu="10m")
    await plane.api.create(pods, poison(namespace, namespace))
    await asyncio.sleep(1)
    began = time.monotonic()
    for i in range(NEIGHBOURS):
        await plane.api.create(pods, pod(f"neighbour-{i}", spec, {"neighbour": "yes"}))
    await plane.api.until(
        pods, lambda found: len(placed(found)) == NEIGHBOURS, seconds=PATIENCE, labelSelector="neighbour=yes"
    )
    return time.monotonic() - began


def shown(scheduler: str, seconds: float) -> None:
    sys.stdout.write(f"\n{scheduler}: neighbours bound after {seconds:.1f} s, {NODES} nodes, {TERMS} terms\n")


async def test_replica_keeps_the_lease_while_an_attempt_takes_long(
    control_plane: Plane, real_control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    plane = control_plane
    await without_lease(plane)
    files = [tmp_path / each / "config.yaml" for each in "ab"]
    for file in files:
        file.parent.mkdir()
        file.write_text(configuration(namespace, DEFAULT, rate=5000))
    async with hollow_nodes(plane, namespace, NODES), replica(plane, files[0], files[0].parent) as leader:
        was = await until_held(plane)
        transitions = (await plane.api.get(f"{LEASES}/{NAME}"))["spec"]["leaseTransitions"]
        async with replica(plane, files[1], files[1].parent) as standby:
            seconds = await seconds_until_neighbours_are_bound(plane, namespace)
            shown("pyscheduler", seconds)
            await asyncio.sleep(DEFAULT.lease)
            lease = await plane.api.get(f"{LEASES}/{NAME}")
            assert (await holder(plane), lease["spec"]["leaseTransitions"]) == (was, transitions)
            assert (leader.process.returncode, standby.process.returncode) == (None, None)
            assert seconds < PROMPT


async def test_kube_scheduler_with_the_same_pod(
    control_plane: Plane, real_control_plane: ControlPlane, namespace: str
) -> None:
    document = Configured(namespace).document()
    async with hollow_nodes(control_plane, namespace, NODES), real_control_plane.kube_scheduler(document):
        shown("kube-scheduler", await seconds_until_neighbours_are_bound(control_plane, namespace))
