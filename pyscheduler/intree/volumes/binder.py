"""Binding of a pod's volumes: assume, write claims and volumes that reference each other, wait until they are bound.

The PV controller and the provisioners do the rest. Matches BindPodVolumes of kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pyscheduler.api import ApiWriter, NodeInfo, Pod, StatusError
from pyscheduler.intree.volumes.assume_cache import AssumeCache, VolumeAssumeCache, is_newer
from pyscheduler.intree.volumes.match import is_bound_to_claim
from pyscheduler.intree.volumes.objects import (
    CLAIM,
    SELECTED_NODE_ANNOTATION,
    VOLUME,
    Object,
    Storage,
    annotations_of,
    field,
    is_bound,
    name_of,
    namespace_of,
    not_found,
    read_claim,
    text,
    volume_of_claim,
)
from pyscheduler.intree.volumes.search import PodVolumes, is_accessible

BOUND_BY_CONTROLLER_ANNOTATION = "pv.kubernetes.io/bound-by-controller"
Document = dict[str, Any]


class PodBinding(msgspec.Struct, eq=False):
    """Volumes and claims of one pod to be written; each object is replaced by the API server's response."""

    node: NodeInfo
    volumes: list[tuple[Object, Object]]
    """Volumes to be written, each with its claim."""
    claims: list[Object]
    """Claims to be written, for provisioning."""


# -- assume ------------------------------------------------------------------------------------------------------------


def assume(pod_volumes: PodVolumes, node: NodeInfo, volumes: VolumeAssumeCache, claims: AssumeCache) -> PodBinding:
    """Assume the volumes and claims as bound, so that no other pod gets them in the meantime."""
    binding = PodBinding(node, [], [])
    for volume, claim in pod_volumes.bindings:
        bound = bound_to(volume.source, claim)
        if bound is not volume.source:
            volumes.assume(bound)
        binding.volumes.append((bound, claim))
    for claim in pod_volumes.provisions:
        chosen = _annotated(claim, SELECTED_NODE_ANNOTATION, node.name)
        claims.assume(chosen)
        binding.claims.append(chosen)
    return binding


def restore(binding: PodBinding, volumes: VolumeAssumeCache, claims: AssumeCache) -> None:
    """Drop the assumed objects that have not been written."""
    for volume, _ in binding.volumes:
        volumes.restore(volume)
    for claim in binding.claims:
        claims.restore(claim)


def bound_to(volume: Object, claim: Object) -> Object:
    """Return the volume with a claimRef to the claim; the same object if it has one already."""
    bound = volume
    if not is_bound_to_claim(volume, claim) and BOUND_BY_CONTROLLER_ANNOTATION not in annotations_of(volume):
        bound = _annotated(volume, BOUND_BY_CONTROLLER_ANNOTATION, "yes")
    if not is_bound_to_claim(volume, claim) or text(volume, "spec", "claimRef", "uid") != text(
        claim, "metadata", "uid"
    ):
        bound = {**bound, "spec": {**(field(bound, "spec") or {}), "claimRef": _reference(claim)}}
    return bound


def _reference(claim: Object) -> Document:
    meta: Mapping[str, Any] = field(claim, "metadata") or {}
    parts = ("namespace", "name", "uid", "resourceVersion")
    return {"apiVersion": "v1", "kind": CLAIM.kind, **{part: meta[part] for part in parts if meta.get(part)}}


def _annotated(obj: Object, key: str, value: str) -> Object:
    meta = {**(field(obj, "metadata") or {}), "annotations": {**annotations_of(obj), key: value}}
    return {**obj, "metadata": meta}


# -- write -------------------------------------------------------------------------------------------------------------


async def write(binding: PodBinding, api: ApiWriter) -> None:
    """PUT the objects. ApiError if the API server rejects one; objects written before stay as they are."""
    for i, (volume, claim) in enumerate(binding.volumes):
        path = f"/api/v1/{VOLUME.plural}/{name_of(volume)}"
        written = await api.replace(path, {"apiVersion": "v1", "kind": VOLUME.kind, **volume})
        binding.volumes[i] = (written, claim)
    for i, claim in enumerate(binding.claims):
        path = f"/api/v1/namespaces/{namespace_of(claim)}/{CLAIM.plural}/{name_of(claim)}"
        binding.claims[i] = await api.replace(path, {"apiVersion": "v1", "kind": CLAIM.kind, **claim})


# -- wait --------------------------------------------------------------------------------------------------------------


class BindingChecker(msgspec.Struct, frozen=True):
    """Progress of a pod's volume binding, read from the informers."""

    storage: Storage
    volumes: VolumeAssumeCache

    def is_done(self, binding: PodBinding, pod: Pod, node_exists: bool) -> bool:
        """Return True if all claims are bound. StatusError if they cannot be, so that the pod is requeued."""
        node_name = binding.node.name
        if not node_exists:
            raise StatusError(f'failed to get node "{node_name}": {not_found("node", node_name)}')
        if pod.uid not in binding.node.pods:
            raise StatusError(f"pod does not exist any more: {not_found('pod', pod.name)}")
        bound = (self._is_bound(volume, claim, binding.node) for volume, claim in binding.volumes)
        return all(bound) and all(self._is_provisioned(claim, binding.node) for claim in binding.claims)

    def _is_bound(self, written: Object, claim: Object, node: NodeInfo) -> bool:
        name = name_of(written)
        volume = self.storage.volume(name)
        if volume is None:
            raise StatusError(f"failed to check binding: {not_found('persistentvolumes', name)}")
        current = self._current_claim(claim, "failed to check binding")
        if is_newer(written, volume):
            return False
        self._check_reach(volume, node, "failed to translate pv to csi: ")
        if not text(volume, "spec", "claimRef", "uid"):
            raise StatusError(f'ClaimRef got reset for pv "{name}"')
        return is_bound(current)

    def _is_provisioned(self, written: Object, node: NodeInfo) -> bool:
        claim = self._current_claim(written, "failed to check provisioning pvc")
        if is_newer(written, claim):
            return False
        if field(claim, "metadata", "annotations") is None:
            raise StatusError(f'selectedNode annotation reset for PVC "{name_of(claim)}"')
        if read_claim(claim).selected_node != node.name:
            # A provisioner removes the annotation to report a failure and to request another node.
            raise StatusError(f'provisioning failed for PVC "{name_of(claim)}"')
        if volume_of_claim(claim):
            volume = self.storage.volume(volume_of_claim(claim))
            if volume is None:
                return False
            self._check_reach(volume, node)
        return is_bound(claim)

    def _current_claim(self, claim: Object, context: str) -> Object:
        current = self.storage.claim(namespace_of(claim), name_of(claim))
        if current is None:
            key = f"{namespace_of(claim)}/{name_of(claim)}"
            raise StatusError(f"{context}: {not_found('persistentvolumeclaims', key)}")
        return current

    def _check_reach(self, source: Object, node: NodeInfo, context: str = "") -> None:
        try:
            reached = is_accessible(self.volumes.read(source), node.name, node.labels, self.storage)
        except StatusError as problem:
            raise StatusError(f"{context}{problem}") from None
        if not reached:
            name, why = name_of(source), "no matching NodeSelectorTerms"
            raise StatusError(f'pv "{name}" node affinity doesn\'t match node "{node.name}": {why}')
