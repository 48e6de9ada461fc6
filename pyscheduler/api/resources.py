"""Computation of pod requests.

Matches `PodRequests` of k8s.io/component-helpers/resource: containers are summed, init containers count at their peak,
sidecars (restartable init containers, KEP-753) are added to both, pod-level requests (KEP-2837) replace the sum,
overhead is added. Amounts are integers: milli-cores for cpu, bytes or counts otherwise.
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
"""Cpu request that scoring assumes for a container without one, in milli-cores (kube-scheduler's default)."""
DEFAULT_MEMORY = 200 * 1024 * 1024
"""Memory request that scoring assumes for a container without one, in bytes (kube-scheduler's default)."""

Amounts = dict[str, int]
"""Amounts by resource name: milli-cores for cpu, bytes or counts otherwise."""
_Exact = dict[str, int]
"""Amounts by resource name in billionths; the sum of a pod is rounded once, at the end."""

_DEFAULTS: Mapping[str, int] = {CPU: DEFAULT_MILLI_CPU * 10**6, MEMORY: DEFAULT_MEMORY * 10**9}
_NATIVE_DOMAIN = "kubernetes.io/"


class PodRequests(msgspec.Struct, frozen=True):
    """Resource requests of a pod, by resource name.

    The variants differ during a resize, and in the defaults for containers without requests.
    """

    real: Mapping[str, int]
    """Requests of the spec: what Filter plugins require for an incoming pod."""
    effective: Mapping[str, int]
    """Requests that count for an assigned pod; differ from `real` while a resize is in progress."""
    non_zero: Mapping[str, int]
    """`effective` cpu and memory with defaults: what Score plugins count for an assigned pod."""
    scored: Mapping[str, int]
    """Requests of an incoming pod in NodeResourcesFit's score (v1.36): with defaults, without pod-level requests."""


@lru_cache(maxsize=8192, typed=True)
def amount(resource: str, quantity: Quantity) -> int:
    """Return a quantity as an integer: milli-cores for cpu, whole units otherwise. QuantityError if invalid."""
    return milli_value(quantity) if resource == CPU else value(quantity)


def amounts(quantities: Mapping[str, Quantity] | None) -> Amounts:
    """Return a resource list as integers. QuantityError if an amount is invalid."""
    return {name: amount(name, q) for name, q in (quantities or {}).items()}


def quantity(resource: str, amount: int) -> str:
    """Return an amount as a quantity that `amount` parses: `500m` or `2` for cpu, `1Gi` for memory."""
    if resource == "cpu":
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if is_scalar(resource):
        return str(amount)
    units, unit = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 0
    while amount and amount % 1024 == 0 and unit + 1 < len(units):
        amount, unit = amount // 1024, unit + 1
    return f"{amount}{units[unit]}"


def is_scalar(resource: str) -> bool:
    """Return True if the scheduler accounts for the resource besides cpu, memory and ephemeral-storage.

    Those are extended resources, huge pages and attachable volumes. Other names in requests and on nodes are ignored.
    """
    named = resource.startswith(("hugepages-", "attachable-volumes-")) or _NATIVE_DOMAIN in resource
    return named or is_extended(resource)


def is_extended(resource: str) -> bool:
    """Return True for an extended resource, such as `nvidia.com/gpu`."""
    return "/" in resource and _NATIVE_DOMAIN not in resource and not resource.startswith("requests.")


def pod_requests(spec: PodSpec, resized: Resized | None = None) -> PodRequests:
    """Return the requests of a pod; `resized` holds the result of `resize.resized`."""
    requests = spec.resources.requests if spec.resources else None
    pod_level = {k: v for k, v in (requests or {}).items() if k in (CPU, MEMORY) or k.startswith("hugepages-")}
    real = _whole(spec, {}, {}, pod_level)
    effective, effective_level = real, pod_level
    if resized:
        effective_level = {k: resized.get("", {}).get(k, 0) for k in pod_level} if "" in resized else pod_level
        effective = _whole(spec, resized, {}, effective_level)
    missing = {k: v for k, v in _DEFAULTS.items() if not (pod_level and k in effective)}
    non_zero = _whole(spec, resized or {}, missing, effective_level)
    scored = _whole(spec, {}, _DEFAULTS, {}) if pod_level or resized else non_zero
    return PodRequests(real, effective, {CPU: non_zero.get(CPU, 0), MEMORY: non_zero.get(MEMORY, 0)}, scored)


def is_sidecar(container: Container) -> bool:
    """Return True for an init container with restartPolicy Always (KEP-753), which runs beside the app containers."""
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
            # Other resources of the sidecars are included already; a pod may have thousands of sidecars and resources.
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
