"""How much a pod asks for: the arithmetic of pod requests.

Matches `PodRequests` of k8s.io/component-helpers/resource: containers are summed, init containers count at their
peak, sidecars (restartable init containers) run beside both, pod-level requests replace the sum, overhead is added.
Amounts are whole numbers: cpu in milli-cores, everything else in units (bytes, devices).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from pyscheduler.api.objects import Container, PodSpec, Quantity, ResourceRequirements
from pyscheduler.api.quantity import milli_value, nano_value, thousandths, value, whole_units
from pyscheduler.api.resize import Resized

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

DEFAULT_MILLI_CPU = 100
"""What scoring assumes of a container that states no cpu request, in milli-cores (kube-scheduler's default)."""
DEFAULT_MEMORY = 200 * 1024 * 1024
"""What scoring assumes of a container that states no memory request, in bytes."""

Amounts = dict[str, int]
"""By resource: milli-cores for cpu, units for the rest."""
_Exact = dict[str, int]
"""By resource, in billionths: a pod's sum is rounded once, at the end."""

_DEFAULTS: Mapping[str, int] = {CPU: DEFAULT_MILLI_CPU * 10**6, MEMORY: DEFAULT_MEMORY * 10**9}
_NATIVE_DOMAIN = "kubernetes.io/"


class PodRequests(msgspec.Struct, frozen=True):
    """What a pod takes from a node.

    `real` is what it states: what filters count of the pod to be placed. `held` is what it takes where it runs; the two
    differ while a resize is under way. `non_zero` is `held` cpu and memory with the defaults for containers that state
    none: what scores count of the pods on a node. `scored` is what NodeResourcesFit's score counts of the pod to be
    placed: with the defaults, and (as in kube-scheduler 1.36) without looking at pod-level requests.
    """

    real: Mapping[str, int]
    effective: Mapping[str, int]
    non_zero: Mapping[str, int]
    scored: Mapping[str, int]


@lru_cache(maxsize=8192, typed=True)
def amount(resource: str, quantity: Quantity) -> int:
    """A quantity as a whole number: milli-cores for cpu, units for the rest. QuantityError if it cannot be read."""
    return milli_value(quantity) if resource == CPU else value(quantity)


def amounts(quantities: Mapping[str, Quantity] | None) -> Amounts:
    """A resource list as whole numbers."""
    return {name: amount(name, q) for name, q in (quantities or {}).items()}


def is_scalar(resource: str) -> bool:
    """Whether the scheduler counts the resource beside cpu, memory and ephemeral-storage: extended resources, huge
    pages and attachable volumes. Any other name in a request or on a node means nothing to it."""
    named = resource.startswith(("hugepages-", "attachable-volumes-")) or _NATIVE_DOMAIN in resource
    return named or is_extended(resource)


def is_extended(resource: str) -> bool:
    """Whether the resource belongs to someone's own domain, such as `nvidia.com/gpu`."""
    return "/" in resource and _NATIVE_DOMAIN not in resource and not resource.startswith("requests.")


def pod_requests(spec: PodSpec, resized: Resized | None = None) -> PodRequests:
    """The requests of a pod; `resized` says which containers hold other amounts than their spec states."""
    stated = spec.resources.requests if spec.resources else None
    pod_level = {k: v for k, v in (stated or {}).items() if k in (CPU, MEMORY) or k.startswith("hugepages-")}
    real = _whole(spec, {}, {}, pod_level)
    held, held_level = real, pod_level
    if resized:
        held_level = {k: resized.get("", {}).get(k, 0) for k in pod_level} if "" in resized else pod_level
        held = _whole(spec, resized, {}, held_level)
    missing = {k: v for k, v in _DEFAULTS.items() if not (pod_level and k in held)}
    non_zero = _whole(spec, resized or {}, missing, held_level)
    scored = _whole(spec, {}, _DEFAULTS, {}) if pod_level or resized else non_zero
    return PodRequests(real, held, {CPU: non_zero.get(CPU, 0), MEMORY: non_zero.get(MEMORY, 0)}, scored)


def is_sidecar(container: Container) -> bool:
    """Whether an init container keeps running beside the app containers (restartPolicy Always)."""
    return container.restart_policy == "Always"


def _whole(spec: PodSpec, resized: Resized, missing: Mapping[str, int], pod_level: Mapping[str, Quantity]) -> Amounts:
    total = _total(spec, resized, missing)
    total.update(_exact(pod_level))
    _add(total, _exact(spec.overhead))
    return {name: thousandths(n) if name == CPU else whole_units(n) for name, n in total.items()}


def _total(spec: PodSpec, resized: Resized, missing: Mapping[str, int]) -> _Exact:
    total: _Exact = {}
    for container in spec.containers:
        _add(total, _container(container, resized, missing))
    sidecars: _Exact = {}
    peak: _Exact = {}
    for container in spec.init_containers or ():
        if is_sidecar(container):
            own = _container(container, resized, missing)
            _add(total, own)
            _add(sidecars, own)
            # Other resources of the sidecars are below the peak already: a pod may have thousands of each.
            _raise_to(peak, {name: sidecars[name] for name in own})
        else:
            own = _container(container, {}, missing)
            _raise_to(peak, {name: n + sidecars.get(name, 0) for name, n in own.items()})
    _raise_to(total, peak)
    return total


def _container(container: Container, resized: Resized, missing: Mapping[str, int]) -> _Exact:
    resources: ResourceRequirements | None = container.resources
    stated = resources.requests if resources else None
    return {**missing, **_exact(resized.get(container.name, stated))}


def _exact(quantities: Mapping[str, Quantity] | None) -> _Exact:
    return {name: nano_value(q) for name, q in (quantities or {}).items()}


def _add(into: _Exact, more: _Exact) -> None:
    for name, n in more.items():
        into[name] = into.get(name, 0) + n


def _raise_to(into: _Exact, least: _Exact) -> None:
    for name, n in least.items():
        into[name] = max(into.get(name, 0), n)
