"""VolumeRestrictions: no conflicting use of a disk on one node, and one pod only per ReadWriteOncePod claim."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from pyscheduler.api import (
    NODE,
    POD,
    SKIP,
    SKIP_SIGNATURE_GROUP,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Cycle,
    FilterPlugin,
    Handle,
    NodeFields,
    NodeInfo,
    NodeTable,
    NodeToStatus,
    Pod,
    PodAttributes,
    PodCount,
    PodSignature,
    PodSignatureGroup,
    PreFilterPlugin,
    QueueingHint,
    Reads,
    Rejection,
    Skip,
    StateKey,
)
from pyscheduler.intree._hints import queue_if
from pyscheduler.intree.volumes.hints import OF_CLAIMS
from pyscheduler.intree.volumes.objects import (
    CLAIM,
    ClaimsInUse,
    Storage,
    field,
    items,
    name_of,
    named_claims,
    namespace_of,
    not_found,
    read_claim,
    sign_volumes,
    text,
)

_MANY = 64
"""Number of volumes above which they are charged to the attempt; reading one costs as much as this many evaluations."""
DISK_CONFLICT = Rejection("node(s) had no available disk")
CLAIM_IN_USE = Rejection(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


class Disk(msgspec.Struct, frozen=True):
    """A disk in a pod's spec, without a claim. Two are the same disk if they share an ID and have equal `rest`."""

    kind: str
    ids: frozenset[str]
    rest: tuple[str, ...] = ()
    read_only: bool = False

    def conflicts(self, other: Disk) -> bool:
        """Return True if pods with these disks cannot share a node: the same disk, and not read-only for both."""
        same = self.kind == other.kind and self.rest == other.rest and not self.ids.isdisjoint(other.ids)
        return same and not (self.read_only and other.read_only)

    @property
    def names(self) -> list[tuple[Hashable, ...]]:
        """Keys of which two equal disks have at least one in common."""
        return [(self.kind, self.rest, one) for one in self.ids]


@dataclass(frozen=True, slots=True)
class ConflictingDisks(PodCount):
    """Count of pods with a disk that conflicts with one of these."""

    disks: tuple[Disk, ...]

    @property
    def terminating(self) -> bool:
        return True

    def of(self, signature: PodSignature) -> int:
        return int(any(disk.conflicts(other_disk) for other_disk in disks_of(signature) for disk in self.disks))


@dataclass(frozen=True, slots=True)
class DisksInUse(PodAttributes):
    """`Disk.names` of the disks in pods' specs. Most often none is among them that an incoming pod needs."""

    def of(self, signature: PodSignature) -> Collection[Hashable]:
        return {name for disk in disks_of(signature) for name in disk.names}


class _PreFilterState(msgspec.Struct, frozen=True):
    """Resources that the incoming pod needs exclusively: disks on its node, ReadWriteOncePod claims in the cluster."""

    disks: ConflictingDisks
    claims: frozenset[str]
    users: int
    """Number of uses of those claims by other pods."""


_PRE_FILTER_STATE: StateKey[_PreFilterState] = StateKey("VolumeRestrictions")


class VolumeRestrictions(PreFilterPlugin, FilterPlugin):
    """Reject nodes where a disk of the pod is in use, and all nodes while another pod uses its ReadWriteOncePod claim.

    Preemption can resolve both. Disks are GCE, AWS EBS, iSCSI and Ceph RBD volumes in the pod's spec.
    """

    name = "VolumeRestrictions"
    checks_resizes = False
    reads = Reads.EVERYTHING
    reads_labels = False
    reads_match_fields = False
    node_fields = NodeFields.NONE
    pre_reads_nodes = False
    skips_read_pods = False
    watches = (CLAIM,)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._storage = Storage(handle)

    def sign_group(self, group: PodSignatureGroup) -> Hashable:
        return sign_volumes(group)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            ClusterEventWithHint(POD, Action.DELETE, _frees_a_volume),
            ClusterEventWithHint(NODE, Action.ADD | Action.DELETE),
            ClusterEventWithHint(CLAIM.kind, Action.ADD | Action.UPDATE, _is_named, OF_CLAIMS),
        )

    # -- filter ------------------------------------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Rejection | Skip | None:
        signature = pod.signature
        if not signature.spec.volumes:
            return SKIP_SIGNATURE_GROUP
        if len(signature.spec.volumes) > _MANY:
            cycle.charge_evaluations(len(signature.spec.volumes), len(nodes), "volumes", _MANY)
        claims = self._exclusive_claims(signature)
        if isinstance(claims, Rejection):
            return claims
        users = 0
        if claims:
            in_use = nodes.attribute_counts(ClaimsInUse())
            users = sum((signature.namespace, name) in in_use for name in claims)
        disks = disks_of(signature)
        if not disks and not users:
            return SKIP
        cycle[_PRE_FILTER_STATE] = _PreFilterState(ConflictingDisks(disks), claims, users)
        return None

    def _exclusive_claims(self, signature: PodSignature) -> frozenset[str] | Rejection:
        """Return the names of the pod's ReadWriteOncePod claims, or a rejection if a claim does not exist."""
        exclusive = set()
        for name in named_claims(signature):
            claim = self._storage.claim(signature.namespace, name)
            if claim is None:
                return Rejection(not_found("persistentvolumeclaim", name), resolvable=False)
            if read_claim(claim).is_exclusive:
                exclusive.add(name)
        return frozenset(exclusive)

    def add_pod(self, cycle: Cycle, pod: Pod, added: Pod, node: NodeInfo) -> None:
        _count(cycle, added, 1)

    def remove_pod(self, cycle: Cycle, pod: Pod, removed: Pod, node: NodeInfo) -> None:
        _count(cycle, removed, -1)

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        wanted = cycle[_PRE_FILTER_STATE]
        if wanted.disks.disks and any(wanted.disks.of(other.signature) for other in node.pods.values()):
            return DISK_CONFLICT
        return CLAIM_IN_USE if wanted.users > 0 else None

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        statuses, wanted = NodeToStatus(len(nodes)), cycle[_PRE_FILTER_STATE]
        if wanted.disks.disks and _any_in_use(wanted.disks.disks, nodes):
            statuses.reject(nodes.count_pods(wanted.disks) > 0, DISK_CONFLICT)
        if wanted.users > 0:
            statuses.reject(np.ones(len(nodes), np.bool_), CLAIM_IN_USE)
        return statuses


def disks_of(signature: PodSignature) -> tuple[Disk, ...]:
    """Return the disks in the specs of pods of the signature, in order."""
    return tuple(disk for volume in signature.spec.volumes or () for disk in _disks(volume))


def _disks(volume: Mapping[str, Any]) -> list[Disk]:
    def is_read_only(kind: str) -> bool:
        return field(volume, kind, "readOnly") is True

    disks = []
    for kind, key in (("gcePersistentDisk", "pdName"), ("iscsi", "iqn")):
        if kind in volume and isinstance(volume[kind], Mapping):
            disks.append(Disk(kind, frozenset({text(volume, kind, key)}), read_only=is_read_only(kind)))
    if "awsElasticBlockStore" in volume and isinstance(volume["awsElasticBlockStore"], Mapping):
        # It cannot be attached twice, not even read-only.
        disks.append(Disk("awsElasticBlockStore", frozenset({text(volume, "awsElasticBlockStore", "volumeID")})))
    if "rbd" in volume and isinstance(volume["rbd"], Mapping):
        image = (text(volume, "rbd", "pool"), text(volume, "rbd", "image"))
        disks.append(
            Disk(
                "rbd",
                frozenset(m for m in items(volume, "rbd", "monitors") if isinstance(m, str)),
                image,
                is_read_only("rbd"),
            )
        )
    return disks


def _any_in_use(disks: Sequence[Disk], nodes: NodeTable) -> bool:
    in_use = nodes.attribute_counts(DisksInUse())
    return any(name in in_use for disk in disks for name in disk.names)


def _count(cycle: Cycle, other: Pod, sign: int) -> None:
    """Update the uses for an added or removed pod. Claims compare by name without namespace, as in kube-scheduler."""
    wanted = cycle[_PRE_FILTER_STATE]
    uses = sum(name in wanted.claims for name in named_claims(other.signature))
    if uses:
        cycle[_PRE_FILTER_STATE] = msgspec.structs.replace(wanted, users=wanted.users + sign * uses)


# -- hints -----------------------------------------------------------------------------------------------------------


def _frees_a_volume(pod: Pod, event: ClusterEvent) -> QueueingHint:
    """Return QUEUE if the deleted pod shares a claim name or a conflicting disk with the pod.

    Claims compare by name alone, as in `_count`, and disks have no namespace.
    """
    gone: Pod = event.old
    shares_claim = not set(named_claims(gone.signature)).isdisjoint(named_claims(pod.signature))
    return queue_if(shares_claim or bool(ConflictingDisks(disks_of(pod.signature)).of(gone.signature)))


def _is_named(pod: Pod, event: ClusterEvent) -> QueueingHint:
    claim = event.new
    return queue_if(namespace_of(claim) == pod.namespace and name_of(claim) in named_claims(pod.signature))
