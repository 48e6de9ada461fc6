"""PodGroups and Workloads of scheduling.k8s.io/v1beta1: defaults, validation, protection while pods are active."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.embedded.columns.table import TableView

from .builders import MERGE, START, Cluster, Json, api_error, fields_of, pod

GROUPS = "podgroups.scheduling.k8s.io/v1beta1"
WORKLOADS = "workloads.scheduling.k8s.io/v1beta1"
PRIORITIES = "priorityclasses.scheduling.k8s.io"
GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def group(**spec: Any) -> Json:
    return {"metadata": {"name": "g"}, "spec": {**GANG, **spec}}


def workload(*templates: Json, **spec: Any) -> Json:
    return {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": list(templates), **spec}}


def template(name: str = "workers", **spec: Any) -> Json:
    return {"name": name, **GANG, **spec}


def member(name: str) -> Json:
    return pod(name, schedulingGroup={"podGroupName": "g"})


def delete_group(cluster: Cluster) -> None:
    cluster.api.delete(cluster.resource(GROUPS), "default", "g")


def test_new_group_gets_priority_and_finalizer_and_no_status(cluster: Cluster) -> None:
    cluster.create(PRIORITIES, {"metadata": {"name": "urgent"}, "value": 7})
    stored = cluster.create(GROUPS, {**group(priorityClassName="urgent"), "status": {"conditions": [{"type": "x"}]}})
    assert stored["spec"]["priority"] == 7
    assert stored["spec"]["disruptionMode"] == {"single": {}}
    assert "generation" not in stored["metadata"]
    assert stored["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]
    assert not stored.get("status")


def test_default_priority_class_is_that_of_the_group(cluster: Cluster) -> None:
    cluster.create(PRIORITIES, {"metadata": {"name": "usual"}, "value": 3, "globalDefault": True})
    spec = cluster.create(GROUPS, group())["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("usual", 3)


def test_group_with_other_priority_or_unknown_class_is_forbidden(cluster: Cluster) -> None:
    error = api_error(lambda: cluster.create(GROUPS, group(priority=5)))
    assert error.code == 403
    assert "priority set in the pod group (5) must match the priority computed (0)" in error.message
    missing = api_error(lambda: cluster.create(GROUPS, group(priorityClassName="x")))
    assert missing.message.endswith("no PriorityClass with name x was found")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"schedulingPolicy": {}}, "spec.schedulingPolicy"),
        ({"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}}, "spec.schedulingPolicy"),
        ({"schedulingPolicy": {"gang": {}}}, "spec.schedulingPolicy.gang.minCount"),
        ({"schedulingPolicy": {"gang": {"minCount": -1}}}, "spec.schedulingPolicy.gang.minCount"),
        ({"disruptionMode": {}}, "spec.disruptionMode"),
        ({"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}}, "spec.schedulingConstraints.topology"),
        ({"schedulingConstraints": {"topology": [{}]}}, "spec.schedulingConstraints.topology[0].key"),
        ({"workloadRef": {"workloadName": "w"}}, "spec.workloadRef.templateName"),
        ({"resourceClaims": [{"name": "a"}, {"name": "a"}]}, "spec.resourceClaims[1]"),
        ({"resourceClaims": [{"name": str(i)} for i in range(5)]}, "spec.resourceClaims"),
        ({"parentCompositePodGroupName": "p"}, "spec.workloadRef"),
    ],
)
def test_invalid_group_is_rejected_with_the_field(cluster: Cluster, spec: Json, field: str) -> None:
    assert fields_of(api_error(lambda: cluster.create(GROUPS, group(**spec)))) == [field]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"schedulingPolicy": {"gang": None, "basic": {}}}, "spec.schedulingPolicy.basic"),
        ({"disruptionMode": {"all": {}}}, "spec.disruptionMode"),
        ({"priority": 1}, "spec.priority"),
    ],
)
def test_changed_immutable_field_is_rejected(cluster: Cluster, change: Json, field: str) -> None:
    cluster.create(GROUPS, group())
    assert field in fields_of(api_error(lambda: cluster.patch(GROUPS, "g", {"spec": change}, MERGE)))


def test_min_count_may_change(cluster: Cluster) -> None:
    cluster.create(GROUPS, group())
    changed = cluster.patch(GROUPS, "g", {"spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}}, MERGE)
    assert changed["spec"]["schedulingPolicy"]["gang"]["minCount"] == 4


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"metadata": {"name": "w"}, "spec": {}}, "spec"),
        (workload(), "spec"),
        (workload(template(), template()), "spec.podGroupTemplates[1]"),
        (workload(template(schedulingPolicy={})), "spec.podGroupTemplates[0].schedulingPolicy"),
        (workload(*(template(f"t{i}") for i in range(9))), "spec.podGroupTemplates"),
        (workload(template("a", priority=1), template("b")), "spec"),
        (workload(template(), controllerRef={"kind": "Job"}), "spec.controllerRef.name"),
    ],
)
def test_invalid_workload_is_rejected_with_the_field(cluster: Cluster, body: Json, field: str) -> None:
    assert fields_of(api_error(lambda: cluster.create(WORKLOADS, body))) == [field]


def test_templates_of_a_workload_are_neither_added_nor_removed(cluster: Cluster) -> None:
    cluster.create(WORKLOADS, workload(template("a")))
    change = {"spec": {"podGroupTemplates": [template("b")]}}
    error = api_error(lambda: cluster.patch(WORKLOADS, "w", change, MERGE))
    assert fields_of(error) == ["spec.podGroupTemplates[0]", "spec.podGroupTemplates"]


def test_deleted_group_stays_until_its_last_active_pod_has_ended(cluster: Cluster) -> None:
    cluster.create(GROUPS, group())
    cluster.create("pods", member("a"))
    cluster.create("pods", member("b"))
    delete_group(cluster)
    cluster.patch("pods", "a", {"status": {"phase": "Succeeded"}}, MERGE, "status")
    assert "deletionTimestamp" in cluster.get(GROUPS, "g")["metadata"]
    cluster.api.delete(cluster.resource("pods"), "default", "b")
    assert not cluster.exists(GROUPS, "g")


def test_deleted_group_without_pods_is_gone_at_once(cluster: Cluster) -> None:
    cluster.create(GROUPS, group())
    delete_group(cluster)
    assert not cluster.exists(GROUPS, "g")


def test_namespace_with_a_group_and_its_pods_is_deleted(cluster: Cluster) -> None:
    cluster.create("namespaces", {"metadata": {"name": "team"}})
    cluster.create(GROUPS, group(), "team")
    cluster.create("pods", member("a"), "team")
    cluster.api.delete(cluster.resource("namespaces"), "", "team")
    assert not cluster.exists("namespaces", "team")


@pytest.mark.parametrize(
    ("named", "message"),
    [({}, "must specify one of: `podGroupName`"), ({"podGroupName": "A"}, "a lowercase RFC 1123 subdomain")],
)
def test_pod_with_an_invalid_group_is_rejected(cluster: Cluster, named: Json, message: str) -> None:
    error = api_error(lambda: cluster.create("pods", pod(schedulingGroup=named)))
    assert fields_of(error) == ["spec.schedulingGroup.podGroupName"]
    assert message in error.message


@pytest.mark.parametrize(
    ("conditions", "shown"),
    [
        ([], "Pending"),
        ([{"type": "PodGroupInitiallyScheduled", "status": "False"}], "Unschedulable"),
        ([{"type": "PodGroupInitiallyScheduled", "status": "True"}], "Scheduled"),
        ([{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}], "PreemptionByScheduler"),
    ],
)
def test_table_has_policy_workload_and_status(cluster: Cluster, conditions: list[Json], shown: str) -> None:
    reference = {"workloadName": "w", "templateName": "workers"}
    cluster.create(GROUPS, group(workloadRef=reference))
    cluster.patch(GROUPS, "g", {"status": {"conditions": conditions}}, MERGE, "status")
    version = cluster.version(GROUPS, "g")
    row = TableView(cluster.resource(GROUPS), START + 60).table([version], {})["rows"][0]
    assert row["cells"] == ["g", "Gang", "w", shown, "60s"]
