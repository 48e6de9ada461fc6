"""Handling of a failed scheduling attempt: requeue the pod, and report the reason as event and condition.

Matches kube-scheduler's failure handler: the event is written for every attempt, the condition only if it changed
(the shell compares), and the nominator is updated at once.
"""

from __future__ import annotations

import msgspec

from pyscheduler.api.cycle import AttemptLimitExceeded
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.commands import Command, Condition, EventType, PatchStatus, Record
from pyscheduler.core.context import Context
from pyscheduler.core.framework.plugin_failure import PluginFailed

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"
SCHEDULING_GATED = "SchedulingGated"
EVALUATION_LIMIT = "EvaluationLimit"
"""Rejector of a pod that exceeded the limit on evaluations; no plugin has this name, so no event requeues the pod."""


class Failure(msgspec.Struct, frozen=True):
    """Reason of a failed attempt. `nominate` is the new nominated node: None leaves it unchanged, "" clears it."""

    message: str
    reason: str = UNSCHEDULABLE
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    nominate: str | None = None
    in_memory: bool = False
    """True if the nomination is not written to the pod's status, because its victims are not evicted yet."""

    @staticmethod
    def fit_error(diagnosis: Diagnosis, nominate: str | None = None, *, in_memory: bool = False) -> Failure:
        """Return the failure of a pod that fits no node."""
        return Failure(
            diagnosis.message,
            UNSCHEDULABLE,
            frozenset(diagnosis.unschedulable_plugins),
            frozenset(diagnosis.pending_plugins),
            nominate,
            in_memory,
        )

    @staticmethod
    def rejected(plugin: str, message: str, pending: bool = False) -> Failure:
        """Return the failure of a pod that a plugin rejected after the node was chosen: a fit error on one node."""
        text = f"0/1 nodes are available: 1 {message}."
        plugins = frozenset({plugin} - {""})
        if pending:
            return Failure(text, UNSCHEDULABLE, frozenset(), plugins, "")
        return Failure(text, UNSCHEDULABLE, plugins, frozenset(), "")

    @staticmethod
    def of_plugin(failed: PluginFailed) -> Failure:
        """Return the failure of an attempt in which a plugin raised."""
        if isinstance(failed.error, AttemptLimitExceeded):
            return Failure(str(failed.error), UNSCHEDULABLE, frozenset({EVALUATION_LIMIT}), nominate="")
        return Failure.error(str(failed))

    @staticmethod
    def error(message: str) -> Failure:
        """Return the failure of an attempt that ended in an error; the pod is retried after its backoff."""
        return Failure(message, SCHEDULER_ERROR, nominate="")


def handle_scheduling_failure(context: Context, queued: QueuedPod, failure: Failure, now: float) -> list[Command]:
    """Requeue the pod and report the failure; do neither for a pod that is deleted, bound or no longer ours."""
    uid = queued.pod.uid
    pod = context.pods.get(uid)
    result = "unschedulable" if failure.reason == UNSCHEDULABLE else "error"
    context.instrument.attempted(queued.pod.scheduler_name, result, queued.last_attempt)
    if pod is None or pod.node_name or not context.is_responsible_for(pod):
        context.queue.done(uid)
        return []
    previous = context.queue.nominator.nominated_node(pod)
    nominate = previous if failure.nominate is None else failure.nominate
    context.queue.nominator.add(pod, nominate)
    # A nomination that the pod's status lacks is written again: the earlier patch may have been lost.
    unchanged = failure.in_memory or (not failure.nominate and nominate == previous == pod.nominated_node_name)
    context.queue.add_unschedulable(queued, pod, failure.unschedulable_plugins, failure.pending_plugins, now)
    return [
        Record(EventType.WARNING, "FailedScheduling", "Scheduling", failure.message, pod),
        PatchStatus(pod, Condition(failure.reason, failure.message), None if unchanged else nominate),
    ]


def report_gated(context: Context) -> list[Command]:
    """Return a condition patch for each newly gated pod of a PreEnqueue plugin with `reports_gating`."""
    reports = context.queue.take_gate_reports()
    if not reports:
        return []
    return [PatchStatus(pod, Condition(SCHEDULING_GATED, message)) for pod, message in reports]
