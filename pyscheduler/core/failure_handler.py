"""An attempt has failed: the pod goes back to the queue, and its owner is told why.

Matches kube-scheduler's failure handler: the event is written for every attempt, the condition only where it changed
(the shell compares), and the nomination is kept in memory at once.
"""

from __future__ import annotations

import msgspec

from pyscheduler.api.cycle import AttemptLimitExceeded
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.pod import Pod
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.commands import Command, Condition, EventType, PatchStatus, Record
from pyscheduler.core.context import Context
from pyscheduler.core.framework.plugin_failure import PluginFailed

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"
SCHEDULING_GATED = "SchedulingGated"
EVALUATION_LIMIT = "EvaluationLimit"
"""Stands for a plugin where the limit on evaluations has rejected a pod; none registers for events under it."""


class Failure(msgspec.Struct, frozen=True):
    """Why an attempt failed. `nominate` is the new nominated node: None keeps it as it is, "" clears it."""

    message: str
    reason: str = UNSCHEDULABLE
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    nominate: str | None = None
    in_memory: bool = False
    """The nomination is not written into the pod's status: its victims are not evicted yet."""

    @staticmethod
    def fit_error(diagnosis: Diagnosis, nominate: str | None = None, *, in_memory: bool = False) -> Failure:
        """No node fits."""
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
        """A plugin said no after the node was chosen: reported as a fit error over that one node."""
        text = f"0/1 nodes are available: 1 {message}."
        plugins = frozenset({plugin} - {""})
        if pending:
            return Failure(text, UNSCHEDULABLE, frozenset(), plugins, "")
        return Failure(text, UNSCHEDULABLE, plugins, frozenset(), "")

    @staticmethod
    def too_expensive(message: str) -> Failure:
        """The pod requires more than an attempt may cost. No plugin has rejected it, so that no event wakes it."""
        return Failure(message, UNSCHEDULABLE, frozenset({EVALUATION_LIMIT}), nominate="")

    @staticmethod
    def of_plugin(failed: PluginFailed) -> Failure:
        """A plugin has raised."""
        if isinstance(failed.error, AttemptLimitExceeded):
            return Failure.too_expensive(str(failed.error))
        return Failure.error(str(failed))

    @staticmethod
    def error(message: str) -> Failure:
        """Something broke; the pod is retried after its error backoff."""
        return Failure(message, SCHEDULER_ERROR, nominate="")


def handle_scheduling_failure(context: Context, queued: QueuedPod, failure: Failure, now: float) -> list[Command]:
    """Put the pod back and report. A pod that is gone, was bound meanwhile or is no longer ours is only let go of."""
    uid = queued.pod.uid
    pod = context.pods.get(uid)
    result = "unschedulable" if failure.reason == UNSCHEDULABLE else "error"
    context.instrument.attempted(queued.pod.scheduler_name, result, queued.last_attempt)
    if pod is None or pod.node_name or not context.is_responsible_for(pod):
        context.queue.done(uid)
        return []
    promised = context.queue.nominator.nominated_node(pod)
    nominate = promised if failure.nominate is None else failure.nominate
    context.queue.nominator.add(pod, nominate)
    # What memory knows and the pod's status does not say may have got lost on its way there.
    as_it_is = failure.in_memory or (not failure.nominate and nominate == promised == pod.nominated_node_name)
    context.queue.add_unschedulable(queued, pod, failure.unschedulable_plugins, failure.pending_plugins, now)
    return [
        Record(EventType.WARNING, "FailedScheduling", "Scheduling", failure.message, pod),
        PatchStatus(pod, Condition(failure.reason, failure.message), None if as_it_is else nominate),
    ]


def report_gated(context: Context) -> list[Command]:
    """Report the reasons of PreEnqueue plugins that want them to be seen."""
    reports = context.queue.take_gate_reports()
    return [PatchStatus(pod, Condition(SCHEDULING_GATED, message)) for pod, message in reports]


def report_skipped(pod: Pod) -> list[Command]:
    """The pod was being deleted when its turn came."""
    note = f"skip schedule deleting pod: {pod.key}"
    return [Record(EventType.WARNING, "FailedScheduling", "Scheduling", note, pod)]
