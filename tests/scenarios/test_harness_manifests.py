"""Test harness with manifests: what `apply`, `delete`, `condition` and `restart` of the simulated API server do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyscheduler.core.commands import Bind
from pyscheduler.testing import Harness
from tests.scenarios.fakes import LICENCE
from tests.scenarios.test_harness import config

Manifest = dict[str, Any]


def node_of(name: str, cpu: str = "1") -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi"}},
    }


def pod_of(name: str, cpu: str = "1", annotations: dict[str, str] | None = None, **spec: Any) -> Manifest:
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
    meta = {"name": name, **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container], **spec}}


def priority_class(name: str, value: int, **fields: Any) -> Manifest:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**kind, "metadata": {"name": name}, "value": value, **fields}


def one_node(*pods: Manifest) -> Harness:
    harness = Harness()
    harness.apply(node_of("n1"))
    for each in pods:
        harness.apply(each)
    harness.run()
    return harness


DOCUMENTS = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 1, memory: 1Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: team}
spec: {containers: [{name: main, image: app}]}
"""


def test_yaml_text_with_several_documents() -> None:
    harness = Harness()
    harness.apply(DOCUMENTS)
    harness.run()
    assert harness.bindings == {"team/a": "n1"}


def test_api_server_sets_identity_namespace_scheduler_and_priority() -> None:
    harness = Harness(config("Registers").replace("default-scheduler", "batch"))
    harness.apply(priority_class("high", 100, preemptionPolicy="Never"))
    harness.apply(pod_of("a", priorityClassName="high"))
    created = harness.pod("a")
    assert created is not None
    assert created["metadata"]["namespace"] == "default"
    assert created["metadata"]["creationTimestamp"] == "1970-01-01T00:16:40Z"
    assert created["metadata"]["uid"]
    wanted = {"schedulerName": "batch", "priority": 100, "preemptionPolicy": "Never"}
    assert wanted.items() <= created["spec"].items()


def test_requests_that_only_limits_state_are_set_for_each_container() -> None:
    harness = Harness()
    resources = {"requests": {"memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}
    container = {"name": "main", "image": "app:1", "resources": resources}
    harness.apply({**pod_of("a"), "spec": {"containers": [container, {"name": "idle"}], "initContainers": [container]}})
    created = harness.pod("a")
    assert created is not None
    for each in (created["spec"]["containers"][0], created["spec"]["initContainers"][0]):
        assert each["resources"]["requests"] == {"cpu": "2", "memory": "1Gi"}
    assert created["spec"]["containers"][1] == {"name": "idle"}
    assert resources["requests"] == {"memory": "1Gi"}, "the manifest is not changed"


def test_recreated_pod_has_another_uid_and_update_keeps_it() -> None:
    harness = one_node(pod_of("a"))
    first = harness.pods["default/a"].manifest["metadata"]["uid"]
    harness.apply(pod_of("a"))
    assert harness.pods["default/a"].manifest["metadata"]["uid"] == first
    harness.delete("Pod", "a")
    harness.apply(pod_of("a"))
    assert harness.pods["default/a"].manifest["metadata"]["uid"] != first


def test_update_of_a_bound_pod_keeps_node_and_status() -> None:
    harness = one_node(pod_of("a"))
    harness.apply({**pod_of("a"), "status": {"phase": "Succeeded"}})
    updated = harness.pods["default/a"].manifest
    assert updated["spec"]["nodeName"] == "n1"
    assert updated["status"]["phase"] == "Succeeded"
    assert updated["status"]["startTime"] == "1970-01-01T00:16:40Z"
    harness.apply(pod_of("b"))
    harness.run()
    assert harness.bindings == {"default/a": "n1", "default/b": "n1"}, "a has ended and uses no resources"


def test_global_default_priority_class() -> None:
    harness = Harness()
    harness.apply(priority_class("usual", 7, globalDefault=True))
    harness.apply(pod_of("a"))
    assert harness.pods["default/a"].manifest["spec"]["priority"] == 7


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        pytest.param({"apiVersion": "v1", "kind": "Pood", "metadata": {"name": "a"}}, "'Pood'", id="kind"),
        pytest.param({"apiVersion": "v7", "kind": "Pod", "metadata": {"name": "a"}}, "'v7'", id="apiVersion"),
        pytest.param({"apiVersion": "v1", "kind": "Pod"}, "Pod: metadata.name is required", id="name"),
        pytest.param(pod_of("a", cpu="many"), "Pod a: .*many", id="quantity of a pod"),
        pytest.param(node_of("n1", cpu="many"), "Node n1: .*many", id="quantity of a node"),
        pytest.param(pod_of("a", nodeSelector=["x"]), r"Pod a: Expected .*nodeSelector", id="type"),
        pytest.param(pod_of("a", priorityClassName="x"), "Pod a: no PriorityClass with name x", id="priority class"),
        pytest.param(pod_of("a", annotations={"pyscheduler.io/ends-after": "soon"}), "Pod a: .*'soon'", id="grace"),
        pytest.param("a: [", "not valid YAML", id="syntax"),
        pytest.param("just text", "'just text'", id="scalar"),
        pytest.param("", "no object", id="empty"),
    ],
)
def test_bad_manifest_is_named_and_not_stored(manifest: Manifest | str, message: str) -> None:
    harness = Harness()
    with pytest.raises(ValueError, match=message):
        harness.apply(manifest)
    assert harness.pods == {}
    assert harness.nodes == {}


def test_custom_resource_definition_makes_its_kind_known() -> None:
    harness = Harness()
    train = {"apiVersion": "example.com/v1", "kind": "Train", "metadata": {"name": "a"}}
    names = {"plural": "trains", "kind": "Train"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [{"name": "v1"}]}
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
    harness.apply({**definition, "metadata": {"name": "trains.example.com"}})
    harness.apply({**train, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    harness.apply(train)
    assert harness.condition("Train", "default/a", "Ready") == {"type": "Ready", "status": "True"}
    harness.delete("Train", "a")
    assert harness.condition("Train", "default/a", "Ready") is None


def test_applied_object_reaches_the_plugins_that_watch_it() -> None:
    harness = Harness(config("Licence"))
    licence = {"apiVersion": "example.com/v1", "kind": "Licence", "metadata": {"name": "cad"}, "spec": {"tokens": 1}}
    harness.apply(licence)
    assert harness.handle.objects[LICENCE]["", "cad"]["spec"] == {"tokens": 1}
    harness.delete("Licence", "cad")
    assert not harness.handle.objects[LICENCE]


def test_pod_groups_of_two_apis_are_told_apart_by_group() -> None:
    harness = Harness()
    for version in ("scheduling.k8s.io/v1beta1", "scheduling.volcano.sh/v1beta1"):
        harness.apply({"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "a"}})
    with pytest.raises(ValueError, match=r"several groups: scheduling.k8s.io, scheduling.volcano.sh"):
        harness.delete("PodGroup", "a")
    harness.delete("PodGroup.scheduling.k8s.io", "a")
    harness.delete("PodGroup", "a")
    with pytest.raises(ValueError, match="PodGroup a not found"):
        harness.delete("PodGroup", "a")


def test_condition_of_a_pod_is_the_one_written_last() -> None:
    harness = one_node(pod_of("a", cpu="2"))
    condition = harness.condition("Pod", "default/a", "PodScheduled")
    assert condition is not None
    assert condition["reason"] == "Unschedulable"
    assert condition["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    harness.apply(node_of("n2", cpu="2"))
    harness.advance(2)
    assert harness.condition("Pod", "default/a", "PodScheduled") == {"type": "PodScheduled", "status": "True"}
    assert harness.condition("Pod", "default/a", "DisruptionTarget") is None


def test_advance_attempts_pods_that_were_just_applied() -> None:
    harness = one_node()
    harness.apply(pod_of("a"))
    harness.advance(0)
    assert harness.bindings == {"default/a": "n1"}


def evicting(annotations: dict[str, str] | None = None) -> Harness:
    """Return a cluster in which a pod of priority 10 preempts another on the only node."""
    harness = one_node(pod_of("low", annotations=annotations))
    harness.apply(pod_of("high", priority=10))
    harness.run()
    return harness


def test_victim_ends_at_once() -> None:
    harness = evicting()
    assert harness.evictions == [(1000.0, "default/low")]
    assert harness.bindings == {}
    harness.advance(2)
    assert harness.bindings == {"default/high": "n1"}


def test_victim_ends_after_the_seconds_of_its_annotation() -> None:
    harness = evicting({"pyscheduler.io/ends-after": "90"})
    assert harness.evictions == [(1000.0, "default/low")]
    target = harness.condition("Pod", "default/low", "DisruptionTarget")
    assert target is not None
    assert target["status"] == "True"
    harness.advance(89)
    assert harness.bindings == {"default/low": "n1"}
    harness.advance(1)
    assert harness.bindings == {"default/high": "n1"}
    assert len(harness.evictions) == 1


def test_recreated_pod_does_not_end_with_its_terminating_predecessor() -> None:
    harness = evicting({"pyscheduler.io/ends-after": "90"})
    harness.delete("Pod", "low")
    harness.apply(pod_of("low"))
    harness.advance(100)
    assert "default/low" in harness.pods


def test_restart_keeps_accepted_bindings_and_loses_others() -> None:
    harness = one_node(pod_of("a"))
    harness.complete_bindings = False
    harness.apply(node_of("n2"))
    harness.apply(pod_of("b"))
    harness.run()
    before = harness.machine
    harness.restart()
    harness.complete_bindings = True
    assert harness.machine is not before
    assert harness.bindings == {"default/a": "n1"}
    harness.run()
    assert harness.bindings == {"default/a": "n1", "default/b": "n2"}


def test_restart_loses_a_binding_whose_api_call_was_not_made() -> None:
    harness = Harness(config("Slow"))
    harness.apply(node_of("n1"))
    harness.apply({**pod_of("a"), "metadata": {"name": "a", "labels": {"slow": "yes"}}})
    harness.run()
    assert harness.bindings == {}
    harness.restart()
    harness.run()
    assert len([each for each in harness.commands if isinstance(each, Bind)]) == 2


def test_restarted_scheduler_lists_the_objects() -> None:
    harness = Harness(config("Licence"))
    harness.apply(
        {"apiVersion": "example.com/v1", "kind": "Licence", "metadata": {"name": "cad"}, "spec": {"tokens": 1}}
    )
    harness.restart()
    assert harness.handle.objects[LICENCE]["", "cad"]["spec"] == {"tokens": 1}


def test_terminating_victims_end_after_a_restart() -> None:
    harness = evicting({"pyscheduler.io/ends-after": "90"})
    harness.restart()
    harness.advance(90)
    assert harness.bindings == {"default/high": "n1"}
    assert len(harness.evictions) == 1


@pytest.mark.parametrize("as_text", [True, False])
def test_configuration_is_read_from_a_file(tmp_path: Path, as_text: bool) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(config("TakesToken").replace("default-scheduler", "from-file"))
    harness = Harness(str(path) if as_text else path)
    assert list(harness.machine.context.profiles) == ["from-file"]
