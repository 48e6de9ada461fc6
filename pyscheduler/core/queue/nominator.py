"""Nominated pods: preemption frees resources for them on a node, which pods of a lower priority must not take.

The nominator is updated before the API server, so an update of a pod without the nomination does not end it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, KeysView
from operator import attrgetter
from typing import NamedTuple

from pyscheduler.api.pod import Pod


class FreedNomination(NamedTuple):
    """Resources on a node that were held for a nominated pod: all, or those that its new version does not need."""

    node_name: str
    before: Pod
    after: Pod | None


class Nominator:
    """Nominated pods by UID and by node (kube-scheduler's nominator). A pod is nominated to one node at most."""

    def __init__(
        self,
        priority_of: Callable[[Pod], int] = attrgetter("priority"),
        queue_of: Callable[[Pod], str] = lambda _: "",
    ) -> None:
        """`priority_of` returns the priority of a pod; that of its pod group replaces its own.

        `queue_of` returns the pod's queue. Priorities are compared within one queue only.
        """
        self._priority_of = priority_of
        self._queue_of = queue_of
        self.node_of: dict[str, str] = {}
        """Name of the nominated node by pod UID."""
        self._pods_on: dict[str, dict[str, Pod]] = {}
        self.ended: set[str] = set()
        """UIDs of pods with a nomination that was ended here while their status still has it."""
        self.version = 0
        """Number of changes of the nominated pods."""
        self._changed: dict[str, int] = {}
        """Number of the last change by node name, for nodes with nominated pods."""
        self._victims_priority: dict[str, int] = {}
        """Highest priority of the pods that are evicted for a pod, by its UID."""
        self.freed: list[FreedNomination] = []
        """Resources freed by ended or changed nominations, for `take_freed`."""

    def __len__(self) -> int:
        return len(self.node_of)

    def __contains__(self, uid: str) -> bool:
        return uid in self.node_of

    def nominated_node(self, pod: Pod) -> str:
        """Return the name of the pod's nominated node, or ""; the nominator overrides the status, which lags behind."""
        if pod.uid in self.ended:
            return ""
        return self.node_of.get(pod.uid) or pod.nominated_node_name

    def pods_on(self, node_name: str) -> tuple[Pod, ...]:
        """Return the pods nominated to the node, in the order of their nominations."""
        return tuple(self._pods_on.get(node_name, {}).values())

    def competing_pods(self, pod: Pod, node_name: str) -> list[Pod]:
        """Return the pods nominated to the node that take precedence over `pod`: the same priority or higher.

        Pods of other queues do so too, since their queues have a claim to what was reclaimed for them.
        What has been reclaimed from pods of a higher priority is held against pods of that priority too: those that
        replace the victims would take it back.
        """
        nominated = self._pods_on.get(node_name)
        if not nominated:
            return []
        priority, queue = self._priority_of(pod), self._queue_of(pod)
        return [
            each
            for each in nominated.values()
            if each.uid != pod.uid and (self._nominated_priority(each) >= priority or self._queue_of(each) != queue)
        ]

    def lower_pods(self, pod: Pod, node_name: str) -> list[Pod]:
        """Return the pods nominated to the node that have a lower priority than `pod`, and are of its queue."""
        nominated, queue = self.pods_on(node_name), self._queue_of(pod)
        return [each for each in nominated if each.priority < pod.priority and self._queue_of(each) == queue]

    def _nominated_priority(self, pod: Pod) -> float:
        return max(self._priority_of(pod), self._victims_priority.get(pod.uid, -math.inf))

    def competing_pods_version(self, pod: Pod, node_name: str) -> tuple[int, str, str, int]:
        """Return a value that changes whenever `competing_pods` may return other pods."""
        own = pod.uid if self.node_of.get(pod.uid) == node_name else ""
        return self._changed.get(node_name, 0), own, self._queue_of(pod), self._priority_of(pod)

    def all_competing_pods_version(self, pod: Pod) -> tuple[int, str, str, int]:
        """Return a value that changes if `competing_pods` of a node may change, also between pods."""
        own = pod.uid if pod.uid in self.node_of else ""
        return self.version, own, self._queue_of(pod), self._priority_of(pod)

    def nodes(self) -> KeysView[str]:
        """Return the names of the nodes with nominated pods."""
        return self._pods_on.keys()

    def add(self, pod: Pod, node_name: str | None = None) -> None:
        """Nominate the pod to `node_name`, or to its status.nominatedNodeName if that is None; "" ends a nomination.

        A bound pod is not nominated. The caller must ensure that the pod still exists.
        """
        node_name = pod.nominated_node_name if node_name is None else node_name
        if self.node_of or self.ended:
            self._end(pod.uid, node_name, pod)
        if pod.node_name:
            return
        if not node_name:
            if pod.nominated_node_name:
                self.ended.add(pod.uid)
            return
        self.node_of[pod.uid] = node_name
        self._pods_on.setdefault(node_name, {})[pod.uid] = pod
        self._count_change(node_name)

    def set_victims_priority(self, uid: str, priority: int) -> None:
        """Set the highest priority of the pods that are evicted for a pod, before it is nominated."""
        self._victims_priority[uid] = priority

    def update(self, old: Pod, new: Pod) -> None:
        """Follow the pod's status if its nominated node has changed; otherwise keep the current nomination."""
        self.add(new, self.nominated_node(new) if old.nominated_node_name == new.nominated_node_name else None)

    def remove(self, uid: str, placed_on: str = "") -> None:
        """End the nomination of a pod that is assumed or bound (`placed_on` its node), or deleted."""
        if uid in self.node_of:
            self._end(uid, placed_on, None)
        else:
            self.ended.discard(uid)
            self._victims_priority.pop(uid, None)

    def take_freed(self) -> list[FreedNomination]:
        """Return the resources freed by ended or changed nominations since the last call."""
        freed, self.freed = self.freed, []
        return freed

    def _end(self, uid: str, next_node: str, version: Pod | None) -> None:
        """End a nomination; its resources stay taken if the pod is placed on that node or stays nominated to it."""
        self.ended.discard(uid)
        node_name = self.node_of.pop(uid, "")
        if not node_name:
            return
        pods = self._pods_on[node_name]
        before = pods.pop(uid)
        if not next_node or version is None:
            self._victims_priority.pop(uid, None)
        if next_node != node_name:
            self.freed.append(FreedNomination(node_name, before, None))
        elif version is not None and version.signature is not before.signature:
            self.freed.append(FreedNomination(node_name, before, version))
        if pods:
            self._count_change(node_name)
        else:
            self.version += 1
            del self._pods_on[node_name], self._changed[node_name]

    def _count_change(self, node_name: str) -> None:
        self.version += 1
        self._changed[node_name] = self.version
