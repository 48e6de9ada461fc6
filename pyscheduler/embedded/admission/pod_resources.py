"""Pod-level resources (KEP-2837): requests that are not stated, and the QoS class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyscheduler.embedded.objects import Json, containers_of, dig
from pyscheduler.embedded.quota.usage import container_total, pod_level, quantity_text

_OVERCOMMITTED = ("cpu", "memory")


def default_pod_requests(spec: Json) -> None:
    """Set pod-level requests beside pod-level limits: those of the containers, or else the limits."""
    if not dig(spec, "resources", "limits"):
        return
    resources = spec["resources"]
    total = container_total(spec, "requests")
    requests = {name: quantity_text(name, total[name]) for name in _OVERCOMMITTED if name in total}
    limits = {name: resources["limits"][name] for name in pod_level(spec, "limits")}
    resources["requests"] = {**limits, **requests, **(resources.get("requests") or {})}


def qos_class(spec: Mapping[str, Any]) -> str:
    """Return Guaranteed, Burstable or BestEffort (component-helpers/qos); only non-zero cpu and memory count.

    Pod-level resources replace those of the containers.
    """
    has_own = any(pod_level(spec, kind) for kind in ("requests", "limits"))
    requests, limits, guaranteed = False, False, True
    for owner in (spec,) if has_own else containers_of(spec):
        requested, limited = (_compute(owner, kind) for kind in ("requests", "limits"))
        requests, limits = requests or bool(requested), limits or bool(limited)
        guaranteed = guaranteed and len(limited) == 2 and requested == limited
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _compute(owner: Mapping[str, Any], kind: str) -> Json:
    stated = dig(owner, "resources", kind) or {}
    return {name: stated[name] for name in _OVERCOMMITTED if stated.get(name, "0") != "0"}
