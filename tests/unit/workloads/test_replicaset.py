"""A ReplicaSet keeps spec.replicas pods."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pyscheduler.embedded.workloads.replicaset import deletion_order, reconcile
from tests.unit.workloads.builders import Json, a_pod, conditions, created, deleted, status_of, terminating, workload


def replica_set(replicas: int, **spec: Any) -> Json:
    return workload("ReplicaSet", "rs", replicas=replicas, **spec)


@pytest.mark.parametrize(
    ("replicas", "pods", "creations", "deletions"),
    [
        pytest.param(3, [], 3, 0, id="no pods"),
        pytest.param(3, [a_pod("a"), a_pod("b")], 1, 0, id="one is missing"),
        pytest.param(1, [a_pod("a"), a_pod("b")], 0, 1, id="one too many"),
        pytest.param(0, [a_pod("a")], 0, 1, id="to zero"),
        pytest.param(1, [a_pod("a", "Failed")], 1, 0, id="a failed pod is replaced"),
        pytest.param(1, [terminating(a_pod("a"))], 1, 0, id="a terminating pod is replaced"),
        pytest.param(1, [a_pod("a", "Pending")], 0, 0, id="a pending pod counts"),
        pytest.param(10**9, [a_pod("a")], 500, 0, id="creates at most 500 per sync"),
        pytest.param(0, [a_pod(str(n)) for n in range(501)], 0, 500, id="deletes at most 500 per sync"),
    ],
)
def test_pods_are_created_or_deleted_to_match_replicas(
    replicas: int, pods: list[Json], creations: int, deletions: int
) -> None:
    plan = reconcile(replica_set(replicas), pods, 0.0)
    assert (len(created(plan)), len(deleted(plan))) == (creations, deletions)


def test_pod_has_the_template_and_an_owner_reference() -> None:
    (pod,) = created(reconcile(replica_set(1), [], 0.0))
    assert pod["metadata"]["generateName"] == "rs-"
    assert pod["metadata"]["labels"] == {"app": "rs"}
    owner = pod["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("ReplicaSet", "rs", True)


def test_replica_set_in_deletion_creates_no_pods() -> None:
    assert created(reconcile(terminating(replica_set(3)), [], 0.0)) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(a_pod("a", "Pending"), a_pod("b"), id="unassigned before assigned"),
        pytest.param(a_pod("a", ready=False), a_pod("b"), id="not ready before ready"),
        pytest.param(a_pod("a", since=50), a_pod("b", since=9), id="ready for a short time before long"),
        pytest.param(
            a_pod("a"),
            a_pod("b", annotations={"controller.kubernetes.io/pod-deletion-cost": "5"}),
            id="low before high deletion cost",
        ),
        pytest.param(
            a_pod("a", creationTimestamp="2026-01-02T00:00:00Z"),
            a_pod("b", creationTimestamp="2026-01-01T00:00:00Z"),
            id="young before old",
        ),
    ],
)
def test_deletion_order(first: Json, second: Json) -> None:
    assert [p["metadata"]["name"] for p in deletion_order([second, first])] == ["a", "b"]


def test_pods_with_replicas_on_their_node_are_deleted_first() -> None:
    alone = a_pod("alone")
    alone["spec"] = {**alone["spec"], "nodeName": "other"}
    assert [p["metadata"]["name"] for p in deletion_order([alone, a_pod("x"), a_pod("y")])][-1] == "alone"


def test_status_counts_pods() -> None:
    pods = [a_pod("a"), a_pod("b", "Pending"), a_pod("c", "Failed")]
    pods[0]["metadata"]["labels"] = {"app": "rs"}
    assert status_of(reconcile(replica_set(2), pods, 10.0)) == {
        "replicas": 2, "readyReplicas": 1, "availableReplicas": 1, "fullyLabeledReplicas": 1, "observedGeneration": 1,
    }  # fmt: skip


def test_pod_is_available_after_min_ready_seconds() -> None:
    of = replica_set(1, minReadySeconds=5)
    early, late = (reconcile(of, [a_pod("a", since=100)], now) for now in (104.0, 105.0))
    assert (status_of(early).get("availableReplicas"), early.requeue_at) == (None, 105.0)
    assert (status_of(late).get("availableReplicas"), late.requeue_at) == (1, math.inf)


def test_current_replica_set_needs_no_action() -> None:
    of = replica_set(1)
    of["status"] = status_of(reconcile(of, [a_pod("a")], 10.0))
    assert reconcile(of, [a_pod("a")], 20.0).actions == []


def test_failed_creation_is_a_condition_until_creation_succeeds() -> None:
    present = replica_set(2, status={"conditions": [{"type": "Custom", "status": "True"}]})
    failed = status_of(reconcile(present, [a_pod("a")], 60.0, "exceeded quota: q"), present["status"])
    (failure,) = [each for each in failed["conditions"] if each["type"] == "ReplicaFailure"]
    assert failure == {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "message": "exceeded quota: q",
        "lastTransitionTime": "1970-01-01T00:01:00Z",
    }
    again = {**present, "status": failed}
    assert (
        status_of(reconcile(again, [a_pod("a")], 90.0, "exceeded quota: another"), failed)["conditions"][1] == failure
    )
    assert conditions(status_of(reconcile(again, [a_pod("a"), a_pod("b")], 90.0), failed)) == {"Custom": "True"}
