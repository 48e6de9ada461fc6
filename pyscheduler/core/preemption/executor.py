"""Preemption executor: evicts the victims of a preemption, or rejects those that still wait in Permit.

Matches kube-scheduler's preemption executor with its gate SchedulerAsyncPreemption on (KEP-4832): the attempt does not
wait for the evictions, and the preemptor is not retried before all of them have been requested.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyscheduler.api.pod import Pod
from pyscheduler.core.commands import IN_MEMORY, Command, EventType, Evict, PatchStatus, Record
from pyscheduler.core.context import Context
from pyscheduler.core.queue.labels import NOMINATED_NODE_CHANGED


def prepare_candidate(
    context: Context, preemptor: Pod, node_name: str, victims: Sequence[Pod], plugin: str, now: float, by: str = ""
) -> list[Command]:
    """Return the commands that evict the victims from the node and clear lower nominations; skips terminating pods.

    `by` names a preemptor that is not a pod, and its node, in the events of the victims.
    """
    living = [victim for victim in victims if not victim.deleting]
    if not living:
        return []
    context.instrument.preempted(len(victims))
    commands = _clear_lower_nominations(context, preemptor, node_name, now)
    for victim in living:
        note = f"Preempted by {by or f'pod {preemptor.uid} on node {node_name}'}"
        commands.append(_evict(context, preemptor, note, victim, plugin))
    return commands


def clear_nominations(context: Context, pods: Sequence[Pod], now: float) -> list[Command]:
    """Clear the nominations of pods, and requeue the other pods that the freed room may help."""
    uids = {pod.uid for pod in pods}
    current = [newest for pod in pods if (newest := context.pods.get(pod.uid)) is not None]
    cleared = [pod for pod in current if pod.uid in context.queue.nominator]
    for pod in cleared:
        context.queue.nominator.remove(pod.uid)
    context.wake_for_freed_nominations(now, exclude=uids)
    return [PatchStatus(pod, nominated_node_name="") for pod in cleared if pod.nominated_node_name]


def _clear_lower_nominations(context: Context, preemptor: Pod, node_name: str, now: float) -> list[Command]:
    """Clear the nominations of lower-priority pods to the node, so that they are retried on other nodes at once.

    The nominator follows the watched status; where the status has no nomination yet, it is cleared here, since no
    update would follow.
    """
    nominator = context.queue.nominator
    lower = nominator.lower_pods(preemptor, node_name)
    for pod in lower:
        if not pod.nominated_node_name:
            nominator.remove(pod.uid)
            context.queue.requeue(pod, NOMINATED_NODE_CHANGED, now)
    return [PatchStatus(pod, nominated_node_name="") for pod in lower]


def _evict(context: Context, preemptor: Pod, note: str, victim: Pod, plugin: str) -> Command:
    waiting = context.handle.waiting_pods.get(victim.uid)
    if waiting is not None and not waiting.is_decided:
        waiting.preempt(plugin)
        return _preempted(victim, preemptor, f"{note}{IN_MEMORY}")
    context.handle.evictions.begin(victim.uid, preemptor.uid)
    message = f"{preemptor.scheduler_name}: preempting to accommodate a higher priority pod"
    return Evict(victim, preemptor, message, _preempted(victim, preemptor, note), plugin)


def _preempted(victim: Pod, preemptor: Pod, note: str) -> Record:
    return Record(EventType.NORMAL, "Preempted", "Preempting", note, victim, preemptor)
