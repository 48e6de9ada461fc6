"""Table rows as `kubectl get` shows them."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.embedded.columns.column import human
from pyscheduler.embedded.columns.custom import find
from pyscheduler.embedded.columns.pods import status_text
from pyscheduler.embedded.columns.table import TableView
from pyscheduler.embedded.history import Version

from .builders import START, START_TEXT, Cluster, Json, pod


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (330, "5m30s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (4 * 3600 + 300, "4h5m"),
        (20 * 3600, "20h"),
        (50 * 3600, "2d2h"),
        (20 * 86400, "20d"),
        (800 * 86400, "2y70d"),
        (-5, "<invalid>"),
    ],
)
def test_durations_have_the_format_of_kubectl(seconds: float, text: str) -> None:
    assert human(seconds) == text


def cells(cluster: Cluster, plural: str, obj: Json) -> list[Any]:
    resource = cluster.api.resource(*plural.split(".", 1))
    table = TableView(resource, START + 60).table([Version(("", "x"), obj, 1)], {})
    return list(table["rows"][0]["cells"])


def container(ready: bool = False, **state: Any) -> Json:
    return {"name": "c", "ready": ready, "restartCount": 0, "state": state}


def status(phase: str, *containers: Json, **more: Any) -> Json:
    return {"phase": phase, "containerStatuses": list(containers), **more}


RUNNING = container(True, running={})
GATED = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
INIT = [{"name": "i", "state": {"running": {}}, "ready": False}]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (status("Pending"), "Pending"),
        (status("Pending", conditions=[GATED]), "SchedulingGated"),
        (status("Pending", container(waiting={"reason": "ContainerCreating"})), "ContainerCreating"),
        (status("Pending", container(waiting={"reason": "ImagePullBackOff"})), "ImagePullBackOff"),
        (status("Running", RUNNING), "Running"),
        (status("Succeeded", container(terminated={"exitCode": 0, "reason": "Completed"})), "Completed"),
        (status("Failed", container(terminated={"exitCode": 1, "reason": "Error"})), "Error"),
        (status("Failed", container(terminated={"exitCode": 7})), "ExitCode:7"),
        (status("Failed", container(terminated={"signal": 9})), "Signal:9"),
        (status("Failed", reason="Evicted"), "Evicted"),
        (status("Running", container(terminated={"reason": "Completed"}), RUNNING), "NotReady"),
        (status("Pending", initContainerStatuses=INIT), "Init:0/1"),
    ],
)
def test_pod_status(given: Json, expected: str) -> None:
    obj = pod(initContainers=[{"name": "i"}]) if "initContainerStatuses" in given else pod()
    assert status_text({**obj, "status": given}) == expected


def test_pod_in_deletion_is_terminating() -> None:
    obj = pod()
    obj["metadata"]["deletionTimestamp"] = START_TEXT
    assert status_text({**obj, "status": status("Running", RUNNING)}) == "Terminating"
    assert status_text({**obj, "status": status("Running", RUNNING, reason="NodeLost")}) == "Unknown"


def test_pod_row() -> None:
    obj = {**pod(nodeName="n1"), "status": status("Running", RUNNING, podIP="10.0.0.1")}
    obj["metadata"]["creationTimestamp"] = START_TEXT
    row = cells(Cluster(), "pods", obj)
    assert row == ["p", "1/1", "Running", "0", "60s", "10.0.0.1", "n1", "<none>", "<none>"]


@pytest.mark.parametrize(
    ("plural", "obj", "expected"),
    [
        (
            "nodes",
            {"spec": {"unschedulable": True}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
            ["x", "Ready,SchedulingDisabled", "<none>", "60s", ""],
        ),
        (
            "deployments.apps",
            {"spec": {"replicas": 3}, "status": {"readyReplicas": 1, "updatedReplicas": 2}},
            ["x", "1/3", 2, 0, "60s"],
        ),
        ("replicasets.apps", {"spec": {"replicas": 3}, "status": {"replicas": 2}}, ["x", 3, 2, 0, "60s"]),
        (
            "jobs.batch",
            {"spec": {"completions": 2}, "status": {"succeeded": 1, "startTime": START_TEXT}},
            ["x", "Running", "1/2", "60s", "60s"],
        ),
        (
            "jobs.batch",
            {"spec": {"completions": 1}, "status": {"conditions": [{"type": "Complete", "status": "True"}]}},
            ["x", "Complete", "0/1", "", "60s"],
        ),
        (
            "leases.coordination.k8s.io",
            {"spec": {"holderIdentity": "me"}},
            ["x", "me", "60s"],
        ),
        ("limitranges", {}, ["x", "60s"]),
    ],
)
def test_rows_of_other_kinds(plural: str, obj: Json, expected: list[Any]) -> None:
    obj = {"kind": "Any", "metadata": {"name": "x", "creationTimestamp": START_TEXT}, **obj}
    assert cells(Cluster(), plural, obj)[: len(expected)] == expected


def test_event_row() -> None:
    event = {
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p"},
        "type": "Normal",
        "reason": "Scheduled",
        "message": " bound ",
        "lastTimestamp": START_TEXT,
    }
    row = cells(Cluster(), "events", event)
    assert [row[0], *row[1:4], row[6]] == ["60s", "Normal", "Scheduled", "pod/p", "bound"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".spec.a", [1]),
        (".spec['b-c']", [2]),
        (".list[1].v", ["y"]),
        (".list[*].v", ["x", "y"]),
        ('.list[?(@.t=="B")].v', ["y"]),
        (".none.a", []),
        ("spec", []),
        (".spec..a", []),
    ],
)
def test_jsonpaths_of_printer_columns(path: str, expected: list[Any]) -> None:
    obj = {"spec": {"a": 1, "b-c": 2}, "list": [{"t": "A", "v": "x"}, {"t": "B", "v": "y"}]}
    assert find(obj, path) == expected


UTILIZATION = {"type": "Utilization", "averageUtilization": 50}
AVERAGE, VALUE = {"type": "AverageValue", "averageValue": "10"}, {"type": "Value", "value": "10"}


@pytest.mark.parametrize(
    ("metrics", "current", "expected"),
    [
        ([("Resource", {"name": "cpu"}, UTILIZATION)], [{"averageUtilization": 90}], "cpu: 90%/50%"),
        ([("Resource", {"name": "cpu"}, UTILIZATION)], [], "cpu: <unknown>/50%"),
        ([("ContainerResource", {"name": "cpu"}, UTILIZATION)], [{"averageUtilization": 9}], "cpu: 9%/50%"),
        ([("Pods", {}, AVERAGE)], [{"averageValue": "7"}], "7/10"),
        ([("External", {}, AVERAGE)], [{"averageValue": "7"}], "7/10 (avg)"),
        ([("Object", {}, VALUE)], [{"value": "7"}], "7/10"),
        ([("Pods", {}, AVERAGE)] * 3, [{"averageValue": "7"}], "7/10, <unknown>/10 + 1 more..."),
    ],
)
def test_targets_of_an_autoscaler(metrics: list[Any], current: list[Json], expected: str) -> None:
    def source(kind: str) -> str:
        return f"{kind[:1].lower()}{kind[1:]}"

    listed = [{"type": kind, source(kind): {**named, "target": target}} for kind, named, target in metrics]
    shown = [{"type": "x", source(metrics[n][0]): {"current": value}} for n, value in enumerate(current)]
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "w"}, "maxReplicas": 3, "metrics": listed}
    body = {"kind": "Any", "metadata": {"name": "a"}, "spec": spec, "status": {"currentMetrics": shown}}
    assert expected in cells(Cluster(), "horizontalpodautoscalers.autoscaling", body)
