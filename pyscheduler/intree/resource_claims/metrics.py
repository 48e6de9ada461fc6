"""Metrics of claims and devices, under kube-scheduler's names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyscheduler.api import ApiWriter, PluginMetric
from pyscheduler.intree.resource_claims.binding_conditions import with_binding_conditions
from pyscheduler.intree.resource_claims.objects import CachedClaim

SUCCESS, FAILURE, TIMEOUT, ERROR = "success", "failure", "timeout", "error"
_OWNER: Final = ("false", "", "Pod")
_CREATES = PluginMetric(
    "dynamic_resource_allocation_resourceclaim_creates",
    "Attempts to create a ResourceClaim, by result; the scheduler creates those of extended resources.",
    ("status", "admin_access", "owner_api_group", "owner_api_kind"),
)
_LABELS = ("profile", "driver", "status")
_ALLOCATIONS = PluginMetric(
    "scheduler_dra_bindingconditions_allocations", "Allocated devices with binding conditions, by result.", _LABELS
)
_WAIT_SECONDS = PluginMetric(
    "scheduler_dra_bindingconditions_wait_duration_seconds",
    "Seconds that PreBind waited for binding conditions.",
    _LABELS,
    tuple(0.1 * 2**i for i in range(14)),
)

ALL: Final = (_CREATES, _ALLOCATIONS, _WAIT_SECONDS)


def count_creation(api: ApiWriter, status: str) -> None:
    """Count an attempt to create the claim of a pod's extended resources."""
    api.observe(_CREATES, (status, *_OWNER))


def count_wait(api: ApiWriter, profile: str, claims: Iterable[CachedClaim], status: str, seconds: float) -> None:
    """Count a wait for binding conditions: its seconds once for each device of the pod, as kube-scheduler does."""
    for claim in claims:
        results = claim.allocation.devices.results if claim.allocation else None
        for result in results or ():
            api.observe(_WAIT_SECONDS, (profile, result.driver, status), seconds)
        for result in with_binding_conditions(claim):
            api.observe(_ALLOCATIONS, (profile, result.driver, status))
