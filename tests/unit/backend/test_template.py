"""The pod of a task: its name and its body."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api.objects import Toleration
from pyscheduler.backend import Gang, Resources, TaskProblem, TaskRecord, TaskSpec
from pyscheduler.backend.task import Json, check
from pyscheduler.backend.template import pod_body, pod_group, pod_name


def body(attempt: int = 1, **fields: Any) -> Json:
    return pod_body(TaskRecord(spec=TaskSpec(id="Nightly/7", **fields), attempt=attempt), "b", "ours")


def test_names_follow_from_the_task_and_no_two_tasks_share_one() -> None:
    assert pod_name("b", "Nightly/7", 2) == pod_name("b", "Nightly/7", 2)
    assert pod_name("b", "Nightly/7", 2).startswith("nightly-7-")
    names = {pod_name(b, t, a) for b in "bc" for t in ("a/b", "a-b", "A-B", "é", "") for a in (1, 2, 11)}
    assert len(names) == 30


@pytest.mark.parametrize("task", ["a" * 253, "-.-", "ÄÖÜ", "UPPER_case.and/more"])
def test_names_are_fit_for_hosts(task: str) -> None:
    name = pod_name("b", task, 999)
    assert len(name) <= 63
    assert all(c.isascii() and (c.isalnum() or c == "-") and not c.isupper() for c in name)
    assert name[0] != "-"


def test_the_short_form() -> None:
    found = body(
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
        gang=Gang(name="crew", size=2),
    )
    assert found["metadata"]["finalizers"] == ["pyscheduler.io/task"]
    assert found["metadata"]["annotations"] == {
        "pyscheduler.io/task-id": "Nightly/7",
        "pyscheduler.io/task-attempt": "1",
    }
    labels = found["metadata"]["labels"]
    assert (labels["pyscheduler.io/backend"], labels["pyscheduler.io/queue"]) == ("b", "night")
    assert labels["scheduling.x-k8s.io/pod-group"] == "crew"
    requests = {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1"}
    container = {
        "name": "task",
        "image": "busybox",
        "command": ["sh"],
        "args": ["-c", "true"],
        "env": [{"name": "A", "value": "1"}],
        "resources": {"requests": requests, "limits": {"nvidia.com/gpu": "1"}},
    }
    assert found["spec"] == {
        "containers": [container],
        "restartPolicy": "Never",
        "schedulerName": "ours",
        "priorityClassName": "low",
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
    }


def test_a_template_is_kept_and_added_to() -> None:
    template: Json = {
        "metadata": {"labels": {"app": "x"}, "finalizers": ["example.com/mine"]},
        "spec": {"schedulerName": "theirs", "restartPolicy": "OnFailure", "containers": [{"name": "c", "image": "x"}]},
    }
    found = body(pod=template, node_selector={"disk": "ssd"})
    assert found["metadata"]["labels"]["app"] == "x"
    assert found["metadata"]["finalizers"] == ["example.com/mine", "pyscheduler.io/task"]
    assert (found["spec"]["schedulerName"], found["spec"]["restartPolicy"]) == ("theirs", "OnFailure")
    assert template["spec"].keys() == {"schedulerName", "restartPolicy", "containers"}, "the owner's own is left alone"


def test_requests_of_both_forms() -> None:
    short = TaskSpec(id="t", image="x", cpu="500m", memory="1Gi")
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    long = TaskSpec(id="t", pod={"spec": {"containers": [container]}})
    assert short.requests() == long.requests() == Resources({"cpu": 500, "memory": 2**30, "pods": 1})


def test_the_group_of_a_gang() -> None:
    spec = TaskSpec(id="t", image="x", gang=Gang(name="crew", size=3, timeout_seconds=9))
    group = pod_group(spec, "b")
    assert group["spec"] == {"minMember": 3, "scheduleTimeoutSeconds": 9}
    assert group["metadata"] == {"name": "crew", "labels": {"pyscheduler.io/backend": "b"}}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        pytest.param({"id": "", "image": "x"}, "id must have", id="no id"),
        pytest.param({"id": "t"}, "give either pod or image", id="nothing to run"),
        pytest.param({"id": "t", "image": "x", "pod": {}}, "give either pod or image", id="two things to run"),
        pytest.param({"id": "t", "pod": {"spec": {}}, "cpu": "1"}, "go with image", id="cpu beside a template"),
        pytest.param({"id": "t", "pod": {"spec": {}}}, "pod.spec: .*containers", id="no containers"),
        pytest.param({"id": "t", "pod": {}}, "pod.spec", id="no spec"),
        pytest.param({"id": "t", "image": "x", "cpu": "a lot"}, "cpu: 'a lot'", id="no quantity"),
        pytest.param({"id": "t", "image": "x", "cpu": "-1"}, "cpu: -1", id="less than nothing"),
        pytest.param({"id": "t", "image": "x", "gang": Gang(name="g", size=0)}, "gang needs", id="an empty gang"),
        pytest.param({"id": "t", "image": "x", "pending_seconds": 0.0}, "above 0", id="no patience"),
    ],
)
def test_a_task_that_cannot_run_is_told_so(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(TaskProblem, match=says):
        check(TaskSpec(**fields))
