"""A Deployment rolls from template to template within maxSurge and maxUnavailable."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.embedded.workloads.actions import Delete, Patch, Plan
from pyscheduler.embedded.workloads.deployment import HASH_LABEL, REVISION, limits, reconcile, template_hash
from tests.unit.workloads.builders import Json, a_pod, conditions, created, resized, status_of, terminating, workload


def deployment(replicas: int = 4, image: str = "i:1", **spec: Any) -> Json:
    new = workload("Deployment", "web", replicas=replicas, **{"progressDeadlineSeconds": 600, **spec})
    new["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return new


def replica_set(of: Json, size: int, available: int | None = None, revision: int = 1) -> Json:
    """Return the ReplicaSet of `of`'s current template with that size and number of available pods."""
    (new,) = created(reconcile(of, [], [], 0.0))
    count = size if available is None else available
    new["metadata"] |= {"uid": new["metadata"]["name"], "resourceVersion": "7"}
    new["metadata"]["annotations"][REVISION] = str(revision)
    new["spec"]["replicas"] = size
    new["status"] = {"replicas": size, "readyReplicas": count, "availableReplicas": count}
    return new


def rolling(replicas: int, surge: int | str, unavailable: int | str) -> Json:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    return deployment(replicas, "i:2", strategy=strategy)


def step(of: Json, old: tuple[int, int], new: tuple[int, int] | None) -> tuple[int | None, int | None]:
    """Return the new sizes of both ReplicaSets after one sync, None if unchanged; arguments are (size, available)."""
    first = replica_set(deployment(), *old)
    second = [replica_set(of, *new, revision=2)] if new is not None else []
    plan = reconcile(of, [first, *second], [], 0.0)
    sizes = resized(plan)
    sets = created(plan)
    new_size = sets[0]["spec"]["replicas"] if sets else sizes.get(second[0]["metadata"]["name"]) if second else None
    return sizes.get(first["metadata"]["name"]), new_size


def test_new_deployment_creates_its_replica_set() -> None:
    (replica_set,) = created(reconcile(deployment(), [], [], 0.0))
    hash_value = replica_set["metadata"]["labels"][HASH_LABEL]
    assert replica_set["metadata"]["name"] == f"web-{hash_value}"
    assert replica_set["spec"]["replicas"] == 4
    assert replica_set["spec"]["selector"]["matchLabels"] == {"app": "web", HASH_LABEL: hash_value}
    assert replica_set["spec"]["template"]["metadata"]["labels"] == {"app": "web", HASH_LABEL: hash_value}
    assert replica_set["metadata"]["annotations"][REVISION] == "1"


@pytest.mark.parametrize(
    ("of", "old", "new", "expected"),
    [
        pytest.param(rolling(4, 1, 1), (4, 4), None, (None, 1), id="first the surge pod is created"),
        pytest.param(rolling(4, 1, 1), (4, 4), (1, 0), (3, None), id="one old pod is removed"),
        pytest.param(rolling(4, 1, 1), (3, 3), (1, 0), (None, 2), id="a new pod takes its place"),
        pytest.param(rolling(4, 1, 1), (3, 3), (2, 1), (2, None), id="an available new pod replaces an old one"),
        pytest.param(rolling(4, 1, 1), (0, 0), (4, 4), (None, None), id="done"),
        pytest.param(rolling(4, 0, 1), (4, 4), None, (None, 0), id="without surge the new ReplicaSet starts empty"),
        pytest.param(rolling(4, 0, 1), (4, 4), (0, 0), (3, None), id="without surge an old pod is removed first"),
        pytest.param(rolling(4, 0, 1), (3, 3), (0, 0), (None, 1), id="without surge a new pod is created second"),
        pytest.param(rolling(4, 1, 0), (4, 4), (1, 0), (None, None), id="maxUnavailable 0 waits for the new pod"),
        pytest.param(rolling(4, 1, 0), (4, 4), (1, 1), (3, None), id="maxUnavailable 0 continues once it is available"),
        pytest.param(rolling(4, "100%", 0), (4, 4), None, (None, 4), id="all at once"),
        pytest.param(rolling(4, 1, 1), (4, 4), (2, 2), (1, None), id="no new pod after the surge was lowered"),
        pytest.param(rolling(4, 1, 1), (4, 2), (1, 0), (3, None), id="unavailable old pods are removed first"),
    ],
)
def test_rolling_update_step(
    of: Json, old: tuple[int, int], new: tuple[int, int] | None, expected: tuple[int | None, int | None]
) -> None:
    assert step(of, old, new) == expected


@pytest.mark.parametrize(
    ("surge", "unavailable", "expected"),
    [("25%", "25%", (2, 1)), (0, 0, (0, 1)), ("0%", "10%", (0, 1)), (3, 9, (3, 5)), ("half", 1, (0, 1))],
)
def test_limits_round_surge_up_and_unavailable_down(surge: Any, unavailable: Any, expected: tuple[int, int]) -> None:
    assert limits(rolling(5, surge, unavailable)) == expected


def recreating() -> Json:
    return deployment(2, "i:2", strategy={"type": "Recreate"})


def test_recreate_first_removes_all_old_pods() -> None:
    old = replica_set(deployment(), 2)
    plan = reconcile(recreating(), [old], [], 0.0)
    assert resized(plan) == {old["metadata"]["name"]: 0}
    assert created(plan) == []


def test_recreate_waits_until_the_last_old_pod_has_terminated() -> None:
    old = replica_set(deployment(), 0)
    old_pod = terminating(a_pod("a", labels=old["metadata"]["labels"]))
    assert created(reconcile(recreating(), [old], [old_pod], 0.0)) == []
    (new,) = created(reconcile(recreating(), [old], [], 0.0))
    assert new["spec"]["replicas"] == 2


def test_scaling_resizes_the_replica_set() -> None:
    current = replica_set(deployment(), 4)
    name = current["metadata"]["name"]
    assert resized(reconcile(deployment(9), [current], [], 0.0)) == {name: 9}
    assert resized(reconcile(deployment(1), [current], [], 0.0)) == {name: 1}


def test_resize_has_the_resource_version_as_precondition() -> None:
    plan = reconcile(deployment(9), [replica_set(deployment(), 4)], [], 0.0)
    resize = next(a for a in plan.actions if isinstance(a, Patch) and "spec" in a.patch)
    assert resize.patch["metadata"]["resourceVersion"] == "7"


def revisions(plan: Plan) -> list[str]:
    patches = [a.patch for a in plan.actions if isinstance(a, Patch) and "metadata" in a.patch]
    return [p["metadata"]["annotations"][REVISION] for p in patches if "annotations" in p["metadata"]]


def test_rollback_reuses_the_old_replica_set_with_a_new_revision() -> None:
    first = replica_set(deployment(), 0, revision=1)
    second = replica_set(deployment(image="i:2"), 4, revision=2)
    plan = reconcile(deployment(), [first, second], [], 0.0)
    assert created(plan) == []
    assert revisions(plan) == ["3", "3"], "the ReplicaSet and the Deployment"


def test_old_replica_sets_beyond_the_history_limit_are_deleted() -> None:
    old = [replica_set(deployment(image=f"i:{n}"), 0, revision=n) for n in (3, 1, 2)]
    current = replica_set(deployment(image="now"), 4, revision=4)
    plan = reconcile(deployment(image="now", revisionHistoryLimit=1), [*old, current], [], 0.0)
    names = [a.key[1] for a in plan.actions if isinstance(a, Delete)]
    assert names == [old[1]["metadata"]["name"], old[2]["metadata"]["name"]]


def test_paused_deployment_scales_but_does_not_roll() -> None:
    current = replica_set(deployment(), 4)
    plan = reconcile(deployment(6, "i:2", paused=True), [current], [], 0.0)
    assert resized(plan) == {current["metadata"]["name"]: 6}
    assert created(plan) == []


@pytest.mark.parametrize(("available", "expected"), [(4, "True"), (3, "True"), (2, "False")])
def test_deployment_is_available_within_max_unavailable(available: int, expected: str) -> None:
    plan = reconcile(deployment(), [replica_set(deployment(), 4, available)], [], 0.0)
    assert conditions(status_of(plan))["Available"] == expected


def test_status_of_a_complete_rollout() -> None:
    status = status_of(reconcile(deployment(), [replica_set(deployment(), 4)], [], 0.0))
    counts = {k: v for k, v in status.items() if k != "conditions"}
    assert counts == {
        "replicas": 4, "updatedReplicas": 4, "readyReplicas": 4, "availableReplicas": 4, "observedGeneration": 1,
    }  # fmt: skip
    assert {c["reason"] for c in status["conditions"]} == {"MinimumReplicasAvailable", "NewReplicaSetAvailable"}


def test_deployment_has_the_replica_failure_of_its_replica_set() -> None:
    current = replica_set(deployment(), 4, 3)
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: q"}
    failed = {**current, "status": {**current["status"], "conditions": [failure]}}
    status = status_of(reconcile(deployment(), [failed], [], 0.0))
    assert status["conditions"][-1] == failure
    recovered = {**deployment(), "status": status}
    assert "ReplicaFailure" not in conditions(status_of(reconcile(recovered, [current], [], 0.0), status))


def test_template_hash_is_independent_of_the_spelling() -> None:
    plain = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}
    verbose = {
        "spec": {"containers": [{"resources": {}, "name": "c"}], "tolerations": []},
        "metadata": {"creationTimestamp": None, "labels": {"a": "b"}},
    }
    assert template_hash(plain) == template_hash(verbose)
    assert template_hash(plain) != template_hash({**plain, "spec": {"containers": [{"name": "d"}]}})
