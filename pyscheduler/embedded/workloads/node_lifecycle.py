"""Asyncio driver of node health: tracks heartbeats, and acts when a node is lost or deleted.

The time since the last heartbeat is measured on this clock from when a renewal was received, as in
kube-controller-manager: the nodes' own clocks may be wrong.
A pod bound to a node that does not exist is deleted after the same grace period.
"""

from __future__ import annotations

import math

from pyscheduler.clock import Clock
from pyscheduler.embedded.client import Informer, WorkQueue
from pyscheduler.embedded.objects import Json, Key, condition, dig
from pyscheduler.embedded.workloads.actions import Action
from pyscheduler.embedded.workloads.apply_actions import apply_actions
from pyscheduler.embedded.workloads.node_health import (
    evict,
    force_delete_pod,
    mark_node_unknown,
    mark_not_ready,
    set_taints,
)
from pyscheduler.embedded.workloads.objects import key_of
from pyscheduler.kube.object_client import ObjectClient


class NodeLifecycle:
    """Node lifecycle controller. The caller owns and runs the informers.

    `grace_seconds` is the time without heartbeat after which a node is lost (kube-controller-manager: 50).
    """

    def __init__(
        self,
        client: ObjectClient,
        clock: Clock,
        pods: Informer[Json],
        nodes: Informer[Json],
        leases: Informer[Json],
        grace_seconds: float,
    ) -> None:
        self._client, self._clock, self._nodes, self._grace = client, clock, nodes, grace_seconds
        self._last_heartbeat: dict[str, float] = {}
        self._pods_on: dict[str, dict[Key, Json]] = {}
        self.queue: WorkQueue[str] = WorkQueue(clock)
        pods.listeners.append(self._on_pod)
        nodes.listeners.append(self._on_node)
        leases.listeners.append(self._on_lease)

    async def reconcile(self, name: str) -> None:
        """Reconcile one node and its pods."""
        now = self._clock.wall()
        node = self._nodes.objects.get(("", name))
        pods = list(self._pods_on.get(name, {}).values())
        lost_at = self._last_heartbeat.setdefault(name, now) + self._grace
        if node is None:
            await self._force_delete_pods(name, pods, lost_at if pods else now, now)
            return
        actions: list[Action] = [] if now < lost_at else mark_node_unknown(node, now)
        if not actions:
            evictions, next_eviction = evict(node, pods, now)
            actions = set_taints(node, now) + mark_not_ready(node, pods, now) + evictions
            if next_eviction < math.inf:
                self.queue.add_at(name, next_eviction)
        if now < lost_at:
            self.queue.add_at(name, lost_at)
        await apply_actions(self._client, actions)

    async def _force_delete_pods(self, name: str, orphans: list[Json], at: float, now: float) -> None:
        if now < at:
            self.queue.add_at(name, at)
            return
        await apply_actions(self._client, [force_delete_pod(pod, now) for pod in orphans])
        self._last_heartbeat.pop(name, None)

    def _on_node(self, before: Json | None, after: Json | None) -> None:
        node = after if after is not None else before
        if node is None:
            return
        name = node["metadata"]["name"]
        if after is None or before is None or _node_heartbeat(before) != _node_heartbeat(after):
            self._last_heartbeat[name] = self._clock.wall()
        self.queue.add(name)

    def _on_lease(self, before: Json | None, after: Json | None) -> None:
        if after is not None and (before is None or _renew_time(before) != _renew_time(after)):
            self._last_heartbeat[after["metadata"]["name"]] = self._clock.wall()

    def _on_pod(self, before: Json | None, after: Json | None) -> None:
        old = before["spec"].get("nodeName") if before is not None else None
        new = after["spec"].get("nodeName") if after is not None else None
        if before is not None and old:
            self._pods_on[old].pop(key_of(before), None)
            if not self._pods_on[old]:
                del self._pods_on[old]
        if after is None or not new:
            return
        self._pods_on.setdefault(new, {})[key_of(after)] = after
        if old != new:
            self._pod_added(new)

    def _pod_added(self, name: str) -> None:
        """Queue the node of a newly bound pod if it has NoExecute taints or does not exist."""
        node = self._nodes.objects.get(("", name))
        if node is None or any(taint["effect"] == "NoExecute" for taint in node["spec"].get("taints") or ()):
            self.queue.add(name)


def _node_heartbeat(node: Json) -> object:
    return condition(node, "Ready").get("lastHeartbeatTime")


def _renew_time(lease: Json) -> object:
    return dig(lease, "spec", "renewTime")
