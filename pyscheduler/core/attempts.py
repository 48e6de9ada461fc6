"""One scheduling attempt: pop a pod, choose its node, take the place, ask Reserve and Permit.

This is kube-scheduler's ScheduleOne up to the point where binding starts; it is one synchronous call, so nothing it
looks at can change under it. Two kinds of attempts are made in steps, and no other attempt is made between them, as
kube-scheduler's next cycle waits for the one before. While extenders think, events are handled, and the answers are
checked against what there is then. A PostFilter that takes long pauses so that the thread is free in between: an event
that comes then voids the attempt, which is made anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyscheduler.api.cycle import Cycle, TooExpensive
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.outcome import Code, Nominate, Rejection, Wait
from pyscheduler.api.pod import Pod
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.binding import give_back, release, start_binding
from pyscheduler.core.commands import Command, Consult
from pyscheduler.core.context import Assumed, Consulting, Context
from pyscheduler.core.decide.decider import NO_NODES
from pyscheduler.core.decide.postfilter import PostFiltered, PostFilterSteps, post_filter_steps
from pyscheduler.core.decide.talk import Steps, Talk
from pyscheduler.core.decide.trimming import consulted_post_filter
from pyscheduler.core.events import Consulted
from pyscheduler.core.extending import Extender, ExtenderFailed
from pyscheduler.core.failures import Failure, fail, skipped
from pyscheduler.core.framework.answers import check_answer
from pyscheduler.core.framework.calls import called, guarded
from pyscheduler.core.framework.failure import PluginFailed, is_external
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.instrument import SUCCESS, Point
from pyscheduler.core.preempting import make_room
from pyscheduler.core.state.node import NodeRow
from pyscheduler.core.waiting import PERMIT, park


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
    if context.settings.extenders:
        extenders = [extender for extender in context.settings.extenders if extender.is_interested(pod)]
        if extenders:
            return _advance(context, Consulting(queued, pod, _in_steps(context, profile, queued, extenders, now)))
    cycle = Cycle(now, profile.name, pod.uid, queued.attempts, context.settings.seed)
    context.attempts += 1
    cycle.watch = context.instrument.watch(context.attempts)
    if pod.is_large:
        cycle.limit_time(context.instrument.timer)
    try:
        choice = context.deciders[profile.name].decide(cycle, pod)
    except PluginFailed as failed:
        _report(context, failed)
        return fail(context, queued, Failure.of_plugin(failed), now)
    if isinstance(choice, Diagnosis):
        return _advance(context, Consulting(queued, pod, _no_node(context, profile, cycle, queued, choice)))
    assumed = Assumed(queued, pod, choice.node.name, cycle, profile)
    return _take_place(context, assumed, choice.node, now)


def consulted(context: Context, event: Consulted) -> list[Command]:
    """Extenders have answered: go on with the attempt. An answer that is late, or about a pod that was, is ignored."""
    consulting = context.consulting
    if consulting is None or consulting.id != event.id or not _stands(context, consulting):
        return []
    try:
        return _advance(context, consulting, event)
    except BaseException as error:
        return broken(context, consulting.queued, error, event.at)


def resumed(context: Context, consulting: Consulting, now: float) -> list[Command]:
    """Go on with a paused attempt, in which nothing has happened."""
    try:
        return _advance(context, consulting)
    except BaseException as error:
        return broken(context, consulting.queued, error, now)


def overtaken(context: Context, now: float) -> QueuedPod | None:
    """The pod to be tried next, where what extenders are asked about is no longer what there is; None to wait for them.

    A pod that has become another one, is being deleted, or is asked about by an older configuration, is tried anew; one
    that is gone, or no longer ours, makes way for the next.
    """
    consulting = context.consulting
    if consulting is None or _stands(context, consulting):
        return None
    context.consulting = None
    consulting.steps.close()
    pod = context.pods.get(consulting.pod.uid)
    if pod is None or not context.is_ours(pod):
        context.queue.nominator.remove(consulting.pod.uid)
        context.queue.done(consulting.pod.uid)
        return context.queue.pop(now)
    consulting.queued.pod = pod
    return consulting.queued


def _stands(context: Context, consulting: Consulting) -> bool:
    """Whether the pod that extenders are asked about is still to be placed, as they see it and by who asks them."""
    pod = context.pods.get(consulting.pod.uid)
    if pod is None or consulting.outdated:
        return False
    return pod.shape.id == consulting.pod.shape.id and not pod.deleting and not pod.node_name


def _advance(context: Context, consulting: Consulting, event: Consulted | None = None) -> list[Command]:
    """Make an attempt in steps up to the next question or pause, or to its end."""
    context.consulting = None
    try:
        calls = next(consulting.steps) if event is None else consulting.steps.send(event)
    except StopIteration as end:
        commands: list[Command] = end.value
        return commands
    context.consulting = consulting
    consulting.paused = calls is None
    if calls is None:
        return []
    context.consultations += 1
    consulting.id = context.consultations
    return [Consult(consulting.id, consulting.pod, calls)]


def _in_steps(
    context: Context, profile: Profile, queued: QueuedPod, extenders: Sequence[Extender], now: float
) -> Steps[list[Command]]:
    """An attempt that asks extenders."""
    pod = queued.pod
    context.attempts += 1
    watch = context.instrument.watch(context.attempts)

    def begin(at: float) -> Cycle:
        cycle = Cycle(at, profile.name, pod.uid, queued.attempts, context.settings.seed)
        cycle.watch = watch
        if pod.is_large:
            cycle.limit_time(context.instrument.timer)
        return cycle

    talk = Talk(pod, extenders, begin, now)
    try:
        choice = yield from context.consultants[profile.name].consult(talk)
        if isinstance(choice, Diagnosis):
            outcome = PostFiltered()
            if choice.total_nodes:
                outcome = yield from consulted_post_filter(talk, profile, choice, context.state, context.instrument)
            return _unplaced(context, profile, talk.cycle, queued, choice, outcome)
    except PluginFailed as failed:
        _report(context, failed)
        return fail(context, queued, Failure.of_plugin(failed), talk.now)
    except ExtenderFailed as failed:
        return fail(context, queued, Failure.error(str(failed)), talk.now)
    return _take_place(context, Assumed(queued, pod, choice.node.name, talk.cycle, profile), choice.node, talk.now)


def _report(context: Context, failed: PluginFailed) -> None:
    """Report a plugin that has raised; to exceed the limit is the pod's fault, not the plugin's."""
    if not isinstance(failed.error, TooExpensive):
        context.instrument.plugin_failed(failed.plugin, failed.point, failed.error)


def broken(context: Context, queued: QueuedPod, error: BaseException, now: float) -> list[Command]:
    """An attempt ended in a bug of ours: it costs its pod one backoff, and nobody else the scheduler."""
    if is_external(error):
        raise error
    context.instrument.plugin_failed("pyscheduler", "attempt", error)
    assumed = context.assumed.get(queued.pod.uid)
    if assumed is not None:
        release(context, assumed)
    return fail(context, queued, Failure.error(f"the attempt failed: {error!r}"), now)


def _no_node(
    context: Context, profile: Profile, cycle: Cycle, queued: QueuedPod, diagnosis: Diagnosis
) -> PostFilterSteps[list[Command]]:
    """Nothing fits: let PostFilter make room, and put the pod back."""
    outcome = PostFiltered()
    try:
        if diagnosis.total_nodes:
            plugins = profile.post_filter
            outcome = yield from post_filter_steps(plugins, cycle, queued.pod, diagnosis, context.instrument)
        return _unplaced(context, profile, cycle, queued, diagnosis, outcome)
    except PluginFailed as failed:
        _report(context, failed)
        return fail(context, queued, Failure.of_plugin(failed), cycle.now)


def _unplaced(
    context: Context, profile: Profile, cycle: Cycle, queued: QueuedPod, diagnosis: Diagnosis, outcome: PostFiltered
) -> list[Command]:
    """Put the pod back, and make the room that PostFilter has found for it, if Permit plugins let it."""
    now = cycle.now
    if not diagnosis.total_nodes:
        # It is reported as unschedulable but waits like an error: no plugin could name an event that helps.
        return fail(context, queued, Failure(NO_NODES.message, nominate=""), now)
    diagnosis.post_filter_message = outcome.message
    promised = context.queue.nominator.promised(queued.pod)
    if _withheld(profile, cycle, queued.pod, diagnosis, outcome, promised):
        failure = Failure.unfit(diagnosis, outcome.nominate, in_memory=outcome.nominate != "")
        return fail(context, queued, failure, now)
    # Before the pod is put back: while its victims are still to be evicted, it does not become active.
    evictions = make_room(context, queued.pod, outcome.nominate or "", outcome.evict, outcome.plugin, now)
    return fail(context, queued, Failure.unfit(diagnosis, outcome.nominate), now) + evictions


def _withheld(
    profile: Profile, cycle: Cycle, pod: Pod, diagnosis: Diagnosis, outcome: PostFiltered, promised: str
) -> bool:
    """Return True if a Permit plugin does not let pods be evicted now; its reason goes into the diagnosis.

    `promised` is the node that the pod was nominated to before, and still is where PostFilter leaves that as it is.
    """
    node = promised if outcome.nominate is None else outcome.nominate
    nominated = Nominate(node, outcome.evict) if node else None
    withheld = False
    for plugin in profile.eviction_permits:
        rejection = called(plugin, PERMIT, plugin.unplaced, cycle, pod, diagnosis, nominated)
        guarded(plugin.name, PERMIT, check_answer, "Unplaced", plugin.unplaced, rejection)  # Permit may Wait, this not
        if rejection is not None:
            withheld = True
            diagnosis.unschedulable_plugins |= {plugin.name}
            diagnosis.post_filter_message = ", ".join(filter(None, (diagnosis.post_filter_message, rejection.message)))
    return withheld


def _take_place(context: Context, assumed: Assumed, node: NodeRow, now: float) -> list[Command]:
    """Assume the pod on its node, then Reserve and Permit; whatever says no gives the place back."""
    uid = assumed.pod.uid
    context.state.place(assumed.pod, node.name)
    was_nominated = context.queue.nominator.node_of(uid) == node.name
    context.queue.nominator.remove(uid, placed_on=node.name)
    context.assumed[uid] = assumed
    points = context.points[assumed.profile.name]
    try:
        refusal = _reserve(assumed, node, points.reserve)
        waits: dict[str, Wait] = {}
        if refusal is None:
            refusal = _permit(assumed, node, waits, points.permit)
    except PluginFailed as failed:
        points.reserve.broken()
        points.permit.broken()
        _report(context, failed)
        return _give_up_place(context, assumed, Failure.of_plugin(failed), was_nominated, now)
    if refusal is not None:
        plugin, rejection = refusal
        failure = Failure.refused(plugin, rejection.message, rejection.code is Code.PENDING)
        return _give_up_place(context, assumed, failure, was_nominated, now)
    if waits:
        return park(context, assumed, waits, now)
    return start_binding(context, assumed, now)


def _give_up_place(
    context: Context, assumed: Assumed, failure: Failure, was_nominated: bool, now: float
) -> list[Command]:
    """Give the place back at once. It is news to other pods only where it had been held for a nominated pod before."""
    if was_nominated:
        return give_back(context, assumed, failure, now)
    release(context, assumed)
    return fail(context, assumed.queued, failure, now)


def _reserve(assumed: Assumed, node: NodeRow, point: Point) -> tuple[str, Rejection] | None:
    """Ask every Reserve plugin; the first rejection counts. The instrument hears of it only where there is one."""
    if not assumed.profile.reserve:
        return None
    cycle, pod = assumed.cycle, assumed.pod
    point.enter()
    for plugin in assumed.profile.reserve:
        rejection = called(plugin, "Reserve", plugin.reserve, cycle, pod, node)
        if rejection is not None:
            point.leave(rejection.code.camel)
            return plugin.name, rejection
    point.leave()
    return None


def _permit(assumed: Assumed, node: NodeRow, waits: dict[str, Wait], point: Point) -> tuple[str, Rejection] | None:
    """Ask every Permit plugin; the first rejection counts, those that want to wait are gathered in `waits`."""
    if not assumed.profile.permit:
        return None
    cycle, pod = assumed.cycle, assumed.pod
    point.enter()
    for plugin in assumed.profile.permit:
        answer = called(plugin, "Permit", plugin.permit, cycle, pod, node)
        if isinstance(answer, Rejection):
            point.leave(answer.code.camel)
            return plugin.name, answer
        if answer is not None:
            waits[plugin.name] = answer
    point.leave(Code.WAIT.camel if waits else SUCCESS)
    return None
