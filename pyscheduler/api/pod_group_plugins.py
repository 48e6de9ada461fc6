"""Extension points for pod groups: what declares them, and how queues divide the cluster among them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence

from pyscheduler.api.events import ClusterEvent
from pyscheduler.api.outcome import Rejection
from pyscheduler.api.plugin import Plugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import EvictionUnit, PodGroup, PodGroupKey
from pyscheduler.api.resources import Amounts
from pyscheduler.api.steps import Steps


class PodGroupPlugin(Plugin):
    """Membership and requirements of pod groups, which are scheduled in one cycle, all or none.

    A profile has at most one such plugin. The scheduler keeps what the methods return for a group until a pod of the
    group or one of its objects changes.
    """

    @abstractmethod
    def group_of(self, pod: Pod) -> PodGroupKey | None:
        """Return the group that the pod declares; None for a pod that is scheduled by itself."""

    def role_of(self, pod: Pod) -> str:  # noqa: ARG002
        """Return the role of the pod within its group (Volcano's task), for `PodGroup.min_count_by_role`."""
        return ""

    @abstractmethod
    def pod_group(self, key: PodGroupKey, members: Collection[Pod]) -> PodGroup | Rejection:
        """Return the requirements of the group, or the reason why none of its pods can be scheduled.

        `members` are its pending and assigned pods, at least one.
        """

    def changed_groups(self, event: ClusterEvent) -> Iterable[PodGroupKey]:  # noqa: ARG002
        """Return the groups that an object of a kind in `watches` gives other requirements."""
        return ()


class QuotaPlugin(Plugin):
    """Division of the cluster among queues of pod groups; every pod without a group is a group of its own.

    A profile has at most one such plugin, and a PodGroup plugin besides. Amounts that its methods get include `pods`,
    the number of pods.
    """

    tracks_time: bool = False
    """True if the plugin needs the time of each change of the usage."""
    learns_run_times: bool = False
    """True if pods that declare no run time are expected to run as long as earlier pods of the same workload."""
    orders_groups: bool = False
    """True if `group_share` orders the groups of a queue. Its pods above the minimum are then placed one by one."""

    @abstractmethod
    def queue_of(self, pod: Pod) -> str:
        """Return the queue of a pod without a group."""

    def queue_of_group(self, group: PodGroup) -> str:
        """Return the queue of a group."""
        return group.queue

    def accounts_of(self, members: Collection[Pod]) -> Sequence[str]:  # noqa: ARG002
        """Return the users and groups of users, such as `user alice`, that the pods of a group count toward."""
        return ()

    def claims_of(self, pod: Pod) -> Mapping[str, Amounts]:  # noqa: ARG002
        """Return what the pod requests by ResourceClaims that count, by the names of the claims.

        Called for pods with spec.resourceClaims. A claim counts once for all pods with a node of one queue and the same
        `accounts`. It is part of what `set_usage`, `set_terminating` and `exceeded` get. A claim that does not exist
        yet is returned without amounts.
        """
        return {}

    def changed_claims(self, event: ClusterEvent) -> Mapping[str, Amounts]:  # noqa: ARG002
        """Return what claims request after a change of an object of a kind in `watches`, by their names."""
        return {}

    def set_placed(self, group: PodGroup, count: int) -> None:
        """Set how many pods of a group with `accounts` have a node: they may request nothing.

        Called before `set_usage`.
        """

    @abstractmethod
    def set_usage(self, group: PodGroup, allocated: Amounts, pending: Amounts) -> None:
        """Set what the pods of a group request: those with a node, and those that wait for one."""

    def set_terminating(self, group: PodGroup, amounts: Amounts) -> None:
        """Set what terminating pods request that count toward the queue and the accounts of this group.

        They use their nodes until they have ended, so they count toward quotas. They count toward no share: their room
        becomes free. {} for none; `remove_usage` is not called for such a group.
        """

    def changes_queues(self, event: ClusterEvent) -> bool:  # noqa: ARG002
        """Return False for a change of a watched object that changes no queue, such as that of a status.

        All groups are evaluated again after other changes.
        """
        return True

    def set_time(self, now: float) -> None:
        """Set the time from which the usage counts that is reported next, in seconds since 1970.

        Called if `tracks_time` is True.
        """

    def add_past_usage(self, group: PodGroup, request: Amounts, seconds: float) -> None:
        """Add that a pod of the group has run for some time before the scheduler started.

        Called if `tracks_time` is True.
        """

    @abstractmethod
    def remove_usage(self, key: PodGroupKey) -> None:
        """Remove a group that has no more pods."""

    def next_queue(self, requests: Mapping[str, Amounts]) -> str:  # noqa: ARG002
        """Return the queue of which the first group is attempted next, of those that have groups which are ready.

        `requests` has what the minimum of each queue's first group needs, computed when it is read. Within a queue,
        QueueSort orders the groups. A plugin without this method leaves their order to QueueSort.
        """
        return ""

    def group_share(self, group: PodGroup) -> float:  # noqa: ARG002
        """Return the key, at least 0, by which the groups of a queue with one priority are ordered before QueueSort.

        Called if `orders_groups` is True, whenever the group may be attempted again.
        """
        return 0.0

    def has_strict_order(self, queue: str) -> bool:  # noqa: ARG002
        """Return True if no group of the queue may start before the first one, by priority and time, has started."""
        return False

    def unavailable(self, group: PodGroup) -> str:  # noqa: ARG002
        """Return why no group of the queue may start, "" if one may; evaluated again after a watched object changed."""
        return ""

    @abstractmethod
    def exceeded(self, group: PodGroup, request: Amounts) -> str:
        """Return why the group's queue may not allocate this much more now, "" if it may.

        Called before the group is placed with what its minimum needs, then for each pod that is placed. It is called
        again for a group that waits once the usage or a queue has changed, so no events need to be registered for that.
        """

    def take_ended_claims(self) -> bool:
        """Return True if, since the last call, `exceeded` has let other queues allocate more without other usage."""
        return False

    def exceeded_limit(self, group: PodGroup, request: Amounts) -> str:  # noqa: ARG002
        """Return which limit of the group's `accounts` the request exceeds, "" if none.

        Called after `exceeded`, for the same. A group that such a limit holds back does not hold back others of a queue
        with strict order, and no share is kept for it.
        """
        return ""

    def min_run_seconds(self, group: PodGroup, others: Sequence[PodGroup]) -> Sequence[float]:  # noqa: ARG002
        """Return how long the pods of each other group have run, in seconds, before this one may evict them.

        An empty result means that it may evict them at any time.
        """
        return ()

    def over_quota(self) -> Mapping[str, float]:
        """Return the queues that allocate more than their quotas, and the seconds after which pods are evicted for it.

        Each queue comes after that above it. Queues from which no pods are evicted are left out.
        """
        return {}

    def surplus(self, queue: str, units: Sequence[tuple[EvictionUnit, PodGroup]]) -> Sequence[EvictionUnit]:  # noqa: ARG002
        """Return the elements of `units`, not copies, to evict so that a queue of `over_quota` is within its quota."""
        return ()

    @abstractmethod
    def may_preempt(self, group: PodGroup, other: PodGroup) -> bool:
        """Return True if the group may evict pods of another one that has a lower priority."""

    def is_within_share(self, group: PodGroup, request: Amounts) -> bool:  # noqa: ARG002
        """Return True if the group's queue would not be above its share with this request.

        Nodes that are reserved for a group above the share of its queue do not delay groups within theirs.
        """
        return True

    def seconds_until_turn(self, group: PodGroup, request: Amounts, now: float) -> float | None:  # noqa: ARG002
        """Return in how many seconds the turn of a group begins that needs more than the whole share of its queue.

        In its turn, it is not delayed by groups within their shares, unless these are guaranteed what they request;
        before, no nodes are reserved for it. Infinity means that it has none, None that it needs none. Called for
        groups that lack their minimum, again at that time. `now` is in seconds since 1970; the plugin may set
        `tracks_time` from then on.
        """
        return None

    def is_guaranteed(self, group: PodGroup, request: Amounts) -> bool:  # noqa: ARG002
        """Return True if nodes that are reserved for a group in its turn do not delay this one with this request."""
        return False

    def seconds_of_turns(self, group: PodGroup, others: Sequence[PodGroup]) -> Sequence[float]:  # noqa: ARG002
        """Return for how many more seconds the turn of each other group keeps it from being evicted for this one.

        Pods above its minimum may be evicted. An empty result is 0 for all.
        """
        return ()

    def may_reclaim(self, group: PodGroup, request: Amounts) -> bool:  # noqa: ARG002
        """Return False if `reclaim` returns no units for the request, whatever is free.

        Called once for groups that `reclaim` has returned a reason for, after the usage or a queue has changed.
        """
        return True

    def may_reclaim_from(self, group: PodGroup, request: Amounts, other: PodGroup) -> bool:  # noqa: ARG002
        """Return False if `reclaim` returns no pods of the other group's queue for the request.

        Called for one group of each queue with pods on nodes; `reclaim` has the units of the others only.
        """
        return True

    @abstractmethod
    def reclaim(
        self, group: PodGroup, request: Amounts, free: Amounts, units: Sequence[tuple[EvictionUnit, PodGroup]]
    ) -> Sequence[EvictionUnit] | str:
        """Return the elements of `units`, not copies, to evict so that the group can allocate the request.

        Return a text instead if there are none: the reason.

        `free` is what it can use without evictions.
        """

    def reclaim_steps(
        self, group: PodGroup, request: Amounts, free: Amounts, units: Sequence[tuple[EvictionUnit, PodGroup]]
    ) -> Steps[Sequence[EvictionUnit] | str]:
        """Run `reclaim` in steps: a bare `yield` after every few milliseconds of work.

        The scheduler calls this method. If an event arrives at a `yield`, it closes the generator and restarts the
        attempt. Override it for long searches, and exhaust it in `reclaim`.
        """
        yield from ()
        return self.reclaim(group, request, free, units)
