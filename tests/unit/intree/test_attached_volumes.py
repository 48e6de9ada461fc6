"""Volumes attached to a node are looked up again when its pods or what was looked up change, and only then."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyscheduler.intree.volumes.attached import AttachedVolumes, NodeVolumes
from pyscheduler.intree.volumes.objects import Storage
from pyscheduler.testing import node

from .storage import Cluster, Manifest, bound, claim, obj, storage_class, using, volume


def disk(name: str, handle: str = "", driver: str = "maker") -> Manifest:
    return volume(name, csi={"driver": driver, "volumeHandle": handle or f"handle-{name}"})


def attachment(name: str, of: str, to: str = "a") -> Manifest:
    source = {"persistentVolumeName": of}
    return obj("VolumeAttachment", name, spec={"attacher": "maker", "nodeName": to, "source": source})


class Attached:
    """A cluster with two pods on node `a`, one of them with an unbound claim, and its attached volumes."""

    def __init__(self) -> None:
        pods = [using("data", name="p").on("a"), using("late", name="q").on("a"), using("far", name="r").on("b")]
        objects = [storage_class(), disk("pv"), disk("other"), bound("pv"), claim("late"), claim("far")]
        self.cluster = Cluster(*objects, attachment("va", "pv"), nodes=[node("a"), node("b")], pods=pods)
        self.cached = self.new()

    def new(self) -> AttachedVolumes:
        return AttachedVolumes(self.cluster.handle, Storage(self.cluster.handle))

    def on_a(self, attached: AttachedVolumes) -> NodeVolumes:
        attached.refresh(2)
        a = next(iter(self.cluster.state.table()))
        volumes, read = attached.of(a), attached.read(a)
        assert (volumes.of_pods, volumes.used) == (read.of_pods, read.used)
        return volumes


Change = Callable[[Cluster], None]


def shows(*objects: Manifest) -> Change:
    return lambda cluster: cluster.show(*objects)


@pytest.mark.parametrize(
    ("change", "used"),
    [
        pytest.param(lambda c: c.state.add_pod(using("far", name="s").on("a").build()), 3, id="pod added"),
        pytest.param(lambda c: c.state.remove("q"), 1, id="pod removed"),
        pytest.param(shows(attachment("new", "other")), 3, id="volume attached without a pod"),
        pytest.param(lambda c: c.hide(attachment("va", "pv")), 2, id="attachment of a pod's volume deleted"),
        pytest.param(shows(bound("other")), 3, id="claim bound to another volume"),
        pytest.param(lambda c: c.hide(claim("late")), 1, id="claim deleted"),
        pytest.param(shows(disk("pv", driver="x")), 2, id="volume of another driver"),
        pytest.param(lambda c: c.hide(storage_class()), 1, id="class deleted"),
        pytest.param(shows(storage_class(provisioner="x")), 1, id="class with another provisioner"),
    ],
)
def test_volumes_are_looked_up_again_after_a_change(change: Change, used: int) -> None:
    attached = Attached()
    assert attached.on_a(attached.cached).used == {"maker": 2}
    change(attached.cluster)
    found, expected = attached.on_a(attached.cached), attached.on_a(attached.new())
    assert found.used["maker"] == used
    assert (found.of_pods, found.used) == (expected.of_pods, expected.used)


def test_nodes_with_changed_objects_are_returned() -> None:
    attached = Attached()
    attached.on_a(attached.cached)
    attached.cluster.show(disk("other"), claim("far"), attachment("new", "other", to="b"))
    assert list(attached.cached.refresh(2)) == []
    attached.cluster.show(claim("late"))
    assert list(attached.cached.refresh(2)) == ["a"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(shows(claim("far"), claim("new")), id="claims of other pods"),
        pytest.param(shows(disk("other")), id="volume of no pod"),
        pytest.param(shows(attachment("new", "other", to="b")), id="attachment to another node"),
        pytest.param(shows(storage_class("other")), id="another class"),
        pytest.param(lambda c: c.state.remove("r"), id="pod of another node removed"),
    ],
)
def test_volumes_are_kept_after_any_other_change(change: Change) -> None:
    attached = Attached()
    before = attached.on_a(attached.cached)
    change(attached.cluster)
    assert attached.on_a(attached.cached) is before


def test_each_of_several_changes_of_one_object_is_seen() -> None:
    attached = Attached()
    for to, used in (("other", 3), ("pv", 2), ("other", 3)):
        attached.cluster.show(bound(to))
        assert attached.on_a(attached.cached).used == {"maker": used}


def test_change_of_a_volume_without_attachment_is_seen() -> None:
    attached = Attached()
    attached.cluster.hide(attachment("va", "pv"))
    assert attached.on_a(attached.cached).used == {"maker": 2}
    attached.cluster.show(disk("pv", driver="x"))
    assert attached.on_a(attached.cached).used == {"maker": 1, "x": 1}
