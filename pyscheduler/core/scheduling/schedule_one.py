"""One scheduling cycle, top down, from a popped pod to the start of its binding cycle: schedule_one.go.

    schedule_one
        schedule_pod                             select a node: schedule_pod.py
        repeat_fit_error, fail_siblings          instead, if another pod of the signature has just failed
        _run_post_filter                         if no node fits: run_post_filter_plugins_in_steps
            handle_fit_error                     evict victims, requeue the pod
        prepare_for_binding_cycle                if a node was selected
            assume
            run_reserve_plugins                  extension_points.py
            run_permit_plugins                   extension_points.py
            wait_on_permit or start_binding      permit.py, binding.py
        end_resize_attempt                       instead, if a pod on its node fits after its resize

It is one synchronous call, so the state cannot change during it; only a long PostFilter, or a preemption among groups,
pauses. Extenders are called by the variant in `core/extenders/schedule_one.py`.
"""

from __future__ import annotations

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.outcome import Code, Nominate, Wait
from pyscheduler.api.pod import Pod
from pyscheduler.api.preemption import PreemptionPlugin, found_placement
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.commands import Command, EventType, Record
from pyscheduler.core.context import AssumedPod, Context, SuspendedAttempt
from pyscheduler.core.framework.plugin_calls import call_guarded, call_plugin
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.framework.result_checks import check_result
from pyscheduler.core.instrument import SUCCESS
from pyscheduler.core.pod_groups.preemption import preempt_whole_groups
from pyscheduler.core.preemption.executor import prepare_candidate
from pyscheduler.core.queue.ordered import ActiveQueue
from pyscheduler.core.queue.queued_pod_group import QueuedPodGroup
from pyscheduler.core.scheduling.binding import assume, forget_and_requeue, forget_pod, start_binding
from pyscheduler.core.scheduling.extension_points import (
    PERMIT,
    PostFilterResult,
    PostFilterSteps,
    run_permit_plugins,
    run_post_filter_plugins_in_steps,
    run_reserve_plugins,
)
from pyscheduler.core.scheduling.failure import Failure
from pyscheduler.core.scheduling.failure_handler import handle_scheduling_failure, report_plugin_failure
from pyscheduler.core.scheduling.fit_errors import FitError, Key, Reasons
from pyscheduler.core.scheduling.permit import wait_on_permit
from pyscheduler.core.scheduling.profile_runtime import ProfileRuntime
from pyscheduler.core.scheduling.schedule_pod import NO_NODES, schedule_pod, start_cycle
from pyscheduler.core.scheduling.suspended_attempts import fail_broken_attempt, run_until_pause
from pyscheduler.core.state.node import NodeRow

MAX_SIBLINGS = 16
"""Pods that fail in one call like equal ones before them, at 10 to 20 µs each."""


def schedule_one(context: Context, queued: QueuedPod, now: float) -> list[Command]:
    """Attempt to schedule one popped pod and return the commands. A plugin that raises fails only the attempt."""
    pod = queued.pod
    skipped = skip_pod_schedule(context, pod)
    if skipped is not None:
        return skipped
    runtime = context.runtimes[pod.scheduler_name]
    # A fit error holds for pods without a node: these check the growth of one node's pod.
    fit_error = runtime.fit_errors.get(pod) if runtime.fit_errors.entries and not pod.node_name else None
    if fit_error is not None:
        return repeat_fit_error(context, queued, fit_error, now) + fail_siblings(context, now)
    cycle = start_cycle(context, queued, now)
    try:
        result = schedule_pod(runtime, cycle, pod)
    except PluginFailed as failed:
        return handle_plugin_failure(context, queued, failed, now)
    if isinstance(result, Diagnosis):
        steps = _run_post_filter(context, runtime, cycle, queued, result)
        return run_until_pause(context, SuspendedAttempt(queued, pod, steps))
    return prepare_for_binding_cycle(context, runtime, cycle, queued, result.node)


def skip_pod_schedule(context: Context, pod: Pod) -> list[Command] | None:
    """End the attempt of a pod that needs none and return the commands; None if it needs one."""
    if pod.deleting:
        context.queue.done(pod.uid)
        note = f"skip schedule deleting pod: {pod.key}"
        return [Record(EventType.WARNING, "FailedScheduling", "Scheduling", note, pod)]
    is_placed = context.state.node_of(pod.uid) is not None and not context.queues_resize(pod)
    if pod.uid in context.assumed or is_placed:
        context.queue.done(pod.uid)
        return []
    return None


# -- No node fits ----------------------------------------------------------------------------------------------------


def repeat_fit_error(context: Context, queued: QueuedPod, fit_error: FitError, now: float) -> list[Command]:
    """Let the attempt fail as that of another pod of the signature; it counts as an attempt of its own."""
    context.attempts += 1
    for point, status in fit_error.points:
        point.began = point.clock()
        point.leave(status)
    for _ in range(fit_error.preemptions):
        context.instrument.preemption_attempted()
    return handle_scheduling_failure(context, queued, fit_error.failure, now)


def fail_siblings(context: Context, now: float) -> list[Command]:
    """Let the next active pods fail too, up to MAX_SIBLINGS, as long as equal pods have failed in this state.

    The caller is `schedule_one`: nothing has to be done between such failures, since no plugin runs in them.
    """
    queue, commands = context.queue, list[Command]()
    active = queue.active
    if not isinstance(active, ActiveQueue) or context.groups.quota is not None:
        return commands  # a Quota plugin chooses the next pod
    for _ in range(MAX_SIBLINGS):
        head = active.first()
        fit_error = None if head is None else _known_fit_error(context, head)
        if fit_error is None or (queued := queue.pop(now)) is None:
            break
        queued.last_attempt = now
        try:
            commands += repeat_fit_error(context, queued, fit_error, now)
        except BaseException as error:
            commands += fail_broken_attempt(context, queued, error, now)
    return commands


def _known_fit_error(context: Context, queued: QueuedPod) -> FitError | None:
    """Return the fit error that an attempt of an active pod would end with; None if it has to be made."""
    pod = queued.pod
    is_placed = pod.uid in context.assumed or context.state.node_of(pod.uid) is not None
    if isinstance(queued, QueuedPodGroup) or pod.deleting or is_placed:
        return None
    runtime = context.runtimes.get(pod.scheduler_name)
    return None if runtime is None else runtime.fit_errors.get(pod)


def _run_post_filter(
    context: Context, runtime: ProfileRuntime, cycle: Cycle, queued: QueuedPod, diagnosis: Diagnosis
) -> PostFilterSteps[list[Command]]:
    """Run PostFilter for a pod that fits no node, and requeue it; yields at each pause."""
    result, pod, profile = PostFilterResult(), queued.pod, runtime.profile
    key = runtime.fit_errors.key_of(pod) if diagnosis.total_nodes and not cycle.is_resize else None
    try:
        if diagnosis.total_nodes:
            plugins = profile.post_filter
            result = yield from run_post_filter_plugins_in_steps(plugins, cycle, pod, diagnosis, context.instrument)
        if key is not None and result.code is Code.UNSCHEDULABLE:
            fit_error = _fit_error(runtime, key, diagnosis, result)
            runtime.fit_errors.store(key, fit_error)
            return handle_scheduling_failure(context, queued, fit_error.failure, cycle.now)
        return (yield from handle_fit_error(context, profile, cycle, queued, diagnosis, result))
    except PluginFailed as failed:
        return handle_plugin_failure(context, queued, failed, cycle.now)


def _fit_error(runtime: ProfileRuntime, key: Key, diagnosis: Diagnosis, result: PostFilterResult) -> FitError:
    reasons = Reasons.of(diagnosis, result)
    last = runtime.fit_errors.last(key, reasons)
    if last is not None:
        return last
    diagnosis.post_filter_message = result.message
    plugins, points, rejected = runtime.profile.post_filter, runtime.points, Code.UNSCHEDULABLE.camel
    ran = ((points.pre_filter, SUCCESS), (points.filter, rejected), (points.post_filter, rejected))
    preemptions = sum(isinstance(plugin, PreemptionPlugin) for plugin in plugins)
    failure = Failure.fit_error(diagnosis, result.nominate)
    return FitError(failure, ran if plugins else ran[:2], preemptions, reasons)


def handle_fit_error(
    context: Context, profile: Profile, cycle: Cycle, queued: QueuedPod, diagnosis: Diagnosis, result: PostFilterResult
) -> PostFilterSteps[list[Command]]:
    """Requeue the pod, and evict the victims that PostFilter chose unless a Permit plugin rejects that."""
    now = cycle.now
    if not diagnosis.total_nodes:
        # Reported as unschedulable, but backs off like an error: no plugin rejected it, so no hint could requeue it.
        return handle_scheduling_failure(context, queued, Failure(NO_NODES.message, nominate=""), now)
    diagnosis.post_filter_message = result.message
    previous = context.queue.nominator.nominated_node(queued.pod)
    if _reject_eviction(profile, cycle, queued.pod, diagnosis, result, previous):
        failure = Failure.fit_error(diagnosis, result.nominate, in_memory=result.nominate != "")
        return handle_scheduling_failure(context, queued, failure, now)
    # Before the pod is requeued: it must not become active while its victims are still to be evicted.
    evictions: list[Command] = []
    nominate = result.nominate
    if result.evict:
        preemption = yield from preempt_whole_groups(context, queued, nominate or "", result.evict, now)
        nominate = "" if preemption is None else preemption.nodes[queued.pod.uid]
        evicted = 0 if preemption is None else sum(map(len, preemption.victims.values()))
        if (nominate, evicted) != (result.nominate, len(result.evict)):  # pods of groups are evicted together
            diagnosis.post_filter_message = found_placement(nominate, evicted) if nominate else ""
        for name, victims in preemption.victims.items() if preemption is not None else ():
            evictions += prepare_candidate(context, queued.pod, name, victims, result.plugin, now)
    return handle_scheduling_failure(context, queued, Failure.fit_error(diagnosis, nominate), now) + evictions


def _reject_eviction(
    profile: Profile, cycle: Cycle, pod: Pod, diagnosis: Diagnosis, result: PostFilterResult, previous: str
) -> bool:
    """Return True if a Permit plugin rejects evictions now; its reason goes into the diagnosis.

    `previous` is the pod's nominated node before the attempt, which PostFilter may leave unchanged.
    """
    node = previous if result.nominate is None else result.nominate
    nominated = Nominate(node, result.evict) if node else None
    rejected = False
    for plugin in profile.eviction_permits:
        rejection = call_plugin(plugin, PERMIT, plugin.handle_unschedulable, cycle, pod, diagnosis, nominated)
        call_guarded(
            plugin.name, PERMIT, check_result, "HandleUnschedulable", plugin.handle_unschedulable, rejection
        )  # unlike Permit, this must not return Wait
        if rejection is not None:
            diagnosis.unschedulable_plugins |= {plugin.name}
            # Not the placement that preemption has found: nothing is evicted for it.
            earlier = "" if result.code is Code.SUCCESS and not rejected else diagnosis.post_filter_message
            diagnosis.post_filter_message = ", ".join(filter(None, (earlier, rejection.message)))
            rejected = True
    return rejected


def handle_plugin_failure(context: Context, queued: QueuedPod, failed: PluginFailed, now: float) -> list[Command]:
    """Report a plugin that raised, and requeue the pod."""
    report_plugin_failure(context, failed)
    return handle_scheduling_failure(context, queued, Failure.of_plugin(failed), now)


# -- A node is selected ----------------------------------------------------------------------------------------------


def prepare_for_binding_cycle(
    context: Context, runtime: ProfileRuntime, cycle: Cycle, queued: QueuedPod, node: NodeRow
) -> list[Command]:
    """Assume the pod on its node, then run Reserve and Permit; a rejection or an error forgets the pod again."""
    if cycle.is_resize:
        return end_resize_attempt(context, runtime, cycle, queued, node)
    pod, now, profile, points = queued.pod, cycle.now, runtime.profile, runtime.points
    was_nominated = context.queue.nominator.node_of.get(pod.uid) == node.name
    assumed = AssumedPod(queued, pod, node.name, cycle, profile, points)
    assume(context, assumed)
    failure: Failure | None = None
    waits: dict[str, Wait] = {}
    try:
        rejection = run_reserve_plugins(profile.reserve, cycle, pod, node, points.reserve)
        if rejection is None and profile.permit:
            rejection, waits = run_permit_plugins(profile.permit, cycle, pod, node, points.permit)
        if rejection is not None:
            failure = Failure.rejected(rejection.plugin, rejection.message, rejection.code is Code.PENDING)
    except PluginFailed as failed:
        points.fail()
        report_plugin_failure(context, failed)
        failure = Failure.of_plugin(failed)
    if failure is None:
        return wait_on_permit(context, assumed, waits, now) if waits else start_binding(context, assumed, now)
    if was_nominated:
        return forget_and_requeue(context, assumed, failure, now)
    # No other pods are woken: before the attempt the node was as free as it is again.
    forget_pod(context, assumed)
    return handle_scheduling_failure(context, queued, failure, now)


# -- The pod has its node --------------------------------------------------------------------------------------------


def end_resize_attempt(
    context: Context, runtime: ProfileRuntime, cycle: Cycle, queued: QueuedPod, node: NodeRow
) -> list[Command]:
    """Run Permit for a resize that fits and requeue the pod: it is counted and bound, the rest is the kubelet's.

    kube-scheduler 1.37 does not reach Permit here: it fails to assume a pod that is in its cache, and tries again after
    the error backoff, until the kubelet has made the resize.
    """
    profile, points = runtime.profile, runtime.points
    failure = Failure.error(f"the resize of pod {queued.pod.key} fits, but no Permit plugin waits for the kubelet")
    try:
        rejection, _ = run_permit_plugins(profile.permit, cycle, queued.pod, node, points.permit)
        if rejection is not None:
            failure = Failure.rejected(rejection.plugin, rejection.message, rejection.code is Code.PENDING)
    except PluginFailed as failed:
        points.fail()
        return handle_plugin_failure(context, queued, failed, cycle.now)
    return handle_scheduling_failure(context, queued, failure, cycle.now)
