"""Changes of other pods' ResourceClaims that requeue a pod which DynamicResources rejected."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import Action, ClusterEvent, QueueingHint
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.intree.resource_claims.claim_cache import ClaimCache
from pyscheduler.intree.resource_claims.hints import ClaimHints
from pyscheduler.intree.resource_claims.objects import CLAIM
from pyscheduler.testing import pod

FREE: dict[str, Any] = {"metadata": {"name": "c", "namespace": "default", "uid": "c"}}
ALLOCATED = {**FREE, "status": {"allocation": {"devices": {"results": []}}}}
QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP


@pytest.mark.parametrize(
    ("action", "old", "new", "expected"),
    [
        (Action.DELETE, ALLOCATED, None, QUEUE),
        (Action.DELETE, FREE, None, SKIP),
        (Action.UPDATE, ALLOCATED, FREE, QUEUE),
        (Action.UPDATE, FREE, ALLOCATED, SKIP),
        (Action.ADD, None, FREE, SKIP),
    ],
    ids=["deleted while allocated", "deleted", "deallocated", "allocated", "added"],
)
def test_pod_is_requeued_once_devices_are_free(
    action: Action, old: dict[str, Any] | None, new: dict[str, Any] | None, expected: QueueingHint
) -> None:
    event = ClusterEvent(CLAIM.kind, action, old, new)
    assert ClaimHints(ClaimCache(empty_handle())).claim_changed(pod("p").build(), event) is expected
