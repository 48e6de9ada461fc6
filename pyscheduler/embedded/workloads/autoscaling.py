"""HorizontalPodAutoscaler controller: replicas of a target by its metrics, as in kube-controller-manager.

Not implemented: targets of custom kinds, and metrics of pods that are not ready.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyscheduler.api import ResourceKind
from pyscheduler.embedded.client.kinds import AUTOSCALERS
from pyscheduler.embedded.objects import Json, condition, dig, timestamp
from pyscheduler.embedded.workloads.actions import Action, Patch, Plan, RecordAction, status_patch
from pyscheduler.embedded.workloads.autoscaling_metrics import MetricError, Recommendation, recommend
from pyscheduler.embedded.workloads.autoscaling_rates import SYNC_SECONDS, Rescale, limit, recent
from pyscheduler.embedded.workloads.objects import is_deleting, key_of, replicas_of, status_number, with_condition

DOWN_SECONDS: Final = 300
"""Default of behavior.scaleDown.stabilizationWindowSeconds."""
ACTIVE, ABLE, LIMITED = "ScalingActive", "AbleToScale", "ScalingLimited"
_READY: Final = ("ReadyForNewScale", "recommended size matches current size")
_GOT_SCALE: Final = ("SucceededGetScale", "the HPA controller was able to get the target's current scale")
_STABILIZED: Final = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)
_DISABLED: Final = ("ScalingDisabled", "scaling is disabled since the replica count of the target is zero")

Recommendations = tuple[tuple[float, int], ...]
"""Time and replicas."""
_Condition = tuple[str, bool, tuple[str, str]]


@dataclass(frozen=True)
class ScalingHistory:
    """Recommendations for the stabilization windows, and rescales for the rate policies."""

    recommendations: Recommendations = ()
    rescales: tuple[Rescale, ...] = ()


@dataclass(frozen=True)
class ScaleTarget:
    """What an autoscaler scales, with its pods."""

    resource: ResourceKind
    obj: Json
    pods: Sequence[Json]


@dataclass
class _Decision:
    """Replicas, with what the status shows about them."""

    replicas: int
    reason: str = ""
    metrics: list[Json] | None = None
    """None: the metrics in the status stay."""
    recommended: int | None = None
    """Replicas by the metrics alone; None if they were not read or failed."""

    def __post_init__(self) -> None:
        self.conditions: list[_Condition] = []
        self.requeue_at = math.inf


def reconcile(
    autoscaler: Json, target: ScaleTarget | None, now: float, history: ScalingHistory | None = None
) -> tuple[Plan, ScalingHistory]:
    """Return the actions for an autoscaler, None as target if it does not exist, and the new history."""
    history = history or ScalingHistory()
    if is_deleting(autoscaler):
        return Plan(), history
    if target is None:
        return Plan(_without_target(autoscaler, now)), ScalingHistory()
    current = replicas_of(target.obj)
    decision = _decide(autoscaler, target, current)
    recommendations, rescales = history.recommendations, recent(autoscaler, history.rescales, now)
    if decision.recommended is not None:
        recommendations = recommendations or ((now, current),)
        decision.replicas, recommendations = _stabilize(autoscaler, decision, current, now, recommendations)
        limited = limit(autoscaler, current, decision.replicas, rescales, now)
        decision.replicas = limited.replicas
        decision.conditions.append((LIMITED, limited.is_limited, (limited.reason, limited.message)))
        if limited.is_by_rate:
            decision.requeue_at = min(decision.requeue_at, now + SYNC_SECONDS)
    actions: list[Action] = []
    if decision.replicas != current:
        rescales = (*rescales, Rescale(now, decision.replicas - current))
        text = f"the HPA controller was able to update the target scale to {decision.replicas}"
        decision.conditions.append((ABLE, True, ("SucceededRescale", text)))
        size = {"spec": {"replicas": decision.replicas}}
        actions.append(Patch(target.resource, key_of(target.obj), size, "scale"))
        text = f"New size: {decision.replicas}; reason: {decision.reason}"
        actions.append(RecordAction(autoscaler, "SuccessfulRescale", text))
    plan = Plan(actions + _status(autoscaler, target, decision, now), decision.requeue_at)
    return plan, ScalingHistory(recommendations, rescales)


def _decide(autoscaler: Json, target: ScaleTarget, current: int) -> _Decision:
    lowest, highest = int(autoscaler["spec"].get("minReplicas") or 1), int(autoscaler["spec"]["maxReplicas"])
    if current == 0:
        decision = _Decision(0)
        decision.conditions = [(ABLE, True, _GOT_SCALE), (ACTIVE, False, _DISABLED)]
        return decision
    if current > highest:
        return _Decision(highest, "Current number of replicas above Spec.MaxReplicas")
    if current < lowest:
        return _Decision(lowest, "Current number of replicas below Spec.MinReplicas")
    return _by_metrics(autoscaler, target, current)


def _by_metrics(autoscaler: Json, target: ScaleTarget, current: int) -> _Decision:
    """Return the largest recommendation; a failed metric prevents that the target is scaled down."""
    found: list[Recommendation] = []
    errors: list[MetricError] = []
    for metric in autoscaler["spec"].get("metrics") or ():
        try:
            found.append(recommend(metric, autoscaler, current, target.pods))
        except MetricError as error:
            errors.append(error)
    decision = _Decision(current, metrics=[each.current for each in found])
    largest = max(found, key=lambda each: each.replicas, default=None)
    if largest is None or (errors and largest.replicas < current):
        text = f"the HPA was unable to compute the replica count: {errors[0]}"
        decision.conditions = [(ABLE, True, _GOT_SCALE), (ACTIVE, False, (errors[0].reason, text))]
        return decision
    above = largest.replicas > current
    decision.reason = f"{largest.metric} above target" if above else "All metrics below target"
    decision.recommended = largest.replicas
    text = f"the HPA was able to successfully calculate a replica count from {largest.metric}"
    decision.conditions = [(ABLE, True, _READY), (ACTIVE, True, ("ValidMetricFound", text))]
    return decision


def _stabilize(
    autoscaler: Json, decision: _Decision, current: int, now: float, history: Recommendations
) -> tuple[int, Recommendations]:
    """Return replicas between the lowest recent recommendation for growth and the highest one for shrinking."""
    wanted = decision.recommended or 0
    up, down = _window(autoscaler, "scaleUp", 0), _window(autoscaler, "scaleDown", DOWN_SECONDS)
    recent_up = [(at, count) for at, count in history if now - at < up]
    recent_down = [(at, count) for at, count in history if now - at < down]
    least = min((count for _, count in recent_up), default=wanted)
    most = max((count for _, count in recent_down), default=wanted)
    replicas = min(max(current, min(least, wanted)), max(most, wanted))
    if wanted < replicas:
        decision.conditions.append((ABLE, True, _STABILIZED))
        decision.requeue_at = min((at + down for at, count in recent_down if count > wanted), default=math.inf)
    elif wanted > replicas:
        decision.requeue_at = min((at + up for at, count in recent_up if count < wanted), default=math.inf)
    history = (*max(recent_up, recent_down, key=len), (now, wanted))
    return replicas, history


def _window(autoscaler: Json, direction: str, default: int) -> int:
    found = dig(autoscaler, "spec", "behavior", direction, "stabilizationWindowSeconds")
    return default if found is None else int(found)


def _without_target(autoscaler: Json, now: float) -> list[Action]:
    reference = autoscaler["spec"]["scaleTargetRef"]
    text = (
        f"the HPA controller was unable to get the target's current scale: no {reference['kind']} {reference['name']}"
    )
    conditions = _merged(autoscaler, [(ABLE, False, ("FailedGetScale", text))], now)
    desired = {"desiredReplicas": status_number(autoscaler, "desiredReplicas"), "conditions": conditions}
    return _new_events(autoscaler, conditions) + status_patch(AUTOSCALERS, autoscaler, desired)


def _status(autoscaler: Json, target: ScaleTarget, decision: _Decision, now: float) -> list[Action]:
    conditions = _merged(autoscaler, decision.conditions, now)
    desired = {
        "observedGeneration": autoscaler["metadata"].get("generation"),
        "currentReplicas": status_number(target.obj, "replicas"),
        "desiredReplicas": decision.replicas,
        "conditions": conditions,
    }
    if decision.metrics is not None:
        desired["currentMetrics"] = decision.metrics or None
    if decision.replicas != replicas_of(target.obj):
        desired["lastScaleTime"] = timestamp(now)
    return _new_events(autoscaler, conditions) + status_patch(AUTOSCALERS, autoscaler, desired)


def _merged(autoscaler: Json, conditions: list[_Condition], now: float) -> list[Json]:
    merged = list(dig(autoscaler, "status", "conditions") or ())
    for kind, status, (reason, message) in conditions:
        merged = with_condition(merged, kind, status, now, reason=reason, message=message)
    return sorted(merged, key=lambda each: str(each["type"]))


def _new_events(autoscaler: Json, conditions: list[Json]) -> list[Action]:
    """Return an Event for each failure that the status does not show yet."""
    return [
        RecordAction(autoscaler, each["reason"], each["message"], "Warning")
        for each in conditions
        if each["type"] in (ABLE, ACTIVE)
        and each["status"] == "False"
        and each.get("message") != condition(autoscaler, each["type"]).get("message")
    ]
