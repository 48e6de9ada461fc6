"""Create: names, system fields, defaults, and rejected objects."""

from __future__ import annotations

from typing import Any

import pytest

from .builders import START_TEXT, Cluster, Json, api_error, config_map, fields_of, pod, workload


def test_new_object_has_system_fields() -> None:
    obj = Cluster().create("pods", pod(labels={"a": "b"}))
    meta = obj["metadata"]
    assert meta["uid"].startswith("uid-")
    assert meta["creationTimestamp"] == START_TEXT
    assert meta["generation"] == 1
    assert meta["namespace"] == "default"
    assert int(meta["resourceVersion"]) > 0


def test_new_pod_has_defaults() -> None:
    obj = Cluster().create("pods", pod())
    spec = obj["spec"]
    assert (spec["schedulerName"], spec["restartPolicy"], spec["serviceAccountName"]) == (
        "default-scheduler",
        "Always",
        "default",
    )
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert [t["key"].rpartition("/")[2] for t in spec["tolerations"]] == ["not-ready", "unreachable"]
    assert obj["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def with_resources(requests: Json, limits: Json) -> Json:
    obj = pod()
    obj["spec"]["containers"][0]["resources"] = {"requests": requests, "limits": limits}
    return obj


@pytest.mark.parametrize(
    ("requests", "limits", "expected"),
    [
        ({}, {}, "BestEffort"),
        ({"cpu": "0"}, {}, "BestEffort"),
        ({"cpu": 1}, {}, "Burstable"),
        ({}, {"cpu": 1, "memory": "1Gi"}, "Guaranteed"),
        ({"cpu": 1, "memory": "1024Mi"}, {"cpu": "1000m", "memory": "1Gi"}, "Guaranteed"),
        ({"cpu": "500m", "memory": "1Gi"}, {"cpu": 1, "memory": "1Gi"}, "Burstable"),
        ({}, {"cpu": 1}, "Burstable"),
        ({"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 1}, "BestEffort"),
    ],
)
def test_qos_class(requests: Json, limits: Json, expected: str) -> None:
    obj = Cluster().create("pods", with_resources(requests, limits))
    assert obj["status"]["qosClass"] == expected


@pytest.mark.parametrize(
    ("resources", "requests", "qos"),
    [
        pytest.param({"limits": {"cpu": 4, "memory": "8Gi"}}, {"cpu": "2", "memory": "8Gi"}, "Burstable", id="limits"),
        pytest.param(
            {"limits": {"cpu": "2", "memory": "8Gi", "hugepages-2Mi": "4Mi"}},
            {"cpu": "2", "memory": "8Gi", "hugepages-2Mi": "4Mi"},
            "Guaranteed",
            id="limits of what the containers request",
        ),
        pytest.param({"requests": {"cpu": "3000m"}}, {"cpu": "3"}, "Burstable", id="requests only"),
        pytest.param(
            {"requests": {"cpu": 1, "memory": 1}, "limits": {"cpu": 1, "memory": 1}},
            {"cpu": "1", "memory": "1"},
            "Guaranteed",
            id="both",
        ),
    ],
)
def test_pod_level_resources_have_requests_and_a_qos_class(resources: Json, requests: Json, qos: str) -> None:
    body = with_resources({"cpu": "2"}, {})
    body["spec"]["resources"] = resources
    obj = Cluster().create("pods", body)
    assert (obj["spec"]["resources"]["requests"], obj["status"]["qosClass"]) == (requests, qos)


def test_gated_pod_has_a_scheduling_gated_condition() -> None:
    obj = Cluster().create("pods", pod(schedulingGates=[{"name": "example.com/wait"}]))
    (condition,) = obj["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")
    assert condition["lastTransitionTime"] == START_TEXT


@pytest.mark.parametrize(
    ("name", "priority"), [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)]
)
def test_priority_is_that_of_the_priority_class(name: str, priority: int) -> None:
    assert Cluster().create("pods", pod(priorityClassName=name))["spec"]["priority"] == priority


def test_pod_without_priority_class_gets_the_global_default() -> None:
    cluster = Cluster()
    head: Json = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "usual"}}
    cluster.create("priorityclasses.scheduling.k8s.io", {**head, "value": 7, "globalDefault": True})
    spec = cluster.create("pods", pod())["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("usual", 7)


def test_unknown_priority_class_is_forbidden() -> None:
    error = api_error(lambda: Cluster().create("pods", pod(priorityClassName="none")))
    assert (error.code, error.reason) == (403, "Forbidden")
    assert "no PriorityClass with name none was found" in error.message


def without(obj: Json, *path: str) -> Json:
    *parents, last = path
    here: Any = obj
    for step in parents:
        here = here[step] if isinstance(here, dict) else here[int(step)]
    del here[last]
    return obj


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        (without(pod(), "metadata", "name"), "metadata.name"),
        (pod(name="Big_Name"), "metadata.name"),
        (pod(labels={"a": "not a label"}), "metadata.labels"),
        (pod(labels={"a b": "c"}), "metadata.labels"),
        (without(pod(), "spec", "containers"), "spec.containers"),
        (without(pod(), "spec", "containers", "0", "image"), "spec.containers[0].image"),
        (without(pod(), "spec", "containers", "0", "name"), "spec.containers[0].name"),
        (pod(containers=[{"name": "c", "image": "i"}] * 2), "spec.containers[1].name"),
        (pod(restartPolicy="Sometimes"), "spec.restartPolicy"),
        (with_resources({"cpu": "-1"}, {}), "spec.containers[0].resources.requests[cpu]"),
        (with_resources({"cpu": "2"}, {"cpu": "1"}), "spec.containers[0].resources.requests"),
        (pod(tolerations=[{"key": "a", "operator": "Is"}]), "spec.tolerations[0].operator"),
        (pod(tolerations=[{"key": "a", "effect": "Never"}]), "spec.tolerations[0].effect"),
        (pod(topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "z"}]), "whenUnsatisfiable"),
        (pod(nodeName="n1", schedulingGates=[{"name": "g"}]), "spec.nodeName"),
    ],
)
def test_invalid_pod_is_rejected_with_the_field(obj: Json, field: str) -> None:
    error = api_error(lambda: Cluster().create("pods", obj))
    assert fields_of(error)[0].endswith(field)
    assert error.body()["details"]["kind"] == "Pod"
    assert error.message.startswith("Pod ")


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        (with_resources({"cpu": "lots"}, {}), "'lots' is not a quantity"),
        (pod(containers="none"), "spec.containers: expected array, got str"),
        (pod(priority="high"), "spec.priority: expected int, got str"),
        ({**pod(), "kind": "Node"}, "does not match the expected kind"),
        ({**pod(), "apiVersion": "v2"}, "does not match the expected API version"),
        ([], "not an object"),
    ],
)
def test_malformed_object_is_a_bad_request(obj: Any, text: str) -> None:
    error = api_error(lambda: Cluster().create("pods", obj))
    assert error.code == 400
    assert text in error.message


def test_all_invalid_fields_are_reported_at_once() -> None:
    error = api_error(lambda: Cluster().create("pods", pod(containers=[{"name": "A"}])))
    assert fields_of(error) == ["spec.containers[0].name", "spec.containers[0].image"]
    assert error.message.startswith('Pod "p" is invalid: [')


def test_name_in_use_is_rejected() -> None:
    cluster = Cluster()
    cluster.create("pods", pod("x"))
    error = api_error(lambda: cluster.create("pods", pod("x")))
    assert (error.code, error.reason, error.message) == (409, "AlreadyExists", 'pods "x" already exists')


def test_generate_name_creates_unique_names() -> None:
    cluster = Cluster()
    first, second = (
        cluster.create("configmaps", {"metadata": {"generateName": "set-"}})["metadata"]["name"] for _ in range(2)
    )
    assert first.startswith("set-x")
    assert first != second


def test_create_in_a_missing_namespace_is_not_found() -> None:
    error = api_error(lambda: Cluster().create("pods", pod(), namespace="nowhere"))
    assert (error.code, error.message) == (404, 'namespaces "nowhere" not found')


def test_namespaces_of_object_and_request_must_match() -> None:
    obj = pod()
    obj["metadata"]["namespace"] = "other"
    assert api_error(lambda: Cluster().create("pods", obj)).code == 400


def test_system_fields_and_status_of_clients_are_ignored() -> None:
    obj = config_map()
    obj["metadata"] |= {"uid": "mine", "creationTimestamp": "2000-01-01T00:00:00Z"}
    stored = Cluster().create("configmaps", obj)
    assert stored["metadata"]["uid"] != "mine"
    assert stored["metadata"]["creationTimestamp"] == START_TEXT
    deployment = Cluster().create("deployments.apps", {**workload("Deployment"), "status": {"replicas": 5}})
    assert deployment["status"] == {}


def test_dry_run_stores_nothing() -> None:
    cluster = Cluster()
    assert cluster.create("pods", pod("x"), dry_run=True)["spec"]["priority"] == 0
    assert not cluster.exists("pods", "x")


def test_strict_validation_reports_unknown_fields() -> None:
    obj = pod(nodeNam="n1")
    obj["spec"]["containers"][0]["imagePullPolice"] = "Always"
    error = api_error(lambda: Cluster().create("pods", obj, validation="Strict"))
    assert error.code == 400
    assert 'unknown field "spec.containers[0].imagePullPolice"' in error.message
    assert 'unknown field "spec.nodeNam"' in error.message


def test_warn_validation_returns_unknown_fields_as_warnings() -> None:
    warnings: list[str] = []
    Cluster().create("pods", pod(nodeNam="n1"), validation="Warn", warn=warnings.append)
    assert warnings == ['unknown field "spec.nodeNam"']


def test_match_label_keys_are_merged_into_selectors() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
        "matchLabelKeys": ["hash", "absent"],
    }
    obj = Cluster().create("pods", pod(labels={"app": "a", "hash": "1"}, topologySpreadConstraints=[constraint]))
    selector = obj["spec"]["topologySpreadConstraints"][0]["labelSelector"]
    assert selector["matchExpressions"] == [{"key": "hash", "operator": "In", "values": ["1"]}]


@pytest.mark.parametrize(
    ("plural", "obj", "field"),
    [
        ("deployments.apps", workload("Deployment", selector=None), "spec.selector"),
        ("deployments.apps", workload("Deployment", replicas=-1), "spec.replicas"),
        ("deployments.apps", workload("Deployment", selector={"matchLabels": {"a": "z"}}), "template.metadata.labels"),
        ("deployments.apps", workload("Deployment", strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
         "spec.strategy.rollingUpdate"),
    ],
)  # fmt: skip
def test_invalid_workload_is_rejected_with_the_field(plural: str, obj: Json, field: str) -> None:
    obj["spec"] = {name: value for name, value in obj["spec"].items() if value is not None}
    assert fields_of(api_error(lambda: Cluster().create(plural, obj)))[0].endswith(field)


def test_job_gets_a_generated_selector() -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}
    obj = Cluster().create("jobs.batch", job)
    uid = obj["metadata"]["uid"]
    assert obj["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert obj["spec"]["template"]["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "j"
    assert (obj["spec"]["completions"], obj["spec"]["parallelism"], obj["spec"]["backoffLimit"]) == (1, 1, 6)


def test_string_data_of_secrets_is_merged_into_data() -> None:
    obj = Cluster().create("secrets", {"metadata": {"name": "s"}, "stringData": {"a": "b"}})
    assert obj["data"] == {"a": "Yg=="}
    assert "stringData" not in obj
