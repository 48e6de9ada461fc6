"""Scopes of a ResourceQuota: the pods to which it applies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyscheduler.embedded.objects import Json, dig


def applies_to(quota_spec: Mapping[str, Any], bucket: str, obj: Json) -> bool:
    """Return True if a quota counts an object. A quota with scopes counts pods only."""
    requirements = [{"scopeName": name, "operator": "Exists"} for name in quota_spec.get("scopes") or ()]
    requirements += dig(quota_spec, "scopeSelector", "matchExpressions") or ()
    if not requirements:
        return True
    return bucket == "pods" and all(_matches(obj, requirement) for requirement in requirements)


def _matches(pod: Json, requirement: Mapping[str, Any]) -> bool:
    spec = pod["spec"]
    match requirement.get("scopeName"):
        case "Terminating":
            return spec.get("activeDeadlineSeconds") is not None
        case "NotTerminating":
            return spec.get("activeDeadlineSeconds") is None
        case "BestEffort":
            return bool(dig(pod, "status", "qosClass") == "BestEffort")
        case "NotBestEffort":
            return bool(dig(pod, "status", "qosClass") != "BestEffort")
        case "PriorityClass":
            return _matches_class(spec.get("priorityClassName") or "", requirement)
        case "CrossNamespacePodAffinity":
            return any(term.get("namespaces") or "namespaceSelector" in term for term in _affinity_terms(spec))
    return False


def _matches_class(name: str, requirement: Mapping[str, Any]) -> bool:
    values = requirement.get("values") or ()
    operators = {
        "In": name in values,
        "NotIn": name not in values,
        "Exists": bool(name),
        "DoesNotExist": not name,
    }
    return operators.get(requirement.get("operator", ""), False)


def _affinity_terms(spec: Json) -> list[Json]:
    terms: list[Json] = []
    for side in ("podAffinity", "podAntiAffinity"):
        rules = dig(spec, "affinity", side) or {}
        terms += rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        preferred = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [each.get("podAffinityTerm") or {} for each in preferred]
    return terms
