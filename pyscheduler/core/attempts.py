"""One scheduling attempt: pop a pod, choose its node, take the place, ask Reserve and Permit.

This is kube-scheduler's ScheduleOne up to the point where binding starts; it is one synchronous call, so nothing it
looks at can change under it.
"""

from __future__ import annotations

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.outcome import Code, Nominate, Rejection, Wait
from pyscheduler.api.plugin import PostFilterPlugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.binding import park, release, start_binding
from pyscheduler.core.commands import Command
from pyscheduler.core.context import Assumed, Context
from pyscheduler.core.decide.decider import NO_NODES
from pyscheduler.core.failures import Failure, fail, skipped
from pyscheduler.core.framework.failure import PluginFailed
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.state.node import NodeRow


def attempt(context: Context, queued: QueuedPod, now: float) -> list[Command]:
    """Try to place one popped pod; what is to be done about it. Never raises for a plugin's fault."""
    pod = queued.pod
    if pod.deleting:
        context.queue.done(pod.uid)
        return skipped(pod)
    if pod.uid in context.assumed or context.state.node_of(pod.uid) is not None:
        context.queue.done(pod.uid)
        return []
    profile = context.profiles[pod.scheduler_name]
    cycle = Cycle(now, profile.name, pod.uid, queued.attempts, context.settings.seed)
    try:
        choice = context.deciders[profile.name].decide(cycle, pod)
        if isinstance(choice, Diagnosis):
            failure = _no_node(profile, cycle, pod, choice)
            return fail(context, queued, failure, now)
    except PluginFailed as failed:
        context.instrument.plugin_failed(failed.plugin, failed.point, failed.error)
        return fail(context, queued, Failure.error(str(failed)), now)
    return _take_place(context, Assumed(queued, pod, choice.node.name, cycle, profile), choice.node, now)


def broken(context: Context, queued: QueuedPod, error: Exception, now: float) -> list[Command]:
    """An attempt ended in a bug of ours: it costs its pod one backoff, and nobody else the scheduler."""
    context.instrument.plugin_failed("pyscheduler", "attempt", error)
    assumed = context.assumed.get(queued.pod.uid)
    if assumed is not None:
        release(context, assumed)
    return fail(context, queued, Failure.error(f"the attempt failed: {error!r}"), now)


def _no_node(profile: Profile, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> Failure:
    if not diagnosis.total_nodes:
        # It is reported as unschedulable but waits like an error: no plugin could name an event that helps.
        return Failure(NO_NODES.message, nominate="")
    nominate = None
    reasons: list[str] = []
    for plugin in profile.post_filter:
        answer = _post_filter(plugin, cycle, pod, diagnosis)
        if isinstance(answer, Nominate):
            nominate = answer.node_name
            reasons = []
            break
        reasons.extend(answer.reasons)
        if not answer.resolvable:
            break
    diagnosis.post_filter_message = ", ".join(reasons)
    return Failure.unfit(diagnosis, nominate)


def _post_filter(plugin: PostFilterPlugin, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> Nominate | Rejection:
    try:
        return plugin.post_filter(cycle, pod, diagnosis)
    except Exception as error:
        raise PluginFailed(plugin.name, "PostFilter", error) from error


def _take_place(context: Context, assumed: Assumed, node: NodeRow, now: float) -> list[Command]:
    """Assume the pod on its node, then Reserve and Permit; whatever says no gives the place back."""
    uid = assumed.pod.uid
    context.state.place(assumed.pod, node.name)
    context.queue.nominator.remove(uid)
    context.assumed[uid] = assumed
    try:
        refusal = _reserve(assumed, node)
        waits: dict[str, Wait] = {}
        if refusal is None:
            refusal = _permit(assumed, node, waits)
    except PluginFailed as failed:
        context.instrument.plugin_failed(failed.plugin, failed.point, failed.error)
        release(context, assumed)
        return fail(context, assumed.queued, Failure.error(str(failed)), now)
    if refusal is not None:
        plugin, rejection = refusal
        release(context, assumed)
        pending = rejection.code is Code.PENDING
        return fail(context, assumed.queued, Failure.refused(plugin, rejection.message, pending), now)
    if waits:
        park(context, assumed, waits, now)
        return []
    return start_binding(context, assumed)


def _reserve(assumed: Assumed, node: NodeRow) -> tuple[str, Rejection] | None:
    for plugin in assumed.profile.reserve:
        try:
            rejection = plugin.reserve(assumed.cycle, assumed.pod, node)
        except Exception as error:
            raise PluginFailed(plugin.name, "Reserve", error) from error
        if rejection is not None:
            return plugin.name, rejection
    return None


def _permit(assumed: Assumed, node: NodeRow, waits: dict[str, Wait]) -> tuple[str, Rejection] | None:
    """Ask every Permit plugin; the first rejection counts, those that want to wait are gathered in `waits`."""
    for plugin in assumed.profile.permit:
        try:
            answer = plugin.permit(assumed.cycle, assumed.pod, node)
        except Exception as error:
            raise PluginFailed(plugin.name, "Permit", error) from error
        if isinstance(answer, Rejection):
            return plugin.name, answer
        if answer is not None:
            waits[plugin.name] = answer
    return None
