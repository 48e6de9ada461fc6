"""Events that requeue a pod that VolumeBinding rejected."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import NODE, Action, ClusterEvent
from pyscheduler.intree import VolumeBinding
from pyscheduler.testing import node

from .cluster import node_added, pod_deleted, requeues
from .storage import Cluster, Manifest, bound, claim, meta, obj, spec, storage_class, using, volume

ADD, UPDATE, DELETE = Action.ADD, Action.UPDATE_OTHER, Action.DELETE
DRIVER = obj("CSIDriver", "maker", spec={"storageCapacity": True})
CSI_NODE = obj("CSINode", "n")
CAPACITY = obj("CSIStorageCapacity", "c", capacity="1Gi", storageClassName="late")
ZONES = [{"matchLabelExpressions": [{"key": "zone", "values": ["z1"]}]}]


def event(action: Action, old: Manifest | None, new: Manifest | None) -> ClusterEvent:
    return ClusterEvent((new or old or {})["kind"], action, old, new)


def migrated(plugins: str) -> Manifest:
    return meta(CSI_NODE, annotations={"storage.alpha.kubernetes.io/migrated-plugins": plugins})


def has(**fields: Any) -> Manifest:
    return {**obj("CSIStorageCapacity", "c", storageClassName="late"), **fields}


@pytest.mark.parametrize(
    ("what", "helps"),
    [
        pytest.param(event(ADD, None, storage_class()), True, id="a class"),
        pytest.param(event(UPDATE, storage_class(), storage_class(allowedTopologies=ZONES)), True, id="its topologies"),
        pytest.param(event(UPDATE, storage_class(), storage_class(provisioner="x")), True, id="its provisioner"),
        pytest.param(event(UPDATE, storage_class(), storage_class(reclaimPolicy="x")), False, id="its reclaim policy"),
        pytest.param(event(ADD, None, storage_class("other")), False, id="another class"),
        pytest.param(event(ADD, None, claim()), True, id="its claim"),
        pytest.param(event(UPDATE, claim(), bound("pv")), True, id="its claim is bound"),
        pytest.param(event(DELETE, claim(), claim()), False, id="its claim is gone"),
        pytest.param(event(ADD, None, claim("pod-scratch")), True, id="its ephemeral claim"),
        pytest.param(event(ADD, None, claim("scratch")), False, id="another claim"),
        pytest.param(event(ADD, None, meta(claim(), namespace="x")), False, id="a claim in another namespace"),
        pytest.param(event(ADD, None, volume()), True, id="a volume"),
        pytest.param(event(UPDATE, volume(), volume()), True, id="a volume changes"),
        pytest.param(event(DELETE, volume(), None), True, id="a volume is gone"),
        pytest.param(event(ADD, None, volume(storage_class="other")), False, id="a volume of another class"),
        pytest.param(node_added(node("n")), True, id="a node"),
        pytest.param(
            ClusterEvent(NODE, Action.UPDATE_NODE_LABEL, node().build(), node().build()), True, id="a node's labels"
        ),
        pytest.param(
            ClusterEvent(NODE, Action.UPDATE_NODE_ALLOCATABLE, node().build(), node().build()),
            False,
            id="a node's allocatable",
        ),
        pytest.param(event(ADD, None, CSI_NODE), True, id="a CSINode"),
        pytest.param(event(DELETE, migrated("x"), None), True, id="a CSINode is gone"),
        pytest.param(event(UPDATE, CSI_NODE, migrated("x")), True, id="a plugin is migrated"),
        pytest.param(event(UPDATE, CSI_NODE, migrated("")), False, id="no plugin is migrated"),
        pytest.param(event(UPDATE, DRIVER, spec(DRIVER, storageCapacity=False)), True, id="capacity counts no more"),
        pytest.param(event(DELETE, DRIVER, None), True, id="the driver is gone"),
        pytest.param(event(UPDATE, DRIVER, DRIVER), False, id="capacity still counts"),
        pytest.param(event(UPDATE, spec(DRIVER, storageCapacity=False), DRIVER), False, id="capacity counts now"),
        pytest.param(
            event(UPDATE, meta(DRIVER, name="x"), spec(meta(DRIVER, name="x"), storageCapacity=False)),
            False,
            id="another driver",
        ),
        pytest.param(event(ADD, None, CAPACITY), True, id="a capacity"),
        pytest.param(event(ADD, None, {**CAPACITY, "storageClassName": "x"}), False, id="a capacity of another class"),
        pytest.param(event(UPDATE, CAPACITY, has(capacity="1Gi", nodeTopology={})), True, id="capacity elsewhere"),
        pytest.param(event(UPDATE, CAPACITY, has(capacity="2Gi")), True, id="more capacity"),
        pytest.param(event(UPDATE, CAPACITY, has(capacity="1Gi")), False, id="as much capacity"),
        pytest.param(event(UPDATE, CAPACITY, has()), False, id="capacity unknown"),
        pytest.param(event(UPDATE, has(), CAPACITY), True, id="capacity known"),
        pytest.param(pod_deleted(using("shared", name="other").on("n")), True, id="a pod with an unbound claim goes"),
        pytest.param(pod_deleted(using("taken", name="other").on("n")), False, id="a pod with a bound claim goes"),
        pytest.param(
            event(UPDATE, CAPACITY, has(capacity="9Gi", maximumVolumeSize="1Mi")), False, id="smaller volumes only"
        ),
    ],
)
def test_requeue_of_pod_rejected_by_volume_binding(what: ClusterEvent, helps: bool) -> None:
    more = [{"name": "scratch", "ephemeral": {}}, {"name": "inline", "csi": {"driver": "inline"}}]
    objects = (claim(), claim("shared"), bound("pv", "taken"), storage_class())
    plugin = VolumeBinding(VolumeBinding.Args(), Cluster(*objects).handle)
    assert requeues(plugin, using("data").spec(volumes=more), what) is helps
