"""ResourceClaims are created from templates, and released when their pods end."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.embedded.workloads.actions import Create, Delete, Patch, RecordAction
from pyscheduler.embedded.workloads.resource_claims import FINALIZER, POD_CLAIM_NAME, reconcile_claim, reconcile_pod
from tests.unit.workloads.builders import Json

KEY = ("default", "pod")
TEMPLATE = {"spec": {"metadata": {"labels": {"team": "a"}}, "spec": {"devices": {"requests": []}}}}
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "pod-uid", "controller": True}
USER = {"resource": "pods", "name": "pod", "uid": "pod-uid"}


def a_pod(phase: str = "Pending", node: str = "", *, deleting: bool = False, **status: Any) -> Json:
    meta = {"name": "pod", "namespace": "default", "uid": "pod-uid"}
    if deleting:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    claims = [{"name": "gpu", "resourceClaimTemplateName": "template"}, {"name": "own", "resourceClaimName": "own"}]
    return {
        "metadata": meta,
        "spec": {"resourceClaims": claims, "nodeName": node},
        "status": {"phase": phase, **status},
    }


def a_claim(*, deleting: bool = False, protected: bool = True, owned: bool = True, **status: Any) -> Json:
    meta: Json = {"name": "claim", "namespace": "default", "uid": "claim-uid", "resourceVersion": "7"}
    if deleting:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if protected:
        meta["finalizers"] = ["other", FINALIZER]
    if owned:
        meta |= {"ownerReferences": [OWNER], "annotations": {POD_CLAIM_NAME: "gpu"}}
    return {"metadata": meta, "spec": {}, "status": status}


ALLOCATED: Json = {"allocation": {"devices": {}}}
RELEASED: Json = {"reservedFor": None, "allocation": None}


def test_claim_is_created_from_the_template_of_a_pod() -> None:
    [action] = reconcile_pod(a_pod(), [], {("default", "template"): TEMPLATE}, 0.0).actions
    assert isinstance(action, Create)
    meta = action.obj["metadata"]
    assert (meta["generateName"], meta["namespace"], meta["labels"]) == ("pod-gpu-", "default", {"team": "a"})
    assert meta["annotations"] == {POD_CLAIM_NAME: "gpu"}
    assert meta["ownerReferences"] == [{**OWNER, "blockOwnerDeletion": True}]
    assert action.obj["spec"] == {"devices": {"requests": []}}


def test_created_claim_is_shown_in_the_status_of_its_pod() -> None:
    [action] = reconcile_pod(a_pod(), [a_claim()], {("default", "template"): TEMPLATE}, 0.0).actions
    assert isinstance(action, Patch)
    assert action.key == KEY
    assert action.patch["status"] == {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "claim"}]}


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod(resourceClaimStatuses=[{"name": "gpu", "resourceClaimName": "claim"}]), id="shown"),
        pytest.param(a_pod(resourceClaimStatuses=[{"name": "gpu"}]), id="not needed"),
        pytest.param(a_pod("Succeeded"), id="finished"),
        pytest.param(a_pod(deleting=True), id="deleted"),
    ],
)
def test_no_claim_is_created_for_a_pod_that_needs_none(pod: Json) -> None:
    assert reconcile_pod(pod, [], {("default", "template"): TEMPLATE}, 0.0).actions == []


def test_missing_template_is_reported_and_looked_for_again() -> None:
    plan = reconcile_pod(a_pod(), [], {}, 5.0)
    [action] = plan.actions
    assert isinstance(action, RecordAction)
    assert (action.reason, action.kind, plan.requeue_at) == ("FailedResourceClaimCreation", "Warning", 6.0)


@pytest.mark.parametrize(
    ("claim", "pod", "status"),
    [
        pytest.param(a_claim(reservedFor=[USER], **ALLOCATED), a_pod("Running", "n"), None, id="in use"),
        pytest.param(
            a_claim(reservedFor=[USER], **ALLOCATED),
            a_pod("Succeeded", "n"),
            RELEASED,
            id="its pod has finished",
        ),
        pytest.param(
            a_claim(reservedFor=[USER], **ALLOCATED),
            None,
            RELEASED,
            id="its pod is gone",
        ),
        pytest.param(
            a_claim(reservedFor=[USER, {**USER, "uid": "old"}], **ALLOCATED),
            a_pod("Running", "n"),
            {"reservedFor": [USER]},
            id="a pod of another uid",
        ),
        pytest.param(a_claim(deleting=True, **ALLOCATED), None, {"allocation": None}, id="deleted without users"),
        pytest.param(
            a_claim(reservedFor=[USER], **ALLOCATED),
            a_pod("Running", "n", deleting=True),
            None,
            id="it terminates",
        ),
        pytest.param(a_claim(owned=False, **ALLOCATED), None, None, id="of a user, without users"),
        pytest.param(a_claim(owned=False), None, None, id="the finalizer comes before the allocation"),
    ],
)
def test_claim_is_released_when_its_pods_have_ended(claim: Json, pod: Json | None, status: Json | None) -> None:
    actions = reconcile_claim(claim, {KEY: pod}.get)
    patches = [action.patch["status"] for action in actions if isinstance(action, Patch)]
    assert patches == ([] if status is None else [status])


def test_deallocated_claim_of_a_finished_pod_loses_its_finalizer_and_is_deleted() -> None:
    pods = {KEY: a_pod("Succeeded", "n")}
    [patch] = reconcile_claim(a_claim(), pods.get)
    assert isinstance(patch, Patch)
    assert patch.patch["metadata"]["finalizers"] == ["other"]
    [deletion] = reconcile_claim(a_claim(protected=False), pods.get)
    assert deletion == Delete(patch.resource, ("default", "claim"), "claim-uid")


def test_deleted_claim_loses_its_finalizer_once_it_is_deallocated() -> None:
    [patch] = reconcile_claim(a_claim(deleting=True), lambda _: None)
    assert isinstance(patch, Patch)
    assert patch.patch["metadata"] == {"uid": "claim-uid", "resourceVersion": "7", "finalizers": ["other"]}
