"""From operations to what is there before, what is made for each turn, and what happens meanwhile."""

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
    """What is sent."""
    return [json.loads(batch.body_of(number)) for number in range(batch.count)]


def test_pods_that_are_not_measured_lie_on_nodes_in_turn() -> None:
    made = program(f"[{NODES}, {{opcode: createPods, count: 2}}, {{opcode: createPods, count: 2}}, {MEASURED}]")

    placed = [pod["spec"]["nodeName"] for batch in made.shared for pod in objects(batch)]
    assert placed == ["node-0", "node-1", "node-2", "node-0"]
    assert [batch.path for batch in made.shared] == [f"/api/v1/namespaces/namespace-{i}/pods" for i in (1, 2)]


def test_measured_pods_and_those_that_may_wait_are_for_the_scheduler() -> None:
    made = program(f"[{NODES}, {{opcode: createPods, count: 1, skipWaitToCompletion: true}}, {MEASURED}]")

    waiting, measured = made.pending
    assert not made.shared
    assert made.measured == {"namespace-2/object-2-0", "namespace-2/object-2-1"}
    assert [waiting.measured, measured.measured] == [False, True]
    assert objects(measured.batch.for_scheduler("ours"))[1]["spec"]["schedulerName"] == "ours"


def test_parameters_are_the_workloads() -> None:
    made = program(f"[{{opcode: createNodes, countParam: $nodes}}, {MEASURED}]", nodes=2)

    assert made.node_names == ["node-0", "node-1"]


def test_nodes_get_labels_in_turn_and_their_own_name() -> None:
    strategy = "labelNodePrepareStrategy: {labelKey: zone, labelValues: [a, b]}"
    unique = "uniqueNodeLabelStrategy: {labelKey: me}"
    made = program(f"[{{opcode: createNodes, count: 3, {strategy}, {unique}}}, {MEASURED}]")

    labels = [node["metadata"]["labels"] for node in objects(made.nodes[0])]
    assert [each["zone"] for each in labels] == ["a", "b", "a"]
    assert [each["me"] for each in labels] == [each["kubernetes.io/hostname"] for each in labels] == made.node_names


def test_nodes_with_a_driver_have_room_and_a_limit() -> None:
    strategy = "{nodeAllocatable: {volumes: '2'}, csiNodeAllocatable: {a.driver: {count: 2}}, migratedPlugins: [old]}"
    made = program(f"[{{opcode: createNodes, count: 2, nodeAllocatableStrategy: {strategy}}}, {MEASURED}]")

    assert objects(made.nodes[0])[0]["status"]["capacity"]["volumes"] == "2"
    csi_node = objects(made.shared[0])[1]
    assert csi_node["metadata"]["name"] == csi_node["spec"]["drivers"][0]["nodeID"] == "node-1"
    assert csi_node["spec"]["drivers"][0]["allocatable"] == {"count": 2}
    assert csi_node["metadata"]["annotations"] == {"storage.alpha.kubernetes.io/migrated-plugins": "old"}


def test_a_pod_with_a_claim_has_one_that_is_bound_to_a_volume_of_its_own() -> None:
    spec = "spec: {accessModes: [ReadOnlyMany]}"
    templates = (
        f"persistentVolumeTemplate: {{kind: PersistentVolume, {spec}}},"
        f" persistentVolumeClaimTemplate: {{kind: PersistentVolumeClaim, {spec}}}"
    )
    made = program(f"[{NODES}, {{opcode: createPods, count: 2, collectMetrics: true, namespace: ns, {templates}}}]")

    volumes, claims = made.shared
    [pods] = made.pending
    volume, claim, pod = (objects(batch)[1] for batch in (volumes, claims, pods.batch))
    used = pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
    assert used == claim["metadata"]["name"] == volume["spec"]["claimRef"]["name"]
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
    assert claim["metadata"]["annotations"] == {"pv.kubernetes.io/bind-completed": "yes"}


def test_pod_sets_are_the_same_pods_in_each_namespace() -> None:
    sets = "{opcode: createPodSets, count: 2, namespacePrefix: team, createPodsOp: {opcode: createPods, count: 1}}"
    labels = "namespaceTemplate: {metadata: {labels: {team: a}}}"
    made = program(f"[{NODES}, {{opcode: createNamespaces, count: 2, prefix: team, {labels}}}, {sets}, {MEASURED}]")

    assert made.namespaces == {"team-0": {"team": "a"}, "team-1": {"team": "a"}, "namespace-3": {}}
    assert [pod["spec"]["nodeName"] for batch in made.shared for pod in objects(batch)] == ["node-0", "node-1"]


def test_churn_and_deletions_begin_with_the_scheduler_though_pods_come_later() -> None:
    churn = "{opcode: churn, mode: create, intervalMilliseconds: 200, templates: [{kind: Service, spec: {}}]}"
    delete = "{opcode: deletePods, namespace: old, deletePodsPerSecond: 5, labelSelector: {a: b}}"
    made = program(f"[{NODES}, {churn}, {delete}, {MEASURED}]")

    assert [pods.measured for pods in made.pending] == [True]
    [churned, deleted] = made.steps
    assert isinstance(churned, Churn)
    assert (churned.interval, churned.recreate, churned.batches[0].name_of(7)) == (0.2, False, "service-churn-1-7")
    assert deleted == Delete("old", "a=b", 5.0, wait=True)


def test_after_a_barrier_all_happens_while_the_scheduler_runs() -> None:
    update = "{opcode: updateAny, count: 2, template: {kind: Node, metadata: {name: 'node-{{.Index}}'}, spec: {}}}"
    sleep = "{opcode: sleep, duration: 250ms}"
    barrier = "{opcode: barrier, stageRequirement: Attempted, namespaces: [a]}"
    later = "{opcode: createPods, count: 1, namespace: b}"
    made = program(f"[{NODES}, {MEASURED}, {barrier}, {NODES.replace('3', '1')}, {later}, {update}, {sleep}]")

    first, nodes, pods, updated, last = made.steps
    assert first == Barrier(True, ["a"], {})
    assert isinstance(nodes, Create)
    assert isinstance(nodes.what, Batch)
    assert isinstance(pods, Create)
    assert isinstance(pods.what, Pods)
    assert pods.wait
    assert isinstance(updated, Update)
    assert updated.batch.names() == ["node-0", "node-1"]
    assert last == Sleep(0.25)


def test_between_start_and_stop_pods_that_fit_are_measured() -> None:
    start = "{opcode: startCollectingMetrics, namespaces: [a], labelSelector: {app: web}}"
    pods = [f"{{opcode: createPods, count: 1, namespace: {name}, skipWaitToCompletion: true}}" for name in "aba"]
    made = program(f"[{NODES}, {start}, {pods[0]}, {pods[1]}, {{opcode: stopCollectingMetrics}}, {pods[2]}]")

    assert [each.measured for each in made.pending] == [True, False, False]


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
def test_a_barrier_means_pods_of_its_namespaces_and_labels(
    namespaces: list[str], labels: dict[str, str], fits: bool
) -> None:
    [pods] = program(f"[{NODES}, {MEASURED.replace('}', ', namespace: a}')}]").pending

    assert pods.fits(namespaces, labels) == fits
