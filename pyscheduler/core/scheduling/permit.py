"""Pods that wait in Permit: their plugins run again after events and timeouts, until they are allowed or rejected.

A kube-scheduler plugin registers informer handlers and allows or rejects waiting pods in those. Here the machine runs
`permit` again after events and at requested times, so that a plugin stays a pure function of its arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pyscheduler.api.events import ClusterEvent, ClusterEventWithHint
from pyscheduler.api.outcome import Code, Rejection, Wait
from pyscheduler.api.plugin import PermitPlugin
from pyscheduler.core.commands import Command, Condition, PatchStatus
from pyscheduler.core.context import AssumedPod, Context
from pyscheduler.core.framework.plugin_calls import call_guarded, call_plugin
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.framework.waiting_pods import WaitingPodState
from pyscheduler.core.scheduling.binding import forget_and_requeue, start_binding
from pyscheduler.core.scheduling.extension_points import PERMIT
from pyscheduler.core.scheduling.failure import Failure
from pyscheduler.core.scheduling.pod_stages import Stage

MAX_DECIDED = 200
"""Maximum number of allowed or rejected pods that one call processes: a gang may allow 10,000 at once."""
AFFECTED = "Affected"
"""Name of the point passed to `Instrument.plugin_failed` when `PermitPlugin.affected_pods` fails."""
WAITING_ON_PERMIT = "WaitingOnPermit"
"""Reason in the PodScheduled condition; not Unschedulable, on which autoscalers would add nodes."""


def wait_on_permit(context: Context, assumed: AssumedPod, waits: dict[str, Wait], now: float) -> list[Command]:
    """Make an assumed pod wait in Permit, and report the reason."""
    assumed.stage = Stage.WAITING
    waiting = WaitingPodState(assumed.pod, assumed.node_name, now, {})
    for plugin, wait in waits.items():
        waiting.hold(plugin, wait, now)
    context.handle.waiting_pods.by_uid[assumed.pod.uid] = waiting
    return [_report(waiting)]


def expire_permits(context: Context, now: float) -> list[Command]:
    """Run the plugins with due rechecks or deadlines, then reject the pods still past their deadline."""
    commands: list[Command] = []
    for waiting in context.handle.waiting_pods:
        for plugin in _holders(context, waiting):
            if waiting.is_due(plugin.name, now):
                commands += _recheck(context, waiting, plugin, now)
        waiting.expire(now)
    return commands


def process_waiting_pods(context: Context, now: float) -> list[Command]:
    """Run the plugins that registered for the latest events, then bind or requeue a slice of the decided pods.

    A requeued pod is itself an event that may make plugins reject other pods, so this repeats until none is left.
    """
    commands: list[Command] = []
    left = MAX_DECIDED
    while left and context.handle.waiting_pods.by_uid:
        events, context.pending_events = context.pending_events, []
        if events:
            commands += _react(context, events, now)
        decided = context.handle.waiting_pods.take_decided(left)
        if not decided and not context.pending_events:
            break
        left -= len(decided)
        for waiting in decided:
            commands += _leave(context, waiting, now)
    context.processing_waiting_pods = not left
    if not context.processing_waiting_pods:
        context.pending_events = []
    return commands


def _leave(context: Context, waiting: WaitingPodState, now: float) -> list[Command]:
    assumed = context.assumed[waiting.pod.uid]
    code = Code.UNSCHEDULABLE if waiting.rejected_by else Code.SUCCESS
    context.instrument.permit_waited(code.camel, now - waiting.since)
    if not waiting.rejected_by:
        return start_binding(context, assumed, now)
    if waiting.error:
        return forget_and_requeue(context, assumed, Failure.error(waiting.error), now)
    rejection = Failure.rejected(waiting.rejected_by, waiting.rejection, waiting.is_pending)
    return forget_and_requeue(context, assumed, rejection, now)


def _react(context: Context, events: Sequence[ClusterEvent], now: float) -> list[Command]:
    """Run `permit` once for each pod that any of the events affects."""
    due: dict[tuple[int, str], tuple[WaitingPodState, PermitPlugin]] = {}
    for plugin, events_to_register, waiting_pods in _by_holder(context):
        for event in events:
            if any(interest.covers(event) for interest in events_to_register):
                for waiting in _affected(context, plugin, event, waiting_pods):
                    due[id(plugin), waiting.pod.uid] = (waiting, plugin)
    return [command for waiting, plugin in due.values() for command in _recheck(context, waiting, plugin, now)]


def _by_holder(context: Context) -> list[tuple[PermitPlugin, Iterable[ClusterEventWithHint], list[WaitingPodState]]]:
    """Return every plugin that makes pods wait, with its events_to_register and those pods."""
    waiting_pods: dict[int, tuple[PermitPlugin, Iterable[ClusterEventWithHint], list[WaitingPodState]]] = {}
    for waiting in context.handle.waiting_pods.by_uid.values():
        events_to_register = context.assumed[waiting.pod.uid].profile.permit_interests
        for plugin in _holders(context, waiting):
            waiting_pods.setdefault(id(plugin), (plugin, events_to_register[plugin.name], []))[2].append(waiting)
    return list(waiting_pods.values())


def _affected(
    context: Context, plugin: PermitPlugin, event: ClusterEvent, waiting_pods: list[WaitingPodState]
) -> Iterable[WaitingPodState]:
    """Return the pods that `permit` must run for after the event; all of them if the plugin's `affected_pods` fails."""
    held = [waiting for waiting in waiting_pods if waiting.is_held_by(plugin.name)]
    if not held:
        return ()
    try:
        uids = call_guarded(plugin.name, AFFECTED, lambda: [each.pod.uid for each in plugin.affected_pods(event, held)])
    except PluginFailed as failed:
        failed.report_to(context.instrument)
        return held
    return [waiting for uid in uids if (waiting := context.handle.waiting_pods.by_uid.get(uid)) is not None]


def _holders(context: Context, waiting: WaitingPodState) -> Iterator[PermitPlugin]:
    """Return the plugins that make a pod wait, in the order of its profile."""
    profile = context.assumed[waiting.pod.uid].profile
    return (plugin for plugin in profile.permit if waiting.is_held_by(plugin.name))


def _recheck(context: Context, waiting: WaitingPodState, plugin: PermitPlugin, now: float) -> list[Command]:
    """Run `permit` again for a pod that the plugin makes wait; an earlier run may have allowed or rejected it."""
    node = context.state.info(waiting.node_name)
    if not waiting.is_held_by(plugin.name) or node is None:
        return []
    before = waiting.reason
    cycle = context.assumed[waiting.pod.uid].cycle.at(now)
    try:
        result = call_plugin(plugin, PERMIT, plugin.permit, cycle, waiting.pod, node)
    except PluginFailed as failed:
        failed.report_to(context.instrument)
        waiting.fail(failed.plugin, str(failed))
        return []
    if result is None:
        waiting.allow(plugin.name)
    elif isinstance(result, Rejection):
        waiting.reject(plugin.name, result.message, is_pending=result.pending)
    else:
        waiting.hold(plugin.name, result, now)
    return [] if waiting.is_decided or waiting.reason == before else [_report(waiting)]


def _report(waiting: WaitingPodState) -> Command:
    return PatchStatus(waiting.pod, Condition(WAITING_ON_PERMIT, waiting.reason))
