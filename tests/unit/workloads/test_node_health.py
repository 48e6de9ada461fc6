"""Node health: a node without heartbeat loses its pods as their tolerations allow."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pyscheduler.embedded.objects import timestamp
from pyscheduler.embedded.workloads.actions import Action, Delete, Patch
from pyscheduler.embedded.workloads.node_health import (
    UNREACHABLE,
    evict,
    evicted_at,
    force_delete_pod,
    mark_node_unknown,
    mark_not_ready,
    set_taints,
)
from pyscheduler.testing import node
from tests.unit.workloads.builders import Json, a_pod, terminating

NO_EXECUTE = {"key": UNREACHABLE, "effect": "NoExecute", "timeAdded": timestamp(100)}
FOREVER = {"key": UNREACHABLE, "operator": "Exists"}
BRIEFLY = {"operator": "Exists", "tolerationSeconds": 9}


def a_node(ready: str, *taints: Json, **spec: Any) -> Json:
    manifest = node("n").manifest
    manifest["status"]["conditions"] = [{"type": "Ready", "status": ready}]
    manifest["spec"] = {**spec, **({"taints": list(taints)} if taints else {})}
    return manifest


def tolerating(*tolerations: Json) -> Json:
    pod = a_pod("p")
    pod["spec"]["tolerations"] = list(tolerations)
    return pod


def patched(actions: list[Action]) -> Json:
    (action,) = actions
    assert isinstance(action, Patch)
    return action.patch


def taints(actions: list[Action]) -> list[str]:
    return [f"{t['key']}:{t['effect']}" for t in patched(actions)["spec"]["taints"] or []]


def test_lost_node_gets_unknown_conditions_once() -> None:
    conditions = patched(mark_node_unknown(a_node("True"), 5.0))["status"]["conditions"]
    assert {c["status"] for c in conditions} == {"Unknown"}
    assert {c["type"] for c in conditions} >= {"Ready", "MemoryPressure"}
    assert mark_node_unknown(a_node("Unknown"), 6.0) == []


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        pytest.param(a_node("Unknown"), ["unreachable:NoSchedule", "unreachable:NoExecute"], id="unknown"),
        pytest.param(a_node("False"), ["not-ready:NoSchedule", "not-ready:NoExecute"], id="not ready"),
        pytest.param(a_node("True", NO_EXECUTE), [], id="ready again"),
        pytest.param(a_node("True", unschedulable=True), ["unschedulable:NoSchedule"], id="cordoned"),
    ],
)
def test_taints_follow_the_condition(of: Json, expected: list[str]) -> None:
    assert taints(set_taints(of, 0.0)) == [f"node.kubernetes.io/{taint}" for taint in expected]


def test_other_taints_are_preserved_and_current_taints_not_rewritten() -> None:
    own = {"key": "gpu", "effect": "NoSchedule"}
    assert taints(set_taints(a_node("True", own, NO_EXECUTE), 0.0)) == ["gpu:NoSchedule"]
    assert set_taints(a_node("True", own), 0.0) == []


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        pytest.param([], -math.inf, id="no toleration: at once"),
        pytest.param([FOREVER], math.inf, id="never"),
        pytest.param([{**FOREVER, "tolerationSeconds": 30}], 130.0, id="after tolerationSeconds"),
        pytest.param([{**FOREVER, "tolerationSeconds": 30}, BRIEFLY], 109.0, id="the shortest toleration counts"),
        pytest.param([{**FOREVER, "effect": "NoSchedule"}], -math.inf, id="another effect"),
        pytest.param([{"key": "other", "operator": "Exists"}], -math.inf, id="another key"),
        pytest.param([{"key": UNREACHABLE, "value": ""}], math.inf, id="equal value"),
        pytest.param([{"key": UNREACHABLE, "value": "x"}], -math.inf, id="another value"),
        pytest.param([{"operator": "Exists"}], math.inf, id="all taints"),
    ],
)
def test_time_of_eviction(tolerations: list[Json], expected: float) -> None:
    assert evicted_at(a_node("Unknown", NO_EXECUTE), tolerating(*tolerations)) == expected


def test_earliest_eviction_of_several_taints_applies() -> None:
    later = {"key": "later", "effect": "NoExecute", "timeAdded": timestamp(200)}
    pod = tolerating(
        {**FOREVER, "tolerationSeconds": 30}, {"key": "later", "operator": "Exists", "tolerationSeconds": 9}
    )
    assert evicted_at(a_node("Unknown", NO_EXECUTE, later), pod) == 130.0
    assert evicted_at(a_node("Unknown", later, NO_EXECUTE), pod) == 130.0


def test_taints_of_other_effects_evict_no_pod() -> None:
    assert evicted_at(a_node("Unknown", {**NO_EXECUTE, "effect": "NoSchedule"}), tolerating()) == math.inf


def test_pod_is_evicted_once_at_its_time() -> None:
    of = a_node("Unknown", NO_EXECUTE)
    waiting = tolerating({**FOREVER, "tolerationSeconds": 30})
    assert evict(of, [waiting, terminating(a_pod("deleted"))], 129.0) == ([], 130.0)
    actions, next_eviction = evict(of, [waiting], 130.0)
    assert [a.key[1] for a in actions if isinstance(a, Delete)] == ["p"]
    assert next_eviction == math.inf


def test_evicted_and_force_deleted_pods_have_a_disruption_target_condition() -> None:
    (eviction,), _ = evict(a_node("True", NO_EXECUTE), [tolerating()], 0.0)
    force_deleted = force_delete_pod(a_pod("p"), 0.0)
    for action, reason in ((eviction, "DeletionByTaintManager"), (force_deleted, "DeletionByPodGC")):
        assert isinstance(action, Delete)
        assert action.pre_patch is not None
        (condition,) = action.pre_patch.patch["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == ("DisruptionTarget", "True", reason)
    assert force_deleted.pre_patch is not None
    assert (force_deleted.pre_patch.patch["status"]["phase"], force_deleted.grace_seconds) == ("Failed", 0)
    assert force_delete_pod(a_pod("p", "Succeeded"), 0.0).pre_patch is None


def test_running_pods_of_a_lost_node_are_marked_not_ready() -> None:
    pods = [a_pod("up"), a_pod("down", ready=False), a_pod("over", "Succeeded")]
    assert [a.key[1] for a in mark_not_ready(a_node("Unknown"), pods, 0.0) if isinstance(a, Patch)] == ["up"]
    assert mark_not_ready(a_node("True"), pods, 0.0) == []
