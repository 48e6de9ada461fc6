"""Compilation of operations into an initial state, pending pods and steps."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench.manifests import Batch
from bench.program import Barrier, Churn, Create, Delete, Pods, Sleep, Update
from tests.unit.bench.cases import program

NODES = "{opcode: createNodes, count: 3}"
MEASURED = "{opcode: createPods, count: 2, collectMetrics: true}"


def objects(batch: Batch) -> list[Any]:
    """Return the objects of a batch."""
    return [json.loads(batch.body_of(number)) for number in range(batch.count)]


def test_pods_that_are_not_measured_are_bound_round_robin() -> None:
    result = program(f"[{NODES}, {{opcode: createPods, count: 2}}, {{opcode: createPods, count: 2}}, {MEASURED}]")

    placed = [pod["spec"]["nodeName"] for batch in result.shared for pod in objects(batch)]
    assert placed == ["node-0", "node-1", "node-2", "node-0"]
    assert [batch.path for batch in result.shared] == [f"/api/v1/namespaces/namespace-{i}/pods" for i in (1, 2)]


def test_measured_and_pending_pods_are_for_the_scheduler() -> None:
    result = program(f"[{NODES}, {{opcode: createPods, count: 1, skipWaitToCompletion: true}}, {MEASURED}]")

    waiting, measured = result.pending
    assert not result.shared
    assert result.measured == {"namespace-2/object-2-0", "namespace-2/object-2-1"}
    assert [waiting.measured, measured.measured] == [False, True]
    assert objects(measured.batch.for_scheduler("ours"))[1]["spec"]["schedulerName"] == "ours"


def test_count_param_is_the_workloads_parameter() -> None:
    result = program(f"[{{opcode: createNodes, countParam: $nodes}}, {MEASURED}]", nodes=2)

    assert result.node_names == ["node-0", "node-1"]


def test_pods_are_members_of_groups_in_turn() -> None:
    annotations = {"group": "{{.Group}}", "size": "{{.GroupSize}}"}
    template = json.dumps({"kind": "Pod", "metadata": {"annotations": annotations}, "spec": {}})
    pods = f"{{opcode: createPods, count: 4, groupsParam: $groups, collectMetrics: true, podTemplate: {template}}}"
    result = program(f"[{NODES}, {pods}]", groups=2)

    found = [pod["metadata"]["annotations"] for pod in objects(result.pending[0].batch)]
    assert found == [{"group": f"group-{i % 2}", "size": "2"} for i in range(4)]


def test_fewer_pods_than_groups_are_groups_of_one_pod() -> None:
    template = json.dumps({"kind": "Pod", "metadata": {"annotations": {"size": "{{.GroupSize}}"}}, "spec": {}})
    pods = f"{{opcode: createPods, count: 3, groupsParam: $groups, collectMetrics: true, podTemplate: {template}}}"
    result = program(f"[{NODES}, {pods}]", groups=10_000)

    assert [pod["metadata"]["annotations"]["size"] for pod in objects(result.pending[0].batch)] == ["1"] * 3


def test_node_labels_are_round_robin_or_the_nodes_name() -> None:
    strategy = "labelNodePrepareStrategy: {labelKey: zone, labelValues: [a, b]}"
    unique = "uniqueNodeLabelStrategy: {labelKey: own}"
    result = program(f"[{{opcode: createNodes, count: 3, {strategy}, {unique}}}, {MEASURED}]")

    labels = [node["metadata"]["labels"] for node in objects(result.nodes[0])]
    assert [each["zone"] for each in labels] == ["a", "b", "a"]
    assert [each["own"] for each in labels] == [each["kubernetes.io/hostname"] for each in labels] == result.node_names


def test_nodes_with_a_csi_driver_have_capacity_and_limit() -> None:
    strategy = "{nodeAllocatable: {volumes: '2'}, csiNodeAllocatable: {a.driver: {count: 2}}, migratedPlugins: [old]}"
    result = program(f"[{{opcode: createNodes, count: 2, nodeAllocatableStrategy: {strategy}}}, {MEASURED}]")

    assert objects(result.nodes[0])[0]["status"]["capacity"]["volumes"] == "2"
    csi_node = objects(result.shared[0])[1]
    assert csi_node["metadata"]["name"] == csi_node["spec"]["drivers"][0]["nodeID"] == "node-1"
    assert csi_node["spec"]["drivers"][0]["allocatable"] == {"count": 2}
    assert csi_node["metadata"]["annotations"] == {"storage.alpha.kubernetes.io/migrated-plugins": "old"}


def test_pod_with_a_claim_gets_a_bound_volume() -> None:
    spec = "spec: {accessModes: [ReadOnlyMany]}"
    templates = (
        f"persistentVolumeTemplate: {{kind: PersistentVolume, {spec}}},"
        f" persistentVolumeClaimTemplate: {{kind: PersistentVolumeClaim, {spec}}}"
    )
    result = program(f"[{NODES}, {{opcode: createPods, count: 2, collectMetrics: true, namespace: ns, {templates}}}]")

    volumes, claims = result.shared
    [pods] = result.pending
    volume, claim, pod = (objects(batch)[1] for batch in (volumes, claims, pods.batch))
    used = pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
    assert used == claim["metadata"]["name"] == volume["spec"]["claimRef"]["name"]
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
    assert claim["metadata"]["annotations"] == {"pv.kubernetes.io/bind-completed": "yes"}


def test_pod_sets_are_equal_pods_in_each_namespace() -> None:
    sets = "{opcode: createPodSets, count: 2, namespacePrefix: team, createPodsOp: {opcode: createPods, count: 1}}"
    labels = "namespaceTemplate: {metadata: {labels: {team: a}}}"
    result = program(f"[{NODES}, {{opcode: createNamespaces, count: 2, prefix: team, {labels}}}, {sets}, {MEASURED}]")

    assert result.namespaces == {"team-0": {"team": "a"}, "team-1": {"team": "a"}, "namespace-3": {}}
    assert [pod["spec"]["nodeName"] for batch in result.shared for pod in objects(batch)] == [
        "node-0",
        "node-1",
    ]


def test_churn_and_deletions_start_with_the_scheduler() -> None:
    churn = "{opcode: churn, mode: create, intervalMilliseconds: 200, templates: [{kind: Service, spec: {}}]}"
    delete = "{opcode: deletePods, namespace: old, deletePodsPerSecond: 5, labelSelector: {a: b}}"
    result = program(f"[{NODES}, {churn}, {delete}, {MEASURED}]")

    assert [pods.measured for pods in result.pending] == [True]
    [churned, deleted] = result.steps
    assert isinstance(churned, Churn)
    assert (churned.interval, churned.recreate, churned.batches[0].name_of(7)) == (0.2, False, "service-churn-1-7")
    assert deleted == Delete("old", "a=b", 5.0, wait=True)


def test_operations_after_a_barrier_run_beside_the_scheduler() -> None:
    update = "{opcode: updateAny, count: 2, template: {kind: Node, metadata: {name: 'node-{{.Index}}'}, spec: {}}}"
    sleep = "{opcode: sleep, duration: 250ms}"
    barrier = "{opcode: barrier, stageRequirement: Attempted, namespaces: [a]}"
    later = "{opcode: createPods, count: 1, namespace: b}"
    result = program(f"[{NODES}, {MEASURED}, {barrier}, {NODES.replace('3', '1')}, {later}, {update}, {sleep}]")

    first, nodes, pods, updated, last = result.steps
    assert first == Barrier(True, ["a"], {})
    assert isinstance(nodes, Create)
    assert isinstance(nodes.what, Batch)
    assert isinstance(pods, Create)
    assert isinstance(pods.what, Pods)
    assert pods.wait
    assert isinstance(updated, Update)
    assert updated.batch.names() == ["node-0", "node-1"]
    assert last == Sleep(0.25)


def test_matching_pods_between_start_and_stop_are_measured() -> None:
    start = "{opcode: startCollectingMetrics, namespaces: [a], labelSelector: {app: web}}"
    pods = [f"{{opcode: createPods, count: 1, namespace: {name}, skipWaitToCompletion: true}}" for name in "aba"]
    result = program(f"[{NODES}, {start}, {pods[0]}, {pods[1]}, {{opcode: stopCollectingMetrics}}, {pods[2]}]")

    assert [each.measured for each in result.pending] == [True, False, False]


@pytest.mark.parametrize(
    ("namespaces", "labels", "fits"),
    [
        ([], {}, True),
        (["a", "b"], {"app": "web"}, True),
        (["b"], {}, False),
        ([], {"app": "other"}, False),
        ([], {"app": "web", "tier": "front"}, False),
    ],
)
def test_barrier_waits_for_pods_of_its_namespaces_and_labels(
    namespaces: list[str], labels: dict[str, str], fits: bool
) -> None:
    [pods] = program(f"[{NODES}, {MEASURED.replace('}', ', namespace: a}')}]").pending

    assert pods.fits(namespaces, labels) == fits
