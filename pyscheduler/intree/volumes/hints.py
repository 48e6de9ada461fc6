"""Which changes of storage objects may help a pod that a volume plugin rejected.

Kube-scheduler's hints look at the object that changed and hardly at the pod: they wake pods that use other classes and
volumes, and miss what reaches a pod through its claims, as the driver of a class does. Here the claims are followed.
An update may hide that an object was deleted and created anew, so no field counts as immutable.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyscheduler.api import ClusterEvent, Pod, QueueingHint
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


class VolumeHints:
    """Queueing hints by the claims of the waiting pod. They read the storage objects as they are after the event."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def claim_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """QUEUE if it is a claim of the pod."""
        claim = event.new or event.old
        return queue_if(namespace_of(claim) == pod.namespace and name_of(claim) in claim_names(pod))

    def class_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """QUEUE if the class of one of the pod's claims appears or provisions otherwise."""
        changed = event.old is None or event.new is None or _provisioning(event.old) != _provisioning(event.new)
        return queue_if(changed and name_of(event.new or event.old) in self._classes(pod))

    def volume_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """QUEUE if it is the volume of one of the pod's claims, or one that an unbound claim might get."""
        name = name_of(event.new or event.old)
        classes = {class_of_volume(side) for side in (event.old, event.new) if side is not None}
        return queue_if(
            any(
                volume_of_claim(claim) == name or (not is_bound(claim) and class_of_claim(claim) in classes)
                for claim in self.claims(pod)
            )
        )

    def csi_node_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """QUEUE if other in-tree plugins are migrated on the node, so that volumes are reached from elsewhere."""
        before, now = (annotations_of(side).get(MIGRATED_PLUGINS_ANNOTATION, "") for side in (event.old, event.new))
        return queue_if(event.old is None or before != now)

    def csi_driver_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """QUEUE if the driver of a class that the pod's claims are of ceases to publish its free capacity."""
        before, now = (field(side, "spec", "storageCapacity") is True for side in (event.old, event.new))
        return queue_if(before and not now and name_of(event.old) in self._provisioners(pod))

    def capacity_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """QUEUE if there is more capacity of a class that the pod's claims are of, or capacity elsewhere."""
        new, old = event.new, event.old
        if text(new, "storageClassName") not in self._classes(pod):
            return QueueingHint.SKIP
        before, now = (None if side is None else volume_limit(side) for side in (old, new))
        elsewhere = before is None or _topology_and_class(old) != _topology_and_class(new)
        return queue_if(now is not None and (elsewhere or before is None or now > before))

    def assumption_ended(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """QUEUE if a pod that leaves its node has unbound claims: the volumes that it was to get are free again."""
        gone: Pod = event.old
        return queue_if(any(not is_bound(claim) for claim in self.claims(gone)))

    def claims(self, pod: Pod) -> Iterator[Object]:
        """The pod's claims, as far as they exist."""
        for name in claim_names(pod):
            claim = self._storage.claim(pod.namespace, name)
            if claim is not None:
                yield claim

    def _classes(self, pod: Pod) -> set[str]:
        return {class_of_claim(claim) for claim in self.claims(pod)}

    def _provisioners(self, pod: Pod) -> set[str]:
        return {text(self._storage.storage_class(name), "provisioner") for name in self._classes(pod)}


def _provisioning(storage_class: Object) -> tuple[object, ...]:
    """The fields of a class that decide which nodes its claims can be provisioned on."""
    return tuple(storage_class.get(key) for key in ("provisioner", "volumeBindingMode", "allowedTopologies"))


def _topology_and_class(capacity: Object) -> tuple[object, ...]:
    """Which nodes reach the capacity, and for which class."""
    return capacity.get("nodeTopology"), capacity.get("storageClassName")
