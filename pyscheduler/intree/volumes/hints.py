"""Which changes of storage objects may help a pod that VolumeBinding rejected."""

from __future__ import annotations

from pyscheduler.api import ClusterEvent, Hint, Pod
from pyscheduler.intree._hints import queue_if
from pyscheduler.intree.volumes.csi_topology import MIGRATED_PLUGINS_ANNOTATION
from pyscheduler.intree.volumes.objects import annotations_of, claim_names, field, items, name_of, namespace_of, text
from pyscheduler.intree.volumes.provision import volume_limit


def class_may_help(_pod: Pod, event: ClusterEvent) -> Hint:
    if event.old is None:
        return Hint.QUEUE
    old, new = (list(items(side, "allowedTopologies")) for side in (event.old, event.new))
    return queue_if(old != new)


def claim_may_help(pod: Pod, event: ClusterEvent) -> Hint:
    return queue_if(namespace_of(event.new) == pod.namespace and name_of(event.new) in claim_names(pod))


def csi_node_may_help(_pod: Pod, event: ClusterEvent) -> Hint:
    if event.old is None:
        return Hint.QUEUE
    old, new = (annotations_of(side).get(MIGRATED_PLUGINS_ANNOTATION, "") for side in (event.old, event.new))
    return queue_if(old != new)


def csi_driver_may_help(pod: Pod, event: ClusterEvent) -> Hint:
    """Free capacity is not looked at any more. Only volumes in the pod's own spec name their driver."""
    if name_of(event.new) not in {text(volume, "csi", "driver") for volume in pod.spec.volumes or ()}:
        return Hint.SKIP
    tracked = [field(side, "spec", "storageCapacity") is True for side in (event.old, event.new)]
    return queue_if(tracked == [True, False])


def capacity_may_help(_pod: Pod, event: ClusterEvent) -> Hint:
    if event.old is None:
        return Hint.QUEUE
    old, new = volume_limit(event.old), volume_limit(event.new)
    return queue_if(new is not None and (old is None or new > old))
