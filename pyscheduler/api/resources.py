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
from pyscheduler.api.resize import Requests, Resized

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
    """Requests of an incoming pod in NodeResourcesFit's score: with defaults, without pod-level requests."""


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
    pod_level = _pod_level(spec.resources.requests if spec.resources else None)
    real = _whole(spec, None, {}, pod_level)
    effective, effective_level = real, pod_level
    if resized:
        effective_level = _effective_pod_level(pod_level, resized)
        effective = _whole(spec, resized, {}, effective_level)
    missing = {k: v for k, v in _DEFAULTS.items() if not (pod_level and k in effective)}
    non_zero = _whole(spec, resized, missing, effective_level)
    scored = _whole(spec, None, _DEFAULTS, {}) if pod_level or resized else non_zero
    return PodRequests(real, effective, {CPU: non_zero.get(CPU, 0), MEMORY: non_zero.get(MEMORY, 0)}, scored)


def affects_requests(spec: PodSpec, resized: Resized) -> bool:
    """Return True if the pod's requests during the resize differ from those without it."""
    now, after = pod_requests(spec, resized), pod_requests(spec)
    return now.effective != after.effective or now.non_zero != after.non_zero


def _pod_level(requests: Mapping[str, Quantity] | None) -> _Exact:
    """Return the pod-level requests of the resources that have any."""
    names = (name for name in requests or () if name in (CPU, MEMORY) or name.startswith("hugepages-"))
    return _exact({name: (requests or {})[name] for name in names})


def _effective_pod_level(stated: _Exact, resized: Resized) -> _Exact:
    """Return the pod-level requests during a resize, none if the spec has none."""
    if not stated or resized.of_pod is None:
        return stated
    effective = {} if resized.infeasible else {**stated}
    for requests in resized.of_pod:
        _raise_to(effective, _pod_level(requests))
    return effective


def is_sidecar(container: Container) -> bool:
    """Return True for an init container with restartPolicy Always (KEP-753), which runs beside the app containers."""
    return container.restart_policy == "Always"


def _whole(spec: PodSpec, resized: Resized | None, missing: Mapping[str, int], pod_level: _Exact) -> Amounts:
    total = _total(spec, {}, missing) if resized is None else _effective_total(spec, resized, missing)
    total.update(pod_level)
    _add(total, _exact(spec.overhead))
    return {name: thousandths(n) if name == CPU else whole_units(n) for name, n in total.items()}


def _effective_total(spec: PodSpec, resized: Resized, missing: Mapping[str, int]) -> _Exact:
    """Return the maximum of what the spec requests and of what is allocated and actuated, by resource."""
    if resized.sums is not None:
        allocated, actuated = map(_exact, resized.sums)
    else:
        allocated, actuated = (_total(spec, lists, missing) for lists in (resized.allocated, resized.actuated))
    total = {} if resized.infeasible else _total(spec, {}, missing)
    _raise_to(total, allocated)
    _raise_to(total, actuated)
    return total


def _total(spec: PodSpec, instead: Mapping[str, Requests], missing: Mapping[str, int]) -> _Exact:
    """Return the sum over the containers; `instead` has requests other than those of the spec, by container name."""
    total: _Exact = {}
    for container in spec.containers:
        _add(total, _container(container, instead, missing))
    sidecars: _Exact = {}
    peak: _Exact = {}
    for container in spec.init_containers or ():
        own = _container(container, instead, missing)
        if is_sidecar(container):
            _add(total, own)
            _add(sidecars, own)
            # Other resources of the sidecars are included already; a pod may have thousands of sidecars and resources.
            _raise_to(peak, {name: sidecars[name] for name in own})
        else:
            _raise_to(peak, {name: n + sidecars.get(name, 0) for name, n in own.items()})
    _raise_to(total, peak)
    return total


def _container(container: Container, instead: Mapping[str, Requests], missing: Mapping[str, int]) -> _Exact:
    resources: ResourceRequirements | None = container.resources
    stated = resources.requests if resources else None
    return {**missing, **_exact(instead.get(container.name, stated))}


def _exact(quantities: Mapping[str, Quantity] | None) -> _Exact:
    return {name: nano_value(q) for name, q in (quantities or {}).items()}


def _add(into: _Exact, more: _Exact) -> None:
    for name, n in more.items():
        into[name] = into.get(name, 0) + n


def _raise_to(into: _Exact, least: _Exact) -> None:
    for name, n in least.items():
        into[name] = max(into.get(name, 0), n)
