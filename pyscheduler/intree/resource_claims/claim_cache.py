"""Cache of ResourceClaims with their in-flight allocations, and the devices that all of them use.

kube-scheduler's claim tracker (dynamicresources/dra_manager.go). A claim is in flight from Reserve until its allocation
is written and the pod's PreBind has succeeded; its devices are in use from Reserve on. A claim that was written is
assumed until the informer has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final

import msgspec

from pyscheduler.api import Handle, Pod
from pyscheduler.api.devices import AllocationResult
from pyscheduler.intree.devices.allocated import AllocatedDevices
from pyscheduler.intree.devices.inventory import DeviceID, PoolID
from pyscheduler.intree.devices.quantity import parse
from pyscheduler.intree.resource_claims.objects import CLAIM, CachedClaim, Key, Object, read_claim

_KEEP: Final = 1 << 12
"""Minimum number of changes of devices that are kept for readers."""


class _InFlight(msgspec.Struct):
    """Allocation that is not written yet."""

    allocation: AllocationResult
    pods: int
    """Number of pods that have reserved it."""
    group: Key | None
    """PodGroup of the first pod: pods of the same group share the allocation."""


class ClaimCache:
    """ResourceClaims as they are, or as they were written last."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._claims: dict[Key, CachedClaim] = {}
        self._by_uid: dict[str, CachedClaim] = {}
        self._assumed: dict[Key, CachedClaim] = {}
        self._in_flight: dict[str, _InFlight] = {}
        """By UID of the claim."""
        self._of_pods: dict[str, CachedClaim] = {}
        """Claims for extended resources by UID of the pod."""
        self._devices = DevicesInUse()
        self._version = -1

    def get(self, namespace: str, name: str) -> CachedClaim | None:
        """Return a claim; None if it does not exist."""
        self._refresh()
        return self._claims.get((namespace, name))

    def extended_resource_claim(self, pod: Pod) -> CachedClaim | None:
        """Return the claim that was made for the extended resources of a pod, None if there is none."""
        self._refresh()
        return self._of_pods.get(pod.uid)

    @property
    def devices(self) -> DevicesInUse:
        """Devices in use by all claims, in-flight ones included, as a live view."""
        self._refresh()
        return self._devices

    # -- in flight -----------------------------------------------------------------------------------------------

    def in_flight(self, uid: str) -> AllocationResult | None:
        """Return the allocation of a claim that is not written yet."""
        found = self._in_flight.get(uid)
        return None if found is None else found.allocation

    def in_flight_group(self, uid: str) -> Key | None:
        """Return the PodGroup of the pods for which a claim is being allocated."""
        found = self._in_flight.get(uid)
        return None if found is None else found.group

    def add_in_flight(self, uid: str, allocation: AllocationResult, group: Key | None) -> None:
        """Store the allocation of a claim for a pod. A second pod that shares the claim is only counted."""
        found = self._in_flight.get(uid)
        if found is not None:
            found.pods += 1
            return
        self._in_flight[uid] = _InFlight(allocation, 1, group)
        self._devices.use(uid, allocation)

    def remove_in_flight(self, uid: str, *, is_written: bool = False) -> None:
        """Drop the allocation of a claim once no pod has reserved it, or it is written."""
        found = self._in_flight.get(uid)
        if found is None:
            return
        found.pods -= 1
        if found.pods and not is_written:
            return
        del self._in_flight[uid]
        self._refresh()
        written = self._by_uid.get(uid)
        self._devices.use(uid, written.allocation if written else None)

    # -- written -------------------------------------------------------------------------------------------------

    def assume(self, source: Object) -> CachedClaim:
        """Store a claim as the API server has returned it, until the informer has it. Return it."""
        self._refresh()
        claim = read_claim(source)
        known = self._handle.objects[CLAIM].get(claim.key)
        if known is None or _version(known) < _version(source):
            self._assumed[claim.key] = claim
            self._update(claim.key)
        return claim

    def _refresh(self) -> None:
        objects = self._handle.objects
        version = objects.version(CLAIM)
        if version == self._version:
            return
        changed = objects.changed_since(CLAIM, self._version)
        for key in {*objects[CLAIM], *self._claims} if changed is None else changed:
            assumed, known = self._assumed.get(key), objects[CLAIM].get(key)
            # Without a list of changes, a claim that the informer lacks may be one that was just created.
            is_gone = known is None and changed is not None
            if assumed is not None and (is_gone or (known and _version(known) >= _version(assumed.source))):
                del self._assumed[key]
            self._update(key)
        self._version = version

    def _update(self, key: Key) -> None:
        """Read a claim again."""
        before, now = self._claims.pop(key, None), self._assumed.get(key)
        source = self._handle.objects[CLAIM].get(key)
        if now is None and source is not None:
            now = before if before is not None and before.source is source else read_claim(source)
        if before is not None:
            if now is None or now.uid != before.uid:
                self._set_allocation(before.uid, None)
                del self._by_uid[before.uid]
            for uid in _owning_pods(before):
                self._of_pods.pop(uid, None)
        if now is None:
            return
        self._claims[key] = self._by_uid[now.uid] = now
        self._set_allocation(now.uid, now.allocation)
        for uid in _owning_pods(now):
            self._of_pods[uid] = now

    def _set_allocation(self, uid: str, allocation: AllocationResult | None) -> None:
        if uid not in self._in_flight:
            self._devices.use(uid, allocation)


class DevicesInUse:
    """Devices in use, counted by claim: a claim's old allocation is taken back when it gets another one."""

    def __init__(self) -> None:
        self._by_claim: dict[str, AllocationResult] = {}
        self._devices: Counter[DeviceID] = Counter()
        self._shared: Counter[DeviceID] = Counter()
        self._consumed: dict[DeviceID, dict[str, int]] = {}
        self.allocated = AllocatedDevices(self._devices.keys(), self._shared.keys(), self._consumed)
        """Live view of all devices in use."""
        self.version = 0
        """Number of changes so far."""
        self._changed: list[PoolID] = []
        """Pools of the last changes."""

    def changed_since(self, version: int) -> Collection[PoolID] | None:
        """Return the pools with devices in another use than at that version; None if older changes were dropped."""
        count = self.version - version
        if count > len(self._changed):
            return None
        return dict.fromkeys(self._changed[-count:]) if count else ()

    def _record(self, pool: PoolID) -> None:
        self.version += 1
        self._changed.append(pool)
        if len(self._changed) > 2 * _KEEP:
            del self._changed[:_KEEP]

    def use(self, claim: str, allocation: AllocationResult | None) -> None:
        """Set the allocation of a claim, by UID."""
        before = self._by_claim.get(claim)
        if before is allocation:
            return
        if before is not None:
            del self._by_claim[claim]
            self._add(before, -1)
        if allocation is not None:
            self._by_claim[claim] = allocation
            self._add(allocation, 1)

    def _add(self, allocation: AllocationResult, sign: int) -> None:
        for result in allocation.devices.results or ():
            if result.admin_access:
                continue
            device = DeviceID(result.driver, result.pool, result.device)
            self._record(PoolID(result.driver, result.pool))
            if result.share_id is None:
                _count(self._devices, device, sign)
                continue
            _count(self._shared, device, sign)
            amounts = self._consumed.setdefault(device, {})
            for name, amount in (result.consumed_capacity or {}).items():
                amounts[name] = amounts.get(name, 0) + sign * parse(amount).nano
            if device not in self._shared:
                del self._consumed[device]


def _count(counts: Counter[DeviceID], device: DeviceID, sign: int) -> None:
    counts[device] += sign
    if not counts[device]:
        del counts[device]


def _owning_pods(claim: CachedClaim) -> Iterator[str]:
    """Yield the UIDs of the pods for whose extended resources the claim was made."""
    if claim.is_for_extended_resources:
        for owner in claim.api.metadata.owner_references or ():
            if owner.controller:
                yield owner.uid


def _version(obj: Object) -> int:
    """Return the resourceVersion of an object, 0 if it is no number."""
    version = str((obj.get("metadata") or {}).get("resourceVersion") or "")
    return int(version) if version.isdecimal() else 0
