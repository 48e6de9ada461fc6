"""One scheduling attempt: choose a node for a popped pod, assume it, and run Reserve and Permit.

This is kube-scheduler's ScheduleOne up to the start of the binding cycle, as one synchronous call, so the state cannot
change during it. Two kinds of attempts run in steps, and no other attempt runs between these, as kube-scheduler's
next cycle waits for the previous one. While extender calls are pending, events are handled, and the results are checked
against the state at their arrival. A long PostFilter pauses so that the thread can handle events; an event during a
pause invalidates the attempt, which starts over.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyscheduler.api.cycle import AttemptLimitExceeded, Cycle
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.outcome import Code, Nominate, Rejection, Wait
from pyscheduler.api.pod import Pod
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.commands import CallExtenders, Command
from pyscheduler.core.context import AssumedPod, Context, SuspendedAttempt
from pyscheduler.core.events import ExtendersResponded
from pyscheduler.core.extenders.calls import ExtenderSession, ExtenderSteps
from pyscheduler.core.extenders.extender import Extender, ExtenderFailed
from pyscheduler.core.extenders.preemption import run_post_filter_with_extenders
from pyscheduler.core.framework.plugin_calls import call_guarded, call_plugin
from pyscheduler.core.framework.plugin_failure import PluginFailed, is_external
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.framework.result_checks import check_result
from pyscheduler.core.instrument import SUCCESS, Point
from pyscheduler.core.preemption.executor import prepare_candidate
from pyscheduler.core.scheduling.binding import forget_and_requeue, release, start_binding
from pyscheduler.core.scheduling.decider import NO_NODES
from pyscheduler.core.scheduling.failure_handler import Failure, handle_scheduling_failure, report_skipped
from pyscheduler.core.scheduling.permit import PERMIT, wait_on_permit
from pyscheduler.core.scheduling.postfilter import PostFilterResult, PostFilterSteps, post_filter_steps
from pyscheduler.core.state.node import NodeRow


def schedule_one(context: Context, queued: QueuedPod, now: float) -> list[Command]:
    """Attempt to schedule one popped pod and return the commands. A plugin that raises fails only the attempt."""
    pod = queued.pod
    if pod.deleting:
        context.queue.done(pod.uid)
        return report_skipped(pod)
    if pod.uid in context.assumed or context.state.node_of(pod.uid) is not None:
        context.queue.done(pod.uid)
        return []
    profile = context.profiles[pod.scheduler_name]
    if context.settings.extenders:
        extenders = [extender for extender in context.settings.extenders if extender.is_interested(pod)]
        if extenders:
            return _advance(
                context,
                SuspendedAttempt(queued, pod, _schedule_with_extenders(context, profile, queued, extenders, now)),
            )
    cycle = Cycle(now, profile.name, pod.uid, queued.attempts, context.settings.seed)
    context.attempts += 1
    cycle.call_observer = context.instrument.call_observer(context.attempts)
    if pod.is_large:
        cycle.limit_time(context.instrument.timer)
    try:
        choice = context.deciders[profile.name].decide(cycle, pod)
    except PluginFailed as failed:
        _report(context, failed)
        return handle_scheduling_failure(context, queued, Failure.of_plugin(failed), now)
    if isinstance(choice, Diagnosis):
        return _advance(
            context, SuspendedAttempt(queued, pod, _run_post_filter(context, profile, cycle, queued, choice))
        )
    assumed = AssumedPod(queued, pod, choice.node.name, cycle, profile)
    return _assume_and_reserve(context, assumed, choice.node, now)


def resume_with_responses(context: Context, event: ExtendersResponded) -> list[Command]:
    """Resume the attempt with extender results; late ones, or those for an outdated version of the pod, are ignored."""
    suspended = context.suspended
    if suspended is None or suspended.id != event.id or not _is_current(context, suspended):
        return []
    try:
        return _advance(context, suspended, event)
    except BaseException as error:
        return fail_broken_attempt(context, suspended.queued, error, event.at)


def resume(context: Context, suspended: SuspendedAttempt, now: float) -> list[Command]:
    """Resume a paused attempt that no event has invalidated."""
    try:
        return _advance(context, suspended)
    except BaseException as error:
        return fail_broken_attempt(context, suspended.queued, error, now)


def discard_stale_attempt(context: Context, now: float) -> QueuedPod | None:
    """Return the pod to attempt next if the suspended attempt is stale; None if it is current.

    The same pod starts over if it has changed, is terminating, or the configuration is new. If it was deleted or is no
    longer ours, the next pod is popped.
    """
    suspended = context.suspended
    if suspended is None or _is_current(context, suspended):
        return None
    context.suspended = None
    suspended.steps.close()
    pod = context.pods.get(suspended.pod.uid)
    if pod is None or not context.is_responsible_for(pod):
        context.queue.nominator.remove(suspended.pod.uid)
        context.queue.done(suspended.pod.uid)
        return context.queue.pop(now)
    suspended.queued.pod = pod
    return suspended.queued


def _is_current(context: Context, suspended: SuspendedAttempt) -> bool:
    """Return True if the attempt is not invalidated and its pod is unchanged and still to be scheduled."""
    pod = context.pods.get(suspended.pod.uid)
    if pod is None or suspended.outdated:
        return False
    return pod.signature.id == suspended.pod.signature.id and not pod.deleting and not pod.node_name


def _advance(context: Context, suspended: SuspendedAttempt, event: ExtendersResponded | None = None) -> list[Command]:
    """Run an attempt up to its next extender calls or pause, or to its end."""
    context.suspended = None
    try:
        calls = next(suspended.steps) if event is None else suspended.steps.send(event)
    except StopIteration as end:
        commands: list[Command] = end.value
        return commands
    context.suspended = suspended
    suspended.paused = calls is None
    if calls is None:
        return []
    context.extender_rounds += 1
    suspended.id = context.extender_rounds
    return [CallExtenders(suspended.id, suspended.pod, calls)]


def _schedule_with_extenders(
    context: Context, profile: Profile, queued: QueuedPod, extenders: Sequence[Extender], now: float
) -> ExtenderSteps[list[Command]]:
    """Run an attempt with extenders; yields their calls."""
    pod = queued.pod
    context.attempts += 1
    watch = context.instrument.call_observer(context.attempts)

    def begin(at: float) -> Cycle:
        cycle = Cycle(at, profile.name, pod.uid, queued.attempts, context.settings.seed)
        cycle.call_observer = watch
        if pod.is_large:
            cycle.limit_time(context.instrument.timer)
        return cycle

    session = ExtenderSession(pod, extenders, begin, now)
    try:
        choice = yield from context.extender_deciders[profile.name].decide_with_extenders(session)
        if isinstance(choice, Diagnosis):
            outcome = PostFilterResult()
            if choice.total_nodes:
                outcome = yield from run_post_filter_with_extenders(
                    session, profile, choice, context.state, context.instrument
                )
            return _handle_fit_error(context, profile, session.cycle, queued, choice, outcome)
    except PluginFailed as failed:
        _report(context, failed)
        return handle_scheduling_failure(context, queued, Failure.of_plugin(failed), session.now)
    except ExtenderFailed as failed:
        return handle_scheduling_failure(context, queued, Failure.error(str(failed)), session.now)
    return _assume_and_reserve(
        context, AssumedPod(queued, pod, choice.node.name, session.cycle, profile), choice.node, session.now
    )


def _report(context: Context, failed: PluginFailed) -> None:
    """Report a plugin that raised, unless the pod exceeded the limits of an attempt."""
    if not isinstance(failed.error, AttemptLimitExceeded):
        context.instrument.plugin_failed(failed.plugin, failed.point, failed.error)


def fail_broken_attempt(context: Context, queued: QueuedPod, error: BaseException, now: float) -> list[Command]:
    """Requeue the pod of an attempt that raised because of a bug in the scheduler; reraises external exceptions."""
    if is_external(error):
        raise error
    context.instrument.plugin_failed("pyscheduler", "attempt", error)
    assumed = context.assumed.get(queued.pod.uid)
    if assumed is not None:
        release(context, assumed)
    return handle_scheduling_failure(context, queued, Failure.error(f"the attempt failed: {error!r}"), now)


def _run_post_filter(
    context: Context, profile: Profile, cycle: Cycle, queued: QueuedPod, diagnosis: Diagnosis
) -> PostFilterSteps[list[Command]]:
    """Run PostFilter for a pod that fits no node, and requeue it; yields at each pause."""
    outcome = PostFilterResult()
    try:
        if diagnosis.total_nodes:
            plugins = profile.post_filter
            outcome = yield from post_filter_steps(plugins, cycle, queued.pod, diagnosis, context.instrument)
        return _handle_fit_error(context, profile, cycle, queued, diagnosis, outcome)
    except PluginFailed as failed:
        _report(context, failed)
        return handle_scheduling_failure(context, queued, Failure.of_plugin(failed), cycle.now)


def _handle_fit_error(
    context: Context, profile: Profile, cycle: Cycle, queued: QueuedPod, diagnosis: Diagnosis, outcome: PostFilterResult
) -> list[Command]:
    """Requeue the pod, and evict the victims that PostFilter chose unless a Permit plugin rejects that."""
    now = cycle.now
    if not diagnosis.total_nodes:
        # Reported as unschedulable, but backs off like an error: no plugin rejected it, so no hint could requeue it.
        return handle_scheduling_failure(context, queued, Failure(NO_NODES.message, nominate=""), now)
    diagnosis.post_filter_message = outcome.message
    previous = context.queue.nominator.nominated_node(queued.pod)
    if _reject_eviction(profile, cycle, queued.pod, diagnosis, outcome, previous):
        failure = Failure.fit_error(diagnosis, outcome.nominate, in_memory=outcome.nominate != "")
        return handle_scheduling_failure(context, queued, failure, now)
    # Before the pod is requeued: it must not become active while its victims are still to be evicted.
    evictions = prepare_candidate(context, queued.pod, outcome.nominate or "", outcome.evict, outcome.plugin, now)
    return handle_scheduling_failure(context, queued, Failure.fit_error(diagnosis, outcome.nominate), now) + evictions


def _reject_eviction(
    profile: Profile, cycle: Cycle, pod: Pod, diagnosis: Diagnosis, outcome: PostFilterResult, previous: str
) -> bool:
    """Return True if a Permit plugin rejects evictions now; its reason goes into the diagnosis.

    `previous` is the pod's nominated node before the attempt, which PostFilter may leave unchanged.
    """
    node = previous if outcome.nominate is None else outcome.nominate
    nominated = Nominate(node, outcome.evict) if node else None
    rejected = False
    for plugin in profile.eviction_permits:
        rejection = call_plugin(plugin, PERMIT, plugin.handle_unschedulable, cycle, pod, diagnosis, nominated)
        call_guarded(
            plugin.name, PERMIT, check_result, "HandleUnschedulable", plugin.handle_unschedulable, rejection
        )  # unlike Permit, this must not return Wait
        if rejection is not None:
            rejected = True
            diagnosis.unschedulable_plugins |= {plugin.name}
            diagnosis.post_filter_message = ", ".join(filter(None, (diagnosis.post_filter_message, rejection.message)))
    return rejected


def _assume_and_reserve(context: Context, assumed: AssumedPod, node: NodeRow, now: float) -> list[Command]:
    """Assume the pod on its node, then run Reserve and Permit; a rejection or an error forgets the pod again."""
    uid = assumed.pod.uid
    context.state.place(assumed.pod, node.name)
    was_nominated = context.queue.nominator.node_of(uid) == node.name
    context.queue.nominator.remove(uid, placed_on=node.name)
    context.assumed[uid] = assumed
    points = context.points[assumed.profile.name]
    try:
        rejected = _reserve(assumed, node, points.reserve)
        waits: dict[str, Wait] = {}
        if rejected is None:
            rejected = _permit(assumed, node, waits, points.permit)
    except PluginFailed as failed:
        points.reserve.fail()
        points.permit.fail()
        _report(context, failed)
        return _forget_and_fail(context, assumed, Failure.of_plugin(failed), was_nominated, now)
    if rejected is not None:
        plugin, rejection = rejected
        failure = Failure.rejected(plugin, rejection.message, rejection.code is Code.PENDING)
        return _forget_and_fail(context, assumed, failure, was_nominated, now)
    if waits:
        return wait_on_permit(context, assumed, waits, now)
    return start_binding(context, assumed, now)


def _forget_and_fail(
    context: Context, assumed: AssumedPod, failure: Failure, was_nominated: bool, now: float
) -> list[Command]:
    """Forget the pod and requeue it. Other pods are woken only if the node was held for it by a nomination before."""
    if was_nominated:
        return forget_and_requeue(context, assumed, failure, now)
    release(context, assumed)
    return handle_scheduling_failure(context, assumed.queued, failure, now)


def _reserve(assumed: AssumedPod, node: NodeRow, point: Point) -> tuple[str, Rejection] | None:
    """Run the Reserve plugins up to the first rejection and return that; without plugins no point is counted."""
    if not assumed.profile.reserve:
        return None
    cycle, pod = assumed.cycle, assumed.pod
    point.enter()
    for plugin in assumed.profile.reserve:
        rejection = call_plugin(plugin, "Reserve", plugin.reserve, cycle, pod, node)
        if rejection is not None:
            point.leave(rejection.code.camel)
            return plugin.name, rejection
    point.leave()
    return None


def _permit(assumed: AssumedPod, node: NodeRow, waits: dict[str, Wait], point: Point) -> tuple[str, Rejection] | None:
    """Run the Permit plugins up to the first rejection and return that; their Wait results are added to `waits`."""
    if not assumed.profile.permit:
        return None
    cycle, pod = assumed.cycle, assumed.pod
    point.enter()
    for plugin in assumed.profile.permit:
        result = call_plugin(plugin, "Permit", plugin.permit, cycle, pod, node)
        if isinstance(result, Rejection):
            point.leave(result.code.camel)
            return plugin.name, result
        if result is not None:
            waits[plugin.name] = result
    point.leave(Code.WAIT.camel if waits else SUCCESS)
    return None
