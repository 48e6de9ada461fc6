"""Handling of a failed scheduling attempt: requeue the pod, and report the reason as event and condition.

Matches kube-scheduler's failure handler: the event is written for every attempt, the condition only if it changed
(the shell compares), and the nominator is updated at once.
"""

from __future__ import annotations

from pyscheduler.api.cycle import AttemptLimitExceeded
from pyscheduler.api.pod import Pod
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.commands import Command, Condition, EventType, PatchStatus, Record
from pyscheduler.core.context import Context
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.pod_groups.conditions import report_gated_pod
from pyscheduler.core.scheduling.failure import SCHEDULING_GATED, UNSCHEDULABLE, Failure

_WARNING = EventType.WARNING


def handle_scheduling_failure(context: Context, queued: QueuedPod, failure: Failure, now: float) -> list[Command]:
    """Requeue the pod and report the failure; do neither for a pod that is deleted, bound or no longer ours."""
    uid = queued.pod.uid
    pod = context.pods.get(uid)
    result = "unschedulable" if failure.reason == UNSCHEDULABLE else "error"
    context.instrument.attempted(queued.pod.scheduler_name, result, queued.last_attempt)
    is_resize = pod is not None and context.queues_resize(pod)
    if pod is None or (pod.node_name and not is_resize) or pod.scheduler_name not in context.profiles:
        context.queue.done(uid)
        return []
    if is_resize:  # the pod runs on its node: it has no nomination, and the kubelet reports on its resize
        context.queue.add_unschedulable(queued, pod, failure.unschedulable_plugins, failure.pending_plugins, now)
        return []
    nominated = nominate(context, pod, failure)
    context.queue.add_unschedulable(queued, pod, failure.unschedulable_plugins, failure.pending_plugins, now)
    return report_failure(pod, failure, nominated)


def nominate(context: Context, pod: Pod, failure: Failure) -> str | None:
    """Set the nominated node of a failure in the nominator. Return the name to write to the status; None for none."""
    nominator = context.queue.nominator
    if not (failure.nominate or pod.nominated_node_name or pod.uid in nominator.node_of or pod.uid in nominator.ended):
        return None
    previous = nominator.nominated_node(pod)
    nominated = previous if failure.nominate is None else failure.nominate
    nominator.add(pod, nominated)
    # A nomination that the pod's status lacks is written again: the earlier patch may have been lost.
    unchanged = failure.in_memory or (not failure.nominate and nominated == previous == pod.nominated_node_name)
    return None if unchanged else nominated


def report_failure(pod: Pod, failure: Failure, nominated: str | None) -> list[Command]:
    """Return the event and the condition of a failure."""
    return [
        Record(_WARNING, "FailedScheduling", "Scheduling", failure.message, pod),
        PatchStatus(pod, Condition(failure.reason, failure.message), nominated),
    ]


def report_gated(context: Context) -> list[Command]:
    """Return a condition patch for each newly gated pod of a PreEnqueue plugin with `reports_gating`, and for members
    of pod groups that cannot be scheduled yet.
    """
    reports = context.queue.gates.take_reports()
    commands: list[Command] = []
    for pod, message in reports:
        nominated, key = None, context.groups.key_of(pod)
        if key is not None:  # a group that lacks members holds no room
            failure = Failure(message, SCHEDULING_GATED, nominate="")
            nominated = nominate(context, pod, failure)
            commands += report_gated_pod(context, key, pod, failure)
        commands.append(PatchStatus(pod, Condition(SCHEDULING_GATED, message), nominated))
    return commands


def report_plugin_failure(context: Context, failed: PluginFailed) -> None:
    """Report a plugin that raised, unless the pod exceeded the limits of an attempt."""
    if not isinstance(failed.error, AttemptLimitExceeded):
        failed.report_to(context.instrument)
