"""Requests of each group's pods, with a node and without one, for the Quota plugin: each pod is one of `pods`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from itertools import islice

from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroup, PodGroupKey
from pyscheduler.api.resources import PODS
from pyscheduler.core.pod_groups.claim_usage import PLACED, RESERVED, ClaimUsage, Holder


class GroupUsage:
    """Requests of one group."""

    __slots__ = ("allocated", "pending")

    def __init__(self) -> None:
        self.allocated: dict[str, int] = {}
        """Sum over the pods that are assigned or assumed; 0 for a resource that none of them requests any more."""
        self.pending: dict[str, int] = {}
        """Sum over the others."""

    def change(self, requests: Mapping[str, int], sign: int, *, placed: bool) -> None:
        """Add or subtract the requests of a pod; a Counter takes several times longer, and this is done for each."""
        sums = self.allocated if placed else self.pending
        sums[PODS] = sums.get(PODS, 0) + sign
        for resource, amount in requests.items():
            sums[resource] = sums.get(resource, 0) + sign * amount

    def reported(self, reserved: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
        """Return the allocated and the pending amounts above 0, with these pending ones counted as allocated."""
        allocated, pending = self.allocated, self.pending
        if reserved:
            allocated = {r: allocated.get(r, 0) + reserved.get(r, 0) for r in (*allocated, *reserved)}
            pending = {r: amount - reserved.get(r, 0) for r, amount in pending.items()}
        return {r: n for r, n in allocated.items() if n > 0}, {r: n for r, n in pending.items() if n > 0}


QueueRequests = tuple[str, dict[str, int], dict[str, int], bool, tuple[str, ...]]
"""Queue, allocated and pending amounts of a group, whether pods of it have a node, and its accounts."""


class ReportedUsage:
    """Usage of all groups as the Quota plugin has it, and whether that has changed since it was compared last."""

    def __init__(self) -> None:
        self._now: dict[PodGroupKey, QueueRequests] = {}
        self._before: dict[PodGroupKey, QueueRequests | None] = {}
        """Usage at the last comparison of the groups for which it was reported since then."""

    def set(self, key: PodGroupKey, usage: QueueRequests | None) -> None:
        """Record the usage of a group; None for a removed one."""
        old = self._now.get(key)
        if usage is None and self._before.get(key, old) is None:
            self._before.pop(key, None)  # it has come and gone since then
        else:
            self._before.setdefault(key, old)
        if usage is not None:
            self._now[key] = usage
        elif old is not None:
            del self._now[key]

    def take_changed(self) -> bool:
        """Return True if the usage is another one than at the last call; an attempt that was undone changes nothing."""
        changed = any(self._now.get(key) != before for key, before in self._before.items())
        self._before.clear()
        return changed


class UsageByGroup:
    """Requests of all groups, updated with each pod: a group may have thousands."""

    def __init__(self, claims: ClaimUsage) -> None:
        self._claims = claims
        self._groups: dict[PodGroupKey, GroupUsage] = {}
        self._stale: dict[PodGroupKey, None] = {}
        self._reserved: dict[PodGroupKey, dict[str, Pod]] = {}
        """Pending members by UID that count as allocated.

        Pods are being evicted for them, or their queue has admitted them.
        """
        self.claimed: set[PodGroupKey] = set()
        """Groups with reservations that their pods claim, and that have not been compared with the quota."""
        self.refused: set[PodGroupKey] = set()
        """Groups with reservations that the quota does not allow, and that are not reported to it."""
        self._gated: dict[PodGroupKey, set[str]] = {}
        """UIDs of the pending pods that PreEnqueue plugins gate: they request nothing until they could run."""
        self.infeasible: set[PodGroupKey] = set()
        """Groups that would not fit even if nothing else ran."""

    def set_infeasible(self, key: PodGroupKey, *, is_infeasible: bool) -> None:
        """Set whether the group would not fit even if nothing else ran, so that it has no claim to a share."""
        if is_infeasible != (key in self.infeasible):
            (self.infeasible.add if is_infeasible else self.infeasible.discard)(key)
            self.touch(key)

    def is_gated(self, key: PodGroupKey, uid: str) -> bool:
        """Return True if a PreEnqueue plugin gates the pod."""
        return bool(self._gated) and uid in self._gated.get(key, ())

    def gated(self, key: PodGroupKey) -> Collection[str]:
        """Return the UIDs of the pods of a group that PreEnqueue plugins gate."""
        return self._gated.get(key, ())

    def set_gated(self, key: PodGroupKey, pod: Pod, *, is_gated: bool) -> None:
        """Set whether a PreEnqueue plugin gates a pending pod."""
        if is_gated == self.is_gated(key, pod.uid):
            return
        if is_gated:
            self._gated.setdefault(key, set()).add(pod.uid)
        else:
            self._ungate(key, pod.uid)
        self._groups[key].change(pod.requests.effective, -1 if is_gated else 1, placed=False)
        self._stale[key] = None

    def _ungate(self, key: PodGroupKey, uid: str) -> None:
        self._gated[key].discard(uid)
        if not self._gated[key]:
            del self._gated[key]

    def reserve(self, key: PodGroupKey, pods: Iterable[Pod]) -> None:
        """Count these pending pods of a group as allocated, and no others of it."""
        self.claimed.discard(key)
        self._set_reserved(key, {pod.uid: pod for pod in pods})

    def claim(self, key: PodGroupKey, pod: Pod) -> None:
        """Count a pod that was admitted before the scheduler started, until the next attempt of its group."""
        self.claimed.add(key)
        self._reserved.setdefault(key, {})[pod.uid] = pod
        if pod.spec.resource_claims:
            self._claims.add(Holder(key, RESERVED), pod)
        self.touch(key)

    def unreserve(self, key: PodGroupKey, uid: str) -> None:
        """Stop counting a pending pod as allocated; one that is not counted is ignored."""
        reserved = self._reserved.get(key)
        if reserved is not None and uid in reserved:
            self._set_reserved(key, {other: pod for other, pod in reserved.items() if other != uid})

    @contextmanager
    def without_reserved(self, key: PodGroupKey) -> Iterator[None]:
        """Leave out within a `with` block what is reserved for a group: it is part of what the group requests."""
        reserved = self._reserved.get(key, {})
        self._set_reserved(key, {})
        try:
            yield
        finally:
            self._set_reserved(key, reserved)

    def reserved(self, key: PodGroupKey) -> Mapping[str, int]:
        """Return what the pending members of a group request that count as allocated, without claims."""
        total = Counter[str]()
        for pod in self._reserved.get(key, {}).values():
            total.update(pod.requests.effective)
            total[PODS] += 1
        return total

    def unconfirmed(self, key: PodGroupKey) -> Collection[PodGroupKey]:
        """Return the groups whose reservations a request of this group must not rely on.

        Without those of the group itself, more claims may count toward others, and the quota may not allow that.
        """
        return self.claimed if key in self._reserved else self.refused

    def _set_reserved(self, key: PodGroupKey, pods: dict[str, Pod]) -> None:
        before = self._reserved.pop(key, {})
        if pods:
            self._reserved[key] = pods
        for uid in before.keys() - pods.keys():
            self._claims.remove(Holder(key, RESERVED), uid)
        for pod in pods.values():
            if pod.spec.resource_claims:
                self._claims.add(Holder(key, RESERVED), pod)
        if before or pods:
            self.touch(key)

    def _count_claims(self, key: PodGroupKey, pod: Pod, *, placed: bool) -> None:
        """Count the claims of a placed pod, or stop counting them."""
        if not pod.spec.resource_claims:
            return
        if placed:
            self._claims.add(Holder(key, PLACED), pod)
        else:
            self._claims.remove(Holder(key, PLACED), pod.uid)

    def add(self, key: PodGroupKey, pod: Pod, *, placed: bool) -> None:
        """Add a pod of a group."""
        usage = self._groups.get(key)
        if usage is None:
            usage = self._groups[key] = GroupUsage()
        usage.change(pod.requests.effective, 1, placed=placed)
        self._count_claims(key, pod, placed=placed)
        self._stale[key] = None

    def remove(self, key: PodGroupKey, pod: Pod, *, placed: bool) -> None:
        """Remove a pod of a group."""
        if not placed and self.is_gated(key, pod.uid):
            self._ungate(key, pod.uid)
        else:
            self._groups[key].change(pod.requests.effective, -1, placed=placed)
        self._count_claims(key, pod, placed=False)
        self._stale[key] = None

    def move(self, key: PodGroupKey, pod: Pod, *, placed: bool) -> None:
        """Count a pod as placed, or as pending again."""
        self.set_gated(key, pod, is_gated=False)
        usage, requests = self._groups[key], pod.requests.effective
        usage.change(requests, -1, placed=not placed)
        usage.change(requests, 1, placed=placed)
        self._count_claims(key, pod, placed=placed)
        self._stale[key] = None

    @contextmanager
    def without(self, members: Sequence[tuple[PodGroupKey, Pod]]) -> Iterator[None]:
        """Leave out these placed pods within a `with` block."""
        with self._claims.dry_run():
            for key, pod in members:
                self.remove(key, pod, placed=True)
            try:
                yield
            finally:
                for key, pod in members:
                    self.add(key, pod, placed=True)

    def touch(self, key: PodGroupKey) -> None:
        """Return the group from `take_stale` although its pods are the same."""
        if key in self._groups:
            self._stale[key] = None

    def drop(self, key: PodGroupKey) -> None:
        """Remove a group without pods."""
        self._set_reserved(key, {})
        self._groups.pop(key, None)
        self.claimed.discard(key)
        self.infeasible.discard(key)
        self._stale[key] = None

    @property
    def stale(self) -> Collection[PodGroupKey]:
        """Groups that `take_stale` returns next."""
        return self._stale

    def take_stale(self, most: int | None = None) -> list[tuple[PodGroupKey, GroupUsage | None]]:
        """Return up to `most` groups that have changed since they were returned last; None for removed ones."""
        stale = [(key, self._groups.get(key)) for key in islice(self._stale, most)]
        for key, _ in stale:
            del self._stale[key]
        return stale


class QueuesInUse:
    """Queues that have pods with a node, as the groups name them: by namespace and name, which decide the queue."""

    def __init__(self) -> None:
        self._name_of: dict[PodGroupKey, tuple[str, str]] = {}
        self._groups: dict[tuple[str, str], dict[PodGroupKey, PodGroup]] = {}

    def set(self, group: PodGroup, *, is_used: bool) -> None:
        """Record that the group has pods with a node, or none."""
        name = group.key.namespace, group.queue
        if self._name_of.get(group.key, name) != name or not is_used:
            self.remove(group.key)
        if is_used:
            self._name_of[group.key] = name
            self._groups.setdefault(name, {})[group.key] = group

    def remove(self, key: PodGroupKey) -> None:
        """Drop a group."""
        name = self._name_of.pop(key, None)
        if name is not None:
            groups = self._groups[name]
            del groups[key]
            if not groups:
                del self._groups[name]

    def groups(self, is_chosen: Callable[[PodGroup], bool]) -> Set[PodGroupKey]:
        """Return the groups of the queues that are chosen, given any group of each."""
        chosen = [groups for groups in self._groups.values() if is_chosen(next(iter(groups.values())))]
        return chosen[0].keys() if len(chosen) == 1 else {key for groups in chosen for key in groups}

    def representatives(self) -> list[PodGroup]:
        """Return a group of each queue."""
        return [next(iter(groups.values())) for groups in self._groups.values()]
