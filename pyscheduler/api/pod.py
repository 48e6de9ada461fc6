"""Pods for plugins: an identity and a signature that is shared by equal pods.

All that scheduling reads from a pod's spec and metadata is in its `PodSignature` (as in kube-scheduler's opportunistic
batching, KEP-5598). Signatures are interned: pods of one controller mostly share one object, so what is compiled or
computed for one pod is reused for the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from pyscheduler.api.match import NodeTerm, Requirement, Selector, node_term, node_terms
from pyscheduler.api.objects import (
    Affinity,
    OwnerReference,
    PodCondition,
    PodResourceClaimStatus,
    PodSpec,
    Toleration,
)
from pyscheduler.api.qos import QoSClass, qos_class
from pyscheduler.api.resize import Resized, pending_reason
from pyscheduler.api.resources import PodRequests, is_sidecar, pod_requests

WILDCARD_IP = "0.0.0.0"
_encode = msgspec.msgpack.Encoder().encode
LARGE = 64 * 1024
"""Size in bytes above which nothing is cached for a pod, because compiled data is as large as the pod."""


def packed(*fields: object) -> bytes:
    """Return decoded fields of an API object as a hashable value; equal fields give equal values."""
    return _encode(fields)


class HostPort(NamedTuple):
    """Host port of a pod; "" is normalised to 0.0.0.0 and TCP."""

    ip: str
    protocol: str
    port: int


def host_ports(spec: PodSpec) -> frozenset[HostPort]:
    """Return the host ports of containers and sidecars."""
    sidecars = (c for c in spec.init_containers or () if is_sidecar(c))
    ports = (p for c in (*spec.containers, *sidecars) for p in c.ports or () if p.host_port > 0)
    return frozenset(HostPort(p.host_ip or WILDCARD_IP, p.protocol or "TCP", p.host_port) for p in ports)


class VolumeClaim(NamedTuple):
    """Volume of a pod that is a PersistentVolumeClaim: an existing claim, or an ephemeral one created for the pod."""

    name: str
    """Name of the claim, "" if the pod names none; for an ephemeral claim, name of the volume."""
    ephemeral: bool


class PodSignatureGroup:
    """Common part of the signatures of pods that differ in labels, annotations, claims and node names. Interned."""

    __slots__ = ("__weakref__", "id", "namespace", "owner", "requests", "resized", "size", "spec")

    def __init__(
        self,
        id: int,
        namespace: str,
        owner: OwnerReference | None,
        spec: PodSpec,
        resized: Resized | None = None,
        size: int = 0,
    ) -> None:
        """Build a group from a `spec` without claims and node names; `size` in bytes. QuantityError if invalid."""
        self.id = id
        self.namespace = namespace
        self.owner = owner
        self.spec = spec
        self.resized = resized
        self.size = size
        self.requests = pod_requests(spec, resized)


class PodSignature:
    """Everything that scheduling reads from a pod's spec and metadata. Interned: equal signatures are one object.

    Attributes that are derived from the spec are computed on first use.
    """

    def __init__(
        self,
        id: int,
        template: PodSignatureGroup,
        labels: Mapping[str, str],
        annotations: Mapping[str, str],
        spec: PodSpec | None = None,
        size: int = 0,
    ) -> None:
        """Build a signature. `spec` is the group's with the pod's claims and nodes; None if the pod names none.

        `size` is the number of bytes in addition to the group's.
        """
        self.id = id
        self.labels = labels
        self.annotations = annotations
        self.template = template
        """Part shared with signatures that differ in labels, annotations, claims and node names."""
        self.namespace = template.namespace
        self.owner = template.owner
        """Controller that owns the pod, or None."""
        self.spec = spec or template.spec
        """Decoded pod spec; `spec.node_name` is always ""."""
        self.requests = template.requests
        self.size = template.size + size
        """Size in bytes of everything that scheduling reads; 0 if unknown."""
        self.is_large = self.size > LARGE
        """True above LARGE bytes, for which nothing is cached."""
        self.scheduler_name = self.spec.scheduler_name
        self.resized = template.resized
        """Container resources that differ from the spec during an in-place resize; None otherwise."""

    @cached_property
    def priority(self) -> int:
        """spec.priority, 0 if absent."""
        return self.spec.priority or 0

    @cached_property
    def qos(self) -> QoSClass:
        """Quality-of-service class of the pod."""
        return qos_class(self.spec)

    @cached_property
    def tolerations(self) -> tuple[Toleration, ...]:
        """spec.tolerations."""
        return self.spec.tolerations or ()

    @cached_property
    def node_selector(self) -> Selector | None:
        """Compiled spec.nodeSelector; None if the field is absent."""
        labels = self.spec.node_selector
        return None if labels is None else Selector(tuple(Requirement(k, "In", (v,)) for k, v in labels.items()))

    @cached_property
    def required_node_terms(self) -> tuple[NodeTerm, ...] | None:
        """Terms of the required node affinity, any of which suffices; None if absent."""
        affinity = self.affinity.node_affinity
        required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
        return node_terms(required) if required else None

    @cached_property
    def preferred_node_terms(self) -> tuple[tuple[int, NodeTerm], ...]:
        """Preferred node affinity as (weight, term)."""
        affinity = self.affinity.node_affinity
        preferred = (affinity.preferred_during_scheduling_ignored_during_execution if affinity else None) or ()
        return tuple((p.weight, node_term(p.preference)) for p in preferred)

    @cached_property
    def affinity(self) -> Affinity:
        """spec.affinity; empty if absent."""
        return self.spec.affinity or Affinity()

    @cached_property
    def host_ports(self) -> frozenset[HostPort]:
        """Host ports of containers and sidecars, which must be free on the node."""
        return host_ports(self.spec)

    @cached_property
    def volume_claims(self) -> tuple[VolumeClaim, ...]:
        """Volumes that are claims, in the order of the spec."""
        return tuple(claim for volume in self.spec.volumes or () if (claim := _volume_claim(volume)) is not None)


class Pod:
    """One pod: its identity, its signature and the few status fields that scheduling reads.

    Filter and Score may read only what the signature holds (`labels`, `spec`, `requests` …), because their results are
    cached for other pods of the signature. A plugin that reads the identity must set `reads_identity = True`.
    """

    __slots__ = (
        "claim_statuses",
        "conditions",
        "created",
        "deleting",
        "generation",
        "is_large",
        "name",
        "namespace",
        "node_name",
        "nominated_node_name",
        "phase",
        "resource_version",
        "scheduler_name",
        "signature",
        "started",
        "uid",
    )

    def __init__(self, uid: str, name: str, signature: PodSignature) -> None:
        self.uid = uid
        self.name = name
        self.signature = signature
        # Stored for speed: every attempt reads them several times.
        self.namespace = signature.namespace
        self.scheduler_name = signature.scheduler_name
        """spec.schedulerName."""
        self.is_large = signature.is_large
        """True for a pod larger than LARGE bytes, for which nothing is cached."""
        self.node_name = ""
        self.nominated_node_name = ""
        self.phase = "Pending"
        self.deleting = False
        self.created: str | None = None
        """metadata.creationTimestamp of a pod without a node, as in the API object."""
        self.started = math.inf
        """status.startTime in seconds since the epoch; infinity if it is missing or invalid."""
        self.generation = 0
        self.resource_version = ""
        self.claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
        """status.resourceClaimStatuses: the claims that were created from templates."""
        self.conditions: tuple[PodCondition, ...] = ()
        """All conditions of a pod without a node; of an assigned pod, DisruptionTarget and PodResizePending only."""

    @property
    def start_time(self) -> str | None:
        """status.startTime in RFC 3339; None if it is missing or invalid."""
        return None if self.started == math.inf else f"{datetime.fromtimestamp(self.started, UTC):%Y-%m-%dT%H:%M:%SZ}"

    @property
    def is_resize_deferred(self) -> bool:
        """True if the pod has a node and an in-place resize that waits for room there (KEP-1287)."""
        return bool(self.node_name and self.conditions and pending_reason(self.conditions) == "Deferred")

    @property
    def key(self) -> str:
        """`namespace/name`, as in logs, events and metrics."""
        return f"{self.namespace}/{self.name}"

    @property
    def labels(self) -> Mapping[str, str]:
        """metadata.labels."""
        return self.signature.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        """metadata.annotations."""
        return self.signature.annotations

    @property
    def spec(self) -> PodSpec:
        """Decoded pod spec with an empty `node_name`."""
        return self.signature.spec

    @property
    def requests(self) -> PodRequests:
        """Resource requests: milli-cores for cpu, bytes or counts otherwise."""
        return self.signature.requests

    @property
    def priority(self) -> int:
        """spec.priority, 0 if absent."""
        return self.signature.priority

    @property
    def size(self) -> int:
        """Size in bytes of everything that scheduling reads."""
        return self.signature.size

    def on(self, node_name: str) -> Pod:
        """Return a copy of the pod that is assigned to the node."""
        copy = Pod(self.uid, self.name, self.signature)
        for field in _STATUS_FIELDS:
            setattr(copy, field, getattr(self, field))
        copy.node_name = node_name
        return copy

    def __repr__(self) -> str:
        return f"Pod({self.key})"


_IDENTITY = ("uid", "name", "signature")
_STATUS_FIELDS = tuple(field for field in Pod.__slots__ if field not in _IDENTITY)


def _volume_claim(volume: Mapping[str, Any]) -> VolumeClaim | None:
    named = volume.get("persistentVolumeClaim")
    if isinstance(named, Mapping):
        return VolumeClaim(str(named.get("claimName") or ""), ephemeral=False)
    if isinstance(volume.get("ephemeral"), Mapping):
        return VolumeClaim(str(volume.get("name") or ""), ephemeral=True)
    return None
