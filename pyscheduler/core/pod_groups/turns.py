"""Turns of groups that need more than the whole share of their queue: the Quota plugin decides when they begin and end.

update_turn      after an attempt: whether the group has its turn, and a retry when it begins
comes_before     order of groups that lack room: those in their turn are before those of other queues
"""

from __future__ import annotations

import math

from pyscheduler.api.pod_group import PodGroup
from pyscheduler.api.pod_group_plugins import QuotaPlugin
from pyscheduler.core.context import Context
from pyscheduler.core.queue.active_by_queue import CRITICAL_PRIORITY
from pyscheduler.core.queue.queued_pod_group import QueuedPodGroup


def update_turn(context: Context, group: PodGroup, queued: QueuedPodGroup, now: float) -> float | None:
    """Set whether a group that lacks its minimum has its turn, or waits for it, and retry it when the turn begins.

    Return the seconds until then: infinity for never, None for a group that needs none.
    """
    groups, at = context.groups, now + context.settings.epoch
    request = groups.needed(group, queued.pods)
    with groups.before_request(group):
        seconds = groups.call_quota(None, QuotaPlugin.seconds_until_turn, group, dict(request), at)
    queued.has_turn = seconds == 0
    queued.waits_for_turn = bool(seconds)
    if seconds and seconds < math.inf:
        context.quota_waits.wake_at(queued, now + seconds)
    return seconds


def comes_before(context: Context, queued: QueuedPodGroup, other: QueuedPodGroup) -> bool:
    """Return True if nodes are reserved for a group rather than for another one, or before it."""
    is_first = queued.order < other.order
    if queued.has_turn == other.has_turn or max(queued.pod.priority, other.pod.priority) >= CRITICAL_PRIORITY:
        return is_first
    groups = context.groups
    return is_first if groups.queue_of_key(queued.key) == groups.queue_of_key(other.key) else queued.has_turn


def is_guaranteed(context: Context, queued: QueuedPodGroup) -> bool:
    """Return True if the group is not delayed by one in its turn."""
    groups, group = context.groups, context.groups.requirements(queued.key)
    if not isinstance(group, PodGroup):
        return False
    request = groups.needed(group, queued.pods)
    with groups.before_request(group):
        return groups.call_quota(False, QuotaPlugin.is_guaranteed, group, dict(request))
