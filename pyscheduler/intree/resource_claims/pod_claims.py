"""The ResourceClaims that a pod names, with the reasons why it cannot use them yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyscheduler.api import Pod
from pyscheduler.api.devices import DeviceClass
from pyscheduler.intree.resource_claims.claim_cache import ClaimCache
from pyscheduler.intree.resource_claims.objects import CachedClaim, Key


class ClaimUnusableError(Exception):
    """The pod has to wait; the text is the reason that it is shown.

    `claim` is the name of the claim that has to change, empty if the pod itself has to.
    """

    def __init__(self, text: str, claim: str = "") -> None:
        super().__init__(text)
        self.claim = claim


def claims_of_pod(pod: Pod, claims: ClaimCache) -> Iterator[CachedClaim]:
    """Yield the claims of spec.resourceClaims in their order. ClaimUnusableError for one that cannot be used.

    An entry is skipped if its status says that no claim is needed.
    """
    if not pod.spec.resource_claims:
        return
    created = {status.name: status.resource_claim_name for status in pod.claim_statuses}
    for entry in pod.spec.resource_claims:
        name = entry.resource_claim_name
        from_template = name is None
        if from_template:
            if entry.name not in created:
                raise ClaimUnusableError(f'pod "{pod.key}": ResourceClaim not created yet')
            name = created[entry.name]
        if name is None:
            continue
        claim = claims.get(pod.namespace, name)
        if claim is None:
            raise ClaimUnusableError(f'could not find ResourceClaim "{pod.namespace}/{name}"', name)
        if claim.is_deleting:
            raise ClaimUnusableError(f'resourceclaim "{name}" is being deleted', name)
        if from_template and not claim.is_owned_by(pod):
            problem = f"ResourceClaim {claim.name} was not created for Pod {pod.key} (Pod is not owner)"
            raise ClaimUnusableError(problem, name)
        if claim.problem:
            raise ClaimUnusableError(f'resourceclaim "{name}" cannot be read: {claim.problem}', name)
        yield claim


def claim_keys(pod: Pod) -> list[Key]:
    """Return namespace and name of the claims of spec.resourceClaims, existing or not.

    Without those whose names are not in the status of the pod yet.
    """
    created = {status.name: status.resource_claim_name for status in pod.claim_statuses}
    named = {each.name: each.resource_claim_name for each in pod.spec.resource_claims or ()}
    names = (created.get(entry) if name is None else name for entry, name in named.items())
    return [(pod.namespace, name) for name in names if name is not None]


def pod_group_of(pod: Pod) -> tuple[str, str] | None:
    """Return namespace and name of the pod's PodGroup, None if it has none."""
    group = pod.spec.scheduling_group
    name = None if group is None else group.pod_group_name
    return (pod.namespace, name) if name else None


def check_requests(claim: CachedClaim, classes: Mapping[str, DeviceClass]) -> None:
    """Raise ClaimUnusableError if a request of the claim names no existing class; ValueError if it names none."""
    for request in claim.api.spec.devices.requests or ():
        if request.exactly is not None:
            _check_class(request.exactly.device_class_name, request.name, classes)
        elif request.first_available:
            for alternative in request.first_available:
                _check_class(alternative.device_class_name, f"{request.name}/{alternative.name}", classes)
        else:
            raise ClaimUnusableError(f"resource claim {claim.name}, request {request.name}: unknown request type")


def _check_class(name: str, request: str, classes: Mapping[str, DeviceClass]) -> None:
    if not name:
        raise ValueError(f"request {request}: unsupported request type")
    if name not in classes:
        raise ClaimUnusableError(f"request {request}: device class {name} does not exist")
