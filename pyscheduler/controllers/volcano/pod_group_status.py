"""Status of a Volcano PodGroup (scheduling.volcano.sh/v1beta1): one pure function.

Phases and counts are Volcano's. Its conditions are the scheduler's.

- Pending: the queue is missing or not open.
- Inqueue: the queue is open, so the group may be scheduled. Volcano's own Job controller creates the pods then.
- Running: minMember pods have a node or have finished.
- Unknown: the group was Running, and lacks pods that cannot be scheduled, while others run.
- Completed: minMember pods have finished, and no others are left. It stays so when the pods are deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyscheduler.controllers.volcano.pods import FAILED, RUNNING, SUCCEEDED, PodRecord

PENDING, INQUEUE, UNKNOWN, COMPLETED = "Pending", "Inqueue", "Unknown", "Completed"
PHASES = (PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED)
UNSCHEDULABLE = "Unschedulable"

Json = dict[str, Any]


def pod_group_status(group: Mapping[str, Any], pods: Sequence[PodRecord], *, queue_is_open: bool) -> Json:
    """Return the fields of the status that this controller writes.

    Counts of 0 are None, which removes them. The kind has no status subresource, so an operator that updates the spec
    writes the status too, without zeros, as Go omits them: a 0 written here again would start an endless exchange.
    """
    counts = {phase: sum(pod.phase == phase for pod in pods) for phase in (RUNNING, SUCCEEDED, FAILED)}
    return {
        "phase": _phase(group, pods, counts, queue_is_open),
        "running": sum(pod.phase == RUNNING and not pod.is_deleting for pod in pods) or None,
        "succeeded": counts[SUCCEEDED] or None,
        "failed": counts[FAILED] or None,
    }


def _phase(group: Mapping[str, Any], pods: Sequence[PodRecord], counts: Mapping[str, int], queue_is_open: bool) -> str:
    status: Mapping[str, Any] = group.get("status") or {}
    before = status.get("phase") or PENDING
    minimum = max(1, int((group.get("spec") or {}).get("minMember") or 1))
    if before == COMPLETED and not pods:
        return COMPLETED
    scheduled = sum(pod.is_bound or pod.is_finished for pod in pods)
    if scheduled >= minimum:
        return COMPLETED if counts[SUCCEEDED] + counts[FAILED] == len(pods) else RUNNING
    # Only after Running: at the start, pods run before the condition of the last attempt is replaced.
    if before in (RUNNING, UNKNOWN) and counts[RUNNING] and _is_unschedulable(status):
        return UNKNOWN
    return INQUEUE if queue_is_open or before == INQUEUE else PENDING


def _is_unschedulable(status: Mapping[str, Any]) -> bool:
    conditions = status.get("conditions") or ()
    return any(each.get("type") == UNSCHEDULABLE and each.get("status") == "True" for each in conditions)
