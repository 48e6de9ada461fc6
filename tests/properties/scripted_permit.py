"""A Reserve, Permit and PreBind plugin that behaves as scripted and records its reservations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyscheduler.api import (
    ApiWriter,
    Cycle,
    Handle,
    NodeInfo,
    PermitPlugin,
    Pod,
    PreBindPlugin,
    Rejection,
    ReservePlugin,
    Wait,
)

PATIENCE = 20.0
"""Seconds that a pod may wait on Permit."""


class ScriptedPermit(ReservePlugin, PermitPlugin, PreBindPlugin):
    """`mood` selects the result for the next pods: yes, wait, or a rejection by reserve, permit or prebind."""

    name = "ScriptedPermit"

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.mood = "yes"
        self.reserved: dict[str, str] = {}
        """Reservations: pod UID to node name."""
        self.on_reserve: Callable[[Pod, NodeInfo], None] = lambda _pod, _node: None

    def reserve(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        self.reserved[pod.uid] = node.name
        self.on_reserve(pod, node)
        return Rejection("reserve rejected the pod") if self.mood == "reserve" else None

    def unreserve(self, cycle: Cycle, pod: Pod, node_name: str) -> None:
        self.reserved.pop(pod.uid, None)

    def permit(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Wait | Rejection | None:
        if self.mood == "permit":
            return Rejection("permit rejected the pod", resolvable=pod.priority == 0)
        return Wait(PATIENCE) if self.mood == "wait" else None

    async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str, api: ApiWriter) -> Rejection | None:
        return Rejection("prebind rejected the pod") if self.mood == "prebind" else None

    def settle(self, allow: bool) -> None:
        """Allow or reject every waiting pod; the scheduler applies it with the next event."""
        for waiting in self.handle.waiting_pods:
            if allow:
                waiting.allow(self.name)
            else:
                waiting.reject(self.name, "rejected later")
