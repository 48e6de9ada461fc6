"""Admission of HorizontalPodAutoscalers, and their conversion between autoscaling/v1 and autoscaling/v2 (stored)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyscheduler.embedded.objects import Json, dig
from pyscheduler.embedded.resources import Lookup, Rules
from pyscheduler.embedded.status import Cause, invalid_value

_DEFAULT_UTILIZATION = 80


def default_autoscaler(autoscaler: Json, _lookup: Lookup) -> None:
    """Set the minimum of replicas (1), and average CPU utilization (80 %) as metric if there is none."""
    spec = autoscaler.setdefault("spec", {})
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        spec["metrics"] = [_cpu(_DEFAULT_UTILIZATION)]


def _cpu(percent: int) -> Json:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _is_cpu(metric: Json) -> bool:
    names: tuple[Any, Any] = dig(metric, "resource", "name"), dig(metric, "resource", "target", "type")
    return names == ("cpu", "Utilization")


def check_autoscaler(autoscaler: Json) -> list[Cause]:
    """Return causes where the limits of the replicas are invalid."""
    spec = autoscaler["spec"]
    lowest, highest = spec["minReplicas"], spec.get("maxReplicas", 0)
    if highest < 1:
        return [invalid_value("spec.maxReplicas", highest, "must be greater than 0")]
    if lowest < 1:
        return [invalid_value("spec.minReplicas", lowest, "must be greater than or equal to 1")]
    if highest < lowest:
        why = "must be greater than or equal to `minReplicas`"
        return [invalid_value("spec.maxReplicas", highest, why)]
    return []


def to_stored(obj: Json) -> Json:
    """Return an object of autoscaling/v1 in the form of autoscaling/v2."""
    spec = dict(obj.get("spec") or {})
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    if percent is not None:
        spec["metrics"] = [_cpu(percent)]
    status = dict(obj.get("status") or {})
    current = status.pop("currentCPUUtilizationPercentage", None)
    if current is not None:
        value = {"averageUtilization": current, "averageValue": "0"}
        status["currentMetrics"] = [{"type": "Resource", "resource": {"name": "cpu", "current": value}}]
    return {**obj, "apiVersion": "autoscaling/v2", "spec": spec, **({"status": status} if "status" in obj else {})}


def from_stored(obj: Json) -> Json:
    """Return an object of autoscaling/v2 in the form of autoscaling/v1, without what that version cannot express."""
    spec = {name: part for name, part in (obj.get("spec") or {}).items() if name not in {"metrics", "behavior"}}
    cpu = next(filter(_is_cpu, dig(obj, "spec", "metrics") or ()), None)
    percent = dig(cpu, "resource", "target", "averageUtilization")
    if percent is not None:
        spec["targetCPUUtilizationPercentage"] = percent
    hidden = {"currentMetrics", "conditions"}
    status = {name: part for name, part in (obj.get("status") or {}).items() if name not in hidden}
    current = next(_current_cpu(obj), None)
    if current is not None:
        status["currentCPUUtilizationPercentage"] = current
    return {**obj, "apiVersion": "autoscaling/v1", "spec": spec, **({"status": status} if "status" in obj else {})}


def _current_cpu(obj: Json) -> Iterator[Any]:
    for metric in dig(obj, "status", "currentMetrics") or ():
        value = dig(metric, "resource", "current", "averageUtilization")
        if dig(metric, "resource", "name") == "cpu" and value is not None:
            yield value


AUTOSCALER = Rules(default_autoscaler, check=check_autoscaler)
