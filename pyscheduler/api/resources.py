"""How much a pod asks for: the arithmetic of pod requests.

Matches `PodRequests` of k8s.io/component-helpers/resource: containers are summed, init containers count at their
peak, sidecars (restartable init containers) run beside both, pod-level requests replace the sum, overhead is added.
Amounts are whole numbers: cpu in milli-cores, everything else in units (bytes, devices).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyscheduler.api.objects import Container, PodSpec, Quantity, ResourceRequirements
from pyscheduler.api.quantity import milli_value, value

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

DEFAULT_MILLI_CPU = 100
"""What scoring assumes of a container that states no cpu request, in milli-cores (kube-scheduler's default)."""
DEFAULT_MEMORY = 200 * 1024 * 1024
"""What scoring assumes of a container that states no memory request, in bytes."""

Amounts = dict[str, int]

_DEFAULTS: Mapping[str, int] = {CPU: DEFAULT_MILLI_CPU, MEMORY: DEFAULT_MEMORY}
_NATIVE_DOMAIN = "kubernetes.io/"


@dataclass(frozen=True, slots=True)
class PodRequests:
    """What a pod takes from a node.

    `real` is what it states and what filters count. `non_zero` is its cpu and memory with the defaults for containers
    that state none: what scores count of the pods on a node. `scored` is what NodeResourcesFit's score counts of the
    pod to be placed: with the defaults, and (as in kube-scheduler 1.36) without looking at pod-level requests.
    """

    real: Mapping[str, int]
    non_zero: Mapping[str, int]
    scored: Mapping[str, int]


def amount(resource: str, quantity: Quantity) -> int:
    """A quantity as a whole number: milli-cores for cpu, units for the rest. QuantityError if it cannot be read."""
    return milli_value(quantity) if resource == CPU else value(quantity)


def amounts(quantities: Mapping[str, Quantity] | None) -> Amounts:
    """A resource list as whole numbers."""
    return {name: amount(name, q) for name, q in (quantities or {}).items()}


def is_scalar(resource: str) -> bool:
    """Whether the scheduler counts the resource beside cpu, memory and ephemeral-storage: extended resources, huge
    pages and attachable volumes. Any other name in a request or on a node means nothing to it."""
    return "/" in resource or resource.startswith(("hugepages-", "attachable-volumes-"))


def is_extended(resource: str) -> bool:
    """Whether the resource belongs to someone's own domain, such as `nvidia.com/gpu`."""
    return "/" in resource and _NATIVE_DOMAIN not in resource and not resource.startswith("requests.")


def pod_requests(spec: PodSpec) -> PodRequests:
    """The requests of a pod that is to be scheduled (status is not looked at)."""
    stated = amounts(spec.resources.requests if spec.resources else None)
    pod_level = {k: v for k, v in stated.items() if k in (CPU, MEMORY) or k.startswith("hugepages-")}
    real = _whole(spec, {}, pod_level)
    scored = non_zero = _whole(spec, _DEFAULTS, {})
    if pod_level:
        non_zero = _whole(spec, {k: v for k, v in _DEFAULTS.items() if k not in real}, pod_level)
    return PodRequests(real, {CPU: non_zero.get(CPU, 0), MEMORY: non_zero.get(MEMORY, 0)}, scored)


def is_sidecar(container: Container) -> bool:
    """Whether an init container keeps running beside the app containers (restartPolicy Always)."""
    return container.restart_policy == "Always"


def _whole(spec: PodSpec, missing: Mapping[str, int], pod_level: Amounts) -> Amounts:
    total = _total(spec, missing)
    total.update(pod_level)
    _add(total, amounts(spec.overhead))
    return total


def _total(spec: PodSpec, missing: Mapping[str, int]) -> Amounts:
    total: Amounts = {}
    for container in spec.containers:
        _add(total, _container(container.resources, missing))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.init_containers or ():
        own = _container(container.resources, missing)
        if is_sidecar(container):
            _add(total, own)
            _add(sidecars, own)
            _raise_to(peak, sidecars)
        else:
            _add(own, sidecars)
            _raise_to(peak, own)
    _raise_to(total, peak)
    return total


def _container(resources: ResourceRequirements | None, missing: Mapping[str, int]) -> Amounts:
    return {**missing, **amounts(resources.requests if resources else None)}


def _add(into: Amounts, more: Amounts) -> None:
    for name, n in more.items():
        into[name] = into.get(name, 0) + n


def _raise_to(into: Amounts, least: Amounts) -> None:
    for name, n in least.items():
        into[name] = max(into.get(name, 0), n)
