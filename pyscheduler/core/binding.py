"""From a chosen node to a bound pod: the start of the binding cycle, its outcome, and giving a place back.

The binding cycle itself runs in the shell; here is what its start and its end mean for the queue and the state.
"""

from __future__ import annotations

from pyscheduler.api.outcome import SKIP, Code
from pyscheduler.api.plugin import PreBindPlugin
from pyscheduler.core.changes import pod_placed
from pyscheduler.core.commands import Bind, BindingPlan, Command, EventType, GetPod, Record
from pyscheduler.core.context import AssumedPod, AssumedStage, Context
from pyscheduler.core.events import BindFailed, Bound
from pyscheduler.core.failure_handler import Failure, handle_scheduling_failure
from pyscheduler.core.framework.plugin_calls import call_plugin
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.instrument import SUCCESS

# Looking a member up in its class costs more than what is done with it here, for every pod.
_BINDING, _BOUND, _NORMAL = AssumedStage.BINDING, AssumedStage.BOUND, EventType.NORMAL
_PRE_FLIGHT, _UNRESERVE, _SKIP = "PreBindPreFlight", "Unreserve", Code.SKIP.camel


def start_binding(context: Context, assumed: AssumedPod, now: float) -> list[Command]:
    """Hand the pod to the shell. From here on the queue need not keep events for it."""
    assumed.stage = _BINDING
    context.queue.done(assumed.pod.uid)
    plan = _plan(context, assumed)
    if plan.pre_bind:
        # PreBind may take minutes, and pods that want to be near this one may follow it now.
        context.wake((pod_placed(assumed.pod.on(assumed.node_name)),), now)
    return [Bind(assumed.pod, assumed.node_name, assumed.cycle, plan)]


def _plan(context: Context, assumed: AssumedPod) -> BindingPlan:
    """The profile's plan without the PreBind plugins that have nothing to do for the pod."""
    plan = assumed.profile.plan
    if not plan.pre_bind:
        return plan
    point = context.points[assumed.profile.name].pre_bind_pre_flight
    point.enter()
    busy = [plugin for plugin in plan.pre_bind if _has_work(context, assumed, plugin)]
    point.leave(SUCCESS if busy else _SKIP)
    return plan if len(busy) == len(plan.pre_bind) else BindingPlan(tuple(busy), plan.bind, plan.post_bind)


def _has_work(context: Context, assumed: AssumedPod, plugin: PreBindPlugin) -> bool:
    try:
        answer = call_plugin(
            plugin, _PRE_FLIGHT, plugin.pre_bind_pre_flight, assumed.cycle, assumed.pod, assumed.node_name
        )
    except PluginFailed as failed:
        # Better to ask it for nothing than to bind a pod whose volumes are not there.
        context.instrument.plugin_failed(failed.plugin, failed.point, failed.error)
        return True
    return answer is not SKIP


def handle_bound(context: Context, event: Bound) -> list[Command]:
    """The API server has the pod's node: tell its owner. The place is confirmed when the watch shows it."""
    assumed = context.assumed.get(event.uid)
    if assumed is None or assumed.stage is not _BINDING:
        return []
    assumed.stage = _BOUND
    if assumed.confirmed:
        del context.assumed[event.uid]
    else:
        context.unconfirmed.add(event.uid, event.at)
    queued, pod = assumed.queued, assumed.pod
    context.instrument.attempted(assumed.profile.name, "scheduled", assumed.cycle.now)
    started = queued.timestamp if queued.initial_attempt is None else queued.initial_attempt
    context.instrument.scheduled(queued.attempts, event.at - started, queued.flushed)
    note = f"Successfully assigned {pod.key} to {assumed.node_name}"
    return [Record(_NORMAL, "Scheduled", "Binding", note, pod)]


def look_up_unconfirmed(context: Context, now: float) -> list[Command]:
    """Have the pods looked up that should have been confirmed by now."""
    due = [context.assumed.get(uid) for uid in context.unconfirmed.take_due(now)]
    return [GetPod(assumed.pod) for assumed in due if assumed is not None]


def handle_looked_up(context: Context, uid: str, now: float) -> list[Command]:
    """The API server has shown the pod: if it has no node, its binding was never made, and the place is given back."""
    assumed = context.assumed.get(uid)
    if assumed is None or assumed.stage is not _BOUND or context.pods[uid].node_name:
        return []
    message = f"the binding to {assumed.node_name} was accepted but not made"
    return forget_and_requeue(context, assumed, Failure.error(message), now)


def handle_bind_failed(context: Context, event: BindFailed) -> list[Command]:
    """The binding cycle failed: give the place back and try again, unless the watch has shown the pod bound."""
    context.eviction_ended(event.uid, event.at)
    assumed = context.assumed.get(event.uid)
    if assumed is None or assumed.stage is not _BINDING:
        return []
    if assumed.confirmed:
        return handle_bound(context, Bound(event.at, event.uid))
    # No plugin is named as rejector: events were not kept while the pod was being bound, so none can be waited for, and
    # a pod whose binding fails again and again must sit out its whole backoff.
    refusal = Failure.rejected("", event.message) if event.rejected else Failure.error(event.message)
    return forget_and_requeue(context, assumed, refusal, event.at)


def forget_and_requeue(context: Context, assumed: AssumedPod, failure: Failure, now: float) -> list[Command]:
    """Free the place, put the pod back, and wake whoever the place may help: anyone but the pod itself."""
    release(context, assumed)
    commands = handle_scheduling_failure(context, assumed.queued, failure, now)
    uid = assumed.pod.uid
    context.place_freed(assumed.pod.on(assumed.node_name), now, only=lambda pod: pod.uid != uid)
    return commands


def release(context: Context, assumed: AssumedPod) -> None:
    """Undo what assuming did: all reservations in reverse order, then the place itself."""
    context.assumed.pop(assumed.pod.uid, None)
    context.unconfirmed.discard(assumed.pod.uid)
    context.handle.waiting.pop(assumed.pod.uid, None)
    if assumed.profile.reserve:
        point = context.points[assumed.profile.name].unreserve
        point.enter()
        _unreserve(context, assumed)
        point.leave()
    if not assumed.confirmed:
        context.state.remove(assumed.pod.uid)


def _unreserve(context: Context, assumed: AssumedPod) -> None:
    for plugin in reversed(assumed.profile.reserve):
        try:
            call_plugin(plugin, _UNRESERVE, plugin.unreserve, assumed.cycle, assumed.pod, assumed.node_name)
        except PluginFailed as failed:
            # A plugin's own books may now be wrong, but the place must be given back all the same.
            context.instrument.plugin_failed(failed.plugin, failed.point, failed.error)
