"""Pods that have been promised a node: preemption makes room for them there, and nobody of lower rank may take it.

The promise is known here before the API server has it, so an update that does not mention it yet does not end it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pyscheduler.api.pod import Pod


class FreedNomination(NamedTuple):
    """Room on a node that was held for a nominated pod: all of it, or what its new version does not need."""

    node_name: str
    before: Pod
    after: Pod | None


class Nominator:
    """Nominated pods by UID and by node (kube-scheduler's nominator). A pod is nominated to one node at most."""

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}
        self._pods_on: dict[str, dict[str, Pod]] = {}
        self._ended: set[str] = set()
        """Pods whose nomination was ended here, while their status still told of it."""
        self._changes = 0
        self._changed: dict[str, int] = {}
        """Which of all changes was the last to the nominations of a node that has some."""
        self._freed: list[FreedNomination] = []

    def __len__(self) -> int:
        return len(self._node_of)

    def __contains__(self, uid: str) -> bool:
        return uid in self._node_of

    def node_of(self, uid: str) -> str:
        """The node that the pod is nominated to, or ""."""
        return self._node_of.get(uid, "")

    def nominated_node(self, pod: Pod) -> str:
        """The node that the pod is to have, or "": what was decided here goes before its status, which comes later."""
        if pod.uid in self._ended:
            return ""
        return self._node_of.get(pod.uid) or pod.nominated_node_name

    def pods_on(self, node_name: str) -> tuple[Pod, ...]:
        """The pods nominated to the node, in the order in which they were."""
        return tuple(self._pods_on.get(node_name, {}).values())

    def rivals(self, pod: Pod, node_name: str) -> list[Pod]:
        """The pods nominated to the node whose room `pod` must leave: those of its own priority or above."""
        nominated = self._pods_on.get(node_name)
        return [p for p in nominated.values() if p.priority >= pod.priority and p.uid != pod.uid] if nominated else []

    def rivals_version(self, pod: Pod, node_name: str) -> tuple[int, str]:
        """Another value whenever `rivals` may give other pods, for pods of one priority."""
        own = pod.uid if self._node_of.get(pod.uid) == node_name else ""
        return self._changed.get(node_name, 0), own

    def nodes(self) -> Iterable[str]:
        """The nodes that have nominated pods."""
        return self._pods_on.keys()

    def add(self, pod: Pod, node_name: str | None = None) -> None:
        """Nominate the pod to `node_name`, or to its status.nominatedNodeName where that is None; "" ends a nomination.

        A bound pod is not nominated. The caller vouches that the pod still exists.
        """
        node_name = pod.nominated_node_name if node_name is None else node_name
        self._end(pod.uid, node_name, pod)
        if pod.node_name:
            return
        if not node_name:
            if pod.nominated_node_name:
                self._ended.add(pod.uid)
            return
        self._node_of[pod.uid] = node_name
        self._pods_on.setdefault(node_name, {})[pod.uid] = pod
        self._note(node_name)

    def update(self, old: Pod, new: Pod) -> None:
        """Follow the pod's status where it names another node than before; otherwise keep to what was decided here."""
        self.add(new, self.nominated_node(new) if old.nominated_node_name == new.nominated_node_name else None)

    def remove(self, uid: str, placed_on: str = "") -> None:
        """The pod is assumed or bound (`placed_on` its node), or gone."""
        self._end(uid, placed_on, None)

    def take_freed(self) -> list[FreedNomination]:
        """The room that has been freed since the last call, however a nomination ended or changed."""
        freed, self._freed = self._freed, []
        return freed

    def _end(self, uid: str, next_node: str, version: Pod | None) -> None:
        """End a nomination; the room that it held stays taken if the pod goes to that node or stays nominated to it."""
        self._ended.discard(uid)
        node_name = self._node_of.pop(uid, "")
        if not node_name:
            return
        pods = self._pods_on[node_name]
        before = pods.pop(uid)
        if next_node != node_name:
            self._freed.append(FreedNomination(node_name, before, None))
        elif version is not None and version.signature is not before.signature:
            self._freed.append(FreedNomination(node_name, before, version))
        if pods:
            self._note(node_name)
        else:
            del self._pods_on[node_name], self._changed[node_name]

    def _note(self, node_name: str) -> None:
        self._changes += 1
        self._changed[node_name] = self._changes
