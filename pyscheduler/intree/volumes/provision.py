"""Dynamic provisioning: where a volume can be created for a claim, by the class's topology and free capacity.

Storage capacity tracking: KEP-1472. Matches checkVolumeProvisions of kube-scheduler's VolumeBinding.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from pyscheduler.api import Handle, Requirement, Selector, StatusError
from pyscheduler.api.match import SelectorError
from pyscheduler.intree._object_index import Key, ObjectIndex
from pyscheduler.intree.volumes.capacity_index import CapacityIndex, FreeCapacity
from pyscheduler.intree.volumes.claim import ClaimRequest, DelayedClaim
from pyscheduler.intree.volumes.csi_topology import Affinity
from pyscheduler.intree.volumes.objects import (
    CSI_STORAGE_CAPACITY,
    Object,
    Storage,
    field,
    items,
    text,
)
from pyscheduler.intree.volumes.parsing import amount, read_label_selector

NO_PROVISIONER = "kubernetes.io/no-provisioner"
NOWHERE: Affinity = ()
_MAX_CACHED = 1024
"""Maximum number of cached results."""


class Provisioning(msgspec.Struct, frozen=True):
    """Nodes where a volume can be provisioned for a claim: those within both `topology` and `capacity`."""

    topology: Affinity
    capacity: Affinity
    free: CapacityIndex | None = None
    """Free capacity by node; None if the driver does not publish it."""

    @property
    def nodes(self) -> tuple[Affinity, Affinity]:
        """What the nodes depend on, as a cache key."""
        return self.topology, self.capacity


class _Capacity(msgspec.Struct, frozen=True):
    """A CSIStorageCapacity as provisioning reads it."""

    storage_class: str
    limit: int
    """Bytes of the largest volume."""
    free: FreeCapacity


class _CachedCapacity(NamedTuple):
    """A result with what it was computed from."""

    storage_class: Object
    provisioner: str
    driver: Object | None
    capacities: int | None
    """Version of the CSIStorageCapacity objects; None if the driver does not publish its capacity."""
    provisioning: Provisioning


class Provisioner:
    """Where claims can be provisioned, cached by what they request."""

    def __init__(self, handle: Handle, storage: Storage) -> None:
        self._handle = handle
        self._storage = storage
        self._capacities = ObjectIndex(handle, CSI_STORAGE_CAPACITY, self._read_capacity, lambda c: (c.storage_class,))
        self._cached: dict[ClaimRequest, _CachedCapacity] = {}

    def provision(self, claim: DelayedClaim) -> Provisioning:
        """Return where the claim can be provisioned. StatusError if it has no class or the class does not exist."""
        request, cached = claim.request, self._cached.get(claim.request)
        if not request.storage_class:
            raise StatusError(f'no class for claim "{claim.key}"')
        storage_class = self._storage.storage_class(request.storage_class)
        if storage_class is None:
            raise StatusError(f'failed to find storage class "{request.storage_class}"')
        if cached is None or cached.storage_class is not storage_class or not self._is_valid(cached):
            if len(self._cached) >= _MAX_CACHED:
                self._cached.clear()
            cached = self._cached[request] = self._compute(request, storage_class)
        return cached.provisioning

    def _is_valid(self, cached: _CachedCapacity) -> bool:
        if cached.driver is not self._storage.csi_driver(cached.provisioner):
            return False
        return cached.capacities is None or cached.capacities == self._handle.objects.version(CSI_STORAGE_CAPACITY)

    def _compute(self, request: ClaimRequest, storage_class: Object) -> _CachedCapacity:
        provisioner = text(storage_class, "provisioner")
        driver = self._storage.csi_driver(provisioner)
        if provisioner in ("", NO_PROVISIONER):
            return _CachedCapacity(storage_class, provisioner, driver, None, Provisioning(NOWHERE, None))
        topology = _allowed_topologies(storage_class)
        if not request.states_size or field(driver, "spec", "storageCapacity") is not True:
            return _CachedCapacity(storage_class, provisioner, driver, None, Provisioning(topology, None))
        version = self._handle.objects.version(CSI_STORAGE_CAPACITY)
        capacities = self._capacities.by_value(request.storage_class)
        # kube-scheduler takes any of those that suffice on a node; here it is the first by name.
        ordered = (capacities[key] for key in sorted(capacities, key="/".join))
        enough = [c.free for c in ordered if c.limit >= request.size.units]
        nodes = tuple(free.nodes for free in enough)
        return _CachedCapacity(
            storage_class, provisioner, driver, version, Provisioning(topology, nodes, CapacityIndex(enough))
        )

    def _read_capacity(self, key: Key) -> _Capacity | None:
        """Return the parsed capacity; None if it does not exist, states no limit or is accessible from no node."""
        source = self._handle.objects[CSI_STORAGE_CAPACITY].get(key)
        limit = None if source is None else volume_limit(source)
        nodes = None if limit is None else _node_topology(source)
        if limit is None or nodes is None:
            return None
        size = amount(field(source, "capacity")).units
        return _Capacity(text(source, "storageClassName"), limit, FreeCapacity(nodes, size))


def volume_limit(capacity: Object) -> int | None:
    """Return the bytes of the largest volume that a CSIStorageCapacity allows; None if it states neither field."""
    for key in ("maximumVolumeSize", "capacity"):
        if field(capacity, key) is not None:
            return amount(field(capacity, key)).units
    return None


def _node_topology(capacity: Object | None) -> Selector | None:
    """Return the selector of nodes with access to the capacity; None if there are none."""
    try:
        return read_label_selector(field(capacity, "nodeTopology"))
    except SelectorError:
        return None


def _allowed_topologies(storage_class: Object) -> Affinity:
    """Return StorageClass.allowedTopologies: no terms are no restriction, but an empty term matches no node."""
    terms = list(items(storage_class, "allowedTopologies"))
    if not terms:
        return None
    selectors = (_topology_selector(term) for term in terms)
    return tuple(s for s in selectors if s.requirements and all(r.values for r in s.requirements))


def _topology_selector(term: Object) -> Selector:
    expressions = items(term, "matchLabelExpressions")
    return Selector(tuple(Requirement(text(e, "key"), "In", tuple(map(str, items(e, "values")))) for e in expressions))
