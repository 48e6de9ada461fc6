"""Terminating pods, which count toward quotas and limits until they have ended.

As with ResourceQuota, a pod that is deleted with a long grace period uses its node until then: a user that deletes pods
and creates others would use his quota twice. They count toward no share, since their room becomes free, and they are no
members of their groups any more. A pod counts toward the queue and the users of its group before it was deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct, field

from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroup, PodGroupKey
from pyscheduler.api.resources import PODS, Amounts
from pyscheduler.core.pod_groups.claim_usage import TERMINATING, ClaimUsage, Holder

_API = "TerminatingPods"
"""API of the keys of these groups."""


class _Sum(Struct):
    group: PodGroup
    requests: Counter[str] = field(default_factory=Counter)
    pods: int = 0


class TerminatingPods:
    """Requests of terminating pods on nodes, added up for each queue, and for each set of users in it."""

    def __init__(self, claims: ClaimUsage) -> None:
        self._claims = claims
        self._pods: dict[str, tuple[PodGroupKey, Pod]] = {}
        self._sums: dict[PodGroupKey, _Sum] = {}
        self._stale: dict[PodGroupKey, None] = {}
        self.are_left_out = False
        """True within a `left_out` block."""

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def __bool__(self) -> bool:
        return bool(self._pods)

    def add(self, pod: Pod, group: PodGroup) -> None:
        """Add a pod of a group, unless it is known."""
        if pod.uid in self._pods:
            return
        namespace = group.key.namespace
        key = PodGroupKey(namespace, "\0".join((group.queue, *group.accounts)), _API)
        self._pods[pod.uid] = key, pod
        each = self._sums.get(key)
        if each is None:
            each = self._sums[key] = _Sum(PodGroup(key, 1, queue=group.queue, accounts=group.accounts))
        each.requests.update(pod.requests.effective)
        each.requests[PODS] += 1
        if pod.spec.resource_claims:
            self._claims.add(Holder(key, TERMINATING), pod)
        each.pods += 1
        self._stale[key] = None

    def remove(self, uid: str) -> None:
        """Remove a pod that has ended, or of which the node is lost; unknown ones are ignored."""
        found = self._pods.pop(uid, None)
        if found is None:
            return
        key, pod = found
        each = self._sums[key]
        each.requests.subtract(pod.requests.effective)
        each.requests[PODS] -= 1
        self._claims.remove(Holder(key, TERMINATING), uid)
        each.pods -= 1
        self._stale[key] = None

    def touch(self, key: PodGroupKey | None = None) -> None:
        """Return this sum from `take_stale`, or all of them: queues may have changed."""
        self._stale.update(dict.fromkeys(self._sums if key is None else {key} & self._sums.keys()))

    def group(self, key: PodGroupKey) -> PodGroup | None:
        """Return the group of a sum."""
        each = self._sums.get(key)
        return None if each is None else each.group

    @contextmanager
    def left_out(self) -> Iterator[None]:
        """Leave out all of them within a `with` block, for a decision about the time after their end."""
        before, self.are_left_out = self.are_left_out, True
        self.touch()
        try:
            yield
        finally:
            self.are_left_out = before
            self.touch()

    def take_stale(self) -> list[tuple[PodGroup, Amounts]]:
        """Return the sums that have changed since the last call; {} for queues without such pods."""
        stale, self._stale = self._stale, {}
        changed = []
        for key in stale:
            each = self._sums[key]
            used = Counter(each.requests)
            used.update(self._claims.amounts(Holder(key, TERMINATING)))
            amounts = {} if self.are_left_out else {r: n for r, n in used.items() if n > 0}
            changed.append((each.group, amounts))
            if not each.pods:
                del self._sums[key]
        return changed
