"""The storage that a cluster offers: classes, drivers and their limits, capacities, attachments, volumes to be had."""

from __future__ import annotations

from tests.conformance.generator.base import delete
from tests.conformance.generator.generated_cluster import HOSTNAME, OLD_ZONE, REGION, ZONE, GeneratedCluster, Manifest

DRIVER, AWS_DRIVER = "csi.example.com", "ebs.csi.aws.com"
GCE_DRIVER = "pd.csi.storage.gke.io"
LOCAL, WAIT, NOW, AWS, GCE, GONE = "local", "csi-wait", "csi-now", "aws-wait", "gce-wait", "gone"
_CLASSES = {
    LOCAL: ("kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
    WAIT: (DRIVER, "WaitForFirstConsumer"),
    NOW: (DRIVER, "Immediate"),
    AWS: ("kubernetes.io/aws-ebs", "WaitForFirstConsumer"),
    GCE: ("kubernetes.io/gce-pd", "WaitForFirstConsumer"),
}
_MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
SIZES = ("1Gi", "5Gi", "10Gi")


def before(world: GeneratedCluster) -> None:
    """The classes and the driver; some have topologies, some drivers publish their capacity."""
    for name, (provisioner, mode) in _CLASSES.items():
        fields: Manifest = {"provisioner": provisioner, "volumeBindingMode": mode, "reclaimPolicy": "Delete"}
        if name in (WAIT, AWS, GCE) and world.chance(0.35):
            fields["allowedTopologies"] = [_topology(world) for _ in range(world.one(1, 1, 2))]
            world.mark("volumes:allowedTopologies")
        world.add("storage.k8s.io/v1", "StorageClass", world.metadata(name), **fields)
    if world.chance(0.6):
        spec = {"storageCapacity": world.chance(0.6), "attachRequired": True, "podInfoOnMount": False}
        world.add("storage.k8s.io/v1", "CSIDriver", world.metadata(DRIVER), spec=spec)
        for number in range(world.number(0, 3) if spec["storageCapacity"] else 0):
            _capacity(world, number)


def _topology(world: GeneratedCluster) -> Manifest:
    key, values = world.one((ZONE, ("z1", "z2", "z3")), (REGION, ("r1", "r2")), ("disk", ("ssd",)))
    return {"matchLabelExpressions": [{"key": key, "values": world.some(values, 1)}]}


def _capacity(world: GeneratedCluster, number: int) -> None:
    fields: Manifest = {"storageClassName": world.one(WAIT, WAIT, NOW)}
    if world.chance(0.9):
        labels = {ZONE: world.one("z1", "z2", "z3")}
        fields["nodeTopology"] = world.one({"matchLabels": labels}, {"matchLabels": labels}, {})
    if world.chance(0.85):
        fields["capacity"] = world.one("2Gi", "7Gi", "100Gi")
    if world.chance(0.3):
        fields["maximumVolumeSize"] = world.one("1Gi", "5Gi")
    world.add("storage.k8s.io/v1", "CSIStorageCapacity", world.metadata(f"capacity-{number}", "default"), **fields)
    world.mark("volumes:capacity")


def on_node(world: GeneratedCluster, node: Manifest) -> None:
    """The node's CSINode: how many volumes each driver can attach, which in-tree plugins have moved to a driver."""
    if world.chance(0.3):
        return
    meta = world.metadata(node["metadata"]["name"])
    drivers = []
    for name in world.some((DRIVER, AWS_DRIVER, GCE_DRIVER)):
        driver: Manifest = {"name": name, "nodeID": meta["name"], "topologyKeys": [ZONE]}
        if world.chance(0.75):
            driver["allocatable"] = {"count": world.one(0, 1, 1, 2, 3)}
        drivers.append(driver)
    if world.chance(0.5):
        meta["annotations"] = {_MIGRATED: "kubernetes.io/aws-ebs,kubernetes.io/gce-pd"}
        world.mark("volumes:migrated")
    world.add("storage.k8s.io/v1", "CSINode", meta, spec={"drivers": drivers})
    world.mark("volumes:csi-node")


def after(world: GeneratedCluster) -> None:
    """Volumes that nobody has claimed yet, and attachments of volumes that no pod here uses."""
    for number in range(world.number(0, 4)):
        class_name = world.one(LOCAL, LOCAL, WAIT)
        made = volume(world, f"free-{number}", class_name, world.one(*SIZES, "20Gi"))
        made["status"] = {"phase": world.one("Available", "Available", "Available", "Released")}
        if class_name == LOCAL and world.nodes:
            _pin(made, HOSTNAME, world.one(*world.nodes)["metadata"]["name"])
        if world.chance(0.3):
            made["metadata"].setdefault("labels", {})["quality"] = "gold"
        if world.chance(0.1):
            made["spec"]["volumeAttributesClassName"] = "quick"
        if world.chance(0.05):
            delete(world, made)
        world.mark("volumes:free")
    if world.nodes:
        for number in range(world.number(0, 4)):
            _attachment(world, number)


def _attachment(world: GeneratedCluster, number: int) -> None:
    volumes = [o for o in world.others if o["kind"] == "PersistentVolume"]
    name = world.one(*volumes)["metadata"]["name"] if volumes and world.chance(0.7) else f"unknown-{number}"
    spec = {
        "attacher": world.one(DRIVER, DRIVER, AWS_DRIVER, GCE_DRIVER),
        "nodeName": world.one(*world.nodes)["metadata"]["name"],
        "source": {"persistentVolumeName": name},
    }
    meta = world.metadata(f"attachment-{number}")
    world.add("storage.k8s.io/v1", "VolumeAttachment", meta, spec=spec, status={"attached": True})
    world.mark("volumes:attachment")


def volume(world: GeneratedCluster, name: str, class_name: str, size: str) -> Manifest:
    """A PersistentVolume, bound to nobody, reachable from everywhere."""
    spec: Manifest = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany"] if world.chance(0.3) else ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "volumeMode": "Block" if world.chance(0.04) else "Filesystem",
        "storageClassName": class_name,
    }
    if class_name == LOCAL:
        spec["local"] = {"path": "/mnt/disk"}
    elif class_name == AWS:
        spec["awsElasticBlockStore"] = {"volumeID": world.one(f"vol-{name}", f"aws://z1/vol-{name}")}
    elif class_name == GCE:
        spec["gcePersistentDisk"] = {"pdName": f"pd-{name}"}
    else:
        spec["csi"] = {"driver": DRIVER, "volumeHandle": f"handle-{name}"}
    return world.add("v1", "PersistentVolume", world.metadata(name), spec=spec)


def confine(world: GeneratedCluster, made: Manifest) -> None:
    """Binds the volume to a place: by node affinity, by zone labels, or not at all."""
    kind = world.rng.random()
    if kind < 0.3:
        _pin(made, *world.one((ZONE, world.one("z1", "z2")), (REGION, "r1"), (HOSTNAME, world.one("n0", "n1"))))
        world.mark("volumes:node-affinity")
    elif kind < 0.6:
        key = world.one(ZONE, ZONE, OLD_ZONE, REGION)
        value = world.one("r1", "r2") if key == REGION else world.one("z1", "z2__z3", "z1__z3")
        made["metadata"]["labels"] = {key: value}
        world.mark("volumes:zone-label")


def _pin(made: Manifest, key: str, value: str) -> None:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    made["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
