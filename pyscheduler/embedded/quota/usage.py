"""Amounts that one object uses of the resources of a ResourceQuota, in billionths of their unit (1 core, 1 byte)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyscheduler.api.quantity import QuantityError, nano_value
from pyscheduler.embedded.admission.quantities import canonical
from pyscheduler.embedded.objects import Json, containers_of, dig

NANO: Final = 10**9
Amounts = dict[str, int]

_COUNTED: Final = frozenset(
    {"configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas", "secrets", "services"}
)
"""Kinds of the core group with a resource of their own besides `count/...`."""
_COMPUTE: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_POD_LEVEL: Final = frozenset({"cpu", "memory"})
_HUGE_PAGES: Final = "hugepages-"
_BINARY: Final = ("memory", "storage", _HUGE_PAGES)
_MUST_BE_SPECIFIED: Final = frozenset(
    {"cpu", "memory", *(f"{kind}.{name}" for kind in ("requests", "limits") for name in ("cpu", "memory"))}
)
_FINISHED: Final = ("Succeeded", "Failed")


def nano(quantity: Any) -> int:
    """Return a quantity in billionths, 0 if it is malformed."""
    try:
        return nano_value(quantity)
    except QuantityError:
        return 0


def quantity_text(resource: str, amount: int) -> str:
    """Format an amount as a canonical quantity; memory, storage and huge pages with binary suffixes."""
    whole, rest = divmod(amount, NANO)
    if not rest and whole % 1024 == 0 and any(each in resource for each in _BINARY):
        return canonical(f"{whole // 1024}Ki")
    return canonical(f"{amount}n" if rest else str(whole))


def used_by(bucket: str, obj: Json) -> Amounts:
    """Return what an object of a bucket uses."""
    amounts: Amounts = {f"count/{bucket}": NANO}
    if bucket in _COUNTED:
        amounts[bucket] = NANO
    if bucket == "pods" and dig(obj, "status", "phase") not in _FINISHED:
        amounts |= _pod_amounts(obj["spec"])
    elif bucket == "services":
        amounts |= _service_amounts(obj["spec"])
    elif bucket == "persistentvolumeclaims":
        amounts |= _claim_amounts(obj["spec"])
    return amounts


def _pod_amounts(spec: Json) -> Amounts:
    amounts: Amounts = {"pods": NANO}
    for kind in ("requests", "limits"):
        for name, amount in _pod_total(spec, kind).items():
            if name in _COMPUTE or kind == "requests":
                amounts[f"{kind}.{name}"] = amount
            if kind == "requests" and (name in _COMPUTE or name.startswith(_HUGE_PAGES)):
                amounts[name] = amount
    return amounts


def _pod_total(spec: Json, kind: str) -> Amounts:
    """Return the `requests` or `limits` of a pod: of its containers or its own, with overhead."""
    result = container_total(spec, kind) | pod_level(spec, kind)
    overhead = {name: nano(text) for name, text in (spec.get("overhead") or {}).items()}
    _add(result, overhead if kind == "requests" else {name: overhead[name] for name in overhead if result.get(name)})
    return result


def container_total(spec: Json, kind: str) -> Amounts:
    """Return `requests` or `limits` of all containers and sidecars of a pod, at least of each init container."""
    total, peak = Amounts(), Amounts()
    for container in spec.get("initContainers") or ():
        own = _amounts(container, kind)
        if container.get("restartPolicy") == "Always":
            _add(total, own)
            own = total
        else:
            own = {name: amount + total.get(name, 0) for name, amount in own.items()}
        peak |= {name: max(amount, peak.get(name, 0)) for name, amount in own.items()}
    for container in spec.get("containers") or ():
        _add(total, _amounts(container, kind))
    return {name: max(total.get(name, 0), peak.get(name, 0)) for name in total.keys() | peak.keys()}


def pod_level(spec: Mapping[str, Any], kind: str) -> Amounts:
    """Return the pod-level requests or limits (KEP-2837), which replace those of the containers."""
    stated = _amounts(spec, kind).items()
    return {name: amount for name, amount in stated if name in _POD_LEVEL or name.startswith(_HUGE_PAGES)}


def _amounts(owner: Mapping[str, Any], kind: str) -> Amounts:
    return {name: nano(text) for name, text in (dig(owner, "resources", kind) or {}).items()}


def _add(total: Amounts, amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _service_amounts(spec: Json) -> Amounts:
    kind, ports = spec.get("type"), spec.get("ports") or ()
    amounts: Amounts = {}
    if kind == "LoadBalancer":
        amounts["services.loadbalancers"] = NANO
    if kind == "NodePort" or (kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True)):
        amounts["services.nodeports"] = len(ports) * NANO
    return amounts


def _claim_amounts(spec: Json) -> Amounts:
    storage, name = nano(dig(spec, "resources", "requests", "storage") or "0"), spec.get("storageClassName")
    amounts: Amounts = {"requests.storage": storage}
    if name:
        prefix = f"{name}.storageclass.storage.k8s.io"
        amounts |= {f"{prefix}/requests.storage": storage, f"{prefix}/persistentvolumeclaims": NANO}
    return amounts


def unspecified(pod: Json, hard: Iterable[str]) -> str:
    """Return the resources of `hard` that containers of a pod do not specify, as in rejections; "" if there is none.

    With pod-level resources the containers need not specify any.
    """
    if any(pod_level(pod["spec"], kind) for kind in ("requests", "limits")):
        return ""
    missing: dict[str, set[str]] = {}
    for name in _MUST_BE_SPECIFIED & set(hard):
        kind, _, resource = name.rpartition(".")
        for container in containers_of(pod["spec"]):
            if resource not in (dig(container, "resources", kind or "requests") or {}):
                missing.setdefault(name, set()).add(container.get("name", ""))
    return "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))
