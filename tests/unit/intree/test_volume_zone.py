"""VolumeZone: nodes must be in the zones of the volumes that the pod's claims are bound to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pyscheduler.api import NODE, Action, ClusterEvent, Rejection, Skip
from pyscheduler.intree import VolumeZone
from pyscheduler.testing import NodeBuilder, PodBuilder, node, pod
from pyscheduler.testing.conformance import assert_filters_agree

from .cluster import cycle, node_added, requeues
from .storage import Cluster, Manifest, bound, claim, ephemeral, meta, storage_class, using, volume

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
NODES = [
    node("a").label(ZONE, "z1").label(REGION, "r1"),
    node("b").label(BETA_ZONE, "z1"),
    node("c").label(ZONE, "z2").label(BETA_ZONE, "z1"),
    node("d").label(REGION, "r2"),
    node("e"),
]


def plugin(cluster: Cluster) -> VolumeZone:
    return VolumeZone(VolumeZone.Args(), cluster.handle)


def pre_filter(incoming: PodBuilder, *objects: Manifest) -> Any:
    cluster = Cluster(*objects, nodes=NODES)
    return plugin(cluster).pre_filter(cycle(), incoming.build(), cluster.state.table())


def fitting(labels: Manifest, nodes: Sequence[NodeBuilder] = NODES) -> str:
    """Return the names of nodes that accept a pod with a volume with these labels, from both forms."""
    cluster, attempt = Cluster(bound("pv"), meta(volume(), labels=labels), nodes=nodes), cycle()
    subject, incoming = plugin(cluster), using("data").build()
    assert_filters_agree(subject, attempt, incoming, cluster.state.table())
    results = {info.name: subject.filter(attempt, incoming, info) for info in cluster.state.table()}
    assert set(results.values()) <= {None, Rejection("node(s) had no available volume zone", resolvable=False)}
    return "".join(name for name, result in results.items() if result is None)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        pytest.param({ZONE: "z1"}, "ae", id="zone: the node's beta label does not count"),
        pytest.param({BETA_ZONE: "z1"}, "abce", id="beta zone: falls back to the node's GA label"),
        pytest.param({BETA_ZONE: "z2"}, "e", id="beta zone: the node's beta label takes precedence"),
        pytest.param({ZONE: "z1__z2"}, "ace", id="several zones"),
        pytest.param({ZONE: " z1 __z9"}, "ae", id="spaces"),
        pytest.param({REGION: "r1"}, "ae", id="region"),
        pytest.param({BETA_REGION: "r2"}, "de", id="beta region"),
        pytest.param({ZONE: "z1", REGION: "r2"}, "e", id="zone and region"),
        pytest.param({ZONE: "z1__", REGION: "r1"}, "ae", id="label with an empty value is ignored"),
    ],
)
def test_node_must_be_in_zone_of_volume(labels: Manifest, names: str) -> None:
    assert fitting(labels) == names


def test_every_volume_counts() -> None:
    first, second = meta(volume("p"), labels={ZONE: "z1__z2"}), meta(volume("q"), labels={ZONE: "z2"})
    cluster, attempt = Cluster(bound("p", "x"), bound("q", "y"), first, second, nodes=NODES), cycle()
    subject, incoming = plugin(cluster), using("x", "y").build()
    assert subject.pre_filter(attempt, incoming, cluster.state.table()) is None
    fits = [subject.filter(attempt, incoming, n) is None for n in cluster.state.table()]
    assert fits == [False, False, True, False, True]


@pytest.mark.parametrize(
    ("incoming", "objects"),
    [
        pytest.param(pod(), [], id="no claims"),
        pytest.param(ephemeral(), [], id="only an ephemeral claim, even if it is missing"),
        pytest.param(using("data"), [bound("pv"), volume()], id="a volume without labels"),
        pytest.param(using("data"), [bound("pv"), meta(volume(), labels={"zone": "z1"})], id="other labels"),
        pytest.param(using("data"), [bound("pv"), meta(volume(), labels={ZONE: ""})], id="an empty label"),
        pytest.param(using("data"), [claim(), storage_class()], id="a claim that waits for its first consumer"),
    ],
)
def test_pre_filter_skips_pod_without_zoned_volumes(incoming: PodBuilder, objects: list[Manifest]) -> None:
    assert isinstance(pre_filter(incoming, *objects), Skip)


@pytest.mark.parametrize(
    ("wanted", "objects", "why"),
    [
        ("", [], "PersistentVolumeClaim had no name"),
        ("data", [], 'persistentvolumeclaim "data" not found'),
        ("data", [bound("gone")], 'persistentvolume "gone" not found'),
        ("data", [claim(storage_class="")], "PersistentVolumeClaim had no pv name and storageClass name"),
        ("data", [claim()], 'storageclass.storage.k8s.io "late" not found'),
        ("data", [claim(), storage_class(mode=None)], 'VolumeBindingMode not set for StorageClass "late"'),
        ("data", [claim(), storage_class(mode="Immediate")], "PersistentVolume had no name"),
    ],
)
def test_claims_without_resolvable_volume_reject_pod(wanted: str, objects: list[Manifest], why: str) -> None:
    assert pre_filter(using(wanted), *objects) == Rejection(why, resolvable=False)


# -- events ------------------------------------------------------------------------------------------------------------

ADD, UPDATE = Action.ADD, Action.UPDATE_OTHER
HERE = meta(volume(), labels={ZONE: "z1"})


def event(action: Action, old: Manifest | None, new: Manifest) -> ClusterEvent:
    return ClusterEvent(new["kind"], action, old, new)


@pytest.mark.parametrize(
    ("what", "helps"),
    [
        pytest.param(event(ADD, None, storage_class()), True, id="a class that waits"),
        pytest.param(event(ADD, None, storage_class("other")), False, id="another class"),
        pytest.param(
            event(UPDATE, storage_class(mode="Immediate"), storage_class()), True, id="a class that waits now"
        ),
        pytest.param(event(UPDATE, storage_class(), storage_class()), False, id="a class changes"),
        pytest.param(event(ADD, None, claim()), True, id="its claim"),
        pytest.param(event(UPDATE, claim(), bound("pv")), True, id="its claim is bound"),
        pytest.param(event(ADD, None, claim("other")), False, id="another claim"),
        pytest.param(event(ADD, None, meta(claim(), namespace="x")), False, id="a claim in another namespace"),
        pytest.param(event(ADD, None, claim("pod-scratch")), True, id="its ephemeral claim"),
        pytest.param(event(ADD, None, volume()), True, id="its volume"),
        pytest.param(event(ADD, None, volume("other")), False, id="another volume"),
        pytest.param(event(UPDATE, volume(), volume(size="2Gi")), False, id="a volume changes"),
        pytest.param(event(UPDATE, volume(), HERE), True, id="a volume's zone changes"),
        pytest.param(node_added(node("n")), True, id="a node"),
        pytest.param(
            ClusterEvent(NODE, Action.UPDATE_NODE_LABEL, node().build(), node().build()), True, id="a node's labels"
        ),
        pytest.param(
            ClusterEvent(NODE, Action.UPDATE_NODE_TAINT, node().build(), node().build()), False, id="a node's taints"
        ),
    ],
)
def test_requeue_of_pod_rejected_by_volume_zone(what: ClusterEvent, helps: bool) -> None:
    volumes = [{"name": "scratch", "ephemeral": {}}]
    cluster = Cluster(meta(claim(volumeName="pv")), storage_class())
    assert requeues(plugin(cluster), using("data").spec(volumes=volumes), what) is helps
