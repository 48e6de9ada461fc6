"""Disks that pods name themselves (GCE, EBS, iSCSI, RBD), and volumes that scheduling does not look at."""

from __future__ import annotations

from collections.abc import Callable

from tests.conformance.generator.generated_cluster import GeneratedCluster, Manifest, put


def in_pod(world: GeneratedCluster, pod: Manifest) -> None:
    if world.chance(0.2):
        return
    kind = world.one(*_KINDS, *_KINDS, *world.used_kinds("disks"))
    source = _KINDS[kind](world)
    if kind not in ("awsElasticBlockStore", "emptyDir") and world.chance(0.55):
        source["readOnly"] = True
    put(pod, "spec.volumes", [{"name": f"disk-{world.serial()}", kind: source}])
    world.mark(f"disks:{kind}")


def _gce(world: GeneratedCluster) -> Manifest:
    return {"pdName": world.one("pd-1", "pd-1", "pd-1", "pd-2")}


def _ebs(world: GeneratedCluster) -> Manifest:
    made: Manifest = {"volumeID": world.one("vol-1", "vol-2", "aws://z1/vol-1")}
    return {**made, "readOnly": True} if world.chance(0.3) else made


def _iscsi(world: GeneratedCluster) -> Manifest:
    portal = world.one("10.0.0.1:3260", "10.0.0.2:3260")
    return {
        "targetPortal": portal,
        "iqn": world.one("iqn.2026-01.com.example:1", "iqn.2026-01.com.example:2"),
        "lun": 0,
    }


def _rbd(world: GeneratedCluster) -> Manifest:
    monitors = world.some(("mon-1", "mon-2", "mon-3"), 1, 2)
    made: Manifest = {"monitors": monitors, "image": world.one("one", "two"), "keyring": "/etc/ceph/keyring"}
    return {**made, "pool": world.one("rbd", "rbd", "other"), "user": "admin"}


def _empty(world: GeneratedCluster) -> Manifest:
    return {}


_KINDS: dict[str, Callable[[GeneratedCluster], Manifest]] = {
    "gcePersistentDisk": _gce,
    "awsElasticBlockStore": _ebs,
    "iscsi": _iscsi,
    "rbd": _rbd,
    "emptyDir": _empty,
}
