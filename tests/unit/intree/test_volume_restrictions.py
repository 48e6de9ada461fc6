"""VolumeRestrictions: disks in pods' specs, and ReadWriteOncePod claims."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import SKIP, SKIP_SIGNATURE_GROUP, Action, ClusterEvent, Rejection
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.intree import VolumeRestrictions
from pyscheduler.intree.volumes.objects import CLAIM
from pyscheduler.testing import PodBuilder, node, pod

from .cluster import Reasons, cycle, node_added, pod_deleted, reasons, rejections, requeues, table

CONFLICT = ("node(s) had no available disk",)
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
)
RWOP, RWX = "ReadWriteOncePod", "ReadWriteMany"


def with_volume(name: str = "pod", **source: Any) -> PodBuilder:
    return pod(name).spec(volumes=[{"name": "v", **source}])


def gce(disk: str, **more: Any) -> PodBuilder:
    return with_volume(gcePersistentDisk={"pdName": disk, **more})


def ebs(disk: str, **more: Any) -> PodBuilder:
    return with_volume(awsElasticBlockStore={"volumeID": disk, **more})


def iscsi(iqn: str, portal: str = "a", **more: Any) -> PodBuilder:
    return with_volume(iscsi={"targetPortal": portal, "iqn": iqn, "lun": 0, **more})


def rbd(monitors: list[str], image: str = "i", pool: str = "p", **more: Any) -> PodBuilder:
    return with_volume(rbd={"monitors": monitors, "image": image, "pool": pool, **more})


def using(*claims: str, name: str = "pod") -> PodBuilder:
    return pod(name).spec(volumes=[{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims])


def claim(name: str, mode: str = RWOP, namespace: str = "default") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"accessModes": ["ReadOnlyMany", mode]}}


def plugin(*claims: dict[str, Any]) -> VolumeRestrictions:
    handle = empty_handle()
    for one in claims:
        handle.objects.set(CLAIM, one)
    return VolumeRestrictions(VolumeRestrictions.Args(), handle)


READ: dict[str, Any] = {"readOnly": True}


@pytest.mark.parametrize(
    ("there", "incoming", "expected"),
    [
        pytest.param(gce("d"), gce("d"), CONFLICT, id="gce, both write"),
        pytest.param(gce("d", **READ), gce("d"), CONFLICT, id="gce, one reads"),
        pytest.param(gce("d"), gce("d", **READ), CONFLICT, id="gce, the other reads"),
        pytest.param(gce("d", **READ), gce("d", **READ), None, id="gce, both read"),
        pytest.param(gce("d"), gce("e"), None, id="gce, two disks"),
        pytest.param(gce("d"), ebs("d"), None, id="another kind of disk"),
        pytest.param(ebs("d", **READ), ebs("d", **READ), CONFLICT, id="ebs, both read"),
        pytest.param(ebs("d"), ebs("e"), None, id="ebs, two disks"),
        pytest.param(iscsi("q"), iscsi("q", portal="b"), CONFLICT, id="iscsi, whatever the portal"),
        pytest.param(iscsi("q", **READ), iscsi("q", **READ), None, id="iscsi, both read"),
        pytest.param(rbd(["a", "b"]), rbd(["b", "c"]), CONFLICT, id="rbd, a monitor in common"),
        pytest.param(rbd(["a"]), rbd(["b"]), None, id="rbd, other monitors"),
        pytest.param(rbd(["a"]), rbd(["a"], image="j"), None, id="rbd, another image"),
        pytest.param(rbd(["a"]), rbd(["a"], pool="q"), None, id="rbd, another pool"),
        pytest.param(rbd(["a"], **READ), rbd(["a"], **READ), None, id="rbd, both read"),
        pytest.param(rbd([]), rbd([]), None, id="rbd without monitors"),
        pytest.param(gce("d").namespace("other"), gce("d"), CONFLICT, id="a disk has no namespace"),
        pytest.param(gce("d").deleting(), gce("d"), CONFLICT, id="a pod that is being deleted still has it"),
        pytest.param(with_volume(gcePersistentDisk={}), with_volume(gcePersistentDisk={}), CONFLICT, id="no names"),
    ],
)
def test_disk_conflicts_on_one_node(there: PodBuilder, incoming: PodBuilder, expected: Reasons) -> None:
    running = [there.uid("there").on("a"), pod("plain").on("b")]
    assert reasons(plugin(), incoming, [node("a"), node("b"), node("c")], running) == [expected, None, None]
    (no, *_) = rejections(plugin(), incoming, [node("a")], running)
    assert no is None or no.resolvable


def test_any_of_several_disks_conflicts() -> None:
    both = pod().spec(
        volumes=[{"name": "e", "gcePersistentDisk": {"pdName": "e"}}, *ebs("d").manifest["spec"]["volumes"]]
    )
    running = [gce("e").uid("1").on("a"), ebs("d").uid("2").on("b"), gce("x").uid("3").on("c")]
    assert reasons(plugin(), both, [node("a"), node("b"), node("c")], running) == [CONFLICT, CONFLICT, None]


@pytest.mark.parametrize(
    ("running", "expected"),
    [
        pytest.param([], SKIP, id="no other pod"),
        pytest.param([using("one", name="p").on("b")], [IN_USE, IN_USE], id="a pod on any node"),
        pytest.param([using("one", name="p").on("b").deleting()], [IN_USE, IN_USE], id="one that is being deleted"),
        pytest.param([using("one", name="p").on("gone")], SKIP, id="a pod on a node that is not there"),
        pytest.param([using("one", name="p").namespace("x").on("b")], SKIP, id="a claim of another namespace"),
        pytest.param([using("many", name="p").on("b")], SKIP, id="a claim for many"),
    ],
)
def test_read_write_once_pod_claim_is_in_use_on_every_node(running: list[PodBuilder], expected: Any) -> None:
    subject, nodes, incoming = plugin(claim("one"), claim("many", RWX)), [node("a"), node("b")], using("one", "many")
    if expected is SKIP:
        assert subject.pre_filter(cycle(), incoming.build(), table(nodes, running)) is SKIP
    else:
        assert reasons(subject, incoming, nodes, running) == expected
        assert all(no is not None and no.resolvable for no in rejections(subject, incoming, nodes, running))


def test_disk_conflict_is_reported_before_claim_in_use() -> None:
    both = using("one").spec(volumes=[{"name": "d", "gcePersistentDisk": {"pdName": "d"}}])
    running = [gce("d").uid("1").on("a"), using("one", name="p").on("b")]
    assert reasons(plugin(claim("one")), both, [node("a"), node("b")], running) == [CONFLICT, IN_USE]


@pytest.mark.parametrize("missing", ["two", ""], ids=["of that name", "without a name"])
def test_missing_claim_rejects_pod(missing: str) -> None:
    result = plugin(claim("one")).pre_filter(cycle(), using("one", missing).build(), table([node()]))
    assert result == Rejection(f'persistentvolumeclaim "{missing}" not found', resolvable=False)


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(pod(), id="no volumes"),
        pytest.param(with_volume(emptyDir={}), id="a directory"),
        pytest.param(with_volume(ephemeral={"volumeClaimTemplate": {}}), id="an ephemeral claim"),
        pytest.param(with_volume(gcePersistentDisk=None), id="disk is null"),
        pytest.param(with_volume(persistentVolumeClaim=None), id="claim is null"),
    ],
)
def test_pre_filter_skips_pod_without_disks_and_claims(of: PodBuilder) -> None:
    assert plugin().pre_filter(cycle(), of.build(), table([node()])) in (SKIP, SKIP_SIGNATURE_GROUP)


def test_dry_run_counts_users_of_claim_by_name() -> None:
    subject, attempt, incoming = plugin(claim("one")), cycle(), using("one").build()
    user, stranger = using("one", name="user"), using("one", name="stranger").namespace("x")
    cluster = table([node()], [user.on("node")])
    (row,) = cluster
    assert subject.pre_filter(attempt, incoming, cluster) is None
    before = attempt.state()

    subject.remove_pod(attempt, incoming, user.build(), row)
    subject.remove_pod(attempt, incoming, pod("plain").build(), row)
    assert subject.filter(attempt, incoming, row) is None
    assert not subject.filter_all(attempt, incoming, cluster).codes.any()
    subject.add_pod(attempt, incoming, stranger.build(), row)
    assert subject.filter(attempt, incoming, row) is not None
    assert subject.filter_all(attempt, incoming, cluster).codes.all()

    attempt.update_state(before)
    assert subject.filter(attempt, incoming, row) is not None


ADDED = Action.ADD
ME = pod("me").spec(volumes=[*gce("d").manifest["spec"]["volumes"], *using("one").manifest["spec"]["volumes"]])


@pytest.mark.parametrize(
    ("event", "requeued"),
    [
        pytest.param(pod_deleted(gce("d").on("a")), True, id="a pod with the disk goes"),
        pytest.param(pod_deleted(gce("d")), True, id="one that had no node"),
        pytest.param(pod_deleted(gce("e").on("a")), False, id="one with another disk"),
        pytest.param(pod_deleted(gce("d").namespace("x").on("a")), True, id="one of another namespace"),
        pytest.param(pod_deleted(using("one").on("a")), True, id="one with the claim"),
        pytest.param(pod_deleted(using("two").on("a")), False, id="one with another claim"),
        pytest.param(pod_deleted(pod().on("a")), False, id="one with neither"),
        pytest.param(node_added(node()), True, id="a node is added"),
        pytest.param(ClusterEvent("Node", Action.DELETE, node().build(), None), True, id="a node is deleted"),
        pytest.param(ClusterEvent("PersistentVolumeClaim", ADDED, None, claim("one")), True, id="the claim is added"),
        pytest.param(ClusterEvent("PersistentVolumeClaim", ADDED, None, claim("two")), False, id="another claim is"),
        pytest.param(
            ClusterEvent("PersistentVolumeClaim", ADDED, None, claim("one", namespace="x")), False, id="one elsewhere"
        ),
        pytest.param(
            ClusterEvent("PersistentVolumeClaim", Action.UPDATE_OTHER, claim("one"), claim("one")),
            True,
            id="the claim changes",
        ),
    ],
)
def test_requeue_of_pod_rejected_by_volume_restrictions(event: ClusterEvent, requeued: bool) -> None:
    assert requeues(plugin(), ME, event) is requeued
