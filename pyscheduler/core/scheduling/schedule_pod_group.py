"""Scheduling cycle of a pod group, top down, from the popped group to the binding cycles of its members.

    schedule_pod_group
        PlacementSearch.run              core/pod_groups/placement.py: assume all pending members, or none
        check_reservation                core/pod_groups/backfill.py: undo them if they would delay the first group
        _run_permit_plugins              if enough members have a node
        _start_binding_cycles            or wait in Permit
        _run_preemption                  otherwise: PodGroupPostFilter plugins, then core/pod_groups/preemption.py
            prepare_candidate            evict all victims, nominate all members
        end_attempt                      backfill.py: reserve nodes for the first group that lacks room
        _report_failures                 of all members that have no node
        report_group                     conditions.py: of the PodGroup

It matches the pod group cycle of kube-scheduler 1.37 (schedule_one_podgroup.go), with two differences: members are
placed in an order, and with alternatives, that do not strand large ones, and the API that declares the group does not
matter.

A large group is placed in steps, and its victims and the nodes to reserve for it are searched in steps. Members are
assumed, or running pods removed for a dry run, in between, so no event is handled then: the loop defers events, and
`interrupt` in suspended_attempts.py undoes all that if one is handled all the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from msgspec.structs import replace

from pyscheduler.api.outcome import Rejection, Wait
from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroup
from pyscheduler.api.queued import QueuedPod
from pyscheduler.api.steps import Steps
from pyscheduler.core.commands import Command
from pyscheduler.core.context import AssumedPod, Context, SuspendedAttempt
from pyscheduler.core.framework.plugin_failure import PluginFailed, is_external
from pyscheduler.core.pod_groups import backfill, kubernetes_texts
from pyscheduler.core.pod_groups.conditions import report_group
from pyscheduler.core.pod_groups.extension_points import PostFilterOutcome, run_pod_group_post_filter
from pyscheduler.core.pod_groups.manager import PodGroupManager
from pyscheduler.core.pod_groups.members import SINGLE_POD
from pyscheduler.core.pod_groups.min_resources import missing_resources
from pyscheduler.core.pod_groups.placement import PlacementSearch
from pyscheduler.core.pod_groups.preemption import GroupPreemption, GroupPreemptionSearch, of_nomination
from pyscheduler.core.pod_groups.queue_admission import (
    admit,
    admitted_members,
    failures_of_ungated,
    gated_members,
    reserve_admitted,
)
from pyscheduler.core.pod_groups.quota_waits import Permission
from pyscheduler.core.pod_groups.refused_binding import refused_before
from pyscheduler.core.pod_groups.reservation import RESERVATION
from pyscheduler.core.pod_groups.share_claims import cannot_be_helped, would_not_start
from pyscheduler.core.pod_groups.subgroup_placement import placement_search
from pyscheduler.core.pod_groups.wakeups import set_insufficient
from pyscheduler.core.preemption.executor import prepare_candidate
from pyscheduler.core.queue.queued_pod_group import QueuedPodGroup
from pyscheduler.core.scheduling.binding import start_binding
from pyscheduler.core.scheduling.extension_points import run_permit_plugins
from pyscheduler.core.scheduling.failure import (
    QUOTA_EXCEEDED,
    ROOM_RESERVED,
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    Failure,
    quota_exceeded,
    room_reserved,
)
from pyscheduler.core.scheduling.failure_handler import nominate, report_failure, report_plugin_failure
from pyscheduler.core.scheduling.permit import wait_on_permit
from pyscheduler.core.scheduling.suspended_attempts import run_until_pause
from pyscheduler.texts import text_of

WAITING_ON_BINDING = "WaitingOnBinding"
"""Reason of members whose nodes are held while another one is being bound."""
_NONE: frozenset[str] = frozenset()
Waits = Mapping[str, dict[str, Wait]]
"""Wait results of Permit plugins by the UID of the member and the name of the plugin."""


def schedule_pod_group(context: Context, queued: QueuedPodGroup, now: float) -> list[Command]:
    """Attempt to schedule the pending members of a popped group, up to the first pause, and return the commands."""
    return run_until_pause(context, SuspendedAttempt(queued, queued.pod, _attempt(context, queued, now)))


def _attempt(context: Context, queued: QueuedPodGroup, now: float) -> Steps[list[Command]]:
    """Run an attempt; yields after some members have been placed, and forgets them if it is closed then."""
    group = context.groups.requirements(queued.key)
    if isinstance(group, Rejection):
        context.queue.end_group_attempt(queued, (), frozenset(), frozenset(), now)
        return []
    for member in queued.members.values():
        member.attempts, member.last_attempt = member.attempts + 1, now
    try:
        return (yield from _run_attempt(context, group, queued, now))
    except GeneratorExit:  # it starts over, so it does not lengthen the backoff
        for member in queued.members.values():
            member.attempts -= 1
        raise


def _run_attempt(context: Context, group: PodGroup, queued: QueuedPodGroup, now: float) -> Steps[list[Command]]:
    context.groups.usage.reserve(queued.key, ())
    yield from context.groups.report_usage_in_steps()
    search, admitted = placement_search(context, group, now), list[Pod]()
    try:
        waits = yield from _place(context, search, group, queued, now, admitted)
    except BaseException as error:
        search.undo()
        if is_external(error):
            raise
        context.instrument.plugin_failed("pyscheduler", "attempt", error)
        failed = Failure.error(f"the attempt failed: {text_of(error, repr)}")
        search.fail(queued.members, failed)
        waits = {}
    if admitted:
        return [*admit(context, group, queued, admitted, now)]
    _bind_refused_member_first(context, group, search)
    placed = search.placed
    if len(placed) == len(queued.members):
        return _start_whole_group(context, group, queued, placed, waits, now)
    failures = _failures_of_all(context, group, queued, search)
    set_insufficient(context.handle, queued, failures.values())
    if context.groups.quota is not None:
        has_no_claim = would_not_start(context, group, queued, search)
        context.groups.usage.set_infeasible(queued.key, is_infeasible=has_no_claim)
    evictions: list[Command] = []
    if failures and not placed:
        evictions = yield from _run_preemption(context, group, queued, failures, now)
    if context.groups.quota is not None:
        reserve_admitted(context, queued, failures)
        may_start = bool(placed or evictions)
        if not may_start and (yield from cannot_be_helped(context, group, queued, failures, now)):
            context.groups.usage.set_infeasible(queued.key, is_infeasible=True)
        failures = yield from backfill.end_attempt(context, group, queued, failures, now, may_start=may_start)
        refused = [] if may_start else _refused_by_queue(context, group, queued, failures)
        context.quota_waits.end_attempt(queued, group, refused)
    commands = [
        *_start_binding_cycles(context, placed, waits, now),
        *_report_failures(context, queued, failures),
        *evictions,
        *report_group(context, group, failures),
    ]
    rejected = frozenset(plugin for failure in failures.values() for plugin in failure.unschedulable_plugins)
    pending = frozenset(plugin for failure in failures.values() for plugin in failure.pending_plugins)
    # Last: if a step before raises, all members are still in the queue's entry of the group.
    context.queue.end_group_attempt(queued, [assumed.pod.uid for assumed in placed], rejected, pending, now)
    return commands


def _start_whole_group(
    context: Context, group: PodGroup, queued: QueuedPodGroup, placed: Sequence[AssumedPod], waits: Waits, now: float
) -> list[Command]:
    """End the attempt of a group of which all pending members have a node, and return the commands."""
    queued.insufficient = ()
    if context.groups.quota is not None:
        context.groups.usage.set_infeasible(queued.key, is_infeasible=False)
        backfill.end_placed(context, queued, now)
        context.quota_waits.end_placed(queued)
    commands = _start_binding_cycles(context, placed, waits, now)
    if group.kind is not None or group.subgroups:
        commands += report_group(context, group, {})
    context.queue.end_group_attempt(queued, list(queued.members), _NONE, _NONE, now)
    return commands


def _place(
    context: Context, search: PlacementSearch, group: PodGroup, queued: QueuedPodGroup, now: float, admitted: list[Pod]
) -> Steps[Waits]:
    """Place the members and run Permit. Otherwise none is placed, and the search has the reasons.

    If gates are to be removed before, their members are added to `admitted`, and none is placed.
    """
    groups = context.groups
    if group.error:
        search.fail(queued.members, Failure.error(group.error))
        return {}
    if context.reservations.is_vacant and groups.quota is not None:
        yield from backfill.begin_attempt(context, queued, now)
    if groups.quota is not None and (before := context.quota_waits.begin_attempt(queued, group)) is not None:
        text = f"queue {groups.queue_of(group)} has strict order, and {before.title} comes before"
        search.fail(queued.members, quota_exceeded(groups.quota_name, text))
        return {}
    if groups.quota is not None and (exceeded := groups.exceeded(group, groups.needed(group, queued.pods))):
        search.fail(queued.members, quota_exceeded(groups.quota_name, exceeded))
        return {}
    gated = gated_members(queued) if groups.quota is not None else []
    if gated:
        admitted += admitted_members(context, group, queued.pods, gated)
    if admitted:
        return {}
    missing = missing_resources(context, group, queued.pod.priority) if group.min_resources else ""
    plugin = context.profiles[queued.pod.scheduler_name].pod_group
    if missing and plugin is not None:
        text = f"pod group {group.key} needs {missing}"
        search.fail(queued.members, Failure(text, UNSCHEDULABLE, frozenset({plugin.name}), nominate=""))
        return {}
    if not (yield from _run_search(search, group, queued, gated, groups)):
        return {}
    has_reservation = context.reservations.current is not None
    if has_reservation and (reason := (yield from backfill.check_reservation(context, queued, search, now))):
        search.fail(queued.members, room_reserved(RESERVATION, reason))
        return {}
    return _run_permit_plugins(context, search, group)


def _run_search(
    search: PlacementSearch, group: PodGroup, queued: QueuedPodGroup, gated: Sequence[Pod], groups: PodGroupManager
) -> Steps[bool]:
    """Place the members that are not gated. Return True if enough are placed."""
    if not gated:
        if groups.is_ordered_by_share(group):
            return (yield from _run_without_surplus(search, group, queued, groups))
        return (yield from search.run(queued.members.values()))
    text = f"queue {groups.queue_of(group)} admits no more pods of {queued.title}"
    held = {pod.uid: quota_exceeded(groups.quota_name, text) for pod in gated}
    others = [member for uid, member in queued.members.items() if uid not in held]
    is_placed = bool(others) and (yield from search.run(others))
    search.failures.update(held)
    return is_placed


def _run_without_surplus(
    search: PlacementSearch, group: PodGroup, queued: QueuedPodGroup, groups: PodGroupManager
) -> Steps[bool]:
    """Place the minimum, or one member above it, so that the other groups of the queue are served in between."""
    members = queued.members
    if group.min_count_by_role or group.subgroups or len(members) == 1:
        return (yield from search.run(members.values()))
    needed, by_kind = groups.needed_count(group), dict[Hashable, list[QueuedPod]]()
    for each in members.values():
        by_kind.setdefault(_kind(each.pod), []).append(each)
    # More of a kind are not placed anyway, and there is an attempt for each member.
    is_placed = yield from search.run(each for equal in by_kind.values() for each in equal[:needed])
    yield from search.undo_in_steps(needed)
    if search.is_failed_as_a_whole and search.failures:
        search.fail(members, next(iter(search.failures.values())))
        return is_placed
    failures = search.failures
    for equal in by_kind.values():
        failure = next((failures[each.pod.uid] for each in equal if each.pod.uid in failures), None)
        if failure is not None:
            search.failures.update({each.pod.uid: failure for each in equal if each.pod.uid not in failures})
    return is_placed


def _kind(pod: Pod) -> Hashable:
    """Return a key that is equal for pods of one template, such as those of an indexed Job; claims may differ."""
    return pod.signature.template.id, pod.priority, pod.uid if pod.spec.resource_claims else ""


def _run_permit_plugins(context: Context, search: PlacementSearch, group: PodGroup) -> Waits:
    """Run Permit for all placed members. The group is undone if a plugin rejects one that it needs."""
    waits: dict[str, dict[str, Wait]] = {}
    is_rejected = False
    for assumed in list(search.placed):
        permit, uid = assumed.profile.permit, assumed.pod.uid
        node = context.state.info(assumed.node_name) if permit else None
        if node is None:
            continue
        try:
            rejection, waits[uid] = run_permit_plugins(permit, assumed.cycle, assumed.pod, node, assumed.points.permit)
            failure = None if rejection is None else Failure.rejected(rejection.plugin, rejection.message)
        except PluginFailed as failed:
            assumed.points.fail()
            report_plugin_failure(context, failed)
            failure = Failure.of_plugin(failed)
        if failure is not None:
            search.forget(assumed)
            search.failures[uid] = failure
            if context.groups.shortage(group, ()):
                search.undo()
                return {}
            is_rejected = True
    if is_rejected:
        search.drop_incomplete()
        if context.groups.shortage(group, ()):
            search.undo()
            return {}
    return waits


def _bind_refused_member_first(context: Context, group: PodGroup, search: PlacementSearch) -> None:
    """Keep only that member placed whose binding was refused too often, and nominate the others to their nodes.

    A group that has its minimum without it is not changed.
    """
    refused = refused_before(search.placed)
    if refused is None or context.groups[group.key].started_count - len(search.placed) >= group.min_count:
        return
    text = f"waits for the binding of {refused.pod.name}, which was refused before"
    for assumed in [each for each in search.placed if each is not refused]:
        search.forget(assumed)
        search.failures[assumed.pod.uid] = Failure(text, WAITING_ON_BINDING, nominate=assumed.node_name, in_memory=True)
    search.is_failed_as_a_whole = True
    context.groups.await_binding(group.key, refused.pod)


def _start_binding_cycles(context: Context, placed: Sequence[AssumedPod], waits: Waits, now: float) -> list[Command]:
    commands: list[Command] = []
    for assumed in placed:
        if waits and (wait := waits.get(assumed.pod.uid)):
            context.queue.hold(assumed.queued)
            commands += wait_on_permit(context, assumed, wait, now)
        else:
            commands += start_binding(context, assumed, now)
    return commands


def _failures_of_all(
    context: Context, group: PodGroup, queued: QueuedPodGroup, search: PlacementSearch
) -> dict[str, Failure]:
    """Return the failure of each member that is not placed, in the order of the members.

    If the group lacks its minimum, each has the reason of the whole group.
    """
    placed = {assumed.pod.uid for assumed in search.placed}
    failures = {uid: search.failures[uid] for uid in queued.members if uid not in placed and uid in search.failures}
    if search.is_failed_as_a_whole or group.key.api == SINGLE_POD:
        return kubernetes_texts.as_whole(group, failures) if search.is_failed_as_a_whole else failures
    if not context.groups.shortage(group, ()):
        return failures if kubernetes_texts.is_used_by(group) else _failures_of_surplus(group, failures)
    if kubernetes_texts.is_used_by(group):
        started = context.groups[group.key].started_count
        return kubernetes_texts.failures_of_members(
            group, queued.members, search.failures, search.fitting_members, started, search.candidate_count
        )
    uid, first = next(iter(search.failures.items()))
    name, started = queued.members[uid].pod.name, context.groups[group.key].started_count
    text = (
        f"pod group {group.key} does not fit: {search.fitting + started} of {group.min_count} required pods have a node"
    )
    text += f", {name} lacks {search.missing}: " if search.missing else f", {name} has none: "
    whole = replace(first, message=text + first.message, nominate="")
    return {uid: failures[uid] if failures.get(uid, first).reason != UNSCHEDULABLE else whole for uid in queued.members}


def _failures_of_surplus(group: PodGroup, failures: dict[str, Failure]) -> dict[str, Failure]:
    """Return the failures of pods above the minimum, with the reason why nothing is evicted for those without room."""
    text = f"The pod is above the minimum of {group.min_count} of pod group {group.key}, so nothing is evicted for it."
    made: dict[Failure, Failure] = {}  # the failures of equal pods are equal, and there may be thousands
    for failure in failures.values():
        if failure not in made:
            is_lacking_room = failure.reason == UNSCHEDULABLE
            made[failure] = replace(failure, message=f"{failure.message} {text}") if is_lacking_room else failure
    return {uid: made[failure] for uid, failure in failures.items()}


def _run_preemption(
    context: Context, group: PodGroup, queued: QueuedPodGroup, failures: dict[str, Failure], now: float
) -> Steps[list[Command]]:
    """Evict pods of lower priority if that makes room for the whole group, and nominate all members.

    Sets the nominated nodes in `failures`. Members keep their nominations as long as victims there are terminating.
    """
    pods = queued.pods
    reasons = {failure.reason for failure in failures_of_ungated(queued, failures).values()}
    is_over_quota = QUOTA_EXCEEDED in reasons
    if SCHEDULER_ERROR in reasons and kubernetes_texts.is_used_by(group):
        return []
    if ROOM_RESERVED in reasons or (is_over_quota and not _is_over_quota(context, group, pods)):
        return []
    profile = context.profiles[pods[0].scheduler_name]
    preemption = profile.preemption
    never = not group.may_preempt or all(pod.spec.preemption_policy == "Never" for pod in pods)
    if never:
        preemption = None
    makes_room = preemption is not None or profile.may_make_room_for_groups
    waits_for_victims = makes_room and _waits_for_victims(context, pods)
    if waits_for_victims or (makes_room and is_over_quota and not _is_over_quota_later(context, group, pods)):
        context.groups.reserve(queued.key, [pod for pod in pods if context.queue.nominator.nominated_node(pod)])
        failures.update({uid: replace(failure, nominate=None) for uid, failure in failures.items()})
        if waits_for_victims:
            kubernetes_texts.add_ongoing(group, failures)
        return []
    is_short = bool(context.groups.shortage(group, ()))  # pods above the minimum evict none
    outcome = PostFilterOutcome()
    if is_short:
        outcome = run_pod_group_post_filter(context, group, pods, next(iter(failures.values())).message)
    found = of_nomination(context, outcome.nominated)
    reason, plugin = ", ".join((*outcome.reasons, *kubernetes_texts.never(group, never))), outcome.plugin
    if found is None and preemption is not None and is_short and not outcome.is_final:
        members = list(queued.members.values())
        search = GroupPreemptionSearch(context, group, queued.pod.priority, members, now, queued.insufficient)
        result = yield from search.run(is_over_quota=is_over_quota)
        plugin = preemption.name
        later = None if isinstance(result, GroupPreemption) else (yield from search.first_time())
        if later is not None:
            context.quota_waits.wake_at(queued, later)
            result = search.min_run_reason
        if isinstance(result, str):
            reason = f"{reason} {result}".strip()
        else:
            found = result
            reason = kubernetes_texts.without_plugins(group, reason)
    victims_count = None if found is None else sum(map(len, found.victims.values()))
    if preemption is not None or reason:
        kubernetes_texts.add_result(group, failures, victims_count, reason)
    return [] if found is None else _nominate_members(context, group, queued, failures, found, plugin, now)


def _nominate_members(
    context: Context,
    group: PodGroup,
    queued: QueuedPodGroup,
    failures: dict[str, Failure],
    found: GroupPreemption,
    plugin: str,
    now: float,
) -> list[Command]:
    """Nominate members to the nodes that were found, in `failures`, and return the commands that evict the victims."""
    context.groups.reserve(queued.key, [pod for pod in queued.pods if pod.uid in found.nodes])
    if evicted := [context.groups.effective_priority(pod) for victims in found.victims.values() for pod in victims]:
        highest = max(evicted)
        for uid in found.nodes:
            context.queue.nominator.set_victims_priority(uid, highest)
    failures.update({uid: replace(failure, nominate=found.nodes.get(uid, "")) for uid, failure in failures.items()})
    return [
        command
        for node_name, victims in found.victims.items()
        for command in prepare_candidate(
            context, queued.pod, node_name, victims, plugin, now, by=kubernetes_texts.preemptor(group, node_name)
        )
    ]


def _is_over_quota(context: Context, group: PodGroup, pods: Sequence[Pod]) -> bool:
    """Return True if evictions in the queue may let the group start: not if others come before it."""
    return bool(context.groups.exceeded(group, context.groups.needed(group, pods)))


def _is_over_quota_later(context: Context, group: PodGroup, pods: Sequence[Pod]) -> bool:
    """Return False if only terminating pods keep the group over its quota: to evict others would not help earlier."""
    return context.groups.exceeds_after_terminations(group, context.groups.needed(group, pods))


def _refused_by_queue(
    context: Context, group: PodGroup, queued: QueuedPodGroup, failures: Mapping[str, Failure]
) -> list[tuple[Permission, Mapping[str, int]]]:
    """Return what the queue of the group has refused: to allocate what it needs, or to reclaim it from other queues."""
    is_short = bool(context.groups.shortage(group, ()))
    failures = failures_of_ungated(queued, failures) if is_short else failures
    over = [queued.members[uid].pod for uid, failure in failures.items() if failure.reason == QUOTA_EXCEEDED]
    if over and not is_short:
        requests = (context.groups.requests_of(group, (pod,)) for pod in {pod.signature: pod for pod in over}.values())
        return [(Permission.ALLOCATE, request) for request in requests]
    lacks_room = all(failure.reason == UNSCHEDULABLE for failure in failures.values())
    if not over and not (lacks_room and is_short and group.may_preempt):
        return []
    needed = context.groups.needed(group, queued.pods)
    return [(Permission.ALLOCATE if over else Permission.RECLAIM, needed)]


def _waits_for_victims(context: Context, pods: Sequence[Pod]) -> bool:
    """Return True if pods are terminating on a node that a member is nominated to."""
    names = {name for pod in pods if (name := context.queue.nominator.nominated_node(pod))}
    nodes = [node for name in names if (node := context.state.info(name)) is not None]
    return any(pod.deleting for node in nodes for pod in node.pods.values())


def _report_failures(context: Context, queued: QueuedPodGroup, failures: Mapping[str, Failure]) -> list[Command]:
    """Return the events and conditions of the members that are not placed; none that repeat the last attempt's."""
    commands: list[Command] = []
    for uid, failure in failures.items():
        member = queued.members[uid]
        pod = member.pod
        result = "error" if failure.reason == SCHEDULER_ERROR else "unschedulable"
        context.instrument.attempted(pod.scheduler_name, result, member.last_attempt)
        nominated = nominate(context, pod, failure)
        if nominated is not None or queued.reported.get(pod.uid) != failure.message:
            queued.reported[pod.uid] = failure.message
            commands += report_failure(pod, failure, nominated)
    return commands
