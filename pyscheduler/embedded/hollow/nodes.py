"""Hollow nodes as asyncio tasks: register nodes, renew their leases, write the status that `sync_pod` returns.

One watch covers the pods of all nodes and one their Node objects; a few workers write. There is no task per node or
pod, so that thousands of nodes cost little more than their pods do. It runs against any API server.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple, Self

from pyscheduler.api import ApiError
from pyscheduler.api.resources import amounts
from pyscheduler.clock import Clock
from pyscheduler.embedded.client import Informer, Tasks, WorkQueue
from pyscheduler.embedded.hollow.kubelet import sync_pod
from pyscheduler.embedded.hollow.node_capacity import AdmissionFailure, NodeCapacity
from pyscheduler.embedded.hollow.node_types import HollowNode
from pyscheduler.embedded.hollow.pod_lifecycle import (
    FAILED,
    INDEX,
    SUCCEEDED,
    LifecycleTimings,
    depends_on_attempts,
    invalid_annotations,
)
from pyscheduler.embedded.hollow.pod_types import HollowPod
from pyscheduler.embedded.hollow.status import PodPlacement
from pyscheduler.embedded.hollow.template import (
    LEASE_NAMESPACE,
    RUNTIME,
    NodeTemplate,
    adoption_status,
    heartbeat,
    lease_object,
    lease_renewal,
    node_object,
    node_status,
)
from pyscheduler.embedded.objects import Key, seconds
from pyscheduler.kube.connection import Connection
from pyscheduler.kube.errors import is_conflict, is_not_found
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler.kube.paths import LEASES, NODES, PODS
from pyscheduler.kube.reflector import Watched

WORKERS = 16
"""Concurrent writes of pods."""
HEARTBEAT_WORKERS = 4
"""Concurrent heartbeats."""
REGISTRATIONS = 32
STATUS_SECONDS = 300.0
"""Interval of node status writes without changes (kubelet's nodeStatusReportFrequency)."""

_log = logging.getLogger(__name__)


@dataclass
class _NodeState:
    template: NodeTemplate
    address: str
    capacity: NodeCapacity
    alive: bool = True
    uid: str = ""
    reported: float = 0.0


class _PodState(NamedTuple):
    place: PodPlacement
    failure: AdmissionFailure | None


class HollowNodes:
    """Nodes that run pods without containers. Start and stop them, or use them as a context manager.

    `heartbeat_seconds` is the interval of Lease renewals, None for no renewals (where no controller monitors nodes).
    `clear_taints` removes taints that the API server adds at registration, for clusters where no controller does.
    With `adopt` every other Node in the API becomes a hollow node too, except those that other HollowNodes register.
    A Node with the annotation `pyscheduler.io/heartbeats: stopped` is dead until the annotation is removed.
    """

    def __init__(
        self,
        connection: Connection,
        templates: Iterable[NodeTemplate],
        *,
        clock: Clock,
        timings: LifecycleTimings | None = None,
        heartbeat_seconds: float | None = 10.0,
        clear_taints: bool = False,
        adopt: bool = False,
    ) -> None:
        self._connection, self._client, self._clock = connection, ObjectClient(connection), clock
        self._timings = timings if timings is not None else LifecycleTimings()
        self._heartbeat, self._clear_taints, self._adopts = heartbeat_seconds, clear_taints, adopt
        self._addresses, self._pod_addresses = count(1), count(1)
        self._addresses_in_use: set[str] = set()
        self._nodes: dict[str, _NodeState] = {}
        self._pods_on: dict[str, set[Key]] = {}
        """Keys of the pods of each node, of nodes that are not hollow too: they may be adopted later."""
        self._pod_states: dict[str, _PodState] = {}
        self._finished: set[str] = set()
        """UIDs of pods with a final status that is written, though the informer may not have received it yet."""
        self._pods: WorkQueue[Key] = WorkQueue(clock)
        self._heartbeats: WorkQueue[str] = WorkQueue(clock)
        self._adoptions: WorkQueue[str] = WorkQueue(clock)
        self._tasks = Tasks()
        self._pod_informer = Informer(Watched(PODS, "spec.nodeName!="), HollowPod, self._on_pod)
        self._node_informer = Informer(Watched(NODES), HollowNode, self._on_node)
        self._templates = list(templates)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def names(self) -> list[str]:
        """Names of all nodes, killed ones included."""
        return list(self._nodes)

    async def start(self) -> None:
        """Register all nodes and start running pods. ApiError if the server rejects a node."""
        limit = asyncio.Semaphore(REGISTRATIONS)

        async def register(template: NodeTemplate) -> None:
            async with limit:
                await self._register(template)

        await asyncio.gather(*(register(template) for template in self._templates))
        self._spread_heartbeats()
        self._tasks.spawn(self._node_informer.run(self._connection, self._clock), "hollow nodes: watch of nodes")
        self._tasks.spawn(self._adoptions.work(self._report_adoption), "hollow nodes: adoption")
        await self._node_informer.synced.wait()  # adopts nodes before the pods on them are handled
        self._tasks.spawn(self._pod_informer.run(self._connection, self._clock), "hollow nodes: watch of pods")
        await self._pod_informer.synced.wait()
        self._addresses_in_use = {pod.status.pod_ip for pod in self._pod_informer.objects.values()}
        for number in range(WORKERS):
            self._tasks.spawn(self._pods.work(self._sync_pod), f"hollow nodes: worker {number}")
        for number in range(HEARTBEAT_WORKERS):
            self._tasks.spawn(self._heartbeats.work(self._send_heartbeat), f"hollow nodes: heartbeat {number}")

    async def stop(self) -> None:
        """Stop at once. Nodes and pods remain in the API as they are."""
        self._pods.close()
        self._heartbeats.close()
        self._adoptions.close()
        await self._tasks.stop()

    async def add(self, template: NodeTemplate) -> None:
        """Add one node now. ApiError if the server rejects it."""
        await self._register(template)
        self._heartbeats.add(template.name)
        self._requeue_pods_of(template.name)

    def kill(self, name: str) -> None:
        """Stop the heartbeats and pod syncs of a node. KeyError if there is no such node."""
        self._nodes[name].alive = False

    def revive(self, name: str) -> None:
        """Resume a killed node; its pods have kept running meanwhile. KeyError if there is no such node."""
        self._nodes[name].alive = True
        self._heartbeats.add(name)
        self._requeue_pods_of(name)

    def _requeue_pods_of(self, name: str) -> None:
        for key in self._pods_on.get(name, ()):
            self._pods.add(key)

    async def _register(self, template: NodeTemplate) -> None:
        address = _address(64, next(self._addresses))
        node = self._nodes[template.name] = _NodeState(template, address, NodeCapacity(amounts(template.amounts)))
        now = self._clock.wall()
        try:
            created = await self._client.create(NODES, node_object(template, address, now))
        except ApiError as error:
            if not is_conflict(error):
                del self._nodes[template.name]
                raise
            created = await self._client.get(NODES, "", template.name)
            await self._client.patch_status(NODES, ("", template.name), node_status(template, address, now))
        node.uid, node.reported = created["metadata"]["uid"], now
        taints = [dict(taint) for taint in template.taints]
        if self._clear_taints and (created.get("spec") or {}).get("taints", []) != taints:
            await self._client.patch(NODES, ("", template.name), {"spec": {"taints": taints or None}})

    def _spread_heartbeats(self) -> None:
        if self._heartbeat is None:
            return
        now, step = self._clock.wall(), self._heartbeat / max(1, len(self._nodes))
        for number, name in enumerate(self._nodes):
            self._heartbeats.add_at(name, now + number * step)

    async def _send_heartbeat(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None or not node.alive or self._heartbeat is None:
            return
        now = self._clock.wall()
        ready = _is_ready(self._node_informer.objects.get(("", name)))
        try:
            if not ready or now - node.reported >= STATUS_SECONDS:
                conditions = heartbeat(now, changed=not ready)
                await self._client.patch_status(NODES, ("", name), {"conditions": conditions})
                node.reported = now
            await self._renew_lease(node, now)
        finally:
            self._heartbeats.add_at(name, now + self._heartbeat)

    async def _renew_lease(self, node: _NodeState, now: float) -> None:
        name = node.template.name
        try:
            await self._client.patch(LEASES, (LEASE_NAMESPACE, name), lease_renewal(now))
        except ApiError as error:
            if not is_not_found(error):
                raise
            await self._client.create(LEASES, lease_object(name, node.uid, now))

    def _on_node(self, before: HollowNode | None, after: HollowNode | None) -> None:
        if after is None:
            self._drop_node(before)
            return
        node = self._nodes.get(after.metadata.name)
        if node is None:
            if self._adopts and after.metadata.deletion_timestamp is None and not self._has_kubelet(after):
                self._adopt(after)
            return
        if before is None or before.status.allocatable != after.status.allocatable:
            node.capacity.allocatable = amounts(after.status.allocatable)
        if before is not None and before.is_failed != after.is_failed:
            (self.kill if after.is_failed else self.revive)(after.metadata.name)

    def _has_kubelet(self, node: HollowNode) -> bool:
        """Return True if other HollowNodes have registered the node; those found at the start are of an earlier run."""
        is_registered = bool(node.address) and node.status.node_info.container_runtime_version == RUNTIME
        return is_registered and self._node_informer.synced.is_set()

    def _adopt(self, node: HollowNode) -> None:
        name, address = node.metadata.name, node.address or _address(64, next(self._addresses))
        capacity = NodeCapacity(amounts(node.status.allocatable))
        self._nodes[name] = _NodeState(NodeTemplate(name), address, capacity, not node.is_failed, node.metadata.uid)
        self._adoptions.add(name)
        for key in list(self._pods_on.get(name, ())):
            self._on_pod(None, self._pod_informer.objects[key])

    async def _report_adoption(self, name: str) -> None:
        """Write the status of an adopted node: its runtime, and its address if it has none."""
        node, known = self._nodes.get(name), self._node_informer.objects.get(("", name))
        if node is None or known is None:
            return
        status = adoption_status(name, node.address, has_address=bool(known.address))
        await self._client.patch_status(NODES, ("", name), status, node.uid)
        self._heartbeats.add(name)

    def _drop_node(self, deleted: HollowNode | None) -> None:
        node = self._nodes.get(deleted.metadata.name) if deleted is not None else None
        # A node of that name may have been added again since: it has another uid, or none yet.
        if deleted is not None and node is not None and node.uid == deleted.metadata.uid:
            del self._nodes[deleted.metadata.name]

    def _on_pod(self, before: HollowPod | None, after: HollowPod | None) -> None:
        if before is not None and (after is None or after.metadata.uid != before.metadata.uid):
            self._forget(before)
        if after is None:
            return
        self._pods_on.setdefault(after.spec.node_name, set()).add((after.metadata.namespace, after.metadata.name))
        node = self._nodes.get(after.spec.node_name)
        if node is None:
            return
        if after.final:
            node.capacity.release(after.metadata.uid)
        elif after.status.start_time is not None and after.metadata.uid not in node.capacity:
            node.capacity.hold(after.metadata.uid, after.node_requests)
        if not after.final or after.metadata.deletion_timestamp is not None:
            self._pods.add((after.metadata.namespace, after.metadata.name))

    def _forget(self, pod: HollowPod) -> None:
        self._pod_states.pop(pod.metadata.uid, None)
        self._finished.discard(pod.metadata.uid)
        key = (pod.metadata.namespace, pod.metadata.name)
        self._pods.forget(key)
        keys = self._pods_on.get(pod.spec.node_name, set())
        keys.discard(key)
        if not keys:
            self._pods_on.pop(pod.spec.node_name, None)
        node = self._nodes.get(pod.spec.node_name)
        if node is not None:
            node.capacity.release(pod.metadata.uid)

    async def _sync_pod(self, key: Key) -> None:
        pod = self._pod_informer.objects.get(key)
        node = self._nodes.get(pod.spec.node_name) if pod is not None else None
        if pod is None or node is None or not node.alive:
            return
        uid = pod.metadata.uid
        if uid in self._finished and not pod.final:
            return
        state = self._pod_states.get(uid)
        if state is None:
            state = self._pod_states[uid] = self._place(pod, node)
        decision = sync_pod(pod, state.place, state.failure, self._timings, self._clock.wall())
        try:
            if decision.status is not None:
                await self._client.patch_status(PODS, key, decision.status, uid)
                if decision.status["phase"] in (SUCCEEDED, FAILED):
                    self._finished.add(uid)
            elif decision.delete:
                await self._client.delete(PODS, key, uid, grace_seconds=0)
        except ApiError as error:
            if not (is_not_found(error) or is_conflict(error)):
                raise
        if decision.requeue_at < math.inf:
            self._pods.add_at(key, decision.requeue_at)

    def _place(self, pod: HollowPod, node: _NodeState) -> _PodState:
        for problem in invalid_annotations(pod):
            pod_name = f"{pod.metadata.namespace}/{pod.metadata.name}"
            _log.warning("pod %s: ignoring invalid annotation: %s", pod_name, problem)
        started = seconds(pod.status.start_time)
        address = pod.status.pod_ip or self._free_address()
        if pod.spec.host_network:
            address = node.address
        earlier = self._earlier_attempts(pod) if depends_on_attempts(pod) else 0
        place = PodPlacement(started if started is not None else self._clock.wall(), address, node.address, earlier)
        failure = None if pod.final else node.capacity.admit(pod.metadata.uid, pod.node_requests)
        return _PodState(place, failure)

    def _free_address(self) -> str:
        """Return a new address of a pod; those of pods that were there before are in use."""
        while (address := _address(128, next(self._pod_addresses))) in self._addresses_in_use:
            pass
        return address

    def _earlier_attempts(self, pod: HollowPod) -> int:
        """Return the number of failed pods of the same owner and index that still exist."""
        others = self._pod_informer.objects.values()
        return sum(other.status.phase == FAILED and _retry_key(other) == _retry_key(pod) for other in others)


def _retry_key(pod: HollowPod) -> tuple[str, str]:
    owner = next((owner.uid for owner in pod.metadata.owner_references or () if owner.controller), pod.metadata.uid)
    return owner, (pod.metadata.annotations or {}).get(INDEX, "")


def _address(base: int, number: int) -> str:
    """Return address `number` of the range that starts at 10.base.0.0."""
    return f"10.{base + (number >> 16)}.{(number >> 8) & 255}.{number & 255}"


def _is_ready(node: HollowNode | None) -> bool:
    if node is None:
        return True
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions or ())
