"""Which changes of ResourceClaims may let a pod be scheduled that DynamicResources rejected (KEP-4247)."""

from __future__ import annotations

from pyscheduler.api import ClusterEvent, Pod, PreQueueingHint, QueueingHint
from pyscheduler.intree._hints import queue_if
from pyscheduler.intree.resource_claims.claim_cache import ClaimCache
from pyscheduler.intree.resource_claims.objects import Object
from pyscheduler.intree.resource_claims.pod_claims import ClaimUnusableError, claim_keys, claims_of_pod


def _frees_devices(event: ClusterEvent) -> bool:
    """Return True if an allocated claim was deleted or deallocated."""
    return _is_allocated(event.old) and not _is_allocated(event.new)


OF_CLAIMS = PreQueueingHint(objects_of=claim_keys, concerns_all=_frees_devices)
"""Narrows events of ResourceClaims to the pods that use them, except those that free devices."""


class ClaimHints:
    """Queueing hints of DynamicResources for claims and for the pod's own updates."""

    def __init__(self, claims: ClaimCache) -> None:
        self._claims = claims

    def claim_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Return QUEUE if devices were freed, or if the status of one of the pod's claims has changed."""
        old: Object | None = event.old
        new: Object | None = event.new
        if new is None:
            return queue_if(_frees_devices(event))
        uid = (new.get("metadata") or {}).get("uid")
        try:
            is_own = uid in [claim.uid for claim in claims_of_pod(pod, self._claims)]
        except ClaimUnusableError:
            return QueueingHint.SKIP  # another claim is missing
        if _frees_devices(event):
            return QueueingHint.QUEUE
        if not is_own:
            return QueueingHint.SKIP
        return queue_if(old is None or (old.get("status") or {}) != (new.get("status") or {}))

    def pod_updated(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        """Return QUEUE if the event is for the pod itself and all of its claims can be used now."""
        new: Pod = event.new
        if new.uid != pod.uid:
            return QueueingHint.SKIP
        try:
            for _ in claims_of_pod(new, self._claims):
                pass
        except ClaimUnusableError:
            return QueueingHint.SKIP
        return QueueingHint.QUEUE


def _is_allocated(claim: Object | None) -> bool:
    return claim is not None and bool((claim.get("status") or {}).get("allocation"))
