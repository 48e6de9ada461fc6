"""Kinds of resource.k8s.io, and ResourceClaims as the plugin reads and writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from pyscheduler.api import Handle, Mask, NodeTable, Pod, ResourceKind
from pyscheduler.api.devices import AllocationResult, ResourceClaim, ResourceClaimConsumerReference
from pyscheduler.api.match import NodeTerm, node_terms
from pyscheduler.api.objects import ObjectMeta

GROUP = "resource.k8s.io"
CLAIM = ResourceKind(GROUP, "v1", "resourceclaims", "ResourceClaim", optional=True)
SLICE = ResourceKind(GROUP, "v1", "resourceslices", "ResourceSlice", namespaced=False, optional=True)
DEVICE_CLASS = ResourceKind(GROUP, "v1", "deviceclasses", "DeviceClass", namespaced=False, optional=True)
TAINT_RULES = tuple(
    ResourceKind(GROUP, version, "devicetaintrules", "DeviceTaintRule", namespaced=False, optional=True)
    for version in ("v1", "v1beta2")
)
"""DeviceTaintRules by version, the newest first: v1 since Kubernetes 1.37."""
EXTENDED_RESOURCE_CLAIM = "resource.kubernetes.io/extended-resource-claim"
"""Annotation, with value `true`, of a claim that was made for the extended resources of a pod."""

Object = Mapping[str, Any]
"""An API object as decoded JSON."""
Key = tuple[str, str]
"""Namespace and name."""
T = TypeVar("T")


class CachedClaim(msgspec.Struct, frozen=True, eq=False):
    """A ResourceClaim: as decoded JSON, which is written, and as the fields that allocation reads."""

    source: Object
    api: ResourceClaim
    problem: str = ""
    """Why the claim cannot be read; `api` has its metadata only then."""

    @property
    def uid(self) -> str:
        return self.api.metadata.uid

    @property
    def key(self) -> Key:
        return self.api.metadata.namespace, self.api.metadata.name

    @property
    def name(self) -> str:
        """`namespace/name`, as in messages."""
        return "/".join(self.key)

    @property
    def allocation(self) -> AllocationResult | None:
        """The allocation in its status."""
        return self.api.status.allocation

    def with_allocation(self, allocation: AllocationResult) -> CachedClaim:
        """Return the claim as it will be once this allocation is written."""
        status = msgspec.structs.replace(self.api.status, allocation=allocation)
        return CachedClaim(self.source, msgspec.structs.replace(self.api, status=status), self.problem)

    @property
    def is_deleting(self) -> bool:
        return self.api.metadata.deletion_timestamp is not None

    @property
    def reserved_for(self) -> tuple[ResourceClaimConsumerReference, ...]:
        return self.api.status.reserved_for or ()

    def is_reserved_for(self, pod: Pod) -> bool:
        """Return True if the pod may use the claim already."""
        return any(consumer.uid == pod.uid for consumer in self.reserved_for)

    def is_owned_by(self, pod: Pod) -> bool:
        """Return True if the pod is the controller that owns the claim."""
        owners = self.api.metadata.owner_references or ()
        owner = next((each for each in owners if each.controller), None)
        return self.key[0] == pod.namespace and owner is not None and owner.uid == pod.uid

    @property
    def is_for_extended_resources(self) -> bool:
        return (self.api.metadata.annotations or {}).get(EXTENDED_RESOURCE_CLAIM) == "true"


class AllocatedNodes(NamedTuple):
    """Nodes on which the devices of an allocation can be used."""

    terms: tuple[NodeTerm, ...] | None
    """Terms of the allocation's node selector, of which one must match; None for all nodes."""

    @staticmethod
    def of(allocation: AllocationResult | None) -> AllocatedNodes:
        """Return the nodes of an allocation; all nodes if there is none yet."""
        selector = None if allocation is None else allocation.node_selector
        return AllocatedNodes(None if selector is None else node_terms(selector))

    def include(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return True if a node with this name and these labels is one of them."""
        return self.terms is None or any(term.matches(name, labels) for term in self.terms)

    def mask(self, nodes: NodeTable) -> Mask:
        """Return `include` for each node of a table."""
        if self.terms is None:
            return np.ones(len(nodes), np.bool_)
        mask: Mask = np.zeros(len(nodes), np.bool_)
        for term in self.terms:
            mask |= nodes.matches_term(term)
        return mask


def read_claim(source: Object) -> CachedClaim:
    """Return the claim of decoded JSON."""
    try:
        return CachedClaim(source, msgspec.convert(source, ResourceClaim))
    except msgspec.ValidationError as error:
        return CachedClaim(source, ResourceClaim(metadata=msgspec.convert(source["metadata"], ObjectMeta)), str(error))


def reader(handle: Handle, kind: ResourceKind, type_: type[T]) -> Callable[[Key], T | None]:
    """Return a function that reads the watched object of a key; None if it does not exist or cannot be read."""

    def read(key: Key) -> T | None:
        source = handle.objects[kind].get(key)
        try:
            return None if source is None else msgspec.convert(source, type_)
        except msgspec.ValidationError:
            return None

    return read


def to_json(value: object) -> Any:
    """Return an API object, or part of one, as decoded JSON."""
    return msgspec.json.decode(msgspec.json.encode(value))
