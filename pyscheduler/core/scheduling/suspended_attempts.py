"""Attempts that run in steps; no other attempt runs in between, as kube-scheduler's next cycle waits for the previous.

While extender calls are pending, events are handled, and the results are checked against the state at their arrival. A
long PostFilter, the placement of a large pod group, and the search for its victims or for nodes to reserve pause so
that the thread can do other work; an event during a pause makes the attempt stale: it starts over.
"""

from __future__ import annotations

from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.commands import CallExtenders, Command
from pyscheduler.core.context import Context, SuspendedAttempt
from pyscheduler.core.events import ExtendersResponded
from pyscheduler.core.framework.plugin_failure import is_external
from pyscheduler.core.queue.queued_pod_group import QueuedPodGroup
from pyscheduler.core.scheduling.binding import forget_pod
from pyscheduler.core.scheduling.failure import Failure
from pyscheduler.core.scheduling.failure_handler import handle_scheduling_failure
from pyscheduler.texts import text_of


def run_until_pause(
    context: Context, attempt: SuspendedAttempt, event: ExtendersResponded | None = None
) -> list[Command]:
    """Run an attempt up to its next extender calls or pause, or to its end."""
    context.suspended = None
    try:
        calls = next(attempt.steps) if event is None else attempt.steps.send(event)
    except StopIteration as end:
        commands: list[Command] = end.value
        return commands
    context.suspended = attempt
    attempt.paused = calls is None
    if calls is None:
        return []
    context.extender_rounds += 1
    attempt.id = context.extender_rounds
    return [CallExtenders(attempt.id, attempt.pod, calls)]


def resume(context: Context, attempt: SuspendedAttempt, now: float) -> list[Command]:
    """Resume a paused attempt that is not stale."""
    try:
        return run_until_pause(context, attempt)
    except BaseException as error:
        return fail_broken_attempt(context, attempt.queued, error, now)


def resume_with_responses(context: Context, event: ExtendersResponded) -> list[Command]:
    """Resume the attempt with extender results; late ones, or those for a stale attempt, are ignored."""
    attempt = context.suspended
    if attempt is None or attempt.id != event.id or _is_stale(context, attempt):
        return []
    try:
        return run_until_pause(context, attempt, event)
    except BaseException as error:
        return fail_broken_attempt(context, attempt.queued, error, event.at)


def drop_stale_attempt(context: Context, now: float) -> QueuedPod | None:
    """Return the pod to attempt next if the suspended attempt is stale; None if it is not.

    The same pod starts over if it has changed, is terminating, or the configuration is new. If it was deleted or is no
    longer ours, the next pod is popped.
    """
    attempt = context.suspended
    if attempt is None or not _is_stale(context, attempt):
        return None
    context.suspended = None
    attempt.steps.close()
    pod = context.pods.get(attempt.pod.uid)
    if pod is None or not context.is_responsible_for(pod):
        context.queue.nominator.remove(attempt.pod.uid)
        context.queue.done(attempt.pod.uid)
        return context.queue.pop(now)
    attempt.queued.pod = pod
    return attempt.queued


def _is_stale(context: Context, attempt: SuspendedAttempt) -> bool:
    """Return True if the attempt was made stale, or its pod has changed or no longer needs a node."""
    pod = context.pods.get(attempt.pod.uid)
    if pod is None or attempt.is_stale or pod.deleting or (pod.node_name and not context.queues_resize(pod)):
        return True
    return pod.signature.id != attempt.pod.signature.id


def interrupt(context: Context, attempt: SuspendedAttempt, now: float) -> None:
    """Let a paused attempt start over after an event that is about to be handled.

    It ends its dry run first. A pod group forgets its members too, and is requeued: the event may be about them, or
    about what they hold.
    """
    attempt.is_stale = True
    attempt.steps.close()
    if isinstance(attempt.queued, QueuedPodGroup):
        context.suspended = None
        context.queue.retry_group(attempt.queued, now)


def fail_broken_attempt(context: Context, queued: QueuedPod, error: BaseException, now: float) -> list[Command]:
    """Requeue the pod of an attempt that raised because of a bug in the scheduler; reraises external exceptions.

    The pending members of a pod group are requeued with it.
    """
    if is_external(error):
        raise error
    context.instrument.plugin_failed("pyscheduler", "attempt", error)
    if isinstance(queued, QueuedPodGroup):
        for uid in queued.members:
            if uid in context.assumed:
                forget_pod(context, context.assumed[uid])
                context.queue.done(uid)
        context.queue.end_group_attempt(queued, (), frozenset(), frozenset(), now)
        return []
    assumed = context.assumed.get(queued.pod.uid)
    if assumed is not None:
        forget_pod(context, assumed)
    return handle_scheduling_failure(context, queued, Failure.error(f"the attempt failed: {text_of(error, repr)}"), now)
