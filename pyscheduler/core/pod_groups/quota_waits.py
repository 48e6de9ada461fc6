"""Groups that wait for their queue, and the changes that may help them.

    begin_attempt    a group that is attempted waits no more
    end_attempt      what it waits for, if its queue refused it
    retry            after a change: retry the groups that their queues no longer refuse

A group waits because its queue may not allocate more, or not reclaim what it lacks. Such changes are no events of the
cluster: a pending pod that is deleted in another queue makes a share larger. So once the usage of any group or the
limits of a queue have changed, the plugin is called again, once for all groups that wait for the same.

Of the groups that wait for the same, one is retried at a time, the first in their order: it may use up what has become
available. The next one follows after its attempt, unless the queue refuses that again.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sortedcontainers import SortedDict

from pyscheduler.api.pod_group import PodGroup
from pyscheduler.core.pod_groups.manager import PodGroupManager
from pyscheduler.core.queue.labels import QUOTA_CHANGED
from pyscheduler.core.queue.queue import SchedulingQueue
from pyscheduler.core.queue.queued_pod_group import QueuedPodGroup

Order = tuple[int, float, str]
Request = tuple[tuple[str, int], ...]
_ATTEMPTS = 32
"""Number of attempts after which waiting groups are considered while others are ready."""


class Permission(enum.Enum):
    """What a group waits for its queue to permit."""

    ALLOCATE = "allocate"
    RECLAIM = "reclaim"


class QuotaWait(NamedTuple):
    """What a group waits for: that its queue may allocate the request, or reclaim it."""

    permission: Permission
    queue: str
    request: Request


class _Waiting:
    """Groups that wait for the same."""

    def __init__(self, group: PodGroup) -> None:
        self.group = group
        """Any one of them, for which the plugin is called."""
        self.entries: SortedDict[Order, QueuedPodGroup] = SortedDict()
        self.retried: QueuedPodGroup | None = None
        """The one that is being retried."""

    @property
    def first(self) -> QueuedPodGroup:
        """The first group in their order."""
        first: QueuedPodGroup = self.entries.peekitem(0)[1]
        return first


class QuotaWaits:
    """All groups that wait for their queue."""

    def __init__(self, groups: PodGroupManager, queue: SchedulingQueue) -> None:
        self._groups = groups
        self._queue = queue
        self._waiting: dict[QuotaWait, _Waiting] = {}
        self._waits_of: dict[str, list[tuple[QuotaWait, Order]]] = {}
        """What each group waits for, by the UID of its entry, with its place there."""
        self._retried_for: dict[str, QuotaWait] = {}
        """What a group that is being retried has waited for, by the UID of its entry."""
        self._outdated: dict[QuotaWait, None] = {}
        """Waits of which the group that was retried has left over what it waited for."""
        self._calls = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def clear(self) -> None:
        """Forget all groups: the plugins have changed, and every group is attempted anew."""
        self._waiting, self._waits_of, self._retried_for, self._outdated = {}, {}, {}, {}

    def begin_attempt(self, queued: QueuedPodGroup) -> None:
        """Record that a group is attempted."""
        self._remove(queued)

    def end_attempt(
        self, queued: QueuedPodGroup, group: PodGroup, refused: Iterable[tuple[Permission, Mapping[str, int]]]
    ) -> None:
        """Record what the queue of the group refused in its attempt."""
        if not self._waiting:
            self._groups.take_quota_changes()  # those before matter to no group
        queue = self._groups.queue_of(group)
        waits = dict.fromkeys(QuotaWait(what, queue, tuple(sorted(request.items()))) for what, request in refused)
        order = (*queued.order, queued.pod.uid)
        for wait in waits:
            self._waiting.setdefault(wait, _Waiting(group)).entries[order] = queued
        if waits:
            self._waits_of[queued.pod.uid] = [(wait, order) for wait in waits]
        retried_for = self._retried_for.pop(queued.pod.uid, None)
        if retried_for is not None:
            self._waiting[retried_for].retried = None
            if retried_for not in waits:
                self._outdated[retried_for] = None

    def retry(self, now: float, *, is_idle: bool) -> None:
        """Retry the groups that their queues no longer refuse; if other groups are ready, after every few attempts."""
        self._calls += 1
        if not is_idle and self._calls % _ATTEMPTS:
            return
        outdated, self._outdated = self._outdated, {}
        waits = self._waiting if self._groups.take_quota_changes() else outdated
        for wait in [wait for wait in waits if wait in self._waiting]:
            self._retry_first(wait, self._waiting[wait], now)

    def _retry_first(self, wait: QuotaWait, waiting: _Waiting, now: float) -> None:
        if waiting.retried is not None:
            if self._queue.is_queued(waiting.retried):
                return
            del self._retried_for[waiting.retried.pod.uid]
            waiting.retried = None
        while waiting.entries and not self._queue.is_queued(waiting.first):
            self._remove(waiting.first)
        if not waiting.entries:
            del self._waiting[wait]
            return
        queued = waiting.first
        if self._is_granted(wait, waiting.group):
            self._remove(queued)
            waiting.retried, self._retried_for[queued.pod.uid] = queued, wait
            self._queue.requeue(queued.pod, QUOTA_CHANGED, now)

    def _remove(self, queued: QueuedPodGroup) -> None:
        for wait, order in self._waits_of.pop(queued.pod.uid, ()):
            del self._waiting[wait].entries[order]

    def _is_granted(self, wait: QuotaWait, group: PodGroup) -> bool:
        if wait.permission is Permission.ALLOCATE:
            return not self._groups.exceeded(group, dict(wait.request))
        return self._groups.may_reclaim(group, dict(wait.request))
