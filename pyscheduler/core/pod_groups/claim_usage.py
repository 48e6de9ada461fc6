"""Devices that pods request by ResourceClaims, which several pods may share: each claim counts once.

A claim counts toward one of the pod groups that hold it, for each queue and set of users with such groups. So a tenant
cannot hide its devices in another queue, from which its pods end first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from msgspec import Struct

from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroup, PodGroupKey
from pyscheduler.api.resources import Amounts

PLACED, TERMINATING, RESERVED = range(3)
"""Ranks of holders: pods with a node, terminating ones, and pending ones for which a quota is kept."""
Scope = tuple[str, tuple[str, ...]]
"""Queue, as the group names it, and accounts."""


class Holder(NamedTuple):
    """Pods of a group that hold claims."""

    key: PodGroupKey
    rank: int


_Ranks = tuple[dict[Holder, None], dict[Holder, None], dict[Holder, None]]
_NONE: _Ranks = ({}, {}, {})


class _Claim(Struct):
    """A claim that pods hold."""

    amounts: Amounts
    pods: int = 0
    holders: dict[Scope, _Ranks] = {}
    """Holders in each scope by rank, in the order in which they came."""

    def hold(self, holder: Holder, scope: Scope) -> None:
        """Add a holder to a scope."""
        self.holders.setdefault(scope, ({}, {}, {}))[holder.rank][holder] = None

    def release(self, holder: Holder, scope: Scope) -> None:
        """Remove a holder from a scope; another one is ignored."""
        ranks = self.holders.get(scope)
        if ranks is not None:
            ranks[holder.rank].pop(holder, None)
            if not any(ranks):
                del self.holders[scope]

    def counted_for(self, scope: Scope) -> Holder | None:
        """Return the holder that the claim counts toward; None if there is none in this scope."""
        first = next(filter(None, self.holders.get(scope, ())), None)
        return None if first is None else next(iter(first))


def sum_of(requests: Iterable[Mapping[str, int]]) -> Amounts:
    """Return the sum of amounts."""
    total = Amounts()
    for each in requests:
        for resource, amount in each.items():
            total[resource] = total.get(resource, 0) + amount
    return total


def scope_of(group: PodGroup) -> Scope:
    """Return the scope of a group."""
    return group.queue, group.accounts


class ClaimUsage:
    """Claims of all groups. `claims_of` returns the amounts of a pod's claims by their names."""

    def __init__(self, claims_of: Callable[[Pod], Mapping[str, Amounts]]) -> None:
        self._claims_of = claims_of
        self._claims: dict[str, _Claim] = {}
        self._pods: dict[tuple[Holder, str], Collection[str]] = {}
        """Names of the claims of each pod that is counted."""
        self._counts: dict[Holder, dict[str, int]] = {}
        """Number of pods by claim."""
        self._held: dict[Holder, dict[str, None]] = {}
        """Claims that have the holder, in the scope of `_scopes`."""
        self._scopes: dict[Holder, Scope | None] = {}
        self._changed: dict[Holder, dict[str, None]] = {}
        """Claims with another number of pods since they were settled."""
        self._sums: dict[Holder, Amounts] = {}
        self.recounted: dict[str, None] = {}
        """Claims that have changed or were settled since it was replaced: pods may request other amounts for them."""
        self._is_dry_run = False
        self._unused: set[str] = set()
        """Claims that a dry run has left without pods and holders."""

    def __bool__(self) -> bool:
        """Return True if there is anything to count."""
        return bool(self._claims)

    def add(self, holder: Holder, pod: Pod) -> None:
        """Count the claims of a pod that has some."""
        claims = self._claims_of(pod)
        if not claims or (holder, pod.uid) in self._pods:
            return
        self._pods[holder, pod.uid] = tuple(claims)
        counts, changed = self._counts.setdefault(holder, {}), self._changed.setdefault(holder, {})
        for name, amounts in claims.items():
            claim = self._claims.get(name)
            if claim is None:
                claim = self._claims[name] = _Claim(dict(amounts))
            claim.pods += 1
            counts[name] = counts.get(name, 0) + 1
            changed[name] = None

    def remove(self, holder: Holder, uid: str) -> None:
        """Stop counting the claims of a pod; one without claims is ignored."""
        names = self._pods.pop((holder, uid), ())
        if not names:
            return
        counts, changed = self._counts[holder], self._changed.setdefault(holder, {})
        for name in names:
            self._claims[name].pods -= 1
            counts[name] -= 1
            if not counts[name]:
                del counts[name]
            changed[name] = None
        if not counts:
            del self._counts[holder]

    def set_claim(self, name: str, amounts: Mapping[str, int]) -> list[Holder]:
        """Set the amounts of a claim that was created or created anew. Return the holders that it counts toward.

        While pods hold it, the amounts never get smaller: the pods keep the devices that they were given.
        """
        self.recounted[name] = None
        claim = self._claims.get(name)
        if claim is None:
            return []
        grown = {r: n - claim.amounts.get(r, 0) for r, n in amounts.items() if n > claim.amounts.get(r, 0)}
        holders = [h for scope in claim.holders if (h := claim.counted_for(scope)) is not None]
        for holder in holders:
            self._add(holder, grown, 1)
        self._add_to(claim.amounts, grown, 1)
        return holders if grown else []

    @contextmanager
    def dry_run(self) -> Iterator[None]:
        """Keep the amounts of claims without pods within a `with` block, after which their pods are added again."""
        before, self._is_dry_run = self._is_dry_run, True
        try:
            yield
        finally:
            self._is_dry_run = before
            unused, self._unused = self._unused, set()
            for name in unused:
                self._drop_unused(name)

    def touch(self, key: PodGroupKey) -> None:
        """Settle a group again, which may count toward another queue or other users."""
        for rank in (PLACED, TERMINATING, RESERVED):
            holder = Holder(key, rank)
            if holder in self._counts or holder in self._held:
                self._changed.setdefault(holder, {})

    def settle(self, scope_of_holder: Callable[[Holder], Scope | None]) -> list[Holder]:
        """Bring up to date what each claim counts toward. Return the holders toward which other claims count now."""
        touched: dict[Holder, None] = {}
        while self._changed:
            holder, names = self._changed.popitem()
            self._settle(holder, scope_of_holder(holder), names, touched)
        return list(touched)

    def amounts(self, holder: Holder) -> Amounts:
        """Return the sum of the claims that count toward a holder."""
        return self._sums.get(holder, {})

    def requested(
        self,
        group: PodGroup,
        pods: Iterable[Pod],
        unconfirmed: Container[PodGroupKey] = (),
        *,
        with_terminating: bool = True,
    ) -> Iterator[Amounts]:
        """Yield what pending pods of a group request by claims that do not count in its scope yet.

        Those that are reserved for the group itself are part of what it requests, and so are those that count toward a
        reservation of the `unconfirmed` groups.
        """
        scope, own = scope_of(group), Holder(group.key, RESERVED)
        claims: dict[str, Amounts] = {}
        for pod in pods:
            if pod.spec.resource_claims:
                claims.update(self._claims_of(pod))
        for name, amounts in claims.items():
            known = self._claims.get(name)
            placed, terminating, reserved = known.holders.get(scope, _NONE) if known is not None else _NONE
            other = next((holder for holder in reserved if holder != own), None)
            is_reserved = other is not None and other.key not in unconfirmed
            if not (placed or (terminating and with_terminating) or is_reserved):
                yield amounts

    def _settle(self, holder: Holder, scope: Scope | None, names: Iterable[str], touched: dict[Holder, None]) -> None:
        counts, before = self._counts.get(holder, {}), self._scopes.pop(holder, None)
        held = self._held.pop(holder, {})
        for name in dict.fromkeys((*held, *counts, *names)) if scope != before else names:
            claim = self._claims.get(name)
            if claim is None:
                continue
            self.recounted[name] = None
            scopes = {each for each in (before, scope) if each is not None}
            old = {each: claim.counted_for(each) for each in scopes}
            after = scope if name in counts else None
            if before is not None and before != after:
                claim.release(holder, before)
            if after is not None:
                claim.hold(holder, after)
                held[name] = None
            else:
                held.pop(name, None)
            for each in scopes:
                self._move(claim.amounts, old[each], claim.counted_for(each), touched)
            self._drop_unused(name)
        if held:
            self._held[holder], self._scopes[holder] = held, scope

    def _drop_unused(self, name: str) -> None:
        """Drop a claim without pods and holders; in a dry run, once that has ended."""
        claim = self._claims.get(name)
        if claim is None or claim.pods or claim.holders:
            return
        if self._is_dry_run:
            self._unused.add(name)
        else:
            del self._claims[name]

    def _move(self, amounts: Amounts, old: Holder | None, new: Holder | None, touched: dict[Holder, None]) -> None:
        if old == new:
            return
        for holder, sign in ((old, -1), (new, 1)):
            if holder is not None:
                self._add(holder, amounts, sign)
                touched[holder] = None

    def _add(self, holder: Holder, amounts: Mapping[str, int], sign: int) -> None:
        sums = self._sums.setdefault(holder, {})
        self._add_to(sums, amounts, sign)
        if not any(sums.values()):
            del self._sums[holder]

    @staticmethod
    def _add_to(sums: Amounts, amounts: Mapping[str, int], sign: int) -> None:
        for resource, amount in amounts.items():
            sums[resource] = sums.get(resource, 0) + sign * amount
