"""Pod type of the hollow kubelet: the scheduler's fields and those that running a pod needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pyscheduler.api.objects import ApiObject, ContainerStatus, ObjectMeta, PodSpec, PodStatus
from pyscheduler.api.resources import pod_requests


class HollowMeta(ObjectMeta, frozen=True):
    deletion_grace_period_seconds: int | None = None


class HollowPodSpec(PodSpec, frozen=True):
    restart_policy: str = "Always"
    active_deadline_seconds: int | None = None


class HollowContainerStatus(ContainerStatus, frozen=True):
    restart_count: int = 0
    state: dict[str, dict[str, Any]] | None = None


class ExtendedResourceClaimStatus(ApiObject, frozen=True):
    """core/v1 PodExtendedResourceClaimStatus: the resources of containers that a claim provides as devices."""

    request_mappings: tuple[dict[str, str], ...] | None = None


class HollowPodStatus(PodStatus, frozen=True):
    pod_ip: str = msgspec.field(name="podIP", default="")
    container_statuses: tuple[HollowContainerStatus, ...] | None = None
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None


class HollowPod(ApiObject, frozen=True):
    """A core/v1 Pod."""

    metadata: HollowMeta
    spec: HollowPodSpec
    status: HollowPodStatus = HollowPodStatus()

    @property
    def final(self) -> bool:
        """True if the pod has Succeeded or Failed: it does not run again and uses no resources of its node."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def node_requests(self) -> Mapping[str, int]:
        """What the pod needs of its node's allocatable resources: all but what its devices provide."""
        requests = pod_requests(self.spec).real
        shown = self.status.extended_resource_claim_status
        if shown is None:
            return requests
        devices = {mapping.get("resourceName") for mapping in shown.request_mappings or ()}
        return {name: amount for name, amount in requests.items() if name not in devices}
