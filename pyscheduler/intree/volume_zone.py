"""VolumeZone: place a pod in the zone and region of its bound volumes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pyscheduler.api import (
    NODE,
    SKIP,
    SKIP_SIGNATURE_GROUP,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Cycle,
    FilterPlugin,
    Handle,
    Mask,
    NodeFields,
    NodeInfo,
    NodeTable,
    NodeToStatus,
    Pod,
    PodSignatureGroup,
    PreFilterPlugin,
    QueueingHint,
    Reads,
    Rejection,
    Requirement,
    Skip,
    StateKey,
)
from pyscheduler.intree._hints import queue_if
from pyscheduler.intree.volumes.csi_topology import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONE_DELIMITER
from pyscheduler.intree.volumes.hints import OF_CLAIMS, VolumeHints
from pyscheduler.intree.volumes.objects import (
    CLAIM,
    STORAGE_CLASS,
    VOLUME,
    WAIT_FOR_FIRST_CONSUMER,
    Object,
    Storage,
    binding_mode,
    labels_of,
    name_of,
    not_found,
    read_claim,
    sign_volumes,
    volume_of_claim,
)

ZONE_CONFLICT = Rejection("node(s) had no available volume zone", resolvable=False)

_KEYS: Mapping[str, str] = {BETA_ZONE: ZONE, BETA_REGION: REGION, ZONE: ZONE, REGION: REGION}
"""Topology labels of volumes, each with the alternative label that a node may have instead."""


class _PVTopology(NamedTuple):
    """Topology label of a volume: the volume is in any of the values."""

    key: str
    values: frozenset[str]


_PV_TOPOLOGIES: StateKey[tuple[_PVTopology, ...]] = StateKey("VolumeZone")


class VolumeZone(PreFilterPlugin, FilterPlugin):
    """Reject nodes outside the zone or region in the labels of the pod's volumes."""

    name = "VolumeZone"
    checks_resizes = False
    reads = Reads.EVERYTHING
    reads_in_dry_run = Reads.OWN_NODE
    reads_labels = False
    reads_match_fields = False
    node_fields = NodeFields.LABELS
    pre_reads_nodes = False
    skips_read_pods = False
    watches = (VOLUME, CLAIM, STORAGE_CLASS)

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self._storage = Storage(handle)
        self._hints = VolumeHints(self._storage)

    def sign_group(self, group: PodSignatureGroup) -> Hashable:
        return sign_volumes(group)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            ClusterEventWithHint(STORAGE_CLASS.kind, Action.ADD | Action.UPDATE, self._hints.class_changed),
            ClusterEventWithHint(NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
            ClusterEventWithHint(CLAIM.kind, Action.ADD | Action.UPDATE, self._hints.claim_changed, OF_CLAIMS),
            ClusterEventWithHint(VOLUME.kind, Action.ADD | Action.UPDATE, self._volume_moved),
        )

    def _volume_moved(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Return QUEUE if a volume of the pod was created or its topology labels changed."""
        moved = event.old is None or _pv_topologies(event.old) != _pv_topologies(event.new)
        return queue_if(moved and any(volume_of_claim(c) == name_of(event.new) for c in self._hints.claims(pod)))

    # -- filter --------------------------------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Rejection | Skip | None:
        if not pod.signature.volume_claims:
            return SKIP_SIGNATURE_GROUP
        collected: list[_PVTopology] = []
        for name in _named_claims(pod):
            topologies = self._pv_topologies_of(pod.namespace, name)
            if isinstance(topologies, str):
                return Rejection(topologies, resolvable=False)
            collected += topologies
        if not collected:
            return SKIP
        cycle[_PV_TOPOLOGIES] = tuple(collected)
        return None

    def _pv_topologies_of(self, namespace: str, name: str) -> list[_PVTopology] | str:
        """Return the topology labels of the claim's volume, [] while it is not bound, or the reason of a rejection."""
        if not name:
            return "PersistentVolumeClaim had no name"
        claim = self._storage.claim(namespace, name)
        if claim is None:
            return not_found("persistentvolumeclaim", name)
        fields = read_claim(claim)
        volume_name = fields.volume_name
        if not volume_name:
            return self._unbound(fields.storage_class)
        volume = self._storage.volume(volume_name)
        return not_found("persistentvolume", volume_name) if volume is None else _pv_topologies(volume)

    def _unbound(self, class_name: str) -> list[_PVTopology] | str:
        if not class_name:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        storage_class = self._storage.storage_class(class_name)
        if storage_class is None:
            return not_found("storageclass.storage.k8s.io", class_name)
        mode = binding_mode(storage_class)
        if mode is None:
            return f'VolumeBindingMode not set for StorageClass "{class_name}"'
        return [] if mode == WAIT_FOR_FIRST_CONSUMER else "PersistentVolume had no name"

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        labels = node.labels
        if not any(key in labels for key in _KEYS):
            # A cluster of a single zone need not label its nodes.
            return None
        here = all(labels.get(p.key, labels.get(_KEYS[p.key])) in p.values for p in cycle[_PV_TOPOLOGIES])
        return None if here else ZONE_CONFLICT

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        here = np.ones(len(nodes), np.bool_)
        for place in cycle[_PV_TOPOLOGIES]:
            here &= _within(place, nodes)
        labelled = np.zeros(len(nodes), np.bool_)
        for key in _KEYS:
            labelled |= nodes.matches_requirement(Requirement(key, "Exists"))
        statuses = NodeToStatus(len(nodes))
        statuses.reject(labelled & ~here, ZONE_CONFLICT)
        return statuses


def _within(place: _PVTopology, nodes: NodeTable) -> Mask:
    values = tuple(sorted(place.values))
    within = nodes.matches_requirement(Requirement(place.key, "In", values))
    missing = nodes.matches_requirement(Requirement(place.key, "DoesNotExist"))
    return within | missing & nodes.matches_requirement(Requirement(_KEYS[place.key], "In", values))


def _pv_topologies(volume: Object) -> list[_PVTopology]:
    """Return the topology labels of a volume, without those that have an empty value."""
    labels = labels_of(volume)
    parts = {key: [v.strip() for v in labels[key].split(ZONE_DELIMITER)] for key in _KEYS if key in labels}
    return [_PVTopology(key, frozenset(values)) for key, values in parts.items() if all(values)]


def _named_claims(pod: Pod) -> list[str]:
    """Return the names of the pod's claims without ephemeral ones, which kube-scheduler does not check here."""
    return [claim.name for claim in pod.signature.volume_claims if not claim.ephemeral]
