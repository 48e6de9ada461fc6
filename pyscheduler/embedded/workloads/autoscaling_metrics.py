"""Metrics of HorizontalPodAutoscalers. Their values come from annotations, since hollow pods use nothing.

The annotation `load.pyscheduler.io/cpu: "1500m"` of an autoscaler is the load of all pods together, which they share
equally; the part after the slash is the name of a metric. A constant load leads to a fixed number of pods.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyscheduler.api.quantity import QuantityError, nano_value
from pyscheduler.embedded.admission.quantities import canonical
from pyscheduler.embedded.objects import Json, dig
from pyscheduler.embedded.workloads.objects import is_ready

LOAD: Final = "load.pyscheduler.io/"
TOLERANCE: Final = 0.1
"""Relative difference between value and target up to which the number of pods stays."""
_SOURCES: Final = {
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
}
_BY_RESOURCE: Final = ("Resource", "ContainerResource")


class MetricError(Exception):
    """A metric without a value. `reason` is that of the condition ScalingActive."""

    def __init__(self, metric: Json, text: str) -> None:
        super().__init__(text)
        self.reason = f"FailedGet{metric.get('type', '')}Metric"


@dataclass(frozen=True)
class Recommendation:
    """Number of replicas that one metric asks for, with its name for Events and its entry in currentMetrics."""

    replicas: int
    metric: str
    current: Json


def recommend(metric: Json, autoscaler: Json, replicas: int, pods: Sequence[Json]) -> Recommendation:
    """Return the recommendation of one metric for a target with `replicas` and these pods. Raises MetricError."""
    try:
        return _recommend(metric, autoscaler, replicas, pods)
    except (KeyError, TypeError, QuantityError, ZeroDivisionError) as error:
        raise MetricError(metric, f"invalid metric: {error}") from None


def _recommend(metric: Json, autoscaler: Json, replicas: int, pods: Sequence[Json]) -> Recommendation:
    source = dig(metric, _SOURCES[metric["type"]]) or {}
    name = str(source["name"] if metric["type"] in _BY_RESOURCE else dig(source, "metric", "name"))
    load, target = _load(metric, name, autoscaler), source.get("target") or {}
    ready = [pod for pod in pods if is_ready(pod)]
    if not ready:
        raise MetricError(metric, f"unable to get metrics for {name}: no ready pods")
    if target.get("type") == "Utilization":
        requested = sum(_requests(metric, name, source.get("container"), pod) for pod in ready)
        percent, goal = load * 100 // requested, int(target["averageUtilization"])
        current = {"averageUtilization": percent, "averageValue": _quantity(load // len(ready))}
        count = _count(percent / goal, replicas, len(ready))
    elif target.get("type") == "Value":
        current = {"value": _quantity(load)}
        count = _count(load / nano_value(target["value"]), replicas, len(ready))
    else:
        share = nano_value(target["averageValue"])
        current = {"averageValue": _quantity(load // len(ready))}
        count = replicas if _is_close(load / (share * max(1, replicas))) else -(-load // share)
    return Recommendation(count, _described(metric, name, target), _entry(metric, source, current))


def _count(ratio: float, replicas: int, ready: int) -> int:
    return replicas if _is_close(ratio) else math.ceil(ratio * ready)


def _is_close(ratio: float) -> bool:
    return abs(1.0 - ratio) <= TOLERANCE


def _load(metric: Json, name: str, autoscaler: Json) -> int:
    """Return the load in billionths."""
    key = f"{LOAD}{name}"
    text = (autoscaler["metadata"].get("annotations") or {}).get(key)
    if text is None:
        example = '"1500m"' if name == "cpu" else '"1Gi"' if name == "memory" else '"100"'
        hint = f"set the annotation {key} of the autoscaler to the load of all pods, such as {example}"
        raise MetricError(metric, f"unable to get metrics for {name}: there is no metrics API; {hint}")
    try:
        load = nano_value(text)
    except QuantityError as error:
        raise MetricError(metric, f"unable to get metrics for {name}: annotation {key}: {error}") from None
    if load < 0:
        raise MetricError(metric, f"unable to get metrics for {name}: annotation {key}: {text!r} is negative")
    return load


def _requests(metric: Json, name: str, container: str | None, pod: Json) -> int:
    total = 0
    for each in pod["spec"].get("containers") or ():
        if container in (None, each["name"]):
            request = dig(each, "resources", "requests", name)
            if not request or not nano_value(request):
                raise MetricError(
                    metric, f"missing request for {name} in container {each['name']} of Pod {pod['metadata']['name']}"
                )
            total += nano_value(request)
    if not total:
        raise MetricError(metric, f"container {container} is not in Pod {pod['metadata']['name']}")
    return total


def _described(metric: Json, name: str, target: Json) -> str:
    if metric["type"] in _BY_RESOURCE:
        utilization = " utilization (percentage of request)" if target.get("type") == "Utilization" else ""
        return f"{name} {'container ' if metric['type'] == 'ContainerResource' else ''}resource{utilization}"
    return f"{metric['type'].lower()} metric {name}"


def _entry(metric: Json, source: Json, current: Json) -> Json:
    same = {field: source[field] for field in ("name", "container", "metric", "describedObject") if field in source}
    return {"type": metric["type"], _SOURCES[metric["type"]]: {**same, "current": current}}


def _quantity(nano: int) -> str:
    return canonical(f"{nano}n")
