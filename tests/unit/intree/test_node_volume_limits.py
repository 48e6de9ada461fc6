"""NodeVolumeLimits: volumes that count as attached, and nodes at their limit."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import ASSIGNED_POD, SKIP, SKIP_SIGNATURE_GROUP, Action, ClusterEvent, StatusError
from pyscheduler.core.framework.handle import empty_handle
from pyscheduler.intree import NodeVolumeLimits
from pyscheduler.intree.node_volume_limits import NodeVolumeLimitsByCount
from pyscheduler.intree.volumes import objects as kinds
from pyscheduler.testing import PodBuilder, node, pod

from .cluster import Reasons, cycle, node_added, pod_deleted, reasons, rejections, requeues, table

FULL = ("node(s) exceed max volume count",)
DRIVER = "csi.example.com"
EBS, GCE = "ebs.csi.aws.com", "pd.csi.storage.gke.io"
Json = dict[str, Any]
NODES = [node("a"), node("b")]


def named(name: str, namespace: str = "", **more: Any) -> Json:
    return {"metadata": {"name": name, **({"namespace": namespace} if namespace else {})}, **more}


def csi_node(name: str, **limits: int | None) -> Json:
    """Return a CSINode; `_` in the names of drivers stands for `.`."""
    drivers = [
        {"name": driver.replace("_", "."), **({"allocatable": {"count": n}} if n is not None else {})}
        for driver, n in limits.items()
    ]
    return named(name, spec={"drivers": drivers})


def volume(name: str, driver: str = DRIVER, handle: str | None = None, **labels: str) -> Json:
    return named(name, spec={"csi": {"driver": driver, "volumeHandle": name if handle is None else handle}})


def in_tree(name: str, source: str, labels: Json | None = None, **fields: Any) -> Json:
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {source: fields}}


def claim(name: str, bound_to: str = "", storage_class: str = "", owner: str = "") -> Json:
    made = named(name, "default", spec={"volumeName": bound_to, "storageClassName": storage_class})
    if owner:
        made["metadata"]["ownerReferences"] = [{"uid": owner, "controller": True}]
    return made


def attachment(name: str, to: str, of: str | None, attacher: str = DRIVER) -> Json:
    source: Json = {"inlineVolumeSpec": {}} if of is None else {"persistentVolumeName": of}
    return named(name, spec={"attacher": attacher, "nodeName": to, "source": source})


def plugin(
    *csi_nodes: Json,
    claims: tuple[Json, ...] = (),
    volumes: tuple[Json, ...] = (),
    classes: tuple[Json, ...] = (),
    attachments: tuple[Json, ...] = (),
    drivers: tuple[Json, ...] = (),
    of: type[NodeVolumeLimits] = NodeVolumeLimits,
) -> NodeVolumeLimits:
    handle = empty_handle()
    given = {
        kinds.CSI_NODE: csi_nodes,
        kinds.CLAIM: claims,
        kinds.VOLUME: volumes,
        kinds.STORAGE_CLASS: classes,
        kinds.VOLUME_ATTACHMENT: attachments,
        kinds.CSI_DRIVER: drivers,
    }
    for kind, objects in given.items():
        for one in objects:
            handle.objects.set(kind, one)
    return of(of.Args(), handle)


def using(*claims: str, name: str = "pod") -> PodBuilder:
    return pod(name).spec(volumes=[{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims])


def with_volume(name: str = "pod", **source: Any) -> PodBuilder:
    return pod(name).spec(volumes=[{"name": "v", **source}])


CLAIMS = (claim("c1", "v1"), claim("c2", "v2"), claim("c3", "v3"), claim("copy", "v1"))
VOLUMES = (volume("v1"), volume("v2"), volume("v3", handle="h3"))


@pytest.mark.parametrize(
    ("limit", "running", "incoming", "expected"),
    [
        pytest.param(1, [], using("c1"), None, id="the first"),
        pytest.param(0, [], using("c1"), FULL, id="limit of 0"),
        pytest.param(1, [using("c1", name="p")], using("c2"), FULL, id="one too many"),
        pytest.param(2, [using("c1", name="p")], using("c2"), None, id="up to the limit"),
        pytest.param(2, [using("c1", name="p")], using("c2", "c3"), FULL, id="two at once"),
        pytest.param(1, [using("c1", name="p")], using("c1"), None, id="the same volume"),
        pytest.param(1, [using("c1", name="p")], using("copy"), None, id="the same volume by another claim"),
        pytest.param(1, [using("c1", "copy", name="p")], using("c1"), None, id="one volume is attached once"),
        pytest.param(
            2,
            [using("c1", name="p"), using("copy", name="q")],
            using("c2"),
            None,
            id="one volume in two pods counts once",
        ),
        pytest.param(1, [using("c1", name="p").deleting()], using("c2"), FULL, id="a pod that is being deleted"),
        pytest.param(1, [using("lost", name="p")], using("c2"), None, id="running pod's claim is missing"),
        pytest.param(None, [using("c1", name="p")], using("c2"), None, id="a driver without a limit"),
        pytest.param(10**30, [using("c1", name="p")], using("c2"), None, id="a limit beyond 64 bits"),
        pytest.param(-(10**30), [], using("c1"), FULL, id="a negative limit beyond 64 bits"),
    ],
)
def test_volume_limit_of_driver(
    limit: int | None, running: list[PodBuilder], incoming: PodBuilder, expected: Reasons
) -> None:
    subject = plugin(csi_node("a", csi_example_com=limit), csi_node("b"), claims=CLAIMS, volumes=VOLUMES)
    assert reasons(subject, incoming, NODES, [p.on("a") for p in running]) == [expected, None]
    assert all(no is None or no.resolvable for no in rejections(subject, incoming, NODES, [p.on("a") for p in running]))


@pytest.mark.parametrize(
    ("attached", "incoming", "expected"),
    [
        pytest.param(attachment("x", "a", "v1"), using("c2"), FULL, id="attachment without pod"),
        pytest.param(
            attachment("x", "a", "v1"), using("c1"), FULL, id="attachment of the incoming pod's volume counts twice"
        ),
        pytest.param(attachment("x", "b", "v1"), using("c2"), None, id="to another node"),
        pytest.param(attachment("x", "a", "v1", "other"), using("c2"), None, id="by another driver"),
        pytest.param(attachment("x", "a", "v1", ""), using("c2"), None, id="empty driver"),
        pytest.param(attachment("x", "a", "lost"), using("c2"), None, id="of a volume that is gone"),
        pytest.param(attachment("x", "a", "nfs"), using("c2"), None, id="of a volume without a driver"),
        pytest.param(attachment("x", "a", None), using("c2"), None, id="of no named volume"),
        pytest.param(named("x"), using("c2"), None, id="empty"),
    ],
)
def test_volume_attachments_count_toward_limit(attached: Json, incoming: PodBuilder, expected: Reasons) -> None:
    volumes = (*VOLUMES, named("nfs", spec={"nfs": {}}))
    subject = plugin(csi_node("a", csi_example_com=1), claims=CLAIMS, volumes=volumes, attachments=(attached,))
    assert reasons(subject, incoming, NODES) == [expected, None]


def test_attachment_of_volume_in_use_counts_once() -> None:
    attachments = (attachment("x", "a", "v1"), attachment("y", "a", "v1"))
    for limit, result in ((1, FULL), (2, None)):
        subject = plugin(csi_node("a", csi_example_com=limit), claims=CLAIMS, volumes=VOLUMES, attachments=attachments)
        assert reasons(subject, using("c2"), [node("a")], [using("c1", name="p").on("a")]) == [result]


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        pytest.param(claim("c", storage_class="fast"), FULL, id="of a class"),
        pytest.param(claim("c", bound_to="lost", storage_class="fast"), FULL, id="volume is missing"),
        pytest.param(claim("c", storage_class="lost"), None, id="class is missing"),
        pytest.param(claim("c"), None, id="of no class"),
        pytest.param(claim("c", storage_class="none"), None, id="of a class without a driver"),
        pytest.param(claim("c", storage_class="ebs"), FULL, id="of a migrated plugin"),
        pytest.param(claim("c", storage_class="vsphere"), None, id="plugin that does not count as migrated"),
        pytest.param(claim("c", bound_to="empty"), None, id="bound to a volume without a handle"),
    ],
)
def test_unbound_claim_counts_for_driver_of_its_class(of: Json, expected: Reasons) -> None:
    classes = (
        named("fast", provisioner=DRIVER),
        named("none"),
        named("ebs", provisioner="kubernetes.io/aws-ebs"),
        named("vsphere", provisioner="kubernetes.io/vsphere-volume"),
    )
    limits = dict.fromkeys(["csi_example_com", "ebs_csi_aws_com", "csi_vsphere_vmware_com"], 0)
    empty = volume("empty", handle="")
    subject = plugin(csi_node("a", **limits), claims=(of,), classes=classes, volumes=(empty,))
    assert reasons(subject, using("c"), NODES) == [expected, None]


DISK: Json = {"awsElasticBlockStore": {"volumeID": "aws://zone/vol-1"}}


@pytest.mark.parametrize(
    ("running", "incoming", "expected"),
    [
        pytest.param(with_volume("p", **DISK), using("ebs"), None, id="the same disk by its URL"),
        pytest.param(with_volume("p", **DISK), using("csi"), None, id="the same disk by its driver"),
        pytest.param(using("csi", name="p"), with_volume(**DISK), None, id="the other way round"),
        pytest.param(with_volume("p", awsElasticBlockStore={"volumeID": "vol-2"}), using("ebs"), FULL, id="another"),
        pytest.param(with_volume("p", gcePersistentDisk={"pdName": "d"}), using("gce"), None, id="no zone is known"),
        pytest.param(with_volume("p", gcePersistentDisk={"pdName": "d"}), using("zonal"), FULL, id="a zone is"),
        pytest.param(using("zonal", name="p"), using("regional"), FULL, id="a region is"),
        pytest.param(using("known", name="p"), using("regional"), None, id="the same region's"),
        pytest.param(with_volume("p", gcePersistentDisk={"pdName": "e"}), using("odd"), None, id="invalid zones"),
        pytest.param(with_volume("p", azureDisk={"diskURI": "u"}), using("azure"), FULL, id="azure"),
        pytest.param(with_volume("p", azureFile={"shareName": "s"}), using("file"), None, id="azure files"),
        pytest.param(with_volume("p", cinder={"volumeID": "1"}), with_volume(cinder={"volumeID": "2"}), FULL, id="2"),
        pytest.param(
            with_volume("p", portworxVolume={"volumeID": "1"}),
            with_volume(portworxVolume={"volumeID": "2"}),
            FULL,
            id="portworx",
        ),
    ],
)
def test_in_tree_volumes_count_for_their_csi_driver(
    running: PodBuilder, incoming: PodBuilder, expected: Reasons
) -> None:
    beta = "failure-domain.beta.kubernetes.io/zone"
    volumes = (
        in_tree("ebs", "awsElasticBlockStore", volumeID="vol-1"),
        volume("csi", EBS, "vol-1"),
        in_tree("gce", "gcePersistentDisk", pdName="d"),
        in_tree("zonal", "gcePersistentDisk", {beta: "us-east1-a"}, pdName="d"),
        in_tree("regional", "gcePersistentDisk", {beta: "us-east1-a__us-east1-b"}, pdName="d"),
        volume("known", GCE, "projects/UNSPECIFIED/regions/us-east1/disks/d"),
        in_tree("odd", "gcePersistentDisk", {beta: "a__b"}, pdName="d"),
        in_tree("azure", "azureDisk", diskURI="v", kind="Managed"),
        in_tree("file", "azureFile", shareName="t"),
    )
    drivers = (EBS, GCE, "disk.csi.azure.com", "file.csi.azure.com", "cinder.csi.openstack.org", "pxd.portworx.com")
    limits = {driver.replace(".", "_"): 1 for driver in drivers}
    claims = tuple(claim(v["metadata"]["name"], v["metadata"]["name"]) for v in volumes)
    subject = plugin(csi_node("a", **limits), claims=claims, volumes=volumes)
    assert reasons(subject, incoming, NODES, [running.on("a"), running.uid("2").on("b")]) == [expected, None]


EPHEMERAL = with_volume("me", ephemeral={"volumeClaimTemplate": {}})


def test_name_of_ephemeral_claim_contains_pod_name() -> None:
    claims = (claim("me-v", "v1", owner="me"), claim("other-v", "v2", owner="other"))
    other = EPHEMERAL._with("metadata.name", "other").uid("other").on("a")
    for limit, result in ((1, FULL), (2, None)):
        subject = plugin(csi_node("a", csi_example_com=limit), claims=claims, volumes=VOLUMES)
        assert reasons(subject, EPHEMERAL, NODES, [other]) == [result, None]


def test_missing_claim_rejects_pod() -> None:
    subject = plugin(csi_node("a"))
    missing = ('looking up PVC default/c1: persistentvolumeclaim "c1" not found',)
    assert reasons(subject, using("c1"), NODES) == [missing, missing]
    assert all(no is not None and not no.resolvable for no in rejections(subject, using("c1"), NODES))


LIMITED = csi_node("node", csi_example_com=9, ebs_csi_aws_com=9)
NOT_MINE = "PVC default/me-v was not created for pod default/me (pod is not owner)"
BAD_DISK = with_volume("me", awsElasticBlockStore={"volumeID": "aws://zone/disk"})
UNCLEAR = (
    "converting volume(v) from inline to csi: failed to translate Kubernetes ID to EBS Volume ID "
    "Invalid format for AWS volume (aws://zone/disk)"
)


LIMITED_ELSEWHERE = csi_node("node", ebs_csi_aws_com=9)


@pytest.mark.parametrize("limited", [LIMITED, LIMITED_ELSEWHERE], ids=["its driver", "another"])
@pytest.mark.parametrize(
    ("running", "incoming", "problem"),
    [
        pytest.param([], EPHEMERAL, NOT_MINE, id="an ephemeral claim of another"),
        pytest.param([], using(""), "PersistentVolumeClaim had no name", id="a claim without a name"),
        pytest.param([], BAD_DISK, UNCLEAR, id="invalid disk"),
        pytest.param([EPHEMERAL], using("c1"), NOT_MINE, id="a running pod's ephemeral claim of another"),
        pytest.param(
            [using("")], using("c1"), "PersistentVolumeClaim had no name", id="a running pod's without a name"
        ),
        pytest.param([BAD_DISK], using("c1"), UNCLEAR, id="running pod's invalid disk"),
    ],
)
def test_invalid_volumes_end_the_attempt(
    running: list[PodBuilder], incoming: PodBuilder, problem: str, limited: Json
) -> None:
    claims = (*CLAIMS, claim("me-v", "v1", owner="stranger"))
    subject, attempt = plugin(limited, claims=claims, volumes=VOLUMES), cycle()
    cluster = table([node()], [p.on("node") for p in running])
    (row,) = cluster
    assert subject.pre_filter(attempt, incoming.build(), cluster) is None
    for result in (
        lambda: subject.filter(attempt, incoming.build(), row),
        lambda: subject.filter_all(attempt, incoming.build(), cluster),
    ):
        with pytest.raises(StatusError) as caught:
            result()
        assert str(caught.value) == problem


def test_invalid_disk_matters_only_with_csi_node() -> None:
    assert reasons(plugin(), BAD_DISK, [node()]) == [None]


@pytest.mark.parametrize(
    "of",
    [pod(), with_volume(emptyDir={}), with_volume(csi={"driver": DRIVER})],
    ids=["none", "a directory", "inline csi"],
)
def test_pre_filter_skips_pod_without_attachable_volumes(of: PodBuilder) -> None:
    assert plugin().pre_filter(cycle(), of.build(), table([node()])) is SKIP_SIGNATURE_GROUP


@pytest.mark.parametrize(
    ("csi_nodes", "expected"),
    [
        pytest.param([], SKIP, id="no CSINode"),
        pytest.param([csi_node("a", csi_example_com=None)], SKIP, id="a driver without a limit"),
        pytest.param([csi_node("b", another_com=9)], None, id="another driver's on a node with pods of its own"),
    ],
)
def test_pre_filter_skips_if_no_driver_has_a_limit(csi_nodes: list[Json], expected: object) -> None:
    subject = plugin(*csi_nodes, claims=CLAIMS, volumes=VOLUMES)
    assert subject.pre_filter(cycle(), using("c1").build(), table(NODES)) is expected
    assert subject.pre_filter(cycle(), using("unheard-of").build(), table(NODES)) is None


def test_limits_follow_storage_objects() -> None:
    handle = empty_handle()
    for kind, objects in ((kinds.CLAIM, CLAIMS), (kinds.VOLUME, VOLUMES)):
        for one in objects:
            handle.objects.set(kind, one)
    subject = NodeVolumeLimits(NodeVolumeLimits.Args(), handle)
    assert reasons(subject, using("c1"), [node("a")]) == [None]
    handle.objects.set(kinds.CSI_NODE, csi_node("a", csi_example_com=1))
    assert reasons(subject, using("c1"), [node("a")]) == [None]
    handle.objects.set(kinds.VOLUME_ATTACHMENT, attachment("x", "a", "v2"))
    assert reasons(subject, using("c1"), [node("a")]) == [FULL]
    handle.objects.remove(kinds.VOLUME_ATTACHMENT, "", "x")
    assert reasons(subject, using("c1"), [node("a")]) == [None]
    handle.objects.set(kinds.CSI_NODE, csi_node("a", csi_example_com=0))
    assert reasons(subject, using("c1"), [node("a")]) == [FULL]


def changed(kind: str, action: Action, old: Json | None, new: Json | None) -> ClusterEvent:
    return ClusterEvent(kind, action, old, new)


def pod_placed(new: PodBuilder) -> ClusterEvent:
    return ClusterEvent(ASSIGNED_POD, Action.ADD, None, new.build())


MINE = using("c1", name="me")
BOTH = csi_node("a", csi_example_com=2, other=1)
FREED = attachment("x", "a", "v1", EBS)


@pytest.mark.parametrize(
    ("of", "event", "requeued"),
    [
        (MINE, changed("CSINode", Action.ADD, None, csi_node("a")), True),
        (MINE, changed("CSINode", Action.UPDATE_OTHER, csi_node("a", csi_example_com=1), BOTH), True),
        (MINE, changed("CSINode", Action.UPDATE_OTHER, csi_node("a", csi_example_com=2), BOTH), True),
        (MINE, changed("CSINode", Action.UPDATE_OTHER, BOTH, csi_node("a", other=1)), True),
        (MINE, changed("CSINode", Action.DELETE, BOTH, None), True),
        (MINE, changed("CSINode", Action.UPDATE_OTHER, BOTH, BOTH), False),
        (MINE, changed("CSINode", Action.UPDATE_OTHER, BOTH, csi_node("a", csi_example_com=None)), True),
        (MINE, pod_deleted(using("c2").on("a")), True),
        (MINE, pod_deleted(using("c2").nominated("a")), True),
        (MINE, pod_deleted(using("c2")), False),
        (MINE, pod_deleted(EPHEMERAL.on("a")), True),
        (MINE, pod_deleted(with_volume(vsphereVolume={}).on("a")), True),
        (MINE, pod_deleted(with_volume(emptyDir={}).on("a")), False),
        (MINE, changed("PersistentVolumeClaim", Action.ADD, None, claim("c1")), True),
        (MINE, changed("PersistentVolumeClaim", Action.ADD, None, claim("c2")), False),
        (MINE, changed("PersistentVolumeClaim", Action.ADD, None, named("c1", "x")), False),
        (EPHEMERAL, changed("PersistentVolumeClaim", Action.ADD, None, claim("me-v")), True),
        (MINE, changed("VolumeAttachment", Action.DELETE, FREED, None), True),
        (EPHEMERAL, changed("VolumeAttachment", Action.DELETE, FREED, None), True),
        (MINE, changed("VolumeAttachment", Action.UPDATE_OTHER, FREED, attachment("x", "b", "v1", EBS)), True),
        (MINE, changed("VolumeAttachment", Action.UPDATE_OTHER, FREED, FREED), False),
        (with_volume(**DISK), changed("VolumeAttachment", Action.DELETE, FREED, None), True),
        (with_volume(cinder={}), changed("VolumeAttachment", Action.DELETE, FREED, None), False),
        (MINE, changed("VolumeAttachment", Action.ADD, None, FREED), False),
        (MINE, node_added(node()), True),
        (MINE, changed("PersistentVolumeClaim", Action.UPDATE_OTHER, claim("c1"), claim("c1", "v1")), True),
        (MINE, changed("PersistentVolumeClaim", Action.UPDATE_OTHER, claim("c2"), claim("c2", "v2")), False),
        (MINE, changed("PersistentVolumeClaim", Action.DELETE, claim("c2", "v2"), None), True),
        (MINE, changed("PersistentVolume", Action.UPDATE_OTHER, volume("v1"), volume("v1", EBS)), True),
        (MINE, changed("PersistentVolume", Action.UPDATE_OTHER, volume("v2"), volume("v2")), False),
        (MINE, changed("PersistentVolume", Action.DELETE, volume("v2"), None), True),
        (MINE, changed("PersistentVolume", Action.ADD, None, volume("v9")), False),
        (MINE, changed("StorageClass", Action.DELETE, named("s", provisioner=DRIVER), None), True),
        (MINE, changed("StorageClass", Action.UPDATE_OTHER, named("s"), named("s")), False),
        (MINE, pod_placed(using("c1", name="other").on("a")), True),
        (MINE, pod_placed(using("c2", name="other").on("a")), False),
        (MINE, pod_placed(pod("other").on("a")), False),
    ],
)
def test_requeue_of_pod_rejected_by_volume_limits(of: PodBuilder, event: ClusterEvent, requeued: bool) -> None:
    assert requeues(plugin(claims=CLAIMS, volumes=VOLUMES), of, event) is requeued


MISSING = (f"{DRIVER} CSI driver is not installed on the node",)


def required(value: object = True) -> Json:
    """Return the CSIDriver of DRIVER."""
    return named(DRIVER, spec={"preventPodSchedulingIfMissing": value})


@pytest.mark.parametrize(
    ("csi_nodes", "driver", "expected"),
    [
        pytest.param([csi_node("a", csi_example_com=None)], required(), [None, MISSING], id="one node has it"),
        pytest.param([csi_node("a", other=5)], required(), [MISSING, MISSING], id="no node has it"),
        pytest.param([csi_node("a", csi_example_com=0)], required(), [FULL, MISSING], id="installed, but full"),
        pytest.param([], required(False), [None, None], id="may be missing"),
        pytest.param([], named(DRIVER, spec={}), [None, None], id="not stated"),
        pytest.param([], named("other", spec={"preventPodSchedulingIfMissing": True}), [None, None], id="other driver"),
    ],
)
def test_nodes_without_a_required_driver_are_rejected(
    csi_nodes: list[Json], driver: Json, expected: list[Reasons]
) -> None:
    objects: dict[str, Any] = {"claims": (claim("c1", "v1"),), "volumes": (volume("v1"),), "drivers": (driver,)}
    assert reasons(plugin(*csi_nodes, **objects), using("c1"), NODES) == expected
    ungated = plugin(*csi_nodes, **objects, of=NodeVolumeLimitsByCount)
    assert MISSING not in reasons(ungated, using("c1"), NODES)


def test_required_driver_can_be_helped_by_evictions() -> None:
    """kube-scheduler uses the code Unschedulable."""
    subject = plugin(claims=(claim("c1", "v1"),), volumes=(volume("v1"),), drivers=(required(),))
    assert all(each is not None and each.resolvable for each in rejections(subject, using("c1"), NODES))


@pytest.mark.parametrize(
    ("event", "requeued"),
    [
        (changed("CSIDriver", Action.UPDATE_OTHER, required(), required(False)), True),
        (changed("CSIDriver", Action.DELETE, required(), None), True),
        (changed("CSIDriver", Action.UPDATE_OTHER, required(), required()), False),
        (changed("CSIDriver", Action.DELETE, required(False), None), False),
    ],
)
def test_pod_is_requeued_when_its_driver_need_not_be_installed(event: ClusterEvent, requeued: bool) -> None:
    assert requeues(plugin(), using("c1"), event) == requeued
