"""A StatefulSet creates, deletes and replaces its pods by ordinal."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pyscheduler.embedded.client.kinds import CLAIMS
from pyscheduler.embedded.workloads.actions import Create, Delete, Plan
from pyscheduler.embedded.workloads.revisions import HASH_LABEL, revision_name
from pyscheduler.embedded.workloads.statefulset import ordinal_of
from pyscheduler.embedded.workloads.statefulset import reconcile as reconcile_set
from tests.unit.workloads.builders import Json, a_pod, created, deleted, status_of, terminating, workload

OLD = "s-old"


def stateful_set(replicas: int = 3, *, status: Json | None = None, **spec: Any) -> Json:
    return workload("StatefulSet", "s", status=status, replicas=replicas, serviceName="s", **spec)


def pods(*ordinals: int, revision: str = "", **more: Any) -> list[Json]:
    label = revision or revision_name(stateful_set())
    return [a_pod(f"s-{ordinal}", labels={HASH_LABEL: label}, **more) for ordinal in ordinals]


def revision(name: str, number: int, image: str = "i:0") -> Json:
    template = {"$patch": "replace", "spec": {"containers": [{"name": "c", "image": image}]}}
    meta = {"name": name, "namespace": "default", "uid": name}
    return {"metadata": meta, "data": {"spec": {"template": template}}, "revision": number}


def reconcile(owner: Json, pods: list[Json], revisions: list[Json], now: float, *claims: str) -> Plan:
    """Reconcile with claims of these names."""
    present = {("default", name): {"metadata": {"name": name, "namespace": "default", "uid": name}} for name in claims}
    return reconcile_set(owner, pods, revisions, present, now)


def names(items: list[Json], kind: str = "Pod") -> list[str]:
    return [item["metadata"]["name"] for item in items if item["kind"] == kind]


@pytest.mark.parametrize(
    ("present", "policy", "creations"),
    [
        pytest.param([], "OrderedReady", ["s-0"], id="the first one first"),
        pytest.param(pods(0), "OrderedReady", ["s-1"], id="the next one when the first is ready"),
        pytest.param(pods(0, ready=False), "OrderedReady", [], id="waits for the first"),
        pytest.param([terminating(pods(0)[0])], "OrderedReady", [], id="waits for a termination"),
        pytest.param(pods(0, 2), "OrderedReady", ["s-1"], id="fills a gap"),
        pytest.param([], "Parallel", ["s-0", "s-1", "s-2"], id="all at once"),
        pytest.param(pods(1, ready=False), "Parallel", ["s-0", "s-2"], id="without waiting"),
    ],
)
def test_pods_are_created_by_policy(present: list[Json], policy: str, creations: list[str]) -> None:
    plan = reconcile(stateful_set(podManagementPolicy=policy), present, [], 0.0)
    assert names(created(plan)) == creations


def test_parallel_set_creates_at_most_500_pods_per_sync() -> None:
    huge = stateful_set(10**9, podManagementPolicy="Parallel")
    new = names(created(reconcile(huge, pods(0, 2), [], 0.0)))
    assert (len(new), new[-1]) == (500, "s-501")


@pytest.mark.parametrize(
    ("present", "policy", "deletions"),
    [
        pytest.param(pods(0, 1, 2), "OrderedReady", ["s-2"], id="the highest first"),
        pytest.param([*pods(0, 1), terminating(pods(2)[0])], "OrderedReady", [], id="waits for its end"),
        pytest.param(pods(0, 1, 2), "Parallel", ["s-2", "s-1"], id="all at once"),
    ],
)
def test_pods_are_deleted_by_policy(present: list[Json], policy: str, deletions: list[str]) -> None:
    assert deleted(reconcile(stateful_set(1, podManagementPolicy=policy), present, [], 0.0)) == deletions


def test_failed_pod_is_deleted_so_that_it_is_created_again() -> None:
    assert deleted(reconcile(stateful_set(1), pods(0, phase="Failed"), [], 0.0)) == ["s-0"]


def test_set_in_deletion_creates_nothing() -> None:
    assert names(created(reconcile(terminating(stateful_set()), [], [], 0.0))) == []


def test_pod_has_its_name_labels_and_host_name() -> None:
    owner = stateful_set(ordinals={"start": 4})
    pod = next(each for each in created(reconcile(owner, [], [], 0.0)) if each["kind"] == "Pod")
    assert "generateName" not in pod["metadata"]
    assert pod["metadata"]["labels"] == {
        "app": "s",
        "statefulset.kubernetes.io/pod-name": "s-4",
        "apps.kubernetes.io/pod-index": "4",
        HASH_LABEL: revision_name(owner),
    }
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("s-4", "s")


def test_pod_gets_claims_of_its_own() -> None:
    template = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    plan = reconcile(stateful_set(volumeClaimTemplates=[template]), [], [], 0.0)
    (claim,) = [each for a in plan.actions if isinstance(a, Create) for each in a.before]
    assert claim.resource == CLAIMS
    assert claim.ignore_already_exists
    assert (claim.obj["metadata"]["name"], claim.obj["spec"]) == ("data-s-0", template["spec"])
    assert claim.obj["metadata"]["labels"] == {"app": "s"}
    (pod,) = [each for each in created(plan) if each["kind"] == "Pod"]
    assert pod["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-s-0"}}]


DATA: Json = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}


def claims_created(plan: Plan) -> list[str]:
    return names(created(plan), "PersistentVolumeClaim")


def claims_deleted(plan: Plan) -> list[str]:
    return [action.key[1] for action in plan.actions if isinstance(action, Delete) and action.resource == CLAIMS]


def test_deleted_claim_of_a_pod_is_created_again() -> None:
    owner = stateful_set(2, volumeClaimTemplates=[DATA])
    assert claims_created(reconcile(owner, pods(0, 1), [], 0.0, "data-s-0")) == ["data-s-1"]
    assert claims_created(reconcile(owner, pods(0, 1), [], 0.0, "data-s-0", "data-s-1")) == []


@pytest.mark.parametrize(("policy", "deletions"), [("Retain", []), ("Delete", ["data-s-2"])])
def test_claims_are_deleted_after_scaling_down_by_policy(policy: str, deletions: list[str]) -> None:
    owner = stateful_set(1, volumeClaimTemplates=[DATA], persistentVolumeClaimRetentionPolicy={"whenScaled": policy})
    plan = reconcile(owner, pods(0, 1), [], 0.0, "data-s-0", "data-s-1", "data-s-2", "data-other-5", "data-s-x")
    assert claims_deleted(plan) == deletions


@pytest.mark.parametrize(("policy", "owners"), [("Retain", []), ("Delete", [("StatefulSet", False)])])
def test_claims_belong_to_the_set_by_policy(policy: str, owners: list[tuple[str, bool]]) -> None:
    owner = stateful_set(1, volumeClaimTemplates=[DATA], persistentVolumeClaimRetentionPolicy={"whenDeleted": policy})
    (claim,) = [each for each in created(reconcile(owner, [], [], 0.0)) if each["kind"] == "PersistentVolumeClaim"]
    found = claim["metadata"].get("ownerReferences", [])
    assert [(each["kind"], each["controller"]) for each in found] == owners


@pytest.mark.parametrize(
    ("present", "strategy", "deletions"),
    [
        pytest.param(pods(0, 1, 2, revision=OLD), {}, ["s-2"], id="from the highest ordinal"),
        pytest.param([*pods(0, 1, revision=OLD), *pods(2)], {}, ["s-1"], id="one after the other"),
        pytest.param([*pods(0, 1, revision=OLD), *pods(2, ready=False)], {}, [], id="waits until it is ready"),
        pytest.param([*pods(0, 1, revision=OLD), terminating(pods(2)[0])], {}, [], id="waits for its termination"),
        pytest.param([*pods(0, 1, revision=OLD), *pods(2)], {"rollingUpdate": {"partition": 2}}, [], id="partition"),
        pytest.param(pods(0, 1, 2, revision=OLD), {"type": "OnDelete"}, [], id="on delete"),
        pytest.param(
            [*pods(0, 2), *pods(1, revision=OLD)], {"rollingUpdate": {"partition": 1}}, ["s-1"], id="at the partition"
        ),
    ],
)
def test_rolling_update_replaces_pods_of_another_revision(
    present: list[Json], strategy: Json, deletions: list[str]
) -> None:
    plan = reconcile(stateful_set(updateStrategy=strategy), present, [revision(OLD, 1)], 0.0)
    assert deleted(plan) == deletions


def test_pod_below_the_partition_is_created_from_the_current_revision() -> None:
    owner = stateful_set(
        updateStrategy={"rollingUpdate": {"partition": 1}}, status={"currentRevision": OLD, "updateRevision": OLD}
    )
    (pod,) = [each for each in created(reconcile(owner, [], [revision(OLD, 1)], 0.0)) if each["kind"] == "Pod"]
    assert (pod["spec"]["containers"][0]["image"], pod["metadata"]["labels"][HASH_LABEL]) == ("i:0", OLD)


def test_status_during_and_after_an_update() -> None:
    update = revision_name(stateful_set())
    owner = stateful_set(status={"currentRevision": OLD, "updateRevision": update})
    during = status_of(reconcile(owner, [*pods(0, 1, revision=OLD), *pods(2)], [], 0.0), owner["status"])
    assert (during["currentReplicas"], during["updatedReplicas"], during["currentRevision"]) == (2, 1, OLD)
    after = status_of(reconcile(owner, pods(0, 1, 2), [], 0.0), owner["status"])
    assert (after["currentReplicas"], after["updatedReplicas"], after["currentRevision"]) == (3, 3, update)
    assert (after["replicas"], after["readyReplicas"], after["availableReplicas"]) == (3, 3, 3)
    assert after["observedGeneration"] == 1


def test_pod_becomes_available_after_min_ready_seconds() -> None:
    owner = stateful_set(2, minReadySeconds=10)
    early = reconcile(owner, pods(0, since=5.0), [], 7.0)
    assert (names(created(early)), early.requeue_at, status_of(early)["availableReplicas"]) == ([], 15.0, 0)
    late = reconcile(owner, pods(0, since=5.0), [], 15.0)
    assert (names(created(late)), late.requeue_at) == (["s-1"], math.inf)


@pytest.mark.parametrize(("name", "ordinal"), [("db-12", 12), ("db-0", 0), ("db", -1), ("db-x", -1)])
def test_ordinal_is_the_end_of_the_name(name: str, ordinal: int) -> None:
    assert ordinal_of(a_pod(name)) == ordinal
