"""Dynamic provisioning: where a volume can be created for a claim, by the class's topology and free capacity.

Storage capacity tracking: KEP-1472. Matches checkVolumeProvisions of kube-scheduler's VolumeBinding.
"""

from __future__ import annotations

import msgspec

from pyscheduler.api import Requirement, Selector, StatusError
from pyscheduler.api.match import SelectorError
from pyscheduler.intree.volumes.csi_topology import Affinity
from pyscheduler.intree.volumes.match import amount, read_label_selector, requested
from pyscheduler.intree.volumes.objects import (
    Object,
    Storage,
    class_of_claim,
    field,
    items,
    name_of,
    namespace_of,
    text,
)

NO_PROVISIONER = "kubernetes.io/no-provisioner"
NOWHERE: Affinity = ()


class Provisioning(msgspec.Struct, frozen=True):
    """Nodes where a volume can be provisioned for a claim: those within both `topology` and `capacity`."""

    topology: Affinity
    capacity: Affinity


def provision(claim: Object, storage: Storage) -> Provisioning:
    """Return where the claim can be provisioned. StatusError if it has no class or the class does not exist."""
    class_name = class_of_claim(claim)
    if not class_name:
        raise StatusError(f'no class for claim "{namespace_of(claim)}/{name_of(claim)}"')
    storage_class = storage.storage_class(class_name)
    if storage_class is None:
        raise StatusError(f'failed to find storage class "{class_name}"')
    provisioner = text(storage_class, "provisioner")
    if provisioner in ("", NO_PROVISIONER):
        return Provisioning(NOWHERE, None)
    topology = _allowed_topologies(storage_class)
    if field(claim, "spec", "resources", "requests", "storage") is None or not _is_tracked(storage, provisioner):
        return Provisioning(topology, None)
    size = requested(claim).units
    enough = (
        c
        for c in storage.csi_storage_capacities()
        if text(c, "storageClassName") == class_name and _has_capacity(c, size)
    )
    return Provisioning(topology, tuple(s for c in enough if (s := _node_topology(c)) is not None))


def volume_limit(capacity: Object) -> int | None:
    """Return the bytes of the largest volume that a CSIStorageCapacity allows; None if it states neither field."""
    for key in ("maximumVolumeSize", "capacity"):
        if field(capacity, key) is not None:
            return amount(field(capacity, key)).units
    return None


def _has_capacity(capacity: Object, size: int) -> bool:
    limit = volume_limit(capacity)
    return limit is not None and limit >= size


def _is_tracked(storage: Storage, provisioner: str) -> bool:
    """Return True if the provisioner is a CSI driver that publishes its capacity."""
    return field(storage.csi_driver(provisioner), "spec", "storageCapacity") is True


def _node_topology(capacity: Object) -> Selector | None:
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
