"""PodGroup objects of each API: the requirements that are read, and the messages for invalid and unsupported fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api import DisruptionMode, PodGroup, PodGroupKey, Rejection, TopologyConstraint
from pyscheduler_plugins.pod_groups import coscheduling, native, volcano
from pyscheduler_plugins.pod_groups.declared import Declared

Json = dict[str, Any]
Read = Callable[[Json], Declared | Rejection]
READERS: tuple[Read, ...] = (native.read, volcano.read, coscheduling.read)
GANG: Json = {"schedulingPolicy": {"gang": {"minCount": 2}}}


def pod_group(spec: Any) -> Json:
    metadata = {"name": "g", "namespace": "default", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def expected(api: str, min_count: int, **fields: Any) -> PodGroup:
    created = "2026-01-01T00:00:00Z"
    return PodGroup(PodGroupKey("default", "g", api), min_count, created=created, uid="u", **fields)


def declared(read: Read, spec: Json) -> Declared:
    found = read(pod_group(spec))
    assert isinstance(found, Declared)
    return found


def message(read: Read, spec: Any) -> str:
    found = read(pod_group(spec))
    assert isinstance(found, Rejection)
    assert not found.resolvable, "no eviction makes the object valid"
    return found.message


def test_gang_policy_of_kubernetes_gives_min_count() -> None:
    assert declared(native.read, GANG) == Declared(expected("scheduling.k8s.io", 2))


def test_basic_policy_of_kubernetes_starts_with_one_pod() -> None:
    assert declared(native.read, {"schedulingPolicy": {"basic": {}}}).group.min_count == 1


def test_all_fields_of_a_kubernetes_pod_group_are_read() -> None:
    spec: Json = {
        "workloadRef": {"workloadName": "w", "templateName": "t"},
        "schedulingPolicy": {"gang": {"minCount": 3}, "basic": None},
        "schedulingConstraints": {"topology": [{"key": "topology.kubernetes.io/zone"}]},
        "disruptionMode": {"all": {}},
        "priority": 7,
        "priorityClassName": "high",
        "preemptionPolicy": "Never",
    }
    group = expected(
        "scheduling.k8s.io",
        3,
        topology=(TopologyConstraint("topology.kubernetes.io/zone", required=True),),
        disruption_mode=DisruptionMode.ALL,
        priority=7,
        may_preempt=False,
    )
    assert declared(native.read, spec) == Declared(group)


@pytest.mark.parametrize(
    ("value", "mode"),
    [
        pytest.param(None, DisruptionMode.SINGLE, id="null"),
        pytest.param({}, DisruptionMode.SINGLE, id="empty"),
        pytest.param({"single": {}}, DisruptionMode.SINGLE, id="single"),
        pytest.param({"all": {}}, DisruptionMode.ALL, id="all"),
        pytest.param({"single": None, "all": {}}, DisruptionMode.ALL, id="all, with null"),
        pytest.param("Pod", DisruptionMode.SINGLE, id="Pod in v1alpha2"),
        pytest.param("PodGroup", DisruptionMode.ALL, id="PodGroup in v1alpha2"),
    ],
)
def test_disruption_mode_of_every_version(value: Any, mode: DisruptionMode) -> None:
    assert declared(native.read, {**GANG, "disruptionMode": value}).group.disruption_mode is mode


def test_priority_class_of_kubernetes_is_named_if_admission_has_not_set_the_priority() -> None:
    assert declared(native.read, {**GANG, "priorityClassName": "high"}).priority_class == "high"
    assert declared(native.read, {**GANG, "priorityClassName": "high", "priority": 0}).priority_class == ""


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        pytest.param({}, "spec.schedulingPolicy: Required value", id="no policy"),
        pytest.param(None, "spec: Invalid value: expected object, got null", id="no spec"),
        pytest.param(
            {"schedulingPolicy": {}}, "spec.schedulingPolicy: exactly one of basic and gang must be set", id="none"
        ),
        pytest.param(
            {"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}},
            "spec.schedulingPolicy: exactly one of basic and gang must be set",
            id="two policies",
        ),
        pytest.param(
            {"schedulingPolicy": {"gang": {}}},
            "spec.schedulingPolicy.gang.minCount: Required value",
            id="no minCount",
        ),
        pytest.param(
            {"schedulingPolicy": {"gang": {"minCount": 0}}},
            "spec.schedulingPolicy.gang.minCount: Invalid value: expected int >= 1",
            id="minCount 0",
        ),
        pytest.param(
            {**GANG, "parentCompositePodGroupName": 7},
            "spec.parentCompositePodGroupName: Invalid value: expected str | null, got int",
            id="parent",
        ),
        pytest.param({**GANG, "disruptionMode": "Some"}, "spec.disruptionMode: expected single or all", id="mode"),
        pytest.param(
            {**GANG, "disruptionMode": {"single": {}, "all": {}}},
            "spec.disruptionMode: expected single or all",
            id="two modes",
        ),
        pytest.param(
            {**GANG, "priority": "7"}, "spec.priority: Invalid value: expected int | null, got str", id="priority"
        ),
    ],
)
def test_rejection_of_a_kubernetes_pod_group_names_object_and_field(spec: Any, text: str) -> None:
    assert message(native.read, spec) == f"PodGroup default/g (scheduling.k8s.io): {text}"


def test_all_fields_of_a_volcano_pod_group_are_read() -> None:
    spec: Json = {
        "minMember": 3,
        "minTaskMember": {"launcher": 1, "worker": 2, "spare": 0},
        "minResources": {"cpu": "3", "memory": "1Gi", "nvidia.com/gpu": 3},
        "queue": "research",
        "priorityClassName": "high",
    }
    group = expected(
        "scheduling.volcano.sh",
        3,
        min_count_by_role={"launcher": 1, "worker": 2},
        min_resources={"cpu": 3000, "memory": 1 << 30, "nvidia.com/gpu": 3},
        queue="research",
    )
    assert declared(volcano.read, spec) == Declared(group, "high")


@pytest.mark.parametrize("spec", [{}, {"minMember": 0}, {"minMember": None, "minTaskMember": None}], ids=str)
def test_volcano_pod_group_without_minimum_starts_with_one_pod(spec: Json) -> None:
    group = declared(volcano.read, spec).group
    assert (group.min_count, group.min_count_by_role) == (1, {})


@pytest.mark.parametrize(
    ("min_member", "by_role"),
    [
        pytest.param(2, {}, id="minMember below the sum"),
        pytest.param(3, {"a": 1, "b": 2}, id="minMember equal to the sum"),
        pytest.param(4, {"a": 1, "b": 2}, id="minMember above the sum"),
    ],
)
def test_minima_of_volcano_tasks_count_if_min_member_covers_them(min_member: int, by_role: Json) -> None:
    spec = {"minMember": min_member, "minTaskMember": {"a": 1, "b": 2}}
    assert declared(volcano.read, spec).group.min_count_by_role == by_role


def test_quota_names_that_volcano_writes_into_min_resources_are_left_out() -> None:
    of_quotas = {
        "pods": "2", "count/pods": "2", "cpu": "2", "requests.cpu": "2", "limits.cpu": "4", "limits.memory": "8Gi",
        "requests.nvidia.com/gpu": "2", "limits.nvidia.com/gpu": "2", "nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi",
        "requests.ephemeral-storage": "1Gi", "ephemeral-storage": "1Gi",
    }  # fmt: skip
    assert declared(volcano.read, {"minResources": of_quotas}).group.min_resources == {
        "pods": 2, "cpu": 2000, "nvidia.com/gpu": 2, "hugepages-2Mi": 4 << 20, "ephemeral-storage": 1 << 30
    }  # fmt: skip


def test_soft_topology_of_volcano_is_a_preference() -> None:
    spec: Json = {"minMember": 2, "networkTopology": {"mode": "soft", "highestTierAllowed": 1}}
    assert declared(volcano.read, spec).group.min_count == 2


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        pytest.param({"minMember": -1}, "spec.minMember: Invalid value: expected int >= 0", id="negative minMember"),
        pytest.param(
            {"minMember": "2"}, "spec.minMember: Invalid value: expected int | null, got str", id="minMember is text"
        ),
        pytest.param(
            {"minTaskMember": {"a": -1}},
            "spec.minTaskMember[...]: Invalid value: expected int >= 0",
            id="negative minTaskMember",
        ),
        pytest.param(
            {"minResources": {"cpu": "x"}},
            "spec.minResources: 'x' is not a quantity such as 500m, 2 or 1.5Gi",
            id="minResources",
        ),
        pytest.param(
            {"minResources": {"memory": "1Gi", "cpu": "-6"}},
            "spec.minResources[cpu]: Invalid value: must be greater than or equal to 0",
            id="negative minResources",
        ),
        pytest.param(
            {"networkTopology": {"mode": "firm"}},
            "spec.networkTopology.mode: Invalid value: invalid enum value 'firm'",
            id="mode of the topology",
        ),
        pytest.param(
            {"subGroupPolicy": [{"subGroupSize": 2}]},
            "spec.subGroupPolicy[0].name: Required value",
            id="name of a subgroup policy",
        ),
    ],
)
def test_rejection_of_a_volcano_pod_group_names_object_and_field(spec: Json, text: str) -> None:
    assert message(volcano.read, spec) == f"PodGroup default/g (scheduling.volcano.sh): {text}"


def test_all_fields_of_a_scheduler_plugins_pod_group_are_read() -> None:
    spec = {"minMember": 2, "minResources": {"cpu": "500m"}, "scheduleTimeoutSeconds": 30}
    assert declared(coscheduling.read, spec) == Declared(expected("scheduling.x-k8s.io", 2, min_resources={"cpu": 500}))


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param(None, "spec", id="no spec"),
        pytest.param({}, "spec.minMember", id="no minMember"),
        pytest.param({"minMember": 0}, "spec.minMember", id="minMember 0"),
        pytest.param({"minMember": True}, "spec.minMember", id="minMember is true"),
        pytest.param({"minMember": 1, "minResources": {"cpu": "x"}}, "spec.minResources", id="minResources"),
        pytest.param(
            {"minMember": 1, "minResources": {"cpu": "-6"}}, "spec.minResources[cpu]", id="negative minResources"
        ),
    ],
)
def test_rejection_of_a_scheduler_plugins_pod_group_names_object_and_field(spec: Any, field: str) -> None:
    text = f"PodGroup default/g (scheduling.x-k8s.io): {field}: missing or invalid value"
    assert message(coscheduling.read, spec) == text


@pytest.mark.parametrize("read", READERS)
def test_object_without_name_is_rejected(read: Read) -> None:
    found = read({"metadata": {}, "spec": {"minMember": 1, **GANG}})
    assert isinstance(found, Rejection)
    assert "metadata.name: Required value" in found.message


FIELDS = st.sampled_from([
    "schedulingPolicy", "gang", "basic", "minCount", "schedulingConstraints", "topology", "key", "disruptionMode",
    "priority", "priorityClassName", "preemptionPolicy", "minMember", "minTaskMember", "minResources", "cpu", "queue",
    "networkTopology", "mode", "subGroupPolicy", "scheduleTimeoutSeconds",
])  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "1", "1e999", "1Gi", "soft"])
VALUES = st.recursive(SCALARS, lambda part: st.lists(part, max_size=2) | st.dictionaries(FIELDS, part, max_size=3))


@given(spec=st.dictionaries(FIELDS, VALUES, max_size=6))
def test_any_spec_is_read_or_rejected(spec: Json) -> None:
    for read in READERS:
        found = read(pod_group(spec))
        assert isinstance(found, Rejection) or found.group.min_count >= 1
