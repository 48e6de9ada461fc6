"""Pods as plugins see them: an identity, and the signature that all pods of one template share.

Pods stamped from one template differ in name only. All that scheduling reads from a pod sits in its `PodSignature`, which
is interned: siblings hold the very same object, and what is compiled or computed for one serves them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

from pyscheduler.api.match import NodeTerm, Requirement, Selector, node_term, node_terms
from pyscheduler.api.objects import Affinity, OwnerReference, PodCondition, PodSpec, Toleration
from pyscheduler.api.qos import QoSClass, qos_class
from pyscheduler.api.resize import Resized
from pyscheduler.api.resources import PodRequests, is_sidecar, pod_requests

WILDCARD_IP = "0.0.0.0"
LARGE = 64 * 1024
"""Bytes of a pod from which on nothing is cached for its sake: what plugins compile from it is as large as the pod."""


class HostPort(NamedTuple):
    """A port that a pod takes on its node's own address; "" is normalised to 0.0.0.0 and TCP."""

    ip: str
    protocol: str
    port: int


class VolumeClaim(NamedTuple):
    """A volume of a pod that is a PersistentVolumeClaim: one that it names, or an ephemeral one made for it alone."""

    name: str
    """The name of the claim, "" if the pod gives none; of the volume, for an ephemeral one."""
    ephemeral: bool


class PodSignatureGroup:
    """What a controller stamps pods from. Interned like shapes, of which it has many where pods are less alike."""

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
        """`spec` names neither claims nor nodes, `size` is its bytes. QuantityError if an amount cannot be read."""
        self.id = id
        self.namespace = namespace
        self.owner = owner
        self.spec = spec
        self.resized = resized
        self.size = size
        self.requests = pod_requests(spec, resized)


class PodSignature:
    """All that scheduling reads from a pod. Interned: equal shapes are one object, `id` tells them apart."""

    def __init__(
        self,
        id: int,
        template: PodSignatureGroup,
        labels: Mapping[str, str],
        annotations: Mapping[str, str],
        spec: PodSpec | None = None,
        size: int = 0,
    ) -> None:
        """`spec` is the template's with the claims and nodes that the pod names; None where it names none.

        `size` is how many bytes there are besides the template.
        """
        self.id = id
        self.labels = labels
        self.annotations = annotations
        self.template = template
        """What it has in common with shapes that differ in labels, annotations, and what claims and nodes they name."""
        self.namespace = template.namespace
        self.owner = template.owner
        """The controller that owns the pod, or None."""
        self.spec = spec or template.spec
        """The decoded pod spec; `spec.node_name` is always "" here: a signature is not bound to a node."""
        self.requests = template.requests
        self.size = template.size + size
        """Bytes of all that scheduling reads, packed; 0 where it is not known."""
        self.resized = template.resized
        """What containers hold instead of what the spec states, while a resize is under way; None nearly always."""

    @cached_property
    def priority(self) -> int:
        return self.spec.priority or 0

    @cached_property
    def qos(self) -> QoSClass:
        return qos_class(self.spec)

    @cached_property
    def tolerations(self) -> tuple[Toleration, ...]:
        return self.spec.tolerations or ()

    @cached_property
    def node_selector(self) -> Selector | None:
        """spec.nodeSelector, compiled; None when the field is absent."""
        wanted = self.spec.node_selector
        return None if wanted is None else Selector(tuple(Requirement(k, "In", (v,)) for k, v in wanted.items()))

    @cached_property
    def required_node_terms(self) -> tuple[NodeTerm, ...] | None:
        """The required node affinity, any term of which is enough; None when there is none."""
        affinity = self.affinity.node_affinity
        required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
        return node_terms(required) if required else None

    @cached_property
    def preferred_node_terms(self) -> tuple[tuple[int, NodeTerm], ...]:
        """The preferred node affinity as (weight, term)."""
        affinity = self.affinity.node_affinity
        preferred = (affinity.preferred_during_scheduling_ignored_during_execution if affinity else None) or ()
        return tuple((p.weight, node_term(p.preference)) for p in preferred)

    @cached_property
    def affinity(self) -> Affinity:
        return self.spec.affinity or Affinity()

    @cached_property
    def host_ports(self) -> frozenset[HostPort]:
        """Ports of containers and sidecars that must be free on the node (hostPort > 0)."""
        sidecars = (c for c in self.spec.init_containers or () if is_sidecar(c))
        ports = (p for c in (*self.spec.containers, *sidecars) for p in c.ports or () if p.host_port > 0)
        return frozenset(HostPort(p.host_ip or WILDCARD_IP, p.protocol or "TCP", p.host_port) for p in ports)

    @cached_property
    def volume_claims(self) -> tuple[VolumeClaim, ...]:
        """The volumes that are claims, in the order of the spec."""
        return tuple(claim for volume in self.spec.volumes or () if (claim := _volume_claim(volume)) is not None)


class Pod:
    """One pod: who it is, what signature it has, and the few status fields that scheduling reads.

    Filter and Score may read only what the signature holds (`labels`, `spec`, `requests` …), because their answers are
    kept for the next pod of the signature. A plugin that must look at the identity says so with `reads_identity = True`.
    """

    __slots__ = (
        "conditions",
        "created",
        "deleting",
        "generation",
        "name",
        "namespace",
        "node_name",
        "nominated_node_name",
        "phase",
        "resource_version",
        "signature",
        "start_time",
        "uid",
    )

    def __init__(self, uid: str, namespace: str, name: str, signature: PodSignature) -> None:
        self.uid = uid
        self.namespace = namespace
        self.name = name
        self.signature = signature
        self.node_name = ""
        self.nominated_node_name = ""
        self.phase = "Pending"
        self.deleting = False
        self.created: str | None = None
        """metadata.creationTimestamp as the API server wrote it."""
        self.start_time: str | None = None
        self.generation = 0
        self.resource_version = ""
        self.conditions: tuple[PodCondition, ...] = ()
        """The conditions of a pod without a node; of one that has a node only DisruptionTarget is kept."""

    @property
    def key(self) -> str:
        """`namespace/name`, as logs, events and metrics name a pod."""
        return f"{self.namespace}/{self.name}"

    @property
    def labels(self) -> Mapping[str, str]:
        return self.signature.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.signature.annotations

    @property
    def spec(self) -> PodSpec:
        return self.signature.spec

    @property
    def requests(self) -> PodRequests:
        return self.signature.requests

    @property
    def priority(self) -> int:
        return self.signature.priority

    @property
    def size(self) -> int:
        """Bytes of all that scheduling reads of it, packed."""
        return self.signature.size

    @property
    def is_large(self) -> bool:
        """True for a pod of more than LARGE bytes: nothing is cached for its sake."""
        return self.size > LARGE

    @property
    def scheduler_name(self) -> str:
        return self.signature.spec.scheduler_name

    def on(self, node_name: str) -> Pod:
        """A copy that says it is on the node."""
        copy = Pod(self.uid, self.namespace, self.name, self.signature)
        for field in _STATUS_FIELDS:
            setattr(copy, field, getattr(self, field))
        copy.node_name = node_name
        return copy

    def __repr__(self) -> str:
        return f"Pod({self.key})"


_STATUS_FIELDS = tuple(field for field in Pod.__slots__ if field not in ("uid", "namespace", "name", "signature"))


def _volume_claim(volume: Mapping[str, Any]) -> VolumeClaim | None:
    named = volume.get("persistentVolumeClaim")
    if isinstance(named, Mapping):
        return VolumeClaim(str(named.get("claimName") or ""), ephemeral=False)
    if isinstance(volume.get("ephemeral"), Mapping):
        return VolumeClaim(str(volume.get("name") or ""), ephemeral=True)
    return None
