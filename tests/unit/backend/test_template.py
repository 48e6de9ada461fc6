"""Pod name, pod manifest and PodGroup of a task, and validation of its spec."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyscheduler.api.objects import Toleration
from pyscheduler.backend import Resources, RetryPolicy, TaskGang, TaskProblem, TaskRecord, TaskSpec
from pyscheduler.backend.task import Json, checked, decode_spec
from pyscheduler.backend.template import pod_body, pod_group, pod_name


def body(attempt: int = 1, **fields: Any) -> Json:
    return pod_body(TaskRecord(spec=TaskSpec(id="Nightly/7", **fields), attempt=attempt), "b", "ours")


def test_pod_names_are_deterministic_and_unique() -> None:
    assert pod_name("b", "Nightly/7", 2) == pod_name("b", "Nightly/7", 2)
    assert pod_name("b", "Nightly/7", 2).startswith("nightly-7-")
    names = {pod_name(b, t, a) for b in "bc" for t in ("a/b", "a-b", "A-B", "é", "") for a in (1, 2, 11)}
    assert len(names) == 30


@pytest.mark.parametrize("task", ["a" * 253, "-.-", "ÄÖÜ", "UPPER_case.and/more"])
def test_pod_names_are_valid_host_names(task: str) -> None:
    name = pod_name("b", task, 999)
    assert len(name) <= 63
    assert all(c.isascii() and (c.isalnum() or c == "-") and not c.isupper() for c in name)
    assert name[0] != "-"


def test_pod_of_a_task_in_short_form() -> None:
    manifest = body(
        image="busybox",
        command=("sh",),
        args=("-c", "true"),
        env={"A": "1"},
        cpu="500m",
        memory="1Gi",
        resources={"nvidia.com/gpu": "1"},
        queue="night",
        priority_class="low",
        node_selector={"disk": "ssd"},
        tolerations=(Toleration(key="spot", operator="Exists"),),
        gang=TaskGang(name="crew", size=2),
    )
    assert manifest["metadata"]["finalizers"] == ["pyscheduler.io/task"]
    assert manifest["metadata"]["annotations"] == {
        "pyscheduler.io/task-id": "Nightly/7",
        "pyscheduler.io/task-attempt": "1",
        "pyscheduler.io/task-containers": "task",
        "pyscheduler.io/pod-group-queue": "night",
    }
    labels = manifest["metadata"]["labels"]
    assert (labels["pyscheduler.io/backend"], labels["pyscheduler.io/queue"]) == ("b", "night")
    assert labels["scheduling.x-k8s.io/pod-group"] == "crew"
    requests = {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1"}
    container = {
        "name": "task",
        "image": "busybox",
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "command": ["sh"],
        "args": ["-c", "true"],
        "env": [{"name": "A", "value": "1"}],
        "resources": {"requests": requests, "limits": {"nvidia.com/gpu": "1"}},
    }
    assert manifest["spec"] == {
        "containers": [container],
        "restartPolicy": "Never",
        "schedulerName": "ours",
        "priorityClassName": "low",
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
    }


def test_pod_template_is_extended_and_not_modified() -> None:
    template: Json = {
        "metadata": {"labels": {"app": "x"}, "finalizers": ["example.com/mine"]},
        "spec": {"schedulerName": "theirs", "restartPolicy": "OnFailure", "containers": [{"name": "c", "image": "x"}]},
    }
    manifest = body(pod=template, node_selector={"disk": "ssd"})
    assert manifest["metadata"]["labels"]["app"] == "x"
    assert manifest["metadata"]["finalizers"] == ["example.com/mine", "pyscheduler.io/task"]
    assert (manifest["spec"]["schedulerName"], manifest["spec"]["restartPolicy"]) == ("theirs", "OnFailure")
    assert template["spec"].keys() == {"schedulerName", "restartPolicy", "containers"}, (
        "the owner's template is unchanged"
    )


def test_requests_of_short_form_and_template_are_equal() -> None:
    short = TaskSpec(id="t", image="x", cpu="500m", memory="1Gi")
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    long = TaskSpec(id="t", pod={"spec": {"containers": [container]}})
    assert short.requests() == long.requests() == Resources({"cpu": 500, "memory": 2**30, "pods": 1})


def test_fields_of_a_pod_manifest_that_never_differ_are_accepted() -> None:
    metadata = {"labels": {"a": "b"}, "creationTimestamp": None}
    spec = {"containers": [{"name": "c", "image": "x"}]}
    checked(TaskSpec(id="t", pod={"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param({"id": "t", "imag": "x"}, r"`imag` - at `\$`", id="spec"),
        pytest.param({"id": "t", "retry": {"aplication": 1}}, r"`aplication` - at `\$.retry`", id="retry"),
        pytest.param({"id": "t", "gang": {"name": "g", "sice": 1}}, r"`sice` - at `\$.gang`", id="gang"),
        pytest.param({"id": "t", "tolerations": [{"kee": "a"}]}, r"`kee` - at `\$.tolerations\[0\]`", id="toleration"),
    ],
)
def test_unknown_field_of_a_task_is_rejected_with_its_place(value: Json, message: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=message):
        decode_spec(value)


def test_record_with_fields_of_a_later_release_is_decoded() -> None:
    spec = {"id": "t", "image": "x", "colour": "red", "retry": {"application": 2, "jitter": 0.5}}
    decoded = msgspec.convert({"spec": spec, "mood": "good"}, TaskRecord)
    assert decoded == TaskRecord(spec=TaskSpec(id="t", image="x", retry=RetryPolicy(application=2)))


def test_task_names_its_queue_as_the_plugin_queues_reads_it() -> None:
    gang = TaskGang(name="crew", size=2)
    assert body(image="x", queue="night")["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] == "night"
    annotations = pod_group(TaskSpec(id="t", image="x", queue="night", gang=gang), "b")["metadata"]["annotations"]
    assert annotations == {"pyscheduler.io/pod-group-queue": "night"}


def test_secrets_service_account_and_main_container() -> None:
    container = {"name": "main", "image": "x"}
    template = {
        "spec": {"containers": [container, {**container, "name": "helper"}], "imagePullSecrets": [{"name": "a"}]}
    }
    manifest = body(pod=template, pull_secrets=("b",), service_account="etl", main_container="main")
    assert manifest["spec"]["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}]
    assert manifest["spec"]["serviceAccountName"] == "etl"
    assert manifest["metadata"]["annotations"]["pyscheduler.io/task-containers"] == "main"


def test_pod_group_of_a_gang() -> None:
    spec = TaskSpec(id="t", image="x", gang=TaskGang(name="crew", size=3, timeout_seconds=9))
    group = pod_group(spec, "b")
    assert group["spec"] == {"minMember": 3, "scheduleTimeoutSeconds": 9}
    assert group["metadata"] == {"name": "crew", "labels": {"pyscheduler.io/backend": "b"}, "annotations": {}}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({"id": "", "image": "x"}, "id must have", id="no id"),
        pytest.param({"id": "t"}, "give either pod or image", id="neither pod nor image"),
        pytest.param({"id": "t", "image": "x", "pod": {}}, "give either pod or image", id="pod and image"),
        pytest.param({"id": "t", "pod": {"spec": {}}, "cpu": "1"}, "require image", id="cpu with a template"),
        pytest.param({"id": "t", "pod": {"spec": {}}, "limits": {"cpu": "1"}}, "limits require image", id="limits"),
        pytest.param({"id": "t", "pod": {"spec": {}, "sepc": {}}}, "pod.sepc is not a field", id="template typo"),
        pytest.param(
            {"id": "t", "pod": {"metadata": {"name": "x"}}}, "pod.metadata.name is not a field", id="name in a template"
        ),
        pytest.param({"id": "t", "pod": {"metadata": []}}, "pod.metadata is not a field", id="metadata is a list"),
        pytest.param({"id": "t", "pod": {"metadata": {"labels": ["a"]}}}, r"pod: .*\.labels", id="labels are a list"),
        pytest.param({"id": "t", "pod": {"metadata": {"annotations": {"a": 1}}}}, r"\.annotations", id="number"),
        pytest.param({"id": "t", "pod": {"metadata": {"finalizers": 5}}}, r"\.finalizers", id="finalizers"),
        pytest.param({"id": "t", "pod": {"spec": {"imagePullSecrets": 5}}}, r"\.imagePullSecrets", id="secrets"),
        pytest.param({"id": "t", "image": "x", "owner": object()}, "cannot be stored as JSON", id="owner is an object"),
        pytest.param({"id": "t", "image": "x", "command": ("\udcff",)}, "cannot be stored as JSON", id="not UTF-8"),
        pytest.param({"id": "t", "pod": {"spec": {}}}, "pod.spec: .*containers", id="no containers"),
        pytest.param({"id": "t", "pod": {}}, "pod.spec", id="no spec"),
        pytest.param({"id": "t", "image": "x", "cpu": "a lot"}, "cpu: 'a lot'", id="invalid quantity"),
        pytest.param({"id": "t", "image": "x", "cpu": "-1"}, "cpu: -1", id="negative quantity"),
        pytest.param({"id": "t", "image": "x", "gang": TaskGang(name="g", size=0)}, "gang needs", id="empty gang"),
        pytest.param({"id": "t", "image": "x", "pending_seconds": 0.0}, "above 0", id="pending_seconds is 0"),
        pytest.param(
            {"id": "t", "image": "x", "command": "echo a"},
            r"'t': Expected `array`, got `str` - at `\$.command`",
            id="str",
        ),
        pytest.param(
            {"id": "t", "image": "x", "cpu": 2}, r"Expected `str`, got `int` - at `\$.cpu`", id="cpu is a number"
        ),
        pytest.param(
            {"id": "t", "image": "x", "env": {"A": 1}}, r"got `int` - at `\$.env\[...\]`", id="env is a number"
        ),
        pytest.param({"id": 7, "image": "x"}, r"task '7': Expected `str`, got `int` - at `\$.id`", id="id is a number"),
    ],
)
def test_invalid_spec_is_rejected(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskProblem, match=message):
        checked(TaskSpec(**fields))


def test_something_else_than_a_spec_is_rejected() -> None:
    with pytest.raises(TaskProblem, match="a task is a TaskSpec, not str"):
        checked("hello")  # type: ignore[arg-type]  # what an untyped caller passes


def test_spec_with_lists_equals_the_one_that_is_read_from_the_state() -> None:
    assert checked(TaskSpec(id="t", image="x", command=["a"])).command == ("a",)  # type: ignore[arg-type]
