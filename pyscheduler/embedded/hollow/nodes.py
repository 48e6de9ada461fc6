"""The async half of hollow nodes: register them, keep their leases, carry out what `decide` says about their pods.

One watch serves the pods of all nodes and one their Node objects; a few workers write. There is no task per node or
pod, so that thousands of nodes cost little more than their pods do. Runs against any API server.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple, Self

from pyscheduler.api.objects import NodeObject
from pyscheduler.api.resources import amounts, pod_requests
from pyscheduler.embedded.client import (
    LEASES,
    NODES,
    PODS,
    ApiClient,
    Clock,
    Informer,
    Key,
    StatusError,
    Tasks,
    WorkQueue,
    structs,
)
from pyscheduler.embedded.hollow.kubelet import sync_pod
from pyscheduler.embedded.hollow.node_capacity import AdmissionFailure, NodeCapacity
from pyscheduler.embedded.hollow.pod_lifecycle import (
    FAILED,
    INDEX,
    SUCCEEDED,
    LifecycleTimings,
    depends_on_attempts,
    unreadable_annotations,
)
from pyscheduler.embedded.hollow.pod_types import HollowPod
from pyscheduler.embedded.hollow.status import PodPlacement
from pyscheduler.embedded.hollow.template import (
    LEASE_NAMESPACE,
    NodeTemplate,
    heartbeat,
    lease_object,
    lease_renewal,
    node_object,
    node_status,
)
from pyscheduler.embedded.objects import seconds

WORKERS = 16
"""How many writes about pods are under way at once."""
HEARTBEAT_WORKERS = 4
"""How many heartbeats are under way at once."""
REGISTRATIONS = 32
STATUS_SECONDS = 300.0
"""How often a node's status is written when nothing has changed (kubelet's nodeStatusReportFrequency)."""

_log = logging.getLogger(__name__)


@dataclass
class _Node:
    template: NodeTemplate
    address: str
    capacity: NodeCapacity
    alive: bool = True
    uid: str = ""
    reported: float = 0.0


class _Placed(NamedTuple):
    place: PodPlacement
    refusal: AdmissionFailure | None


class HollowNodes:
    """Nodes that run pods without containers. Start and stop them, or use them as a context manager.

    `heartbeat_seconds`: how often each node renews its Lease; None for never (where nobody watches over nodes).
    `clear_taints`: take away taints that the API server adds at registration, where no controller does.
    """

    def __init__(
        self,
        client: ApiClient,
        templates: Iterable[NodeTemplate],
        *,
        clock: Clock,
        timings: LifecycleTimings | None = None,
        heartbeat_seconds: float | None = 10.0,
        clear_taints: bool = False,
    ) -> None:
        self._client, self._clock = client, clock
        self._timings = timings if timings is not None else LifecycleTimings()
        self._heartbeat, self._clear_taints = heartbeat_seconds, clear_taints
        self._addresses, self._pod_addresses = count(1), count(1)
        self._nodes: dict[str, _Node] = {}
        self._placed: dict[str, _Placed] = {}
        self._ended: set[str] = set()
        """The pods, by UID, whose end has been written: it stands, though the watch may not have told of it yet."""
        self._pods: WorkQueue[Key] = WorkQueue(clock)
        self._heartbeats: WorkQueue[str] = WorkQueue(clock)
        self._tasks = Tasks()
        self._pod_informer = Informer(
            client, PODS, structs(HollowPod), field_selector="spec.nodeName!=", listeners=[self._on_pod]
        )
        self._node_informer = Informer(client, NODES, structs(NodeObject), listeners=[self._on_node])
        self._templates = list(templates)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def names(self) -> list[str]:
        """The nodes there are, dead ones included."""
        return list(self._nodes)

    async def start(self) -> None:
        """Register all nodes and begin to run pods. StatusError if the server will not have a node."""
        gate = asyncio.Semaphore(REGISTRATIONS)

        async def register(template: NodeTemplate) -> None:
            async with gate:
                await self._register(template)

        await asyncio.gather(*(register(template) for template in self._templates))
        self._spread_heartbeats()
        self._tasks.spawn(self._node_informer.run(), "hollow nodes: watch of nodes")
        self._tasks.spawn(self._pod_informer.run(), "hollow nodes: watch of pods")
        await asyncio.gather(self._node_informer.synced.wait(), self._pod_informer.synced.wait())
        for number in range(WORKERS):
            self._tasks.spawn(self._pods.work(self._sync_pod), f"hollow nodes: worker {number}")
        for number in range(HEARTBEAT_WORKERS):
            self._tasks.spawn(self._heartbeats.work(self._send_heartbeat), f"hollow nodes: heartbeat {number}")

    async def stop(self) -> None:
        """Stop at once. Nodes and pods stay as they are in the API."""
        self._pods.close()
        self._heartbeats.close()
        await self._tasks.stop()

    async def add(self, template: NodeTemplate) -> None:
        """One more node, now. StatusError if the server will not have it."""
        await self._register(template)
        self._heartbeats.add(template.name)
        self._requeue_pods_of(template.name)

    def kill(self, name: str) -> None:
        """The node falls silent: no heartbeats, and nothing happens to its pods. KeyError if there is no such node."""
        self._nodes[name].alive = False

    def revive(self, name: str) -> None:
        """The node is back, its pods have run on meanwhile. KeyError if there is no such node."""
        self._nodes[name].alive = True
        self._heartbeats.add(name)
        self._requeue_pods_of(name)

    def _requeue_pods_of(self, name: str) -> None:
        for key, pod in self._pod_informer.objects.items():
            if pod.spec.node_name == name:
                self._pods.add(key)

    async def _register(self, template: NodeTemplate) -> None:
        address = _address(64, next(self._addresses))
        node = self._nodes[template.name] = _Node(template, address, NodeCapacity(amounts(template.amounts)))
        now = self._clock()
        try:
            made = await self._client.create(NODES, node_object(template, address, now))
        except StatusError as refusal:
            if not refusal.is_conflict:
                del self._nodes[template.name]
                raise
            made = await self._client.get(NODES, "", template.name)
            await self._client.patch_status(NODES, ("", template.name), node_status(template, address, now))
        node.uid, node.reported = made["metadata"]["uid"], now
        taints = [dict(taint) for taint in template.taints]
        if self._clear_taints and (made.get("spec") or {}).get("taints", []) != taints:
            await self._client.patch(NODES, ("", template.name), {"spec": {"taints": taints or None}})

    def _spread_heartbeats(self) -> None:
        if self._heartbeat is None:
            return
        now, step = self._clock(), self._heartbeat / max(1, len(self._nodes))
        for number, name in enumerate(self._nodes):
            self._heartbeats.add_at(name, now + number * step)

    async def _send_heartbeat(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None or not node.alive or self._heartbeat is None:
            return
        now = self._clock()
        ready = _is_ready(self._node_informer.objects.get(("", name)))
        try:
            if not ready or now - node.reported >= STATUS_SECONDS:
                conditions = heartbeat(now, changed=not ready)
                await self._client.patch_status(NODES, ("", name), {"conditions": conditions})
                node.reported = now
            await self._renew_lease(node, now)
        finally:
            self._heartbeats.add_at(name, now + self._heartbeat)

    async def _renew_lease(self, node: _Node, now: float) -> None:
        name = node.template.name
        try:
            await self._client.patch(LEASES, (LEASE_NAMESPACE, name), lease_renewal(now))
        except StatusError as refusal:
            if not refusal.is_not_found:
                raise
            await self._client.create(LEASES, lease_object(name, node.uid, now))

    def _on_node(self, before: NodeObject | None, after: NodeObject | None) -> None:
        if after is None:
            self._drop_node(before)
            return
        node = self._nodes.get(after.metadata.name)
        if node is not None and (before is None or before.status.allocatable != after.status.allocatable):
            node.capacity.allocatable = amounts(after.status.allocatable)

    def _drop_node(self, gone: NodeObject | None) -> None:
        node = self._nodes.get(gone.metadata.name) if gone is not None else None
        # A node of that name may have been added again since: that one has another uid, or none yet.
        if gone is not None and node is not None and node.uid == gone.metadata.uid:
            del self._nodes[gone.metadata.name]

    def _on_pod(self, before: HollowPod | None, after: HollowPod | None) -> None:
        if before is not None and (after is None or after.metadata.uid != before.metadata.uid):
            self._forget(before)
        if after is None:
            return
        node = self._nodes.get(after.spec.node_name)
        if node is None:
            return
        if after.final:
            node.capacity.release(after.metadata.uid)
        elif after.status.start_time is not None and after.metadata.uid not in node.capacity:
            node.capacity.hold(after.metadata.uid, pod_requests(after.spec).real)
        if not after.final or after.metadata.deletion_timestamp is not None:
            self._pods.add((after.metadata.namespace, after.metadata.name))

    def _forget(self, pod: HollowPod) -> None:
        self._placed.pop(pod.metadata.uid, None)
        self._ended.discard(pod.metadata.uid)
        self._pods.forget((pod.metadata.namespace, pod.metadata.name))
        node = self._nodes.get(pod.spec.node_name)
        if node is not None:
            node.capacity.release(pod.metadata.uid)

    async def _sync_pod(self, key: Key) -> None:
        pod = self._pod_informer.objects.get(key)
        node = self._nodes.get(pod.spec.node_name) if pod is not None else None
        if pod is None or node is None or not node.alive:
            return
        uid = pod.metadata.uid
        if uid in self._ended and not pod.final:
            return
        placed = self._placed.get(uid)
        if placed is None:
            placed = self._placed[uid] = self._place(pod, node)
        decision = sync_pod(pod, placed.place, placed.refusal, self._timings, self._clock())
        try:
            if decision.status is not None:
                await self._client.patch_status(PODS, key, decision.status, uid=uid)
                if decision.status["phase"] in (SUCCEEDED, FAILED):
                    self._ended.add(uid)
            elif decision.delete:
                await self._client.delete(PODS, key, uid=uid, grace_seconds=0)
        except StatusError as refusal:
            if not (refusal.is_not_found or refusal.is_conflict):
                raise
        if decision.requeue_at < math.inf:
            self._pods.add_at(key, decision.requeue_at)

    def _place(self, pod: HollowPod, node: _Node) -> _Placed:
        for problem in unreadable_annotations(pod):
            where = f"{pod.metadata.namespace}/{pod.metadata.name}"
            _log.warning("pod %s: annotation %s; it is taken as not there", where, problem)
        known = seconds(pod.status.start_time)
        address = pod.status.pod_ip or _address(128, next(self._pod_addresses))
        if pod.spec.host_network:
            address = node.address
        earlier = self._earlier_attempts(pod) if depends_on_attempts(pod) else 0
        place = PodPlacement(known if known is not None else self._clock(), address, node.address, earlier)
        refusal = None if pod.final else node.capacity.admit(pod.metadata.uid, pod_requests(pod.spec).real)
        return _Placed(place, refusal)

    def _earlier_attempts(self, pod: HollowPod) -> int:
        """How many pods of the same owner and index have failed, as far as they are still there."""
        others = self._pod_informer.objects.values()
        return sum(other.status.phase == FAILED and _retry_key(other) == _retry_key(pod) for other in others)


def _retry_key(pod: HollowPod) -> tuple[str, str]:
    owner = next((owner.uid for owner in pod.metadata.owner_references or () if owner.controller), pod.metadata.uid)
    return owner, (pod.metadata.annotations or {}).get(INDEX, "")


def _address(base: int, number: int) -> str:
    """An address of 10.base.0.0 upwards."""
    return f"10.{base + (number >> 16)}.{(number >> 8) & 255}.{number & 255}"


def _is_ready(node: NodeObject | None) -> bool:
    if node is None:
        return True
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions or ())
