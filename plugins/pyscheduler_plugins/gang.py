"""Gang: pods that are of use only together start together or not at all.

Each member that finds a place holds it and waits in Permit; the member that makes the gang complete lets all go. A
member that cannot be placed, or a wait that runs out, gives all places back at once: two gangs that hold half a cluster
each cannot block one another, since the first to fail makes room for the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyscheduler.api import (
    NODE,
    POD,
    Action,
    ClusterEvent,
    Cycle,
    Diagnosis,
    Handle,
    Hint,
    Interest,
    NodeInfo,
    NodeTable,
    PermitPlugin,
    Pod,
    PostFilterPlugin,
    PreFilterPlugin,
    Rejection,
    ReservePlugin,
    StateKey,
    Wait,
    WaitingPod,
)
from pyscheduler_plugins.gang_books import Books, Progress, Room, Setback
from pyscheduler_plugins.pod_group import (
    POD_GROUP,
    POD_GROUP_LABEL,
    GroupKey,
    Terms,
    group_of,
    is_live,
    is_ready,
    terms_of,
)

_NODES: StateKey[NodeTable] = StateKey("Gang")


@dataclass(frozen=True, slots=True)
class GangArgs:
    """`permit_waiting_time_seconds` is how long members wait for each other where the PodGroup does not say."""

    permit_waiting_time_seconds: int = 60

    def __post_init__(self) -> None:
        if self.permit_waiting_time_seconds <= 0:
            value = self.permit_waiting_time_seconds
            raise ValueError(f"permitWaitingTimeSeconds: Invalid value: {value}: must be greater than 0")


class Gang(PreFilterPlugin, PostFilterPlugin, ReservePlugin, PermitPlugin):
    """Places pods labelled `scheduling.x-k8s.io/pod-group` once their PodGroup's spec.minMember of them have a place.

    Members that run already count, wherever they came from; members that are being deleted or have ended do not. What
    waits is known to this process only: after a restart the gang gathers anew around the members that are bound.
    """

    name = "Gang"
    Args = GangArgs
    watches = (POD_GROUP,)
    indexes = (POD_GROUP_LABEL,)

    def __init__(self, args: GangArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._books = Books(self._is_done)

    # -- events --------------------------------------------------------------------------------------------------

    def interests(self) -> Sequence[Interest]:
        joined = Action.ADD | Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        return (
            Interest(POD, joined, self._member_came),
            Interest(POD_GROUP.kind, Action.ADD | Action.UPDATE, self._own_group_changed),
            Interest(NODE, Action.ADD | Action.UPDATE, self._room_for_the_unfit),
            Interest(POD, Action.DELETE, self._room_for_the_unfit),
        )

    def _member_came(self, pod: Pod, event: ClusterEvent) -> Hint:
        return _queue_if(group_of(event.new) == group_of(pod))

    def _own_group_changed(self, pod: Pod, event: ClusterEvent) -> Hint:
        meta = event.new.get("metadata", {})
        return _queue_if(GroupKey(meta.get("namespace", ""), meta.get("name", "")) == group_of(pod))

    def _room_for_the_unfit(self, pod: Pod, event: ClusterEvent) -> Hint:
        """Of a gang that did not fit, only the members without a place are woken: placed, they call the others."""
        group = group_of(pod)
        progress = self._books.find(group)
        if progress is None or progress.setback is None or pod.uid not in progress.setback.unfit:
            return Hint.SKIP
        return _queue_if(event.resource == NODE or group_of(event.old) != group)

    # -- before filtering: is it worth trying? -------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Rejection | None:
        group = group_of(pod)
        if group is None:
            return None
        terms = self._terms(group)
        if isinstance(terms, Rejection):
            return terms
        ready = sum(map(is_ready, self._members(group).values()))
        if ready < terms.min_member:
            text = f"pod group {group} has {ready} of the {terms.min_member} pods that it needs"
            return Rejection(text, resolvable=False)
        setback = self._books.open(group).setback
        if setback is not None and setback.stands(pod, cycle.now, terms.min_member, nodes):
            return Rejection(setback.why, resolvable=False)
        cycle[_NODES] = nodes
        return None

    # -- after filtering: no place for a member ------------------------------------------------------------------

    def post_filter(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> Rejection:
        group = group_of(pod)
        if group is None:
            return Rejection()
        progress, terms = self._books.open(group), self._terms(group)
        progress.unfit.add(pod.uid)
        least = None if isinstance(terms, Rejection) else terms.min_member
        if least is not None and self._hopeful(group, progress) >= least:
            return Rejection()
        waiting = [w.pod for w in self._waiting(progress)]
        if waiting and least is not None and _NODES in cycle:
            members = self._members(group)
            resources = {r for member in members.values() for r in member.requests.real}
            progress.setback = Setback(
                at=cycle.now,
                members={uid: member.shape for uid, member in members.items()},
                unfit=frozenset(progress.unfit),
                min_member=least,
                room=Room.measure(cycle[_NODES], resources, waiting),
                why=f"pod group {group} does not fit whole, no place for {pod.name}: {diagnosis.filter_message}".rstrip(
                    "."
                ),
            )
        self._send_back(progress, f"pod group {group} does not fit whole: no place for {pod.name}")
        if not waiting:
            return Rejection()
        return Rejection(f"pod group {group} gave back the places of {len(waiting)} waiting pods")

    def _hopeful(self, group: GroupKey, progress: Progress) -> int:
        """How many members have a place or may still find one."""
        return sum(is_ready(m) and uid not in progress.unfit for uid, m in self._members(group).items())

    # -- reserve: the books --------------------------------------------------------------------------------------

    def reserve(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        group = group_of(pod)
        if group is not None:
            progress = self._books.open(group)
            progress.placed[pod.uid] = None
            progress.unfit.discard(pod.uid)
            progress.sent_back.discard(pod.uid)
            progress.setback = None

    def unreserve(self, cycle: Cycle, pod: Pod, node_name: str) -> None:
        group = group_of(pod)
        progress = self._books.find(group)
        if group is None or progress is None or pod.uid not in progress.placed:
            return
        told_already = pod.uid in progress.sent_back
        del progress.placed[pod.uid]
        progress.sent_back.discard(pod.uid)
        # A member that somebody else has bound meanwhile gives its reservation back, but not its place.
        if not told_already and pod.uid not in self._placed(group, progress):
            self._send_back(progress, f"pod group {group} is not whole: {pod.name} gave back its place")

    # -- permit: wait for each other -----------------------------------------------------------------------------

    def permit(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Wait | Rejection | None:
        group = group_of(pod)
        if group is None:
            return None
        terms = self._terms(group)
        if isinstance(terms, Rejection):
            return terms
        progress = self._books.open(group)
        placed = self._placed(group, progress)
        if len(placed) >= terms.min_member:
            progress.unfit.clear()
            for waiting in self._waiting(progress):
                waiting.allow(self.name)
            return None
        if not any(self._waiting(progress)):
            members = self._members(group)
            self.handle.activate([m for uid, m in members.items() if uid not in placed and is_ready(m)])
        missing = f"{len(placed)} of the {terms.min_member} pods that it needs have a place"
        return Wait(terms.timeout, f"pod group {group} is gathering: {missing}")

    # -- what is known -------------------------------------------------------------------------------------------

    def _terms(self, group: GroupKey) -> Terms | Rejection:
        pod_group = self.handle.objects(POD_GROUP).get((group.namespace, group.name))
        if pod_group is None:
            return Rejection(f"pod group {group} does not exist", resolvable=False)
        terms = terms_of(pod_group, float(self.args.permit_waiting_time_seconds))
        return terms or Rejection(f"pod group {group} has no usable spec.minMember", resolvable=False)

    def _members(self, group: GroupKey) -> Mapping[str, Pod]:
        return self.handle.pods_labelled(POD_GROUP_LABEL, group.namespace, group.name)

    def _placed(self, group: GroupKey, progress: Progress) -> set[str]:
        """The live members that have a place: bound, being bound, or waiting."""
        held = progress.held
        return {uid for uid, m in self._members(group).items() if is_live(m) and (m.node_name or uid in held)}

    def _waiting(self, progress: Progress) -> Iterator[WaitingPod]:
        for uid in progress.held:
            waiting = self.handle.waiting_pod(uid)
            if waiting is not None and self.name in waiting.pending_plugins:
                yield waiting

    def _send_back(self, progress: Progress, why: str) -> None:
        """Reject every waiting member."""
        progress.unfit.clear()
        told = list(self._waiting(progress))
        progress.sent_back.update(w.pod.uid for w in told)
        for waiting in told:
            waiting.reject(self.name, why)

    def _is_done(self, group: GroupKey, progress: Progress) -> bool:
        """Whether none of the gang's pods is on its way to a node or waits for room."""
        members = self._members(group)
        concerned = {*progress.placed, *(progress.setback.unfit if progress.setback else ())}
        return not any(uid in members and not members[uid].node_name for uid in concerned)


def _queue_if(helps: bool) -> Hint:
    return Hint.QUEUE if helps else Hint.SKIP
