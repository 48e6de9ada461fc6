"""Start of the binding cycle of an assumed pod, handling of its outcome, and forgetting of assumed pods.

The binding cycle itself runs in the shell; this module updates the queue and the state when it starts and ends.
"""

from __future__ import annotations

from pyscheduler.api.outcome import SKIP, Code
from pyscheduler.core.changes import pod_placed
from pyscheduler.core.commands import Bind, BindingPlan, Command, EventType, GetPod, Record
from pyscheduler.core.context import AssumedPod, Context
from pyscheduler.core.events import BindFailed, Bound
from pyscheduler.core.framework.plugin_calls import call_plugin
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.instrument import SUCCESS
from pyscheduler.core.pod_groups.refused_binding import give_back_room, hold_room
from pyscheduler.core.scheduling.failure import Failure
from pyscheduler.core.scheduling.failure_handler import handle_scheduling_failure
from pyscheduler.core.scheduling.pod_stages import Stage

# Looking up an enum member costs more than the assignment it is used in, and this runs for every pod.
_BINDING, _BOUND, _NORMAL = Stage.BINDING, Stage.BOUND, EventType.NORMAL
_PRE_FLIGHT, _UNRESERVE, _SKIP = "PreBindPreFlight", "Unreserve", Code.SKIP.camel


def start_binding(context: Context, assumed: AssumedPod, now: float) -> list[Command]:
    """Return the Bind command for an assumed pod, which is no longer in flight for the queue."""
    assumed.stage = _BINDING
    context.queue.done(assumed.pod.uid)
    plan = assumed.profile.plan
    if plan.pre_bind:
        plan = run_pre_bind_pre_flights(context, assumed)
    if plan.pre_bind:
        # PreBind may take minutes; pods with affinity to this one need not wait for its end.
        context.wake((pod_placed(assumed.pod.on(assumed.node_name)),), now)
    return [Bind(assumed.pod, assumed.node_name, assumed.cycle, plan)]


def run_pre_bind_pre_flights(context: Context, assumed: AssumedPod) -> BindingPlan:
    """Return the profile's binding plan without the PreBind plugins that skip the pod."""
    plan, cycle, pod, node_name = assumed.profile.plan, assumed.cycle, assumed.pod, assumed.node_name
    point, needed = assumed.points.pre_bind_pre_flight, []
    point.began, skipped = point.clock(), () if cycle.call_observer is not None else cycle.skipped
    for plugin in plan.pre_bind:
        if plugin.name in skipped and plugin.skip_includes_reserve:
            continue
        try:
            result = call_plugin(plugin, _PRE_FLIGHT, plugin.pre_bind_pre_flight, cycle, pod, node_name)
        except PluginFailed as failed:
            # A needless PreBind call is harmless; without a needed one the pod is bound before its volumes are.
            failed.report_to(context.instrument)
            result = None
        if result is not SKIP:
            needed.append(plugin)
    point.leave(SUCCESS if needed else _SKIP)
    return plan if len(needed) == len(plan.pre_bind) else BindingPlan(tuple(needed), plan.bind, plan.post_bind)


def handle_bound(context: Context, event: Bound) -> list[Command]:
    """Record the Scheduled event of a pod with an accepted binding; it stays assumed until the watch confirms it."""
    assumed = context.assumed.get(event.uid)
    if assumed is None or assumed.stage is not _BINDING:
        return []
    assumed.stage = _BOUND
    if context.groups.is_enabled:
        context.groups.binding_ended(event.uid)
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
    """Return a GetPod command for each bound pod that the watch has not confirmed in time."""
    due = [context.assumed.get(uid) for uid in context.unconfirmed.take_due(now)]
    return [GetPod(assumed.pod) for assumed in due if assumed is not None]


def handle_looked_up(context: Context, uid: str, now: float) -> list[Command]:
    """Forget and requeue a pod that a read from the API server returned without a node: its binding was lost."""
    assumed = context.assumed.get(uid)
    if assumed is None or assumed.stage is not _BOUND or context.pods[uid].node_name:
        return []
    message = f"the API server accepted the binding to {assumed.node_name}, but the pod is not bound"
    return forget_and_requeue(context, assumed, Failure.error(message), now)


def handle_bind_failed(context: Context, event: BindFailed) -> list[Command]:
    """Forget and requeue a pod with a failed binding cycle, unless the watch has shown it bound."""
    context.eviction_ended(event.uid, event.at)
    assumed = context.assumed.get(event.uid)
    if assumed is None or assumed.stage is not _BINDING:
        return []
    if assumed.confirmed:
        return handle_bound(context, Bound(event.at, event.uid))
    # No plugin is recorded as rejector: events were not recorded for the pod during binding, so none may be waited for,
    # and a pod that fails repeatedly in binding must wait for its whole backoff.
    failure = Failure.rejected("", event.message) if event.rejected else Failure.error(event.message)
    forget_pod(context, assumed)
    commands = _requeue(context, assumed, hold_room(context, assumed, failure), event.at)
    return commands + give_back_room(context, assumed.pod, assumed.queued.error_count, event.message, event.at)


def forget_and_requeue(context: Context, assumed: AssumedPod, failure: Failure, now: float) -> list[Command]:
    """Forget the assumed pod, requeue it, and wake the other pods that its freed resources may help."""
    forget_pod(context, assumed)
    return _requeue(context, assumed, failure, now)


def _requeue(context: Context, assumed: AssumedPod, failure: Failure, now: float) -> list[Command]:
    commands = handle_scheduling_failure(context, assumed.queued, failure, now)
    uid = assumed.pod.uid
    context.place_freed(assumed.pod.on(assumed.node_name), now, only=lambda queued: queued.pod.uid != uid)
    return commands


def assume(context: Context, assumed: AssumedPod) -> None:
    """Count the pod on its node in memory, which also ends its nomination."""
    pod, node_name, nominator = assumed.pod, assumed.node_name, context.queue.nominator
    context.state.place(pod, node_name)
    if nominator.node_of or nominator.ended:
        nominator.remove(pod.uid, placed_on=node_name)
    context.assumed[pod.uid] = assumed
    if context.groups.quota is not None:
        context.reservations.times.add(pod, assumed.cycle.now)


def forget_pod(context: Context, assumed: AssumedPod) -> None:
    """Run Unreserve in reverse order, then remove the assumed pod from its node (kube-scheduler's ForgetPod)."""
    context.assumed.pop(assumed.pod.uid, None)
    context.unconfirmed.discard(assumed.pod.uid)
    context.handle.waiting_pods.by_uid.pop(assumed.pod.uid, None)
    if assumed.profile.reserve:
        point = assumed.points.unreserve
        point.began = point.clock()
        for plugin in reversed(assumed.profile.reserve):
            try:
                call_plugin(plugin, _UNRESERVE, plugin.unreserve, assumed.cycle, assumed.pod, assumed.node_name)
            except PluginFailed as failed:
                # The plugin's own bookkeeping may now be wrong, but the pod must still be removed from its node.
                failed.report_to(context.instrument)
        point.leave()
    if not assumed.confirmed:
        context.state.remove(assumed.pod.uid)
        context.groups.displace(assumed.pod.uid)
        context.reservations.times.remove(assumed.pod.uid)
