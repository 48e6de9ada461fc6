"""Disks in pods' specs (GCE, EBS, iSCSI, RBD), and volumes that scheduling ignores."""

from __future__ import annotations

from collections.abc import Callable

from tests.conformance.generator.generated_cluster import GeneratedCluster, Manifest, put


def in_pod(cluster: GeneratedCluster, pod: Manifest) -> None:
    if cluster.chance(0.2):
        return
    kind = cluster.one(*_KINDS, *_KINDS, *cluster.used_kinds("disks"))
    source = _KINDS[kind](cluster)
    if kind not in ("awsElasticBlockStore", "emptyDir") and cluster.chance(0.55):
        source["readOnly"] = True
    put(pod, "spec.volumes", [{"name": f"disk-{cluster.serial()}", kind: source}])
    cluster.mark(f"disks:{kind}")


def _gce(cluster: GeneratedCluster) -> Manifest:
    return {"pdName": cluster.one("pd-1", "pd-1", "pd-1", "pd-2")}


def _ebs(cluster: GeneratedCluster) -> Manifest:
    made: Manifest = {"volumeID": cluster.one("vol-1", "vol-2", "aws://z1/vol-1")}
    return {**made, "readOnly": True} if cluster.chance(0.3) else made


def _iscsi(cluster: GeneratedCluster) -> Manifest:
    portal = cluster.one("10.0.0.1:3260", "10.0.0.2:3260")
    return {
        "targetPortal": portal,
        "iqn": cluster.one("iqn.2026-01.com.example:1", "iqn.2026-01.com.example:2"),
        "lun": 0,
    }


def _rbd(cluster: GeneratedCluster) -> Manifest:
    monitors = cluster.some(("mon-1", "mon-2", "mon-3"), 1, 2)
    made: Manifest = {"monitors": monitors, "image": cluster.one("one", "two"), "keyring": "/etc/ceph/keyring"}
    return {**made, "pool": cluster.one("rbd", "rbd", "other"), "user": "admin"}


def _empty(cluster: GeneratedCluster) -> Manifest:
    return {}


_KINDS: dict[str, Callable[[GeneratedCluster], Manifest]] = {
    "gcePersistentDisk": _gce,
    "awsElasticBlockStore": _ebs,
    "iscsi": _iscsi,
    "rbd": _rbd,
    "emptyDir": _empty,
}
