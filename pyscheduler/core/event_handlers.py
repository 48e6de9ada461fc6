"""Event handlers: apply watch events to the state and the queue, one function per handler of kube-scheduler.

An object that cannot be parsed raises ValueError before anything has changed, so that the shell can count and skip it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any

from pyscheduler.api.events import (
    NODE,
    SUCCEEDED_POD,
    TARGET_POD,
    UNSCHEDULED_POD,
    Action,
    ClusterEvent,
    ResourceKind,
)
from pyscheduler.api.objects import NodeObject, PodObject
from pyscheduler.api.pod import Pod
from pyscheduler.core.changes import may_fit_other_pods, node_events, pod_events, pod_placed
from pyscheduler.core.context import AssumedPod, Context
from pyscheduler.core.pod_groups.ignored_groups import REPORTED
from pyscheduler.core.pod_groups.lost_members import set_member, set_members_on
from pyscheduler.core.pod_groups.wakeups import GroupWakeups
from pyscheduler.core.queue.labels import NOMINATED_NODE_CHANGED, POD_ADD, POD_UPDATE
from pyscheduler.core.scheduling.binding import forget_pod
from pyscheduler.core.scheduling.pod_stages import Stage

_JOINS = Action.UPDATE_POD_LABEL | Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
"""Updates that may make an existing pod one of those that plugins count."""
_SUCCEEDED = "Succeeded"
_ENDED = (_SUCCEEDED, "Failed")


def handle_pod_change(context: Context, source: PodObject, now: float) -> None:
    """Apply the creation or an update of a pod."""
    pod = context.shapes.pod(source)
    if source.status.phase in _ENDED:
        handle_pod_deletion(context, pod.uid, now)
        if source.status.phase == _SUCCEEDED:
            context.groups.add_succeeded(pod)
            if (learnt := context.reservations.times.learnt) is not None:
                learnt.succeeded(pod)
        if source.status.phase == _SUCCEEDED and context.handle.pods.keep_succeeded(pod):
            context.wake((ClusterEvent(SUCCEEDED_POD, Action.ADD, None, pod, "SucceededPodAdd"),), now)
        return
    if pod.uid in context.handle.pods.succeeded:
        return  # the watch of running pods lags behind that of succeeded pods
    namesake = context.handle.pods.uid_of(pod.namespace, pod.name)
    if namesake is not None and namesake != pod.uid:
        handle_pod_deletion(context, namesake, now)
    old = context.pods.get(pod.uid)
    if old is not None and old.node_name and not pod.node_name:
        return  # a binding is never undone: this version is older than the one that a lookup has returned
    context.pods[pod.uid] = pod
    context.handle.pods.set_pod(old, pod)
    if context.groups.is_enabled:
        set_member(context, pod)
    if pod.deleting:
        context.eviction_ended(pod.uid, now)
    if pod.node_name:
        _handle_assigned_pod(context, old, pod, now)
        is_new = old is None or not old.node_name
        context.instrument.event_handled("AssignedPodAdd" if is_new else "AssignedPodUpdate", now)
    elif pod.scheduler_name in context.profiles:
        if pod.uid in context.assumed:
            _handle_assumed_change(context, old, pod, now)
        else:
            _handle_pending_pod(context, old, pod, now)
        context.instrument.event_handled(POD_ADD if old is None else POD_UPDATE, now)
    elif context.queue.needs_events and context.handle.pods.is_indexed(pod):
        # Another scheduler's pod, but a plugin counts it among ours.
        context.wake([_pod_added(pod)] if old is None else pod_events(old, pod), now)


def _handle_assigned_pod(context: Context, old: Pod | None, pod: Pod, now: float) -> None:
    """Apply a pod that has a node: it confirms our binding, is another scheduler's, or is an update of a bound pod."""
    assumed = context.assumed.get(pod.uid)
    where = context.state.node_of(pod.uid)
    if where is not None and where.name == pod.node_name:
        context.state.replace(pod)
    else:
        context.state.place(pod, pod.node_name)
    if context.groups.quota is not None:
        context.reservations.times.add_seen(pod, now)
    if assumed is not None:
        _confirm(context, pod)
    if old is not None and not old.node_name:
        _leave_queue(context, pod.uid, pod.node_name)
    if context.settings.preempts_for_resizes:
        _handle_resize(context, old, pod, now)
    if not context.queue.needs_events:
        return
    if assumed is not None and assumed.node_name != pod.node_name:
        context.place_freed(assumed.pod.on(assumed.node_name), now)
    if old is None or not old.node_name:
        context.wake((pod_placed(pod),), now)
    else:
        context.wake(pod_events(old, pod), now)


def _handle_resize(context: Context, old: Pod | None, pod: Pod, now: float) -> None:
    """Enqueue an assigned pod whose resize is deferred, and remove it once the resize is not.

    The caller evaluates the events of the update for the other pods and for this one.
    """
    if context.queues_resize(pod):
        context.queue.update(pod if old is None else old, pod, (), now)
    elif old is not None and context.queues_resize(old):
        _leave_queue(context, pod.uid)


def _confirm(context: Context, pod: Pod) -> None:
    assumed = context.assumed[pod.uid]
    assumed.confirmed = True
    if assumed.stage is Stage.BOUND:
        del context.assumed[pod.uid]
        context.unconfirmed.discard(pod.uid)
    elif assumed.stage is Stage.WAITING or assumed.node_name != pod.node_name:
        # Another scheduler bound it meanwhile, so its reservations here are void.
        _forget_assumed(context, assumed)
        context.queue.done(pod.uid)


def _handle_assumed_change(context: Context, old: Pod | None, pod: Pod, now: float) -> None:
    """Apply an update of an assumed pod: forget it if it is terminating, since the API server would refuse the binding.

    Only the Permit plugins that make the pod wait depend on other updates.
    """
    assumed = context.assumed[pod.uid]
    waiting = context.handle.waiting_pods.by_uid.get(pod.uid)
    if waiting is not None and old is not None and old.resource_version != pod.resource_version:
        waiting.pod = pod
        context.record_for_waiting_pods(pod_events(old, pod))
    if pod.deleting and assumed.stage is not Stage.BOUND:
        _forget_assumed(context, assumed)
        context.queue.done(pod.uid)
        context.place_freed(assumed.pod.on(assumed.node_name), now)


def _forget_assumed(context: Context, assumed: AssumedPod) -> None:
    """Forget an assumed pod and cancel its binding."""
    if assumed.stage is Stage.BINDING:
        context.cancelled_bindings.append(assumed.pod.uid)
    forget_pod(context, assumed)


def _leave_queue(context: Context, uid: str, placed_on: str = "") -> None:
    """Remove a pod that was deleted, or bound to `placed_on` by another scheduler, and what is not reported yet."""
    context.queue.delete(uid, placed_on)
    context.ignored_groups.events.pop(uid, None)


def _handle_pending_pod(context: Context, old: Pod | None, pod: Pod, now: float) -> None:
    signature = pod.signature
    if (
        signature.spec.scheduling_group is not None
        or not REPORTED.isdisjoint(signature.annotations)
        or not REPORTED.isdisjoint(signature.labels)
    ):
        context.ignored_groups.check(context.profiles[pod.scheduler_name], old, pod)
    if old is None:
        if context.queue.needs_events:
            # Pods that waited for this one are requeued ahead of it.
            context.wake((_pod_added(pod),), now)
        context.queue.add(pod, now)
        return
    if old.resource_version and old.resource_version == pod.resource_version:
        return
    nominated = context.queue.nominator.node_of.get(pod.uid)
    context.queue.update(old, pod, pod_events(old, pod, TARGET_POD), now)
    if context.handle.pods.is_indexed(pod) or context.handle.pods.is_indexed(old):
        for event in pod_events(old, pod):
            if event.action & _JOINS:
                context.queue.move_all(event, now, only=lambda other: other.pod.uid != pod.uid)
    if nominated != context.queue.nominator.node_of.get(pod.uid):
        # Set by another component, or cleared for a preemptor of a higher priority.
        context.queue.requeue(pod, NOMINATED_NODE_CHANGED, now)


def _pod_added(pod: Pod) -> ClusterEvent:
    return ClusterEvent(UNSCHEDULED_POD, Action.ADD, None, pod, "UnscheduledPodAdd")


def adopt(context: Context, names: Collection[str]) -> None:
    """Start to enqueue the pending pods of new profiles, in the order of their arrival."""
    if names:
        context.adopting = iter(list(context.pods))


def enqueue_adopted_pods(context: Context, uids: Iterator[str], now: float) -> None:
    """Check a slice of all pods, and enqueue those that are pending, ours and not enqueued yet."""
    queue, checked = context.queue, list(islice(uids, context.settings.slice_pods))
    for uid in checked:
        pod = context.pods.get(uid)
        if pod is None or uid in context.assumed or uid in queue or queue.in_flight(uid):
            continue
        if context.queues_resize(pod):
            queue.add(pod, now)
        elif not pod.node_name and context.is_responsible_for(pod):
            _handle_pending_pod(context, None, pod, now)
    if not checked:
        context.adopting = None


def handle_pod_deletion(context: Context, uid: str, now: float) -> None:
    """Apply the deletion or the end of a pod; unknown UIDs are ignored."""
    pod = context.pods.pop(uid, None)
    if pod is None:
        return
    context.handle.pods.set_pod(pod, None)
    context.groups.remove_ended(uid)
    context.eviction_ended(uid, now)
    assumed = context.assumed.get(uid)
    if assumed is not None:
        pod = assumed.pod.on(assumed.node_name)
        assumed.confirmed = False
        _forget_assumed(context, assumed)
        context.queue.done(uid)
    placed = context.state.remove(uid) is not None
    if placed:
        context.reservations.times.ended(pod, now)
    context.reservations.times.remove(uid)
    _leave_queue(context, uid)
    if placed or assumed is not None:
        context.place_freed(pod, now, GroupWakeups(context).may_help if context.groups.is_enabled else None)
    if pod.node_name or context.is_responsible_for(pod):
        context.instrument.event_handled("AssignedPodDelete" if pod.node_name else "UnscheduledPodDelete", now)


def handle_succeeded_pod_deletion(context: Context, uid: str) -> None:
    """Drop a succeeded pod that was deleted."""
    context.handle.pods.drop_succeeded(uid)
    context.groups.remove(uid)


def handle_node_change(context: Context, source: NodeObject, now: float) -> None:
    """Apply the creation or an update of a node."""
    before = context.state.set_node(source)
    if before is None and (node := context.state.info(source.metadata.name)) is not None:
        set_members_on(context, node)
    added = [ClusterEvent(NODE, Action.ADD, None, source, "NodeAdd")]
    _wake_and_count(context, added if before is None else node_events(before, source), now)
    if before is None or may_fit_other_pods(before, source):
        context.wake_nominated(source.metadata.name, now)


def handle_node_deletion(context: Context, name: str, now: float) -> None:
    """Apply the deletion of a node; unknown names are ignored."""
    node = context.state.info(name)
    if node is not None:
        # Before the events: our hints count the pods on the remaining nodes, kube-scheduler's do not.
        context.state.remove_node(name)
        set_members_on(context, node)
        _wake_and_count(context, [ClusterEvent(NODE, Action.DELETE, node.node, None, "NodeDelete")], now)
        context.wake_nominated(name, now)
        _reschedule_waiting_pods(context, name)


def _reschedule_waiting_pods(context: Context, name: str) -> None:
    """Reject the pods that wait in Permit for a deleted node: the API server would still bind them to it."""
    for waiting in context.handle.waiting_pods.by_uid.values():
        if waiting.node_name == name and not waiting.is_decided:
            waiting.preempt(min(waiting.deadlines), f"node {name} was deleted")


def handle_object_change(context: Context, kind: ResourceKind, obj: dict[str, Any], now: float) -> None:
    """Apply the creation or an update of an object of a kind that plugins watch."""
    before = context.handle.objects.set(kind, obj)
    context.state.object_changed(kind)
    action, verb = (Action.ADD, "Add") if before is None else (Action.UPDATE_OTHER, "Update")
    _wake_and_count(context, [ClusterEvent(kind.kind, action, before, obj, _label(kind, verb))], now)


def handle_object_deletion(context: Context, kind: ResourceKind, namespace: str, name: str, now: float) -> None:
    """Apply the deletion of an object of a kind that plugins watch; unknown ones are ignored."""
    before = context.handle.objects.remove(kind, namespace, name)
    if before is not None:
        context.state.object_changed(kind)
        _wake_and_count(context, [ClusterEvent(kind.kind, Action.DELETE, before, None, _label(kind, "Delete"))], now)


def _label(kind: ResourceKind, verb: str) -> str:
    """Return kube-scheduler's event label: `PersistentVolumeAdd`, `storage.k8s.io/CSINodeAdd`."""
    return f"{kind.group}/{kind.kind}{verb}" if kind.group else f"{kind.kind}{verb}"


def _wake_and_count(context: Context, events: Sequence[ClusterEvent], now: float) -> None:
    """Requeue the pods that the events may help, and report the events as handled."""
    context.wake(events, now)
    for event in events:
        if context.groups.is_enabled:
            context.groups.object_changed(event)
        context.instrument.event_handled(event.label, now)
