"""Queueing hints of the volume plugins for changes of storage objects.

Kube-scheduler's hints look at the changed object and hardly at the pod: they requeue pods with other classes and
volumes, and miss objects that a pod depends on through its claims, such as the driver of a class. These hints follow
the claims. An update may stand for a deletion and a new object of the same name, so no field counts as immutable.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyscheduler.api import ClusterEvent, Pod, PreQueueingHint, QueueingHint
from pyscheduler.intree._hints import queue_if
from pyscheduler.intree.volumes.csi_topology import MIGRATED_PLUGINS_ANNOTATION
from pyscheduler.intree.volumes.objects import (
    Object,
    Storage,
    annotations_of,
    claim_names,
    class_of_claim,
    class_of_volume,
    field,
    is_bound,
    name_of,
    namespace_of,
    text,
    volume_of_claim,
)
from pyscheduler.intree.volumes.provision import volume_limit


def _claim_keys(pod: Pod) -> list[tuple[str, str]]:
    return [(pod.namespace, name) for name in claim_names(pod)]


def _never(_: ClusterEvent) -> bool:
    return False


OF_CLAIMS = PreQueueingHint(objects_of=_claim_keys, concerns_all=_never)
"""Narrows events of PersistentVolumeClaims to the pods that use them."""


class VolumeHints:
    """Queueing hints by the claims of the pending pod. They read the storage objects after the event."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def claim_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Return QUEUE if the pod uses the claim."""
        claim = event.new or event.old
        return queue_if(namespace_of(claim) == pod.namespace and name_of(claim) in claim_names(pod))

    def class_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Return QUEUE if a class of the pod's claims was created or its provisioning changed."""
        changed = event.old is None or event.new is None or _provisioning(event.old) != _provisioning(event.new)
        return queue_if(changed and name_of(event.new or event.old) in self._classes(pod))

    def volume_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Return QUEUE if a claim of the pod is bound to the volume, or an unbound one might be."""
        name = name_of(event.new or event.old)
        classes = {class_of_volume(side) for side in (event.old, event.new) if side is not None}
        return queue_if(
            any(
                volume_of_claim(claim) == name or (not is_bound(claim) and class_of_claim(claim) in classes)
                for claim in self.claims(pod)
            )
        )

    def csi_node_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Return QUEUE if the migrated plugins of the node changed, which changes the accessible volumes."""
        before, now = (annotations_of(side).get(MIGRATED_PLUGINS_ANNOTATION, "") for side in (event.old, event.new))
        return queue_if(event.old is None or before != now)

    def csi_driver_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Return QUEUE if the driver of a class of the pod's claims stopped publishing its capacity."""
        before, now = (field(side, "spec", "storageCapacity") is True for side in (event.old, event.new))
        return queue_if(before and not now and name_of(event.old) in self._provisioners(pod))

    def capacity_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Return QUEUE if there is more capacity of a class of the pod's claims, or capacity in another topology."""
        new, old = event.new, event.old
        if text(new, "storageClassName") not in self._classes(pod):
            return QueueingHint.SKIP
        before, now = (None if side is None else volume_limit(side) for side in (old, new))
        elsewhere = before is None or _topology_and_class(old) != _topology_and_class(new)
        return queue_if(now is not None and (elsewhere or before is None or now > before))

    def assumption_ended(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Return QUEUE if a deleted pod has unbound claims: the volumes assumed for it are free again."""
        gone: Pod = event.old
        return queue_if(any(not is_bound(claim) for claim in self.claims(gone)))

    def claims(self, pod: Pod) -> Iterator[Object]:
        """Yield the pod's claims that exist."""
        for name in claim_names(pod):
            claim = self._storage.claim(pod.namespace, name)
            if claim is not None:
                yield claim

    def _classes(self, pod: Pod) -> set[str]:
        return {class_of_claim(claim) for claim in self.claims(pod)}

    def _provisioners(self, pod: Pod) -> set[str]:
        return {text(self._storage.storage_class(name), "provisioner") for name in self._classes(pod)}


def _provisioning(storage_class: Object) -> tuple[object, ...]:
    """Return the fields of a class that decide where its claims can be provisioned."""
    return tuple(storage_class.get(key) for key in ("provisioner", "volumeBindingMode", "allowedTopologies"))


def _topology_and_class(capacity: Object) -> tuple[object, ...]:
    """Return the topology and the class of a CSIStorageCapacity."""
    return capacity.get("nodeTopology"), capacity.get("storageClassName")
