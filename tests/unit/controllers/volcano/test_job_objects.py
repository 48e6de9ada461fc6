"""Objects of a Volcano Job are those that Volcano creates."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pyscheduler.controllers.volcano import job_objects
from pyscheduler.controllers.volcano.job_spec import JobSpec, read_spec
from tests.unit.controllers.volcano.jobs import job, task

OWNER = {
    "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "job-uid", "controller": True,
    "blockOwnerDeletion": True,
}  # fmt: skip


def pod_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return pod 1 of the first task."""
    spec = read_spec(manifest)
    assert isinstance(spec, JobSpec)
    return job_objects.pod(manifest, spec, spec.tasks[0], 1, version=2, retries=1)


def spec_of(manifest: dict[str, Any]) -> JobSpec:
    spec = read_spec(manifest)
    assert isinstance(spec, JobSpec)
    return spec


def test_pod_has_the_metadata_of_its_job() -> None:
    manifest = job(task("a", 2), queue="q", priorityClassName="high")
    manifest["spec"]["tasks"][0]["template"]["metadata"] = {"labels": {"app": "x"}, "annotations": {"note": "y"}}
    made = pod_of(manifest)
    shared = {
        "volcano.sh/task-index": "1", "volcano.sh/task-spec": "a", "volcano.sh/job-name": "j",
        "volcano.sh/queue-name": "q",
    }  # fmt: skip
    assert made["metadata"] == {
        "name": "j-a-1",
        "namespace": "ns",
        "ownerReferences": [OWNER],
        "labels": {"app": "x", **shared, "volcano.sh/job-namespace": "ns"},
        "annotations": {
            "note": "y",
            **shared,
            "scheduling.k8s.io/group-name": "j-job-uid",
            "volcano.sh/job-version": "2",
            "volcano.sh/job-retry-count": "1",
            "volcano.sh/template-uid": "j-a",
        },
    }
    assert (made["spec"]["schedulerName"], made["spec"]["priorityClassName"]) == ("pyscheduler", "high")


def test_pod_has_the_zones_and_the_budget_of_its_job() -> None:
    manifest = job(task("a", 2))
    copied = {"volcano.sh/revocable-zone": "*", "volcano.sh/jdb-max-unavailable": "1"}
    manifest["metadata"]["annotations"] = {**copied, "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    annotations = pod_of(manifest)["metadata"]["annotations"]
    assert annotations.items() >= copied.items()
    assert "kubectl.kubernetes.io/last-applied-configuration" not in annotations


def test_template_is_not_changed_and_its_fields_are_kept() -> None:
    manifest = job(task("a", 2), priorityClassName="high", plugins={"svc": [], "env": []})
    spec = manifest["spec"]["tasks"][0]["template"]["spec"]
    spec |= {"schedulerName": "other", "priorityClassName": "low", "hostname": "h", "subdomain": "s"}
    before = copy.deepcopy(manifest)
    made = pod_of(manifest)["spec"]
    assert manifest == before
    assert [made[name] for name in spec if name != "containers"] == ["other", "low", "h", "s"]


@pytest.mark.parametrize(
    ("fields", "policy"),
    [({}, None), ({"hostNetwork": True}, "ClusterFirstWithHostNet"),
     ({"hostNetwork": True, "dnsPolicy": "Default"}, "Default")],
)  # fmt: skip
def test_pods_in_the_network_of_the_host_resolve_hosts_of_the_job(fields: dict[str, Any], policy: str | None) -> None:
    manifest = job(task("a", 2), plugins={"svc": []})
    manifest["spec"]["tasks"][0]["template"]["spec"] |= fields
    assert pod_of(manifest)["spec"].get("dnsPolicy") == policy


def test_plugin_env_adds_the_index() -> None:
    manifest = job(task("a", 2), plugins={"env": []})
    manifest["spec"]["tasks"][0]["template"]["spec"]["initContainers"] = [{"name": "init"}]
    made = pod_of(manifest)["spec"]
    expected = [{"name": "VK_TASK_INDEX", "value": "1"}, {"name": "VC_TASK_INDEX", "value": "1"}]
    assert [each["env"] for each in (*made["containers"], *made["initContainers"])] == [expected, expected]


def test_plugin_svc_gives_pods_their_hosts() -> None:
    manifest = job(task("a", 2), task("b-c", 1), plugins={"svc": []})
    made = pod_of(manifest)["spec"]
    assert (made["hostname"], made["subdomain"]) == ("j-a-1", "j")
    assert [each["name"] for each in made["containers"][0]["env"]] == [
        "VC_A_HOSTS", "VC_A_NUM", "VC_B_C_HOSTS", "VC_B_C_NUM",
    ]  # fmt: skip
    assert made["containers"][0]["volumeMounts"] == [{"name": "j-svc", "mountPath": "/etc/volcano"}]


def test_pod_group_has_the_labels_and_annotations_of_the_job() -> None:
    manifest = job(task("a", 2), minAvailable=1)
    manifest["metadata"] |= {
        "labels": {"app": "x"},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "y"},
    }
    spec = spec_of(manifest)
    group = job_objects.pod_group(manifest, spec, spec.tasks)
    assert (group["metadata"]["labels"], group["metadata"]["annotations"]) == ({"app": "x"}, {"note": "y"})
    assert group["spec"]["minMember"] == 1


def test_partitions_of_a_task_are_subgroups_of_the_pod_group() -> None:
    topology = {"mode": "hard", "highestTierAllowed": 1}
    partitions = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1, "networkTopology": topology}
    manifest = job(task("a", 4, partitionPolicy=partitions), task("b", 1), networkTopology={"mode": "soft"})
    spec = spec_of(manifest)
    pods = [job_objects.pod(manifest, spec, spec.tasks[0], i, version=0, retries=0) for i in range(4)]
    assert [each["metadata"]["labels"]["volcano.sh/partition-id"] for each in pods] == ["0", "0", "1", "1"]
    group = job_objects.pod_group(manifest, spec, spec.tasks)["spec"]
    assert group["networkTopology"] == {"mode": "soft"}
    assert group["subGroupPolicy"] == [
        {
            "name": "a",
            "subGroupSize": 2,
            "minSubGroups": 1,
            "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "a"}},
            "matchLabelKeys": ["volcano.sh/partition-id"],
            "networkTopology": topology,
        }
    ]


def test_lists_of_a_template_may_be_null() -> None:
    manifest = job(task("a", 2), plugins={"env": [], "svc": []})
    container = {"name": "main", "image": "app:1", "env": None, "volumeMounts": None}
    manifest["spec"]["tasks"][0]["template"] = {
        "metadata": {"labels": None, "annotations": None},
        "spec": {"containers": [container], "initContainers": None, "volumes": None},
    }
    made = pod_of(manifest)
    assert [each["name"] for each in made["spec"]["volumes"]] == ["j-svc"]
    assert [each["name"] for each in made["spec"]["containers"][0]["volumeMounts"]] == ["j-svc"]
    assert len(made["spec"]["containers"][0]["env"]) == 4
