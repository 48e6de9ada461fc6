"""Write pod statuses, PodScheduled and the nominated node, and evict victims.

A condition is patched only if it differs from the pod's (kube-scheduler's `updatePod`). Every call includes the pod's
UID, so that it cannot affect another pod with the same name.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from pyscheduler.api import ApiError, Pod
from pyscheduler.api.objects import PodCondition
from pyscheduler.clock import Clock, rfc3339
from pyscheduler.core.commands import Evict, PatchStatus
from pyscheduler.kube import paths
from pyscheduler.kube.connection import STRATEGIC_PATCH, UNREACHABLE, Connection
from pyscheduler.texts import encodable
from pyscheduler.truncation import MAX_MESSAGE, truncated

POD_SCHEDULED: Final = "PodScheduled"
DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTION: Final = "PreemptionByScheduler"

_NOT_FOUND, _CONFLICT, _INVALID = 404, 409, 422
_RETRIED = (500, 503, _CONFLICT)
_PAUSES = (0.01, 0.05, 0.25)
"""Seconds between retries, as in client-go's retry.DefaultBackoff."""
_encode = msgspec.json.Encoder().encode

Json = dict[str, Any]


class StatusWriter:
    """Patches pod statuses and deletes preemption victims."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def patch(self, command: PatchStatus) -> None:
        """Execute a PatchStatus; a deleted pod needs none. ApiError if all retries failed."""
        status: Json = {}
        if command.condition is not None:
            condition = command.condition
            status |= self._condition(command.pod, POD_SCHEDULED, "False", condition.reason, condition.message)
        if command.nominated_node_name is not None:
            status["nominatedNodeName"] = encodable(command.nominated_node_name) or None
        if status:
            await self._patch(command.pod, status)

    async def evict(self, command: Evict) -> bool:
        """Set DisruptionTarget on the victim, then delete it. Return False if it was gone. ApiError."""
        victim = command.victim
        status = self._condition(victim, DISRUPTION_TARGET, "True", PREEMPTION, command.message)
        if status and not await self._patch(victim, status):
            return False
        body = _encode({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": victim.uid}})
        return await self._call("DELETE", paths.pod(victim.namespace, victim.name), body)

    def _condition(self, pod: Pod, type: str, status: str, reason: str, message: str) -> Json:
        """Return the patch that sets a condition, {} if the pod has it already."""
        message = truncated(message, MAX_MESSAGE)
        has = next((c for c in pod.conditions if c.type == type), None)
        if has is not None and (has.status, has.reason, has.message) == (status, reason, message):
            return {}
        condition = {
            "type": type,
            "status": status,
            "reason": reason,
            "message": message,
            "lastProbeTime": None,
            "lastTransitionTime": self._since(has, status),
            **({"observedGeneration": pod.generation} if pod.generation else {}),
        }
        return {"conditions": [condition]}

    def _since(self, has: PodCondition | None, status: str) -> str:
        """Return the time of the condition's last transition."""
        if has is not None and has.status == status and has.last_transition_time:
            return has.last_transition_time
        return rfc3339(self._clock.wall())

    async def _patch(self, pod: Pod, status: Json) -> bool:
        body = _encode({"metadata": {"uid": pod.uid}, "status": status})
        return await self._call("PATCH", paths.pod(pod.namespace, pod.name, "/status"), body, STRATEGIC_PATCH)

    async def _call(self, method: str, path: str, body: bytes, content_type: str = "application/json") -> bool:
        """Make a call with retries, which the UID makes safe. Return True if the pod existed."""
        for pause in (*_PAUSES, None):
            try:
                await self._connection.request(method, path, body, content_type)
            except ApiError as problem:
                if problem.status == _NOT_FOUND or _is_another_pod(problem):
                    return False
                if pause is None or not (problem.status in _RETRIED or _is_transient(problem)):
                    raise
                await self._clock.sleep(pause)
            else:
                return True
        raise AssertionError("the last try either returns or raises")


def _is_another_pod(problem: ApiError) -> bool:
    """Return True if the name belongs to a pod with another UID now: a conflict, or Invalid for patches."""
    return (problem.status == _CONFLICT and "UID" in str(problem)) or (
        problem.status == _INVALID and "metadata.uid" in str(problem)
    )


def _is_transient(problem: ApiError) -> bool:
    return problem.status == 0 and problem.reason != UNREACHABLE
