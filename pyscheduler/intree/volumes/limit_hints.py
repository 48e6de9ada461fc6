"""Queueing hints of NodeVolumeLimits: a limit was raised, or fewer volumes count toward it.

A volume counts by its driver's handle, so changes of claims, volumes and classes, also those of placed pods, change the
count.
"""

from __future__ import annotations

from pyscheduler.api import ClusterEvent, Pod, QueueingHint
from pyscheduler.intree._hints import occupied_node, queue_if
from pyscheduler.intree.volumes.attachable import (
    Attachable,
    CannotAttach,
    attachable_volumes,
    inline_drivers,
    needs_attaching,
    of_claim,
    of_volume,
)
from pyscheduler.intree.volumes.csi_nodes import drivers_of, limits_of, must_be_installed
from pyscheduler.intree.volumes.objects import (
    Object,
    Storage,
    claim_names,
    field,
    name_of,
    namespace_of,
    text,
    volume_of_claim,
)


class LimitHints:
    """Queueing hints of NodeVolumeLimits. They read the storage objects after the event."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def limit_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Return QUEUE if a driver's limit on the node was raised or removed, or a driver was installed."""
        before, now = limits_of(event.old), limits_of(event.new)
        raised = any(driver not in now or now[driver] > limit for driver, limit in before.items())
        return queue_if(raised or not drivers_of(event.new) <= drivers_of(event.old))

    def driver_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Return QUEUE if a driver no longer has to be installed on the node."""
        return queue_if(must_be_installed(event.old) and not must_be_installed(event.new))

    def pod_deleted(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Return QUEUE if the deleted pod had volumes attached to a node."""
        return queue_if(occupied_node(event) and needs_attaching(event.old.signature))

    def pod_placed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Return QUEUE if the pod shares a volume with the newly bound pod: on that node it no longer counts."""
        if not event.new.node_name or not needs_attaching(event.new.signature):
            return QueueingHint.SKIP
        return queue_if(not self._volumes(pod).isdisjoint(self._volumes(event.new)))

    def claim_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Return QUEUE if the pod uses the claim, or if the claim's volume no longer counts for its driver."""
        old, new = event.old, event.new
        if namespace_of(new or old) == pod.namespace and name_of(new or old) in claim_names(pod):
            return QueueingHint.QUEUE
        before, now = (None if side is None else of_claim(self._storage, side, True) for side in (old, new))
        return self._count_changed(pod, before, now)

    def volume_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Return QUEUE if the pod uses the volume, or if the volume no longer counts for its driver."""
        old, new = event.old, event.new
        names = (self._storage.claim(pod.namespace, name) for name in claim_names(pod))
        if any(claim is not None and volume_of_claim(claim) == name_of(new or old) for claim in names):
            return QueueingHint.QUEUE
        before, now = (
            self._by_class(new or old) if side is None else of_volume(side, has_csi_node=True) for side in (old, new)
        )
        return QueueingHint.QUEUE if new is None and before is not None else self._count_changed(pod, before, now)

    def _by_class(self, volume: Object) -> Attachable | None:
        """Return the attachable volume of the volume's claim as it counts while the volume does not exist."""
        claim_ref = field(volume, "spec", "claimRef")
        claim = self._storage.claim(text(claim_ref, "namespace"), text(claim_ref, "name"))
        return None if claim is None else of_claim(self._storage, claim, has_csi_node=True)

    def _count_changed(self, pod: Pod, before: Attachable | None, now: Attachable | None) -> QueueingHint:
        if before == now:
            return QueueingHint.SKIP
        fewer = before is not None and (now is None or now[0] != before[0])
        return queue_if(fewer or now in self._volumes(pod))

    def class_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Return QUEUE if the provisioner of a class changed."""
        before, now = (text(side, "provisioner") for side in (event.old, event.new))
        return queue_if(before != now)

    def attachment_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Return QUEUE if an attachment was deleted or replaced and the pod may use the same driver."""
        if event.new is not None and event.old.get("spec") == event.new.get("spec"):
            return QueueingHint.SKIP
        by_claim = bool(pod.signature.volume_claims)
        return queue_if(by_claim or text(event.old, "spec", "attacher") in set(inline_drivers(pod.signature)))

    def _volumes(self, pod: Pod) -> set[Attachable]:
        try:
            return attachable_volumes(self._storage, pod, has_csi_node=True, is_placed=True)
        except CannotAttach:
            return set()
