"""Groups that wait for their queue, and the changes that may help them.

    begin_attempt    a group that is attempted waits no more; it may have to start after another one
    end_attempt      what it waits for, if its queue refused it
    retry            after a change: retry the groups that their queues no longer refuse

A group waits because its queue may not allocate more, or not reclaim what it lacks, or because another group of a queue
with strict order comes before it. What ends that is no event of the cluster: a pending pod that is deleted in another
queue makes a share larger. So once the usage of any group or the limits of a queue have changed, the plugin is called
again, once for all groups that wait for the same.

Of the groups that wait for the same, one is retried at a time, the first in their order: it may use up what has become
available. The next one follows after its attempt, unless the queue refuses that again.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from sortedcontainers import SortedDict

from pyscheduler.api.pod_group import PodGroup
from pyscheduler.core.pod_groups.manager import PodGroupManager
from pyscheduler.core.queue.labels import QUOTA_CHANGED
from pyscheduler.core.queue.queue import SchedulingQueue
from pyscheduler.core.queue.queued_pod_group import QueuedPodGroup

Order = tuple[int, float, str, int]
Request = tuple[tuple[str, int], ...]
_ATTEMPTS = 32
"""Number of attempts after which waiting groups are considered while others are ready."""


class Permission(enum.Enum):
    """What a group waits for its queue to permit."""

    ALLOCATE = "allocate"
    RECLAIM = "reclaim"
    START = "start"
    """Nothing but to be attempted: it is not the first one of a queue with strict order."""


class QuotaWait(NamedTuple):
    """What a group waits for, with what it requests; nothing for START."""

    permission: Permission
    queue: str
    request: Request
    accounts: tuple[str, ...] = ()
    """Users of the group, whose limits are their own."""
    is_started: bool = False
    """True for surplus pods of a group with accounts, which add no job to those of its users."""


class _WaitingGroups:
    """Groups that wait for the same."""

    def __init__(self, group: PodGroup) -> None:
        self.group = group
        """Any one of them, for which the plugin is called."""
        self.entries: dict[Order, QueuedPodGroup] = SortedDict()
        self.retried: QueuedPodGroup | None = None
        """The one that is being retried."""

    @property
    def first(self) -> QueuedPodGroup | None:
        """The first group in their order, or None."""
        return next(iter(self.entries.values()), None)


class QuotaWaits:
    """All groups that wait for their queue."""

    def __init__(self, groups: PodGroupManager, queue: SchedulingQueue) -> None:
        self._groups = groups
        self._queue = queue
        self._waiting: dict[QuotaWait, _WaitingGroups] = {}
        self._waits_of: dict[str, list[tuple[QuotaWait, Order]]] = {}
        """What each group waits for, by the UID of its entry, with its place there."""
        self._by_claim: dict[str, dict[str, QueuedPodGroup]] = {}
        """Groups that wait and request a claim, by the UIDs of their entries."""
        self._claims_of: dict[str, Collection[str]] = {}
        """The claims of such a group, by the UID of its entry."""
        self._retried_for: dict[str, QuotaWait] = {}
        """What a group that is being retried has waited for, by the UID of its entry."""
        self._outdated: dict[QuotaWait, None] = {}
        """Waits of which the group that was retried has left over what it waited for."""
        self._first: dict[str, dict[Order, QueuedPodGroup]] = {}
        """Groups of each queue with strict order that were attempted and could not be scheduled."""
        self._is_held_back = False
        """True if the group that is being attempted has to wait for one of them."""
        self._calls = 0
        self._timers: dict[str, tuple[float, QueuedPodGroup]] = {}
        """When a group is retried because pods may be evicted for it then, by the UID of its entry."""

    def clear(self) -> None:
        """Forget all groups: the plugins have changed, and every group is attempted anew."""
        self._waiting, self._waits_of, self._retried_for, self._outdated = {}, {}, {}, {}
        self._first, self._timers, self._by_claim, self._claims_of = {}, {}, {}, {}

    def wake_at(self, queued: QueuedPodGroup, at: float) -> None:
        """Retry a group at a time unless it is attempted before."""
        self._timers[queued.pod.uid] = at, queued

    def is_timed(self, queued: QueuedPodGroup) -> bool:
        """Return True if the group is retried at a time."""
        return queued.pod.uid in self._timers

    def next_wake(self) -> float | None:
        """Return the time of the next retry; None if there is none."""
        return min((at for at, _ in self._timers.values()), default=None)

    def wake(self, now: float) -> None:
        """Retry the groups whose time has come."""
        for uid in [uid for uid, (at, _) in self._timers.items() if at <= now]:
            _, queued = self._timers.pop(uid)
            if self._queue.is_queued(queued):
                self._queue.requeue(queued.pod, QUOTA_CHANGED, now)

    def begin_attempt(self, queued: QueuedPodGroup, group: PodGroup) -> QueuedPodGroup | None:
        """Return the group that has to start before this one; if there is none, it is attempted."""
        self._timers.pop(queued.pod.uid, None)
        self._is_held_back = False
        if not self._waiting and not self._first:
            return None
        self._remove(queued)
        queue = self._groups.queue_of(group)
        if not self._groups.has_strict_order(queue):
            self._first.pop(queue, None)
            return None
        earlier = [self._first_that_failed(queue, queued)]
        waiting = self._waiting.get(QuotaWait(Permission.START, queue, ()))
        if waiting is not None:
            earlier += [waiting.retried, waiting.first]
        before = [each for each in earlier if each is not None and each.order < queued.order]
        self._is_held_back = bool(before)
        return min(before, key=lambda each: each.order, default=None)

    def _first_that_failed(self, queue: str, without: QueuedPodGroup | None = None) -> QueuedPodGroup | None:
        failed = self._first.get(queue, {})
        for order, queued in list(failed.items()):
            if queued is without or not self._queue.is_queued(queued):
                del failed[order]
            else:
                return queued
        return None

    def end_attempt(
        self, queued: QueuedPodGroup, group: PodGroup, refused: Collection[tuple[Permission, Mapping[str, int]]]
    ) -> None:
        """Record what the queue of the group refused in its attempt."""
        if self._is_held_back:
            refused = [(Permission.START, {})]
        queue = self._groups.queue_of(group)
        waits = dict.fromkeys(self._wait(group, queue, what, request) for what, request in refused)
        if not self._is_held_back and self._groups.has_strict_order(queue) and self._holds_back_others(group, refused):
            self._first.setdefault(queue, SortedDict())[queued.order] = queued
        if waits and not self._waiting:
            self._groups.take_quota_changes()  # those before matter to no group
        for wait in waits:
            self._waiting.setdefault(wait, _WaitingGroups(group)).entries[queued.order] = queued
        if waits:
            self._waits_of[queued.pod.uid] = [(wait, queued.order) for wait in waits]
            self._index_claims(queued)
        self._end_retry(queued, waits)

    def end_placed(self, queued: QueuedPodGroup) -> None:
        """Record that all pending members of a group have been placed, so that it waits for nothing."""
        if self._retried_for:
            self._end_retry(queued, ())

    def _index_claims(self, queued: QueuedPodGroup) -> None:
        if not _has_claims(queued):
            return
        claims = self._claims_of[queued.pod.uid] = self._groups.claims_of(queued.pods)
        for name in claims:
            self._by_claim.setdefault(name, {})[queued.pod.uid] = queued

    def _end_retry(self, queued: QueuedPodGroup, waits: Collection[QuotaWait]) -> None:
        retried_for = self._retried_for.pop(queued.pod.uid, None)
        if retried_for is not None:
            self._waiting[retried_for].retried = None
            if retried_for not in waits:
                self._outdated[retried_for] = None

    def _wait(self, group: PodGroup, queue: str, what: Permission, request: Mapping[str, int]) -> QuotaWait:
        wait = QuotaWait(what, queue, _as_request(request))
        if what is Permission.START or not group.accounts:
            return wait
        state = self._groups.get(group.key)
        return wait._replace(accounts=group.accounts, is_started=state is not None and bool(state.placed))

    def _holds_back_others(self, group: PodGroup, refused: Iterable[tuple[Permission, Mapping[str, int]]]) -> bool:
        """Return True unless the group has its minimum, or waits for the use of its own users to fall."""
        if not self._groups.shortage(group, ()):
            return False
        return not any(self._groups.exceeded_limit(group, request) for _, request in refused)

    def retry(self, now: float, *, is_idle: bool) -> None:
        """Retry the groups that their queues no longer refuse; if other groups are ready, after every few attempts."""
        if not self._waiting:
            self._groups.take_recounted_claims()  # they matter to no group
            return
        self._calls += 1
        if not is_idle and self._calls % _ATTEMPTS:
            return
        has_changed = self._groups.take_quota_changes()
        self._retry_recounted(now)
        outdated, self._outdated = self._outdated, {}
        waits = self._waiting if has_changed else outdated
        for wait in [wait for wait in waits if wait in self._waiting]:
            self._retry_first(wait, self._waiting[wait], now)

    def _retry_first(self, wait: QuotaWait, waiting: _WaitingGroups, now: float) -> None:
        if waiting.retried is not None:
            if self._queue.is_queued(waiting.retried):
                return
            del self._retried_for[waiting.retried.pod.uid]
            waiting.retried = None
        while (queued := waiting.first) is not None:
            if not self._queue.is_queued(queued):
                self._remove(queued)
                continue
            requests = self._requests(wait, queued)
            is_granted = self._is_granted(wait, waiting.group, queued, requests)
            if not is_granted and wait.request in requests:
                return
            self._remove(queued)
            self._queue.requeue(queued.pod, QUOTA_CHANGED, now)
            if is_granted:
                waiting.retried, self._retried_for[queued.pod.uid] = queued, wait
                return  # otherwise it waits for something else than the others, which it must not hold back
        del self._waiting[wait]

    def _retry_recounted(self, now: float) -> None:
        """Retry the groups that request something else, since claims that they share were counted or released.

        Otherwise they would wait behind groups that are refused something else.
        """
        names = self._groups.take_recounted_claims()
        affected = {uid: queued for name in names for uid, queued in self._by_claim.get(name, {}).items()}
        for uid, queued in affected.items():
            if not self._queue.is_queued(queued):
                continue
            waits = {wait for wait, _ in self._waits_of[uid]}
            if {wait._replace(request=each) for wait in waits for each in self._requests(wait, queued)} != waits:
                self._remove(queued)
                self._queue.requeue(queued.pod, QUOTA_CHANGED, now)

    def _remove(self, queued: QueuedPodGroup) -> None:
        uid = queued.pod.uid
        for wait, order in self._waits_of.pop(uid, ()):
            del self._waiting[wait].entries[order]
        for name in self._claims_of.pop(uid, ()):
            del self._by_claim[name][uid]
            if not self._by_claim[name]:
                del self._by_claim[name]

    def _requests(self, wait: QuotaWait, queued: QueuedPodGroup) -> Collection[Request]:
        """Return what the group requests now: other pods may have got the claims that it shares, or released them.

        If it has its minimum, each distinct request of its members is one of them.
        """
        groups, group = self._groups, self._groups.requirements(queued.key)
        if wait.permission is Permission.START or not _has_claims(queued) or not isinstance(group, PodGroup):
            return (wait.request,)
        if groups.shortage(group, ()):
            return (_as_request(groups.needed(group, queued.pods)),)
        return {_as_request(groups.requests_of(group, (pod,))): None for pod in queued.pods}

    def _is_granted(
        self, wait: QuotaWait, group: PodGroup, queued: QueuedPodGroup, requests: Collection[Request]
    ) -> bool:
        if wait.permission is Permission.START:
            failed = self._first_that_failed(wait.queue)
            return failed is None or queued.order < failed.order
        if wait.permission is Permission.ALLOCATE:
            own = self._groups.requirements(queued.key)  # what is reserved for it is part of its request
            group = own if isinstance(own, PodGroup) else group
            return any(not self._groups.exceeded(group, dict(request)) for request in requests)
        return any(self._groups.may_reclaim(group, dict(request)) for request in requests)


def _has_claims(queued: QueuedPodGroup) -> bool:
    return any(pod.spec.resource_claims for pod in queued.templates())


def _as_request(amounts: Mapping[str, int]) -> Request:
    return tuple(sorted(amounts.items()))
