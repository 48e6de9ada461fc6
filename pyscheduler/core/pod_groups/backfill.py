"""Backfill: groups start before the first one that lacks room, if they do not delay it (EASY backfill).

    begin_attempt        choose the next head, if the last reservation has ended
    check_reservation    place a group on other nodes, or undo it, if it would delay the head
    end_placed           end the reservation of a group that is placed
    end_attempt          reserve nodes for a group that lacks room, or end its reservation
    end_if_gone          end the reservation of a group that is held or has no pending pods

The head is the first group, by priority and the time at which it became active, that would fit if pods that end were
gone. Groups before it are never delayed. Without queues nothing is reserved.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from pyscheduler.api.nodes import Mask
from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroup
from pyscheduler.api.steps import Steps
from pyscheduler.core.context import AssumedPod, Context
from pyscheduler.core.pod_groups.head_search import HeadSearch
from pyscheduler.core.pod_groups.members import was_unschedulable
from pyscheduler.core.pod_groups.min_resources import missing_resources
from pyscheduler.core.pod_groups.placement import PlacementSearch
from pyscheduler.core.pod_groups.queue_admission import failures_of_ungated
from pyscheduler.core.pod_groups.reservation import Reservation
from pyscheduler.core.pod_groups.run_times import UNKNOWN, run_seconds
from pyscheduler.core.pod_groups.turns import comes_before, is_guaranteed, update_turn
from pyscheduler.core.pod_groups.utc_minutes import utc_minute
from pyscheduler.core.queue.labels import POD_GROUP_CHANGED
from pyscheduler.core.queue.queued_pod_group import QueuedPodGroup
from pyscheduler.core.scheduling.failure import ROOM_RESERVED, SCHEDULER_ERROR, UNSCHEDULABLE, Failure

_CANDIDATES = 8
"""Number of groups that are tried as the next head, each with several dry runs."""


def begin_attempt(context: Context, queued: QueuedPodGroup, now: float) -> Steps[None]:
    """Reserve nodes for the first group that lacks room, unless it is the one that is attempted now.

    After a restart this is known from the conditions of the pods: those behind the head might start in its room.
    """
    reservations = context.reservations
    if reservations.candidates is None:
        lacking = [each for each in context.queue.pod_groups if _may_be_head(context, each, queued)]
        reservations.candidates = sorted(lacking, key=lambda each: (not each.has_turn, each.order), reverse=True)
        reservations.tried = 0
    candidates = reservations.candidates
    while candidates and reservations.tried < _CANDIDATES:
        entry = candidates[-1]
        if entry is queued:
            candidates.pop()
            reservations.first = None
            return
        if not _may_be_head(context, entry, queued):
            candidates.pop()
            continue
        if entry is reservations.first:
            return
        if (yield from _reserve(context, entry, now)):
            reservations.first = None
            return
        if not reservations.is_unfit(entry, now):
            # It may start now, on any node, so nothing can be promised to those behind it.
            context.queue.requeue(entry.pod, POD_GROUP_CHANGED, now)
            reservations.first = entry
            return
        candidates.pop()
        reservations.tried += 1
    reservations.first, reservations.is_vacant = None, False


def _may_be_head(context: Context, entry: QueuedPodGroup, queued: QueuedPodGroup) -> bool:
    """Return True if a group lacked room, in an attempt or before a restart; `queued` is the one being attempted."""
    is_new = entry.attempts <= (entry is queued)
    lacks_room = entry.lacks_room or entry.is_delayed or (is_new and _lacked_room(context, entry))
    return lacks_room and context.queue.is_queued(entry)


def check_reservation(context: Context, queued: QueuedPodGroup, search: PlacementSearch, now: float) -> Steps[str]:
    """Return why a placed group has to wait, and undo it; "" if it may start, maybe on other nodes."""
    current = context.reservations.current
    if current is None or current.head is queued:
        return ""
    late = [each for each in search.placed if _is_late(context, each, current, now)]
    if not any(each.node_name in current.nodes for each in late):
        return ""
    if comes_before(context, queued, current.head) or _is_nominated(context, queued.pods):
        yield from _reserve_or_end(context, current.head, now)
        return ""
    yield from search.undo_in_steps()
    members = queued.members.values()
    if _has_precedence(context, queued, current.head) and (yield from search.run(members)):
        yield from _reserve_or_end(context, current.head, now)
        return ""
    if (yield from search.run(members, _unreserved_nodes(context, current))):
        return ""
    if _may_fit_besides(current, late) and (yield from search.run(members)):
        if (yield from _fits_besides(context, current, late, now)):
            return ""
        yield from search.undo_in_steps()
    return f"would delay {current.head.title}, which {_start_time(current, now)}"


def end_attempt(
    context: Context,
    group: PodGroup,
    queued: QueuedPodGroup,
    failures: Mapping[str, Failure],
    now: float,
    *,
    may_start: bool,
) -> Steps[dict[str, Failure]]:
    """Reserve nodes for a group that lacks room, and return its failures with the pods that run too long.

    `may_start` is False if the group was neither placed nor preempts.
    """
    queued.is_delayed = any(failure.reason == ROOM_RESERVED for failure in failures.values())
    queued.has_turn = queued.waits_for_turn = False
    turn = update_turn(context, group, queued, now) if not may_start and context.groups.shortage(group, ()) else None
    is_candidate = not may_start and not queued.waits_for_turn
    queued.lacks_room = is_candidate and _lacks_room(context, group, queued, failures)
    current = context.reservations.current
    is_head = current is not None and current.head is queued
    first = context.reservations.first
    is_preceded = first is not None and first is not queued and context.queue.is_queued(first)
    if queued.lacks_room and current is None and is_preceded:
        context.reservations.vacate()
    elif queued.lacks_room and (current is None or is_head or comes_before(context, queued, current.head)):
        if (yield from _reserve(context, queued, now)):
            return {
                uid: _with_overrun(context, _with_start(context, failure), now) for uid, failure in failures.items()
            }
        queued.lacks_room = False
    failed = any(failure.reason == SCHEDULER_ERROR for failure in failures.values())
    if is_head and not queued.lacks_room and not failed:
        end_reservation(context, now)
    if turn and (begin := utc_minute(now + turn + context.settings.epoch)):
        text = f"The turn of the job, which is above the share of its queue, begins at {begin} at the earliest."
        return {uid: _with_text(failure, text) for uid, failure in failures.items()}
    return dict(failures)


def end_placed(context: Context, queued: QueuedPodGroup, now: float) -> None:
    """End the reservation for a group of which all pending members have been placed."""
    queued.is_delayed = queued.lacks_room = queued.has_turn = False
    current = context.reservations.current
    if current is not None and current.head is queued:
        end_reservation(context, now)


def may_reserve(context: Context, queued: QueuedPodGroup) -> bool:
    """Return True if an attempt of the group that lacks room may reserve nodes for it, or change its reservation."""
    if context.groups.quota is None:
        return False
    current = context.reservations.current
    return current is None or current.head is queued or comes_before(context, queued, current.head)


def end_if_gone(context: Context, now: float) -> None:
    """End the reservation of a group that is held or has no pending pods, or if there are no queues any more."""
    current = context.reservations.current
    if current is not None and (context.groups.quota is None or not context.queue.is_queued(current.head)):
        end_reservation(context, now)


def end_reservation(context: Context, now: float) -> None:
    """End the reservation, and retry the groups that waited for it."""
    context.reservations.replace(None)
    context.reservations.vacate()
    _wake_delayed(context, now)


def _reserve(context: Context, head: QueuedPodGroup, now: float) -> Steps[bool]:
    """Reserve nodes for a group that lacks room. Return False if it fits now, or would not fit even later."""
    group, before = context.groups.requirements(head.key), context.reservations.current
    if not isinstance(group, PodGroup) or context.reservations.is_unfit(head, now):
        return False
    search = HeadSearch(context, head, group, now)
    found = yield from (search.again(before) if before is not None and before.head is head else search.run())
    if found is None:
        context.reservations.set_unfit(head, now)
        return False
    if not found.nodes:
        return False  # something else than room is missing
    context.reservations.replace(found)
    context.reservations.is_vacant = False
    if before is not None and (before.head is not head or before.nodes - found.nodes or found.time > before.time):
        _wake_delayed(context, now)
    return True


def _reserve_or_end(context: Context, head: QueuedPodGroup, now: float) -> Steps[None]:
    """Reserve other nodes for the head after another group has been placed, or end its reservation."""
    if not (yield from _reserve(context, head, now)):
        end_reservation(context, now)


def _wake_delayed(context: Context, now: float) -> None:
    for entry in [each for each in context.queue.pod_groups if each.is_delayed]:
        context.queue.requeue(entry.pod, POD_GROUP_CHANGED, now)


def _lacks_room(context: Context, group: PodGroup, queued: QueuedPodGroup, failures: Mapping[str, Failure]) -> bool:
    """Return True if the group waits for room for its minimum, and for nothing else."""
    failures = failures_of_ungated(queued, failures)
    if not failures or any(failure.reason != UNSCHEDULABLE for failure in failures.values()):
        return False
    kept = [queued.members[uid].pod for uid, failure in failures.items() if failure.nominate != ""]
    if _is_nominated(context, kept) or not context.groups.shortage(group, ()):
        return False
    return not missing_resources(context, group, queued.pod.priority)


def _lacked_room(context: Context, queued: QueuedPodGroup) -> bool:
    """Return True if a group that has not been attempted lacks room for its minimum, by the conditions of its pods."""
    pods = queued.pods
    if not all(map(was_unschedulable, pods)):
        return False
    group = context.groups.requirements(queued.key)
    return (
        isinstance(group, PodGroup)
        and not _is_nominated(context, pods)
        and bool(context.groups.shortage(group, ()))
        and not missing_resources(context, group, queued.pod.priority)
    )


def _is_nominated(context: Context, pods: Iterable[Pod]) -> bool:
    return any(context.queue.nominator.nominated_node(pod) for pod in pods)


# -- groups that may delay the head ------------------------------------------------------------------------------------


def _is_late(context: Context, assumed: AssumedPod, current: Reservation, now: float) -> bool:
    """Return True if the pod may still run when the head is to start, and requests some of what that needs."""
    if current.resources.isdisjoint(assumed.pod.requests.effective):
        return False
    end = context.reservations.times.expected_end(assumed.pod, now)
    return end == UNKNOWN or end > current.time


def _may_fit_besides(current: Reservation, late: Sequence[AssumedPod]) -> bool:
    """Return True unless the head is known not to fit in time beside these pods.

    Without a time, they might be expected to be gone too, one after the other, and the head would wait forever.
    """
    return current.time != UNKNOWN and not current.refuses(_requests(late))


def _fits_besides(context: Context, current: Reservation, late: Sequence[AssumedPod], now: float) -> Steps[bool]:
    """Return True, and move the reservation to other nodes, if the head fits in time beside these assumed pods."""
    group = context.groups.requirements(current.head.key)
    found: Reservation | None = None
    if isinstance(group, PodGroup):
        found = yield from HeadSearch(context, current.head, group, now).at(current.time)
    if found is None:
        current.refusals.append(_requests(late))
        return False
    context.reservations.replace(found)
    return True


def _requests(late: Iterable[AssumedPod]) -> Counter[str]:
    requests = Counter[str]()
    for assumed in late:
        requests.update(assumed.pod.requests.effective)
    return requests


def _unreserved_nodes(context: Context, current: Reservation) -> Mask:
    """Return a mask of the nodes that are not reserved."""
    others: Mask = ~context.state.table().named(current.nodes)
    return others


def _has_precedence(context: Context, queued: QueuedPodGroup, head: QueuedPodGroup) -> bool:
    """Return True if the group is within the share of its queue, and the head is above that of another one.

    In the turn of the head, it must be within the guarantee.
    """
    queues = context.groups.queue_of_key(queued.key), context.groups.queue_of_key(head.key)
    if queues[0] == queues[1]:
        return False
    if head.has_turn:
        return is_guaranteed(context, queued)
    return _is_within_share(context, queued) and not _is_within_share(context, head)


def _is_within_share(context: Context, queued: QueuedPodGroup) -> bool:
    """Return True if the queue of the group would not be above its share if the group had started."""
    groups, group = context.groups, context.groups.requirements(queued.key)
    return isinstance(group, PodGroup) and groups.is_within_share(group, groups.needed(group, queued.pods))


# -- messages ----------------------------------------------------------------------------------------------------------


def _start_time(current: Reservation, now: float) -> str:
    """Return when the head starts, in full minutes if that is not soon: each change of the message is written."""
    if current.time == UNKNOWN:
        return "starts when pods have ended that declare no run time"
    seconds = max(0, math.ceil(current.time - now))
    return f"starts at the latest in {seconds if seconds <= 60 else 60 * math.ceil(seconds / 60)} s"


def _with_start(context: Context, failure: Failure) -> Failure:
    """Return the head's failure with the time at which it starts, if that is known."""
    current = context.reservations.current
    start = "" if current is None else utc_minute(current.time + context.settings.epoch)
    return _with_text(failure, f"Nodes are reserved for it, and it starts by {start}.") if start else failure


def _with_text(failure: Failure, text: str) -> Failure:
    group_message = f"{failure.group_message} {text}" if failure.group_message else ""
    return replace(failure, message=f"{failure.message} {text}", group_message=group_message)


def _with_overrun(context: Context, failure: Failure, now: float) -> Failure:
    """Return the head's failure with the first pod on the reserved nodes that runs longer than it has declared."""
    current = context.reservations.current
    nodes = [] if current is None else [context.state.info(name) for name in sorted(current.nodes)]
    times = context.reservations.times
    for node in nodes:
        for pod in node.pods.values() if node is not None else ():
            if times.declared_end(pod, now) < now and not pod.deleting:
                text = f"pod {pod.key} runs longer than the {run_seconds(pod):g} s that it declares"
                return _with_text(failure, f"The nodes reserved for it are late: {text}.")
    return failure
