"""A HorizontalPodAutoscaler scales its target by the load in its annotations."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.embedded.client import DEPLOYMENTS
from pyscheduler.embedded.workloads.actions import Patch, Plan, RecordAction
from pyscheduler.embedded.workloads.autoscaling import DOWN_SECONDS, ScaleTarget, reconcile
from pyscheduler.embedded.workloads.autoscaling_rates import SYNC_SECONDS
from tests.unit.workloads.builders import Json, a_pod, conditions, status_of, workload

CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}


def average(kind: str, name: str, value: str) -> Json:
    source: Json = {"metric": {"name": name}}
    if kind == "Resource":
        source = {"name": name}
    target = {"type": "AverageValue", "averageValue": value}
    return {"type": kind, kind[:1].lower() + kind[1:]: {**source, "target": target}}


def total(kind: str, name: str, value: str) -> Json:
    target = {"type": "Value", "value": value}
    return {"type": kind, kind.lower(): {"metric": {"name": name}, "target": target}}


def autoscaler(*metrics: Json, load: Json | None = None, most: int = 10, least: int = 1, **spec: Any) -> Json:
    annotations = {f"load.pyscheduler.io/{name}": text for name, text in (load or {}).items()}
    meta = {"name": "a", "namespace": "default", "uid": "a", "generation": 1, "annotations": annotations}
    target = {"kind": "Deployment", "name": "w"}
    whole = {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": most, "metrics": list(metrics) or [CPU]}
    return {"kind": "HorizontalPodAutoscaler", "metadata": meta, "spec": {**whole, **spec}}


FAST = {"scaleUp": {"policies": [{"type": "Percent", "value": 900, "periodSeconds": 1}]}}
"""Behavior without a limit that matters."""


def target(replicas: int, ready: int | None = None, request: str = "200m") -> ScaleTarget:
    pods = [a_pod(f"p{number}", ready=ready is None or number < ready) for number in range(replicas)]
    for pod in pods:
        pod["spec"]["containers"] = [{"name": "c", "resources": {"requests": {"cpu": request}}}]
    return ScaleTarget(DEPLOYMENTS, workload("Deployment", replicas=replicas, status={"replicas": replicas}), pods)


def size(plan: Plan) -> int | None:
    """Return the new number of replicas, None if it is not changed."""
    found = [a.patch["spec"]["replicas"] for a in plan.actions if isinstance(a, Patch) and a.subresource == "scale"]
    return found[0] if found else None


def reasons(plan: Plan) -> dict[str, str]:
    return {each["type"]: each["reason"] for each in status_of(plan)["conditions"]}


@pytest.mark.parametrize(
    ("metrics", "load", "replicas"),
    [
        pytest.param([CPU], {"cpu": "500m"}, 5, id="utilization of the requests"),
        pytest.param([CPU], {"cpu": "210m"}, None, id="within the tolerance"),
        pytest.param([CPU], {"cpu": "5"}, 10, id="no more than the maximum"),
        pytest.param([average("Resource", "memory", "1Gi")], {"memory": "6Gi"}, 6, id="average value of a resource"),
        pytest.param([average("Pods", "requests", "10")], {"requests": "70"}, 7, id="pods"),
        pytest.param(
            [average("External", "queue", "10")], {"queue": "31"}, 4, id="average value of an external metric"
        ),
        pytest.param([total("External", "queue", "10")], {"queue": "20"}, 4, id="value of an external metric"),
        pytest.param([total("Object", "hits", "10")], {"hits": "20"}, 4, id="object"),
        pytest.param([CPU, average("Pods", "requests", "10")], {"cpu": "300m", "requests": "70"}, 7, id="the largest"),
        pytest.param([CPU, average("Pods", "requests", "10")], {"requests": "70"}, 7, id="the only one with a value"),
    ],
)
def test_load_above_the_target_adds_replicas(metrics: list[Json], load: Json, replicas: int | None) -> None:
    plan, _ = reconcile(autoscaler(*metrics, load=load, behavior=FAST), target(2), 0.0)
    assert size(plan) == replicas


def test_status_shows_metrics_conditions_and_time() -> None:
    plan, _ = reconcile(autoscaler(load={"cpu": "500m"}, behavior=FAST), target(2), 60.0)
    status = status_of(plan)
    current = {"averageUtilization": 125, "averageValue": "250m"}
    assert status["currentMetrics"] == [{"type": "Resource", "resource": {"name": "cpu", "current": current}}]
    assert (status["currentReplicas"], status["desiredReplicas"]) == (2, 5)
    assert status["lastScaleTime"] == "1970-01-01T00:01:00Z"
    assert conditions(status) == {"AbleToScale": "True", "ScalingActive": "True", "ScalingLimited": "False"}
    (event,) = [a for a in plan.actions if isinstance(a, RecordAction)]
    assert event.reason == "SuccessfulRescale"
    assert event.message == "New size: 5; reason: cpu resource utilization (percentage of request) above target"


@pytest.mark.parametrize(
    ("changed", "of", "reason", "text"),
    [
        pytest.param(autoscaler(), target(2), "FailedGetResourceMetric", "load.pyscheduler.io/cpu", id="no annotation"),
        pytest.param(
            autoscaler(load={"cpu": "much"}), target(2), "FailedGetResourceMetric", "'much'", id="not a quantity"
        ),
        pytest.param(autoscaler(load={"cpu": "-1"}), target(2), "FailedGetResourceMetric", "negative", id="negative"),
        pytest.param(
            autoscaler(load={"cpu": "1"}),
            target(2, request="0"),
            "FailedGetResourceMetric",
            "container c",
            id="no request",
        ),
        pytest.param(
            autoscaler(load={"cpu": "1"}),
            target(2, ready=0),
            "FailedGetResourceMetric",
            "no ready pods",
            id="not ready",
        ),
        pytest.param(
            autoscaler(average("Pods", "x", "0"), load={"x": "1"}), target(2), "FailedGetPodsMetric", "", id="target 0"
        ),
        pytest.param(autoscaler({"type": "New"}), target(2), "FailedGetNewMetric", "invalid metric", id="unknown type"),
        pytest.param(autoscaler(), target(0), "ScalingDisabled", "zero", id="target without replicas"),
    ],
)
def test_metric_without_value_is_a_condition_and_changes_nothing(
    changed: Json, of: ScaleTarget, reason: str, text: str
) -> None:
    plan, _ = reconcile(changed, of, 0.0)
    (active,) = [each for each in status_of(plan)["conditions"] if each["type"] == "ScalingActive"]
    assert (active["status"], active["reason"], size(plan)) == ("False", reason, None)
    assert text in active["message"]
    (event,) = [a for a in plan.actions if isinstance(a, RecordAction)]
    assert (event.kind, event.reason) == ("Warning", reason)
    again, _ = reconcile({**changed, "status": status_of(plan)}, of, 9.0)
    assert again.actions == [], "the Event is not repeated"


def test_missing_target_is_a_condition() -> None:
    plan, _ = reconcile(autoscaler(), None, 0.0)
    assert reasons(plan) == {"AbleToScale": "FailedGetScale"}


@pytest.mark.parametrize(("replicas", "expected"), [(1, 3), (12, 10)], ids=["below the minimum", "above the maximum"])
def test_limits_apply_without_metrics(replicas: int, expected: int) -> None:
    plan, _ = reconcile(autoscaler(least=3), target(replicas), 0.0)
    assert size(plan) == expected


def test_scaling_down_waits_for_the_stabilization_window() -> None:
    low = autoscaler(load={"cpu": "100m"})
    plan, history = reconcile(low, target(4), 0.0)
    assert (size(plan), plan.requeue_at) == (None, DOWN_SECONDS)
    assert reasons(plan)["AbleToScale"] == "ScaleDownStabilized"
    plan, history = reconcile(low, target(4), 200.0, history)
    assert (size(plan), plan.requeue_at) == (None, DOWN_SECONDS)
    plan, _ = reconcile(low, target(4), DOWN_SECONDS, history)
    assert size(plan) == 1


@pytest.mark.parametrize(
    ("behavior", "expected"),
    [
        pytest.param({"stabilizationWindowSeconds": 0}, 1, id="no window"),
        pytest.param({"stabilizationWindowSeconds": 0, "selectPolicy": "Disabled"}, None, id="disabled"),
    ],
)
def test_behavior_of_scaling_down(behavior: Json, expected: int | None) -> None:
    low = autoscaler(load={"cpu": "100m"}, behavior={"scaleDown": behavior})
    plan, _ = reconcile(low, target(4), 0.0)
    assert size(plan) == expected


def test_growth_waits_for_its_stabilization_window() -> None:
    high = autoscaler(load={"cpu": "400m"}, behavior={"scaleUp": {"stabilizationWindowSeconds": 60}})
    plan, history = reconcile(high, target(2), 0.0)
    assert (size(plan), plan.requeue_at) == (None, 60.0)
    plan, _ = reconcile(high, target(2), 60.0, history)
    assert size(plan) == 4


def test_failed_metric_prevents_scaling_down() -> None:
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    metrics = (CPU, average("Pods", "requests", "10"))
    plan, _ = reconcile(autoscaler(*metrics, load={"cpu": "100m"}, behavior=behavior), target(4), 0.0)
    assert (size(plan), reasons(plan)["ScalingActive"]) == (None, "FailedGetPodsMetric")


def pods(value: int, seconds: int) -> Json:
    return {"type": "Pods", "value": value, "periodSeconds": seconds}


def percent(value: int, seconds: int) -> Json:
    return {"type": "Percent", "value": value, "periodSeconds": seconds}


def sizes(scaled: Json, replicas: int, times: range) -> list[int]:
    """Return the replicas of the target after each reconciliation at these times."""
    found, history = [], None
    for now in times:
        plan, history = reconcile(scaled, target(replicas), float(now), history)
        replicas = size(plan) or replicas
        found.append(replicas)
    return found


@pytest.mark.parametrize(
    ("behavior", "expected"),
    [
        pytest.param(None, [4, 4, 4, 8, 8, 8, 16, 16], id="without behavior: four, then twice"),
        pytest.param({}, [5, 5, 5, 10, 10, 10, 20, 20], id="default policies: four more or twice"),
        pytest.param({"scaleUp": {"policies": [pods(2, 15)]}}, [3, 3, 3, 5, 5, 5, 7, 7], id="two in 15 seconds"),
        pytest.param(
            {"scaleUp": {"policies": [percent(50, 10)]}}, [2, 2, 3, 3, 5, 5, 8, 8], id="percent is rounded up"
        ),
        pytest.param(
            {"scaleUp": {"policies": [pods(1, 5), pods(2, 30)], "selectPolicy": "Min"}},
            [2, 3, 3, 3, 3, 3, 4, 5],
            id="the smallest of two",
        ),
        pytest.param(
            {"scaleUp": {"policies": [pods(1, 5), pods(4, 30)]}}, [5, 6, 7, 8, 9, 10, 11, 12], id="the largest of two"
        ),
        pytest.param({"scaleUp": {"selectPolicy": "Disabled"}}, [1] * 8, id="disabled"),
    ],
)
def test_growth_is_limited_in_each_period(behavior: Json | None, expected: list[int]) -> None:
    high = autoscaler(average("External", "jobs", "1"), load={"jobs": "40"}, most=50)
    if behavior is not None:
        high["spec"]["behavior"] = behavior
    assert sizes(high, 1, range(0, 40, 5)) == expected


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        pytest.param(None, [1, 1, 1, 1], id="by default all at once"),
        pytest.param({"policies": [pods(3, 10)]}, [17, 17, 14, 14], id="three in ten seconds"),
        pytest.param({"policies": [percent(10, 5)]}, [18, 16, 14, 12], id="percent is rounded to more removed"),
        pytest.param({"policies": [pods(3, 10), percent(50, 10)]}, [10, 10, 5, 5], id="the most of two"),
        pytest.param(
            {"policies": [pods(3, 10), percent(50, 10)], "selectPolicy": "Min"},
            [17, 17, 14, 14],
            id="the fewest of two",
        ),
    ],
)
def test_shrinking_is_limited_in_each_period(policies: Json | None, expected: list[int]) -> None:
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 0, **(policies or {})}}
    low = autoscaler(average("External", "jobs", "1"), load={"jobs": "1"}, most=50, behavior=behavior)
    assert sizes(low, 20, range(0, 20, 5)) == expected


def test_limit_by_rate_is_a_condition_until_the_next_sync() -> None:
    high = autoscaler(average("External", "jobs", "1"), load={"jobs": "40"}, most=50)
    plan, _ = reconcile(high, target(1), 100.0)
    assert (size(plan), plan.requeue_at) == (4, 100.0 + SYNC_SECONDS)
    assert reasons(plan)["ScalingLimited"] == "ScaleUpLimit"
    low = autoscaler(
        load={"cpu": "0"}, behavior={"scaleDown": {"stabilizationWindowSeconds": 0, "policies": [pods(1, 60)]}}
    )
    plan, _ = reconcile(low, target(4), 100.0)
    assert (size(plan), reasons(plan)["ScalingLimited"]) == (3, "ScaleDownLimit")
