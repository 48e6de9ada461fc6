"""VolumeBinding's results are shared by pods with claims that are alike, and recomputed when what they read changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyscheduler.api import NodeTable, NodeToStatus, Pod
from pyscheduler.api.cycle import Cycle
from pyscheduler.core.commands import Bind
from pyscheduler.intree import InterPodAffinity, VolumeBinding, volume_binding
from pyscheduler.testing import Harness, node
from tests.unit.intree.storage import KINDS, Manifest, bound, claim, meta, obj, storage_class, using, volume, within

NODES = 8
Change = Callable[[Harness], None]


@pytest.fixture(autouse=True)
def filtered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Pods for which VolumeBinding filtered all nodes, one after the other."""
    pods: list[str] = []
    filter_all = VolumeBinding.filter_all

    def recorded(self: VolumeBinding, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        if len(nodes) == NODES:
            pods.append(pod.name)
        return filter_all(self, cycle, pod, nodes)

    monkeypatch.setattr(VolumeBinding, "filter_all", recorded)
    return pods


def build_harness(*objects: Manifest) -> Harness:
    harness = Harness()
    harness.add(*(node(f"n{i}").zone("z1" if i % 2 else "z2") for i in range(NODES)))
    show(harness, *objects)
    return harness


def show(harness: Harness, *objects: Manifest) -> None:
    for each in objects:
        harness.add_object(KINDS[each["kind"]], each)


def schedule(harness: Harness, name: str) -> str:
    """Schedule a pod with a claim of its name; return its node, or the reasons that no node fits.

    The binding may still wait for the volume.
    """
    harness.add(using(name, name=name))
    harness.run()
    bindings = {command.pod.name: command.node_name for command in harness.commands if isinstance(command, Bind)}
    return bindings.get(name) or harness.pending_message(name)


_Z1 = {"key": "topology.kubernetes.io/zone", "values": ["z1"]}
IN_Z1 = storage_class(allowedTopologies=[{"matchLabelExpressions": [_Z1]}])


def test_nodes_are_filtered_once_for_pods_whose_claims_are_alike(filtered: list[str]) -> None:
    harness = build_harness(IN_Z1)
    for i in range(4):
        show(harness, claim(f"data-{i}"))
        assert schedule(harness, f"data-{i}") in {"n1", "n3", "n5", "n7"}
        show(harness, volume(f"pv-{i}", claimRef={"namespace": "default", "name": f"data-{i}"}))
        show(harness, meta(bound(f"pv-{i}", f"data-{i}"), resourceVersion="2"))
    assert filtered == ["data-0"]


def test_nodes_are_filtered_by_zone_for_pods_with_bound_claims(filtered: list[str]) -> None:
    zones = ("z1", "z2", "z1", "z2")
    harness = build_harness(storage_class())
    for i, zone in enumerate(zones):
        show(harness, volume(f"pv-{i}", nodeAffinity=within(zone)), bound(f"pv-{i}", f"data-{i}"))
    nodes = [schedule(harness, f"data-{i}") for i in range(len(zones))]
    assert [int(name[1:]) % 2 for name in nodes] == [1, 0, 1, 0]
    assert not filtered


def test_results_by_row_are_cached_if_another_filter_needs_all_nodes(
    filtered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(InterPodAffinity, "filter_equivalence", lambda self, cycle: None)
    harness = build_harness(storage_class())
    other_app = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "other"}}}
    for i in range(3):
        show(harness, volume(f"pv-{i}", nodeAffinity=within("z1")), bound(f"pv-{i}", f"data-{i}"))
        harness.add(using(f"data-{i}", name=f"data-{i}").pod_anti_affinity(other_app))
        harness.run()
    assert {int(name[1:]) % 2 for name in harness.assignments.values()} == {1}
    assert filtered == ["data-0"]


def test_pods_with_volumes_of_one_node_share_results_by_the_affinity(
    filtered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volume_binding, "MAX_DOMAINS", NODES)  # and that of the nodes without the label
    harness = build_harness(storage_class())
    for i, name in enumerate(("n1", "n1", "n2")):
        local = within(name, key="kubernetes.io/hostname")
        show(harness, volume(f"pv-{i}", nodeAffinity=local), bound(f"pv-{i}", f"data-{i}"))
    assert [schedule(harness, f"data-{i}") for i in range(3)] == ["n1", "n1", "n2"]
    assert filtered == ["data-0", "data-2"]


def class_without_topology(harness: Harness) -> None:
    show(harness, storage_class())


def other_class(harness: Harness) -> None:
    show(harness, storage_class("other"))


def driver_with_little_capacity(harness: Harness) -> None:
    show(harness, obj("CSIDriver", "maker", spec={"storageCapacity": True}))


def driver_without_tracking(harness: Harness) -> None:
    show(harness, obj("CSIDriver", "maker", spec={}))


def available_volume(harness: Harness) -> None:
    show(harness, volume("found", nodeAffinity=within("z2")))


def volume_of_another_claim(harness: Harness) -> None:
    show(harness, volume("other", claimRef={"namespace": "default", "name": "x"}))


def node_is_moved(harness: Harness) -> None:
    harness.add(node("n0").zone("z1"))


@pytest.mark.parametrize(
    ("change", "all_nodes", "fitting"),
    [
        pytest.param(other_class, False, "1357", id="other class"),
        pytest.param(volume_of_another_claim, False, "1357", id="volume of another claim"),
        pytest.param(driver_without_tracking, False, "1357", id="driver without capacity tracking"),
        pytest.param(node_is_moved, False, "01357", id="zone of one node"),
        pytest.param(class_without_topology, True, "01234567", id="class"),
        pytest.param(available_volume, True, "01234567", id="available volume"),
        pytest.param(driver_with_little_capacity, True, "", id="capacity"),
    ],
)
def test_nodes_are_filtered_again_after_a_change_of_what_results_depend_on(
    change: Change, all_nodes: bool, fitting: str, filtered: list[str]
) -> None:
    harness = build_harness(IN_Z1, claim("first"), claim("second"))
    schedule(harness, "first")
    change(harness)
    found = schedule(harness, "second")
    assert found[1:] in tuple(fitting) if fitting else "enough free storage" in found
    assert filtered == ["first", "second"][: 1 + all_nodes]


def test_pods_with_claims_of_another_size_do_not_share_results(filtered: list[str]) -> None:
    capacity = obj("CSIStorageCapacity", "c", storageClassName="late", capacity="2Gi", nodeTopology={})
    driver = obj("CSIDriver", "maker", spec={"storageCapacity": True})
    harness = build_harness(storage_class(), driver, capacity, claim("small"), claim("large", "3Gi"), claim("same"))
    assert schedule(harness, "small").startswith("n")
    assert "enough free storage" in schedule(harness, "large")
    assert schedule(harness, "same").startswith("n")
    assert filtered == ["small", "large", "same"]


def test_first_storage_capacity_of_a_cluster_lets_pods_fit() -> None:
    driver = obj("CSIDriver", "maker", spec={"storageCapacity": True})
    harness = build_harness(storage_class(), driver, claim("first"), claim("second"))
    assert "enough free storage" in schedule(harness, "first")
    show(harness, obj("CSIStorageCapacity", "c", storageClassName="late", capacity="2Gi", nodeTopology={}))
    assert schedule(harness, "second").startswith("n")
