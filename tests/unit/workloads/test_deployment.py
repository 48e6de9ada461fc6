"""A Deployment rolls from template to template within the limits that it sets."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.embedded.workloads.actions import Delete, Patch, Plan
from pyscheduler.embedded.workloads.deployment import HASH_LABEL, REVISION, limits, reconcile, template_hash
from tests.unit.workloads.builders import Json, a_pod, conditions, created, going, resized, status_of, workload


def deployment(replicas: int = 4, image: str = "i:1", **spec: Any) -> Json:
    made = workload("Deployment", "web", replicas=replicas, **spec)
    made["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return made


def replica_set(of: Json, size: int, available: int | None = None, revision: int = 1) -> Json:
    """The set that `of` makes for its present template, at that size, so many of its pods available."""
    (made,) = created(reconcile(of, [], [], 0.0))
    count = size if available is None else available
    made["metadata"] |= {"uid": made["metadata"]["name"], "resourceVersion": "7"}
    made["metadata"]["annotations"][REVISION] = str(revision)
    made["spec"]["replicas"] = size
    made["status"] = {"replicas": size, "readyReplicas": count, "availableReplicas": count}
    return made


def rolling(replicas: int, surge: int | str, unavailable: int | str) -> Json:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    return deployment(replicas, "i:2", strategy=strategy)


def step(of: Json, old: tuple[int, int], new: tuple[int, int] | None) -> tuple[int | None, int | None]:
    """One look at a roll-out with (size, available) of both sets: their new sizes, None where unchanged."""
    first = replica_set(deployment(), *old)
    second = [replica_set(of, *new, revision=2)] if new is not None else []
    plan = reconcile(of, [first, *second], [], 0.0)
    sizes = resized(plan)
    made = created(plan)
    grown = made[0]["spec"]["replicas"] if made else sizes.get(second[0]["metadata"]["name"]) if second else None
    return sizes.get(first["metadata"]["name"]), grown


def test_a_new_deployment_makes_its_replica_set() -> None:
    (made,) = created(reconcile(deployment(), [], [], 0.0))
    hashed = made["metadata"]["labels"][HASH_LABEL]
    assert made["metadata"]["name"] == f"web-{hashed}"
    assert made["spec"]["replicas"] == 4
    assert made["spec"]["selector"]["matchLabels"] == {"app": "web", HASH_LABEL: hashed}
    assert made["spec"]["template"]["metadata"]["labels"] == {"app": "web", HASH_LABEL: hashed}
    assert made["metadata"]["annotations"][REVISION] == "1"


@pytest.mark.parametrize(
    ("of", "old", "new", "expected"),
    [
        pytest.param(rolling(4, 1, 1), (4, 4), None, (None, 1), id="the surge comes first"),
        pytest.param(rolling(4, 1, 1), (4, 4), (1, 0), (3, None), id="one old pod may go"),
        pytest.param(rolling(4, 1, 1), (3, 3), (1, 0), (None, 2), id="its place is taken"),
        pytest.param(rolling(4, 1, 1), (3, 3), (2, 1), (2, None), id="an available new pod frees an old one"),
        pytest.param(rolling(4, 1, 1), (0, 0), (4, 4), (None, None), id="done"),
        pytest.param(rolling(4, 0, 1), (4, 4), None, (None, 0), id="without surge the new set starts empty"),
        pytest.param(rolling(4, 0, 1), (4, 4), (0, 0), (3, None), id="then an old one goes"),
        pytest.param(rolling(4, 0, 1), (3, 3), (0, 0), (None, 1), id="then a new one comes"),
        pytest.param(rolling(4, 1, 0), (4, 4), (1, 0), (None, None), id="none may be missing: wait"),
        pytest.param(rolling(4, 1, 0), (4, 4), (1, 1), (3, None), id="none is missing: go on"),
        pytest.param(rolling(4, "100%", 0), (4, 4), None, (None, 4), id="all at once"),
        pytest.param(rolling(4, 1, 1), (4, 4), (2, 2), (1, None), id="a surge that was lowered takes no new pod"),
        pytest.param(rolling(4, 1, 1), (4, 2), (1, 0), (3, None), id="of old pods the broken go first"),
    ],
)
def test_a_rolling_update_goes_step_by_step(
    of: Json, old: tuple[int, int], new: tuple[int, int] | None, expected: tuple[int | None, int | None]
) -> None:
    assert step(of, old, new) == expected


@pytest.mark.parametrize(
    ("surge", "unavailable", "expected"),
    [("25%", "25%", (2, 1)), (0, 0, (0, 1)), ("0%", "10%", (0, 1)), (3, 9, (3, 5)), ("half", 1, (0, 1))],
)
def test_limits_round_surge_up_and_absence_down(surge: Any, unavailable: Any, expected: tuple[int, int]) -> None:
    assert limits(rolling(5, surge, unavailable)) == expected


def recreating() -> Json:
    return deployment(2, "i:2", strategy={"type": "Recreate"})


def test_recreate_first_takes_all_old_pods_away() -> None:
    old = replica_set(deployment(), 2)
    plan = reconcile(recreating(), [old], [], 0.0)
    assert resized(plan) == {old["metadata"]["name"]: 0}
    assert created(plan) == []


def test_recreate_waits_until_the_last_old_pod_is_gone() -> None:
    old = replica_set(deployment(), 0)
    lingering = going(a_pod("a", labels=old["metadata"]["labels"]))
    assert created(reconcile(recreating(), [old], [lingering], 0.0)) == []
    (made,) = created(reconcile(recreating(), [old], [], 0.0))
    assert made["spec"]["replicas"] == 2


def test_scaling_changes_the_one_set_there_is() -> None:
    current = replica_set(deployment(), 4)
    name = current["metadata"]["name"]
    assert resized(reconcile(deployment(9), [current], [], 0.0)) == {name: 9}
    assert resized(reconcile(deployment(1), [current], [], 0.0)) == {name: 1}


def test_a_resize_is_refused_if_the_set_has_changed_meanwhile() -> None:
    plan = reconcile(deployment(9), [replica_set(deployment(), 4)], [], 0.0)
    resize = next(a for a in plan.actions if isinstance(a, Patch) and "spec" in a.patch)
    assert resize.patch["metadata"]["resourceVersion"] == "7"


def revisions(plan: Plan) -> list[str]:
    patches = [a.patch for a in plan.actions if isinstance(a, Patch) and "metadata" in a.patch]
    return [p["metadata"]["annotations"][REVISION] for p in patches if "annotations" in p["metadata"]]


def test_a_roll_back_takes_the_old_set_and_numbers_it_anew() -> None:
    first = replica_set(deployment(), 0, revision=1)
    second = replica_set(deployment(image="i:2"), 4, revision=2)
    plan = reconcile(deployment(), [first, second], [], 0.0)
    assert created(plan) == []
    assert revisions(plan) == ["3", "3"], "the set and the deployment"


def test_history_is_kept_up_to_its_limit() -> None:
    old = [replica_set(deployment(image=f"i:{n}"), 0, revision=n) for n in (3, 1, 2)]
    current = replica_set(deployment(image="now"), 4, revision=4)
    plan = reconcile(deployment(image="now", revisionHistoryLimit=1), [*old, current], [], 0.0)
    gone = [a.key[1] for a in plan.actions if isinstance(a, Delete)]
    assert gone == [old[1]["metadata"]["name"], old[2]["metadata"]["name"]]


def test_a_paused_deployment_scales_but_does_not_roll() -> None:
    current = replica_set(deployment(), 4)
    plan = reconcile(deployment(6, "i:2", paused=True), [current], [], 0.0)
    assert resized(plan) == {current["metadata"]["name"]: 6}
    assert created(plan) == []


@pytest.mark.parametrize(("available", "expected"), [(4, "True"), (3, "True"), (2, "False")])
def test_it_is_available_as_long_as_no_more_are_missing_than_may_be(available: int, expected: str) -> None:
    plan = reconcile(deployment(), [replica_set(deployment(), 4, available)], [], 0.0)
    assert conditions(status_of(plan))["Available"] == expected


def test_the_status_tells_kubectl_when_the_roll_out_is_done() -> None:
    status = status_of(reconcile(deployment(), [replica_set(deployment(), 4)], [], 0.0))
    counts = {k: v for k, v in status.items() if k != "conditions"}
    assert counts == {
        "replicas": 4, "updatedReplicas": 4, "readyReplicas": 4, "availableReplicas": 4, "observedGeneration": 1,
    }  # fmt: skip
    assert {c["reason"] for c in status["conditions"]} == {"MinimumReplicasAvailable", "NewReplicaSetAvailable"}


def test_one_template_has_one_hash_however_it_is_written() -> None:
    plain = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}
    wordy = {
        "spec": {"containers": [{"resources": {}, "name": "c"}], "tolerations": []},
        "metadata": {"creationTimestamp": None, "labels": {"a": "b"}},
    }
    assert template_hash(plain) == template_hash(wordy)
    assert template_hash(plain) != template_hash({**plain, "spec": {"containers": [{"name": "d"}]}})
