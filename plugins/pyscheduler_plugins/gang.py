"""Gang: schedule all pods of a PodGroup or none (gang scheduling, all-or-nothing).

Each member with a feasible node is reserved and waits in Permit; the member that completes the gang allows all of them.
If a member is unschedulable or a wait times out, all reservations are released at once, so two gangs that hold half a
cluster each cannot deadlock.

No pod is evicted for a member before enough members can start: until then, nominations from preemption are kept in
memory only. Then all of them evict.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyscheduler.api import (
    NODE,
    POD,
    SUCCEEDED_POD,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Cycle,
    Diagnosis,
    Handle,
    NodeInfo,
    NodeTable,
    Nominate,
    PermitPlugin,
    Pod,
    PodSignatureGroup,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreQueueingHint,
    QueueingHint,
    Rejection,
    ReservePlugin,
    StateKey,
    Wait,
    WaitingPod,
)
from pyscheduler.api.counts import counted
from pyscheduler_plugins.gang_resources import missing, unused
from pyscheduler_plugins.gang_state import ACTIVATION_PAUSE, FailedAttempt, FreeResources, GangState, GangStates
from pyscheduler_plugins.pod_group import (
    POD_GROUP,
    POD_GROUP_LABEL,
    GroupKey,
    PodGroupSpec,
    group_key,
    group_of,
    has_succeeded,
    is_live,
    is_ready,
    pod_group_spec,
)
from pyscheduler_plugins.queues.devices import DEVICE_CLASS

_NODES: StateKey[NodeTable] = StateKey("Gang")
LONGEST_WAIT = 15 * 60.0
"""Seconds that a member may wait while pods are being evicted for other members: kube-scheduler's limit."""
_RECHECK = 10.0
_ADMITTING = Action.ADD | Action.UPDATE_NODE_TAINT | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_DECLARED_FEATURE
"""Changes of a node after which a pod may fit although the free capacity is the same."""


@dataclass(frozen=True, slots=True)
class GangArgs:
    """Args of Gang. `permit_waiting_time_seconds` applies if the PodGroup has no scheduleTimeoutSeconds."""

    permit_waiting_time_seconds: int = 60

    def __post_init__(self) -> None:
        if self.permit_waiting_time_seconds <= 0:
            value = self.permit_waiting_time_seconds
            raise ValueError(f"permitWaitingTimeSeconds: Invalid value: {value}: must be greater than 0")


class Gang(PreEnqueuePlugin, PreFilterPlugin, ReservePlugin, PermitPlugin):
    """All-or-nothing scheduling of the pods with a `scheduling.x-k8s.io/pod-group` label, by spec.minMember.

    Running and succeeded members count, whichever scheduler bound them; terminating and failed members do not. The
    state of waiting members is in memory: after a restart the gang starts again with its bound members.
    """

    name = "Gang"
    Args = GangArgs
    watches = (POD_GROUP,)
    indexes = (POD_GROUP_LABEL,)
    counts_succeeded = True
    reports_gating = True

    def __init__(self, args: GangArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._states = GangStates(self._is_done)
        self._completed: tuple[ClusterEvent | None, bool] = (None, False)

    # -- events --------------------------------------------------------------------------------------------------

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        released = Action.UPDATE_POD_SCALE_DOWN | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TERMINATING
        joined = Action.ADD | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        return (
            ClusterEventWithHint(POD, joined, self._on_member_added),
            ClusterEventWithHint(SUCCEEDED_POD, Action.ADD, self._on_member_added),
            ClusterEventWithHint(POD_GROUP.kind, Action.ALL, self._on_group_changed),
            ClusterEventWithHint(
                POD,
                released,
                self._on_resources_released,
                PreQueueingHint(objects_of=lambda _: (), concerns_all=_may_release),
            ),
            ClusterEventWithHint(NODE, Action.ADD | Action.UPDATE, self._on_capacity_added),
            ClusterEventWithHint(DEVICE_CLASS.kind, Action.ADD | Action.UPDATE, self._on_capacity_added),
            ClusterEventWithHint(
                POD,
                Action.DELETE,
                self._on_capacity_freed,
                # Hundreds of gangs may wait, each of which reserves and releases as many nodes when it is retried.
                PreQueueingHint(objects_of=lambda _: (), concerns_all=self._concerns_other_gangs),
            ),
        )

    def _on_member_added(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Requeue members once there are enough of them. Evaluated once for each event, not for each member."""
        group = group_of(event.new)
        if group is None or group != group_of(pod):
            return QueueingHint.SKIP
        if self._completed[0] is not event:
            self._completed = (event, self._incomplete(group) is None)
        return _queue_if(self._completed[1])

    def _on_group_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        old, new = event.old or {}, event.new or {}
        if old.get("spec") == new.get("spec"):
            return QueueingHint.SKIP  # status changes are frequent and irrelevant
        group = group_of(pod)
        progress = self._states.find(group)
        # Another group may have released minResources that this one lacks.
        return _queue_if(group_key(new or old) == group or (progress is not None and progress.lacks_resources))

    def _on_capacity_freed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Requeue the members that need room, unless the gang itself has released it."""
        group = group_of(pod)
        if group_of(event.old) == group or not self._concerns_other_gangs(event):
            return QueueingHint.SKIP
        progress = self._states.find(group)
        return _queue_if(progress is not None and progress.needs_room(pod))

    def _on_capacity_added(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Requeue the members that need room.

        They are tried although the free capacity is the same if a node may have lost a taint or got a label, or a class
        may let devices provide an extended resource.
        """
        progress = self._states.find(group_of(pod))
        if progress is None or not progress.needs_room(pod):
            return QueueingHint.SKIP
        if event.resource != NODE or event.action & _ADMITTING:
            progress.expire_failure()
        return QueueingHint.QUEUE

    def _on_resources_released(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Requeue members that need room after a pod was scaled down.

        A gang that lacks minResources is requeued also after a pod of a gang left it or began to terminate.
        """
        progress = self._states.find(group_of(pod))
        if progress is None:
            return QueueingHint.SKIP
        if event.action & Action.UPDATE_POD_SCALE_DOWN:
            return _queue_if(progress.needs_room(pod))
        group = group_of(event.old)
        is_released = group is not None and (group != group_of(event.new) or not is_live(event.new))
        return _queue_if(progress.lacks_resources and is_released)

    def _concerns_other_gangs(self, event: ClusterEvent) -> bool:
        """Return False for the end of a reservation during which no other gang failed: they lack the same room."""
        progress = self._states.find(group_of(event.old))
        # Another version of the pod was bound since, by another scheduler.
        return progress is None or progress.unseen.get(event.old.uid) != event.old.resource_version

    def affected_pods(self, event: ClusterEvent, waiting: Sequence[WaitingPod]) -> list[WaitingPod]:
        """Return one waiting member of each gang that the event affects; it decides for all of them."""
        affected = [progress for group in _groups_in(event) if (progress := self._states.find(group)) is not None]
        pods = [next(self._waiting(progress), None) for progress in affected]
        if isinstance(event.new, Pod):
            pods.append(self.handle.waiting_pods.get(event.new.uid))  # it may have left the group
        return [w for w in pods if w is not None]

    # -- before filtering: gating and fast rejection -------------------------------------------------------------

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        group = group_of(pod)
        return None if group is None else self._incomplete(group, pod.uid)

    def gate_key(self, pod: Pod) -> GroupKey | None:
        return group_of(pod)

    def sign_group(self, group: PodSignatureGroup) -> Hashable:
        return ()  # its results are never cached

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Rejection | None:
        group = group_of(pod)
        if group is None:
            return None
        terms = self._terms(group)
        if isinstance(terms, Rejection):
            return terms
        incomplete = self._incomplete(group, pod.uid)
        if incomplete is not None:
            return incomplete
        progress = self._states.open(group)
        if progress.has_gated_members:
            # Another plugin no longer gates a member: that is no event for which this plugin is registered.
            progress.has_gated_members = False
            self._activate_siblings(group, self._placed(group))
        last_failure = progress.last_failure
        if last_failure is not None and last_failure.still_applies(pod, cycle.now, terms.min_member, nodes):
            self._states.fail(group)
            return Rejection(last_failure.why, resolvable=False)
        short = self._lacks_resources(group, terms, pod, nodes)
        if short:
            progress.lacks_resources = True
            self._states.fail(group)
            return Rejection(f"pod group {group} needs {short}", resolvable=False)
        cycle[_NODES] = nodes
        return None

    def _incomplete(self, group: GroupKey, uid: str = "") -> Rejection | None:
        """Return the reason why no member can be scheduled, stable while that holds, or None.

        `uid` is the member for which this is evaluated: other plugins admit it, whatever gated it before.
        """
        terms = self._terms(group)
        if isinstance(terms, Rejection):
            return terms
        members = self._members(group)
        # Called for each member that is created: compare the total count first, which is cheap.
        ready = [m for m in members.values() if is_ready(m)] if len(members) >= terms.min_member else []
        if len(ready) >= terms.min_member:
            progress = self._states.find(group)
            held = progress.placed if progress is not None else ()
            if sum(m.uid == uid or m.uid in held or not self._is_gated(m) for m in ready) >= terms.min_member:
                return None
            self._states.open(group).has_gated_members = True
        short = f"pod group {group} has fewer than the {terms.min_member} pods that it needs"
        return Rejection(short, resolvable=False)

    def _lacks_resources(self, group: GroupKey, terms: PodGroupSpec, pod: Pod, nodes: NodeTable) -> str:
        """Return the missing minResources of a gang that has not started as text; "" if nothing is missing."""
        if not terms.min_resources or self._placed(group):
            return ""
        reserved = self._reserved_for_others(group, pod.priority)
        delegated = self.handle.delegated_resources(terms.min_resources)
        required = {resource: n for resource, n in terms.min_resources.items() if resource not in delegated}
        short = missing(required, reserved, nodes)
        if short and pod.spec.preemption_policy != "Never":
            short = missing(required, reserved, self.handle.nodes.table_without_lower_priority(pod.priority))
        return short

    def _reserved_for_others(self, group: GroupKey, priority: int) -> Mapping[str, int]:
        """Return the unused minResources of started gangs of this priority or a higher one."""
        reserved: dict[str, int] = {}
        for other, pod_group in self.handle.objects[POD_GROUP].items():
            key, terms = GroupKey(*other), pod_group_spec(pod_group, 0.0)
            if key == group or isinstance(terms, str) or not terms.min_resources:
                continue
            members, placed = self._members(key), self._placed(key)
            if placed and any(is_live(m) and m.priority >= priority for m in members.values()):
                for resource, amount in unused(terms.min_resources, (members[uid] for uid in placed)).items():
                    reserved[resource] = reserved.get(resource, 0) + amount
        return reserved

    # -- after filtering: a member is unschedulable, or needs evictions ------------------------------------------

    def handle_unschedulable(
        self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis, nominated: Nominate | None
    ) -> Rejection | None:
        group = group_of(pod)
        if group is None:
            return None
        progress, terms = self._states.open(group), self._terms(group)
        self._states.fail(group)
        if nominated is not None and isinstance(terms, PodGroupSpec):
            return self._preempt(group, terms, progress, pod)
        progress.stop_preempting(pod.uid)
        if diagnosis.pre_filter is None or diagnosis.pre_filter.plugin != self.name:
            progress.unschedulable.add(pod.uid)
        if isinstance(terms, PodGroupSpec) and self._count_candidates(group, progress) >= terms.min_member:
            return None
        waiting = [w.pod for w in self._waiting(progress)]
        if (waiting or progress.preempting) and isinstance(terms, PodGroupSpec) and _NODES in cycle:
            members = self._members(group)
            resources = {r for member in members.values() for r in member.requests.real}
            why = f"pod group {group} does not fit as a whole, no place for {pod.name}: {diagnosis.filter_message}"
            progress.last_failure = FailedAttempt(
                at=cycle.now,
                members={uid: member.signature for uid, member in members.items()},
                unschedulable=frozenset(progress.unschedulable),
                min_member=terms.min_member,
                room=FreeResources.measure(cycle[_NODES], resources, waiting),
                why=why.rstrip("."),
            )
        if waiting and _NODES not in cycle:
            progress.released_at = cycle.now
        self._reject_waiting(group, progress, f"pod group {group} does not fit as a whole: no place for {pod.name}")
        if not waiting:
            return None
        return Rejection(f"pod group {group} released the reservations of {counted(len(waiting), 'waiting pod')}")

    def _preempt(self, group: GroupKey, terms: PodGroupSpec, progress: GangState, pod: Pod) -> Rejection | None:
        """Approve evictions once enough members can start, and activate the other members that need evictions."""
        members = self._members(group)
        first = not progress.preempting and not any(self._waiting(progress))
        progress.unschedulable.discard(pod.uid)
        progress.preempting[pod.uid] = None
        able = self._placed(group) | {pod.uid} | self._nominated(group, progress.preempting)
        if len(able) >= terms.min_member:
            progress.evicting.add(pod.uid)
            rest = [uid for uid in progress.preempting if uid in members and uid not in progress.evicting]
            self.handle.activate(members[uid] for uid in rest)
            return None
        if first:
            self._activate_siblings(group, able)
        return Rejection(f"pod group {group} evicts no pods before {terms.min_member} of its pods can start")

    def _count_candidates(self, group: GroupKey, progress: GangState) -> int:
        """Return the number of members that are reserved or may still be schedulable."""
        members = self._members(group).items()
        return sum(is_ready(m) and uid not in progress.unschedulable and not self._is_gated(m) for uid, m in members)

    def _is_gated(self, member: Pod) -> bool:
        """Return True if another plugin gates the member, such as DynamicResources until its claims exist."""
        return not member.node_name and self.handle.gating_plugin(member) not in ("", self.name)

    # -- reserve -------------------------------------------------------------------------------------------------

    def reserve(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        group = group_of(pod)
        if group is not None:
            self._states.place(group, pod.uid)

    def unreserve(self, cycle: Cycle, pod: Pod, node_name: str) -> None:
        group = group_of(pod)
        progress = self._states.find(group)
        if group is None or progress is None or pod.uid not in progress.placed:
            return
        is_rejected = pod.uid in progress.rejected
        self._states.displace(group, progress, pod)
        # A member that another scheduler has bound releases its reservation but still counts.
        if not is_rejected and pod.uid not in self._placed(group):
            reason = f"pod group {group} is incomplete: {pod.name} released its reservation"
            self._reject_waiting(group, progress, reason)

    # -- permit --------------------------------------------------------------------------------------------------

    def permit(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Wait | Rejection | None:
        """Allow all waiting members if the gang is complete; called again when the gang changes."""
        group = group_of(pod)
        if group is None:
            return None
        terms = self._terms(group)
        if isinstance(terms, Rejection):
            return terms
        progress, placed = self._states.open(group), self._placed(group)
        if len(placed) >= terms.min_member:
            progress.unschedulable.clear()
            for waiting in self._waiting(progress):
                waiting.allow(self.name)
            return None
        if not any(self._waiting(progress)):
            progress.activates_at = progress.released_at + ACTIVATION_PAUSE
        if cycle.now >= progress.activates_at:
            progress.activates_at = math.inf
            self._activate_siblings(group, placed)
        remaining = progress.deadlines.setdefault(pod.uid, cycle.now + terms.timeout) - cycle.now
        if remaining <= 0 and not self._is_evicting(group, progress):
            return Rejection(f"rejected due to timeout after waiting {terms.timeout:g}s at plugin {self.name}")
        progress_text = f"{len(placed)} of {terms.min_member} required pods are reserved or running"
        recheck = min(remaining if remaining > 0 else _RECHECK, progress.activates_at - cycle.now)
        return Wait(LONGEST_WAIT, f"pod group {group} waits for more pods: {progress_text}", recheck_every=recheck)

    def _is_evicting(self, group: GroupKey, progress: GangState) -> bool:
        """Return True while a member waits for the termination of pods that were evicted for it."""
        return bool(self._nominated(group, progress.evicting))

    # -- state ---------------------------------------------------------------------------------------------------

    def _terms(self, group: GroupKey) -> PodGroupSpec | Rejection:
        pod_group = self.handle.objects[POD_GROUP].get((group.namespace, group.name))
        if pod_group is None:
            return Rejection(f"pod group {group} does not exist", resolvable=False)
        terms = pod_group_spec(pod_group, float(self.args.permit_waiting_time_seconds))
        if isinstance(terms, PodGroupSpec):
            return terms
        return Rejection(f"pod group {group} has an invalid {terms}", resolvable=False)

    def _members(self, group: GroupKey) -> Mapping[str, Pod]:
        return self.handle.pods.by_label(POD_GROUP_LABEL, group.namespace, group.name)

    def _nominated(self, group: GroupKey, uids: Iterable[str]) -> set[str]:
        """Return those of `uids` that are members with a nominated node."""
        members, nominator = self._members(group), self.handle.nominator
        return {uid for uid in uids if uid in members and nominator.nominated_node(members[uid])}

    def _placed(self, group: GroupKey) -> set[str]:
        """Return the UIDs of members that count as started: bound, binding, waiting or succeeded."""
        progress = self._states.find(group)
        held = progress.held if progress is not None else ()
        return {
            uid
            for uid, m in self._members(group).items()
            if has_succeeded(m) or (is_live(m) and (m.node_name or uid in held))
        }

    def _waiting(self, progress: GangState) -> Iterator[WaitingPod]:
        for uid in progress.held:
            waiting = self.handle.waiting_pods.get(uid)
            if waiting is not None and self.name in waiting.pending_plugins:
                yield waiting

    def _activate_siblings(self, group: GroupKey, placed: set[str]) -> None:
        """Activate the members that are not reserved yet."""
        self.handle.activate(m for uid, m in self._members(group).items() if uid not in placed and is_ready(m))

    def _reject_waiting(self, group: GroupKey, progress: GangState, why: str) -> None:
        """Reject all waiting members and clear the nominations of the group."""
        progress.unschedulable.clear()
        if progress.preempting:
            progress.preempting.clear()
            progress.evicting.clear()
            self.handle.nominator.clear(self._members(group).values())
        waiting = list(self._waiting(progress))
        progress.rejected.update(w.pod.uid for w in waiting)
        for waiting_pod in waiting:
            waiting_pod.reject(self.name, why)

    def _is_done(self, group: GroupKey, progress: GangState) -> bool:
        """Return True if no pod of the gang is being scheduled or waits for resources."""
        members = self._members(group)
        concerned = members if progress.lacks_resources else progress.in_progress
        return not any(uid in members and is_live(members[uid]) and not members[uid].node_name for uid in concerned)


def _groups_in(event: ClusterEvent) -> set[GroupKey]:
    """Return the groups that an event affects."""
    if event.resource == POD_GROUP.kind:
        return {group_key(event.new or event.old)}
    pods = [pod for pod in (event.old, event.new) if isinstance(pod, Pod)]
    return {group for pod in pods if (group := group_of(pod)) is not None}


def _may_release(event: ClusterEvent) -> bool:
    """Return False for label changes and terminations of pods without a gang."""
    return bool(event.action & Action.UPDATE_POD_SCALE_DOWN) or group_of(event.old) is not None


def _queue_if(helps: bool) -> QueueingHint:
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP
