"""VolumeBinding's PreFilter: claims that are missing, not the pod's, or unbound."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import SKIP, SKIP_SIGNATURE_GROUP, Rejection, Skip, StatusError
from pyscheduler.intree import VolumeBinding
from pyscheduler.intree._scoring import UtilizationShapePoint
from pyscheduler.testing import PodBuilder, node, pod

from .cluster import build, cycle
from .storage import ZONE, Cluster, Manifest, bound, claim, ephemeral, meta, storage_class, using, volume, within

CONTROLLED = {"kind": "Pod", "name": "pod", "uid": "pod", "controller": True}


def plugin(cluster: Cluster) -> VolumeBinding:
    return VolumeBinding(VolumeBinding.Args(), cluster.handle)


def pre_filter(incoming: PodBuilder, *objects: Manifest) -> Any:
    cluster = Cluster(*objects, nodes=[node("a")])
    return plugin(cluster).pre_filter(cycle(), incoming.build(), cluster.state.table())


def owned(**owner: Any) -> Manifest:
    return meta(bound("pv", "pod-scratch"), ownerReferences=[{**CONTROLLED, **owner}])


PLAIN = [{"name": "config", "configMap": {"name": "c"}}, {"name": "empty", "emptyDir": {}}]


@pytest.mark.parametrize("incoming", [pod(), pod().spec(volumes=PLAIN)], ids=["no volumes", "other volumes"])
def test_pre_filter_skips_pods_without_claims(incoming: PodBuilder) -> None:
    assert pre_filter(incoming) is SKIP_SIGNATURE_GROUP


@pytest.mark.parametrize(
    ("incoming", "objects", "why"),
    [
        pytest.param(using("data"), [], 'persistentvolumeclaim "data" not found', id="missing"),
        pytest.param(
            ephemeral(),
            [],
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "pod-scratch"',
            id="ephemeral, not created yet",
        ),
        pytest.param(
            using("data"),
            [{**bound("gone"), "status": {"phase": "Lost"}}],
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "gone"',
            id="lost",
        ),
        pytest.param(
            using("data"),
            [meta(bound("pv"), deletionTimestamp="2026-01-01T00:00:00Z")],
            'persistentvolumeclaim "data" is being deleted',
            id="being deleted",
        ),
        pytest.param(
            ephemeral(),
            [bound("pv", "pod-scratch")],
            "PVC default/pod-scratch was not created for pod default/pod (pod is not owner)",
            id="ephemeral, without owner",
        ),
        pytest.param(
            ephemeral(),
            [owned(uid="other")],
            "PVC default/pod-scratch was not created for pod default/pod (pod is not owner)",
            id="ephemeral, another pod's",
        ),
        pytest.param(
            ephemeral(),
            [owned(controller=False)],
            "PVC default/pod-scratch was not created for pod default/pod (pod is not owner)",
            id="ephemeral, owned but not controlled",
        ),
        pytest.param(
            using("a", "b"), [bound("pv", "a")], 'persistentvolumeclaim "b" not found', id="every claim is looked at"
        ),
    ],
)
def test_unusable_claims_reject_pod(incoming: PodBuilder, objects: list[Manifest], why: str) -> None:
    assert pre_filter(incoming, *objects, volume()) == Rejection(why, resolvable=False)


IMMEDIATE = Rejection("pod has unbound immediate PersistentVolumeClaims", resolvable=False)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(bound("pv"), SKIP, id="bound"),
        pytest.param(claim(), None, id="waits for its first consumer"),
        pytest.param(claim(storage_class="now"), IMMEDIATE, id="immediate"),
        pytest.param(claim(storage_class=""), IMMEDIATE, id="no class"),
        pytest.param(claim(storage_class="unheard-of"), IMMEDIATE, id="a class that does not exist"),
        pytest.param(claim(volumeName="pv"), IMMEDIATE, id="names its volume, not bound yet"),
        pytest.param(
            meta(claim(), annotations={"pv.kubernetes.io/bind-completed": "yes"}), None, id="completed without a volume"
        ),
        pytest.param(
            meta(claim(), annotations={"volume.beta.kubernetes.io/storage-class": "now"}), IMMEDIATE, id="beta class"
        ),
        pytest.param(
            meta(claim(), annotations={"volume.beta.kubernetes.io/storage-class": ""}), IMMEDIATE, id="beta: no class"
        ),
    ],
)
def test_unbound_claim_must_wait_for_first_consumer(wanted: Manifest, expected: Rejection | Skip | None) -> None:
    assert pre_filter(using("data"), wanted, volume(), storage_class(), storage_class("now", "Immediate")) == expected


def test_own_ephemeral_claim_is_accepted() -> None:
    assert pre_filter(ephemeral(), owned(), volume()) is SKIP


DISK: dict[str, Any] = {"awsElasticBlockStore": {"volumeID": "vol-1"}}


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        pytest.param(volume(), SKIP, id="accessible everywhere"),
        pytest.param(volume(**DISK), SKIP, id="an in-tree disk of no zone"),
        pytest.param(meta(volume(**DISK), labels={ZONE: "z1"}), None, id="in-tree disk with a zone label"),
        pytest.param(volume(azureDisk={"kind": "Shared"}), None, id="untranslatable disk"),
        pytest.param(volume(nodeAffinity=within("z1")), None, id="in a zone"),
        pytest.param(volume("another"), None, id="one that does not exist"),
    ],
)
def test_pre_filter_skips_if_volumes_are_accessible_everywhere(held: Manifest, expected: Skip | None) -> None:
    assert pre_filter(using("data"), bound("pv"), held) is expected
    assert pre_filter(using("data", "more"), bound("pv"), claim("more"), storage_class(), held) is None


def test_class_without_binding_mode_raises() -> None:
    with pytest.raises(StatusError, match=r'^VolumeBindingMode not set for StorageClass "late"$'):
        pre_filter(using("data"), claim(), storage_class(mode=None))


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (
            {"bind_timeout_seconds": -1},
            "bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value",
        ),
        (
            {"shape": (UtilizationShapePoint(0, 11),)},
            "shape[0].score: Invalid value: 11: not in valid range [0, 10]",
        ),
    ],
)
def test_invalid_args_raise_kube_schedulers_text(args: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match="Invalid value") as caught:
        build(VolumeBinding, **args)
    assert str(caught.value) == problem


def test_bind_timeout_may_be_0() -> None:
    assert VolumeBinding.Args().bind_timeout_seconds == 600
    assert VolumeBinding.Args(bind_timeout_seconds=0).bind_timeout_seconds == 0


def test_pre_score_is_skipped_without_unbound_claims() -> None:
    cluster = Cluster(bound("pv"), volume(), nodes=[node("a")])
    subject, attempt, of = plugin(cluster), cycle(), using("data").build()
    subject.pre_filter(attempt, of, cluster.state.table())
    assert subject.pre_score(attempt, of, cluster.state.table()) is SKIP
    assert subject.pre_score(cycle(), pod().build(), cluster.state.table()) is SKIP_SIGNATURE_GROUP
