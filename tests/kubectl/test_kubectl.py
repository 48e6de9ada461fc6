"""Common kubectl commands against the embedded server. Each test uses objects of its own."""

from __future__ import annotations

import json

import pytest
import yaml

from .conftest import Kubectl


def deployment(name: str, image: str = "image:1", replicas: int = 2) -> str:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return yaml.safe_dump({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec})


def pod(name: str, **spec: object) -> str:
    containers = [{"name": "main", "image": "image:1", "resources": {"requests": {"cpu": "100m"}}}]
    body = {"containers": containers, **spec}
    return yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body})


def node(name: str) -> str:
    status = {
        "capacity": {"cpu": 4, "memory": "32Gi", "pods": 110},
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"kubeletVersion": "v1.37.2"},
    }
    return yaml.safe_dump({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status})


def field(kubectl: Kubectl, kind: str, name: str, path: str) -> str:
    return kubectl("get", kind, name, "-o", f"jsonpath={{{path}}}")


def test_get_pods_has_the_usual_columns(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=pod("shown", nodeName="somewhere"))
    header, row = kubectl("get", "pods", "shown", "-o", "wide").splitlines()
    assert header.split() == [
        *("NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE", "NOMINATED", "NODE", "READINESS", "GATES")
    ]
    assert row.split()[:4] == ["shown", "0/1", "Pending", "0"]
    assert row.split()[6] == "somewhere"


def test_create_rejects_existing_and_invalid_objects(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=pod("once"))
    assert 'pods "once" already exists' in kubectl.error_of("create", "-f", "-", stdin=pod("once"))
    wrong = kubectl.error_of("create", "-f", "-", stdin=pod("wrong", restartPolicy="Sometimes"))
    assert 'The Pod "wrong" is invalid: spec.restartPolicy: Unsupported value: "Sometimes"' in wrong
    typo = kubectl.error_of("create", "-f", "-", stdin=pod("typo", schedulerNam="x"))
    assert 'strict decoding error: unknown field "spec.schedulerNam"' in typo


def test_client_side_apply_creates_and_updates(kubectl: Kubectl) -> None:
    assert "created" in kubectl("apply", "-f", "-", stdin=deployment("applied"))
    assert "unchanged" in kubectl("apply", "-f", "-", stdin=deployment("applied"))
    assert "configured" in kubectl("apply", "-f", "-", stdin=deployment("applied", "image:2", 3))
    assert field(kubectl, "deployment", "applied", ".spec.template.spec.containers[*].image") == "image:2"
    assert field(kubectl, "deployment", "applied", [".spec.replicas", ".metadata.generation"][0]) == "3"
    assert field(kubectl, "deployment", "applied", ".metadata.generation") == "2"


def test_server_side_apply_reports_conflicts(kubectl: Kubectl) -> None:
    for _ in range(2):
        assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", stdin=deployment("owned"))
    kubectl("scale", "deployment", "owned", "--replicas=5")
    conflict = kubectl.error_of("apply", "--server-side", "-f", "-", stdin=deployment("owned"))
    assert "conflict with" in conflict
    assert ".spec.replicas" in conflict
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=deployment("owned", replicas=4))
    assert field(kubectl, "deployment", "owned", ".spec.replicas") == "4"


def test_migration_from_client_side_to_server_side_apply(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=deployment("moved"))
    kubectl("apply", "--server-side", "-f", "-", stdin=deployment("moved", "image:2"))
    kubectl("apply", "-f", "-", stdin=deployment("moved", "image:3"))
    assert field(kubectl, "deployment", "moved", ".spec.template.spec.containers[0].image") == "image:3"


def test_describe(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=node("described"))
    kubectl("create", "-f", "-", stdin=pod("described", nodeName="described"))
    kubectl("create", "-f", "-", stdin=deployment("described"))
    pod_description = kubectl("describe", "pod", "described")
    assert "QoS Class:        Burstable" in pod_description
    node_description = kubectl("describe", "node", "described")
    assert "default                     described    100m (2%)" in node_description
    assert "Replicas:               2 desired" in kubectl("describe", "deployment", "described")


def test_scale(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "scaled", "--image=image:1")
    kubectl("scale", "deployment", "scaled", "--replicas=7", "--current-replicas=1")
    assert field(kubectl, "deployment", "scaled", ".spec.replicas") == "7"
    assert "READY" in kubectl("get", "deployment", "scaled")


def test_label_annotate_and_patch(kubectl: Kubectl) -> None:
    kubectl("run", "changed", "--image=image:1")
    kubectl("label", "pod", "changed", "tier=front")
    kubectl("annotate", "pod", "changed", "note=hello")
    kubectl("patch", "pod", "changed", "-p", '{"metadata":{"labels":{"a":"1"}}}')
    kubectl("patch", "pod", "changed", "--type=merge", "-p", '{"metadata":{"labels":{"b":"2"}}}')
    kubectl("patch", "pod", "changed", "--type=json", "-p", '[{"op":"add","path":"/metadata/labels/c","value":"3"}]')
    kubectl("label", "pod", "changed", "tier-")
    labels = json.loads(kubectl("get", "pod", "changed", "-o", "json"))["metadata"]["labels"]
    assert labels == {"run": "changed", "a": "1", "b": "2", "c": "3"}
    assert "changed" in kubectl("get", "pods", "-l", "a in (1,2),!tier", "-o", "name")
    fixed = kubectl.error_of("patch", "pod", "changed", "-p", '{"spec":{"nodeName":"n"}}')
    assert "pod updates may not change fields other than" in fixed


def test_cordon_taint_and_drain(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=node("drained"))
    kubectl("cordon", "drained")
    assert "Ready,SchedulingDisabled" in kubectl("get", "node", "drained")
    kubectl("uncordon", "drained")
    kubectl("taint", "node", "drained", "dedicated=me:NoSchedule")
    assert field(kubectl, "node", "drained", ".spec.taints[0].key") == "dedicated"
    kubectl("create", "-f", "-", stdin=pod("leaving", nodeName="drained", terminationGracePeriodSeconds=0))
    assert "pod/leaving evicted" in kubectl("drain", "drained", "--force", "--ignore-daemonsets")
    assert "not found" in kubectl.error_of("get", "pod", "leaving")


def test_delete_waits_until_the_object_is_removed(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=deployment("doomed"))
    assert 'deployment.apps "doomed" deleted' in kubectl("delete", "deployment", "doomed")
    assert 'deployments.apps "doomed" not found' in kubectl.error_of("get", "deployment", "doomed")


def test_namespace_is_deleted_with_its_contents(kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "team")
    kubectl("create", "configmap", "settings", "-n", "team", "--from-literal=a=b")
    assert "settings" in kubectl("get", "configmaps", "-n", "team")
    kubectl("delete", "namespace", "team")
    assert 'namespaces "team" not found' in kubectl.error_of("create", "configmap", "x", "-n", "team")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("logs", "silent"), "hollow nodes run no containers, so there are no logs"),
        (("exec", "silent", "--", "ls"), "hollow nodes run no containers"),
    ],
)
def test_commands_that_need_containers_fail_with_reason(kubectl: Kubectl, words: tuple[str, ...], text: str) -> None:
    kubectl("apply", "-f", "-", stdin=pod("silent"))
    assert text in kubectl.error_of(*words)


def test_get_with_watch_prints_changes(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=pod("watched"))
    watching = kubectl.start("get", "pods", "-w", "--field-selector", "metadata.name=watched")
    try:
        assert watching.stdout is not None
        rows = [watching.stdout.readline().split() for _ in range(2)]  # the watch is open after the first row
        kubectl("label", "pod", "watched", "seen=yes")
        rows += [watching.stdout.readline().split()]
    finally:
        watching.kill()
        watching.communicate()
    assert rows[0][:3] == ["NAME", "READY", "STATUS"]
    assert [row[:3] for row in rows[1:]] == [["watched", "0/1", "Pending"]] * 2


def test_events_are_listed(kubectl: Kubectl) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "scheduled.1"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "scheduled"},
        "reason": "Scheduled",
        "message": "Successfully assigned default/scheduled to n1",
        "type": "Normal",
        "lastTimestamp": "2024-01-01T00:00:00Z",
    }
    kubectl("create", "-f", "-", stdin=json.dumps(event))
    assert "Successfully assigned" in kubectl("get", "events", "--field-selector", "involvedObject.name=scheduled")
    assert "Successfully assigned" in kubectl("events", "--for", "pod/scheduled")


def test_discovery_version_and_permissions(kubectl: Kubectl) -> None:
    served = kubectl("api-resources", "--no-headers")
    for name in ("pods", "leases", "poddisruptionbudgets", "resourceclaims", "customresourcedefinitions"):
        assert f"{name} " in served
    assert "Server Version: v1.37" in kubectl("version")
    assert kubectl("auth", "can-i", "create", "pods").strip() == "yes"


def test_kubectl_create_of_typed_objects_in_protobuf(kubectl: Kubectl) -> None:
    kubectl("create", "job", "counted", "--image=image:1", "--", "count")
    assert field(kubectl, "job", "counted", ".spec.template.spec.containers[0].command[0]") == "count"
    kubectl("create", "cronjob", "nightly", "--image=image:1", "--schedule=0 0 * * *")
    kubectl("create", "priorityclass", "urgent", "--value=1000")
    kubectl("create", "poddisruptionbudget", "keep", "--min-available=50%", "--selector=app=x")
    assert field(kubectl, "poddisruptionbudget", "keep", ".spec.minAvailable") == "50%"
    kubectl("create", "deployment", "none", "--image=image:1", "--replicas=0")
    assert field(kubectl, "deployment", "none", ".spec.replicas") == "0"


def test_custom_resources_have_printer_columns(kubectl: Kubectl) -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    column = {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "boxes", "kind": "Box", "shortNames": ["bx"]},
        "versions": [{**version, "additionalPrinterColumns": [column]}],
    }
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    kubectl("apply", "-f", "-", stdin=json.dumps({**head, "metadata": {"name": "boxes.example.com"}, "spec": spec}))
    kubectl("wait", "--for=condition=Established", "crd/boxes.example.com", "--timeout=60s")
    box = {"apiVersion": "example.com/v1", "kind": "Box", "metadata": {"name": "b"}, "spec": {"size": 3}}
    for words in (("apply",), ("apply",), ("apply", "--server-side", "--force-conflicts")):
        kubectl(*words, "-f", "-", stdin=json.dumps(box))
    header, row = kubectl("get", "bx").splitlines()
    assert (header.split(), row.split()) == (["NAME", "SIZE"], ["b", "3"])
    wrong = json.dumps({**box, "spec": {"size": "big"}})
    assert "spec.size: Invalid value" in kubectl.error_of("apply", "-f", "-", stdin=wrong)
