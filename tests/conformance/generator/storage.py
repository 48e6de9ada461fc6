"""Storage of a cluster: classes, drivers and limits, capacities, attachments, available volumes."""

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


def before(cluster: GeneratedCluster) -> None:
    """Add the classes and the driver; some have topologies, some drivers publish their capacity."""
    for name, (provisioner, mode) in _CLASSES.items():
        fields: Manifest = {"provisioner": provisioner, "volumeBindingMode": mode, "reclaimPolicy": "Delete"}
        if name in (WAIT, AWS, GCE) and cluster.chance(0.35):
            fields["allowedTopologies"] = [_topology(cluster) for _ in range(cluster.one(1, 1, 2))]
            cluster.mark("volumes:allowedTopologies")
        cluster.add("storage.k8s.io/v1", "StorageClass", cluster.metadata(name), **fields)
    if cluster.chance(0.6):
        spec = {"storageCapacity": cluster.chance(0.6), "attachRequired": True, "podInfoOnMount": False}
        if cluster.chance(0.4):
            spec["preventPodSchedulingIfMissing"] = True
            cluster.mark("volumes:required-driver")
        cluster.add("storage.k8s.io/v1", "CSIDriver", cluster.metadata(DRIVER), spec=spec)
        for number in range(cluster.number(0, 3) if spec["storageCapacity"] else 0):
            _capacity(cluster, number)


def _topology(cluster: GeneratedCluster) -> Manifest:
    key, values = cluster.one((ZONE, ("z1", "z2", "z3")), (REGION, ("r1", "r2")), ("disk", ("ssd",)))
    return {"matchLabelExpressions": [{"key": key, "values": cluster.some(values, 1)}]}


def _capacity(cluster: GeneratedCluster, number: int) -> None:
    fields: Manifest = {"storageClassName": cluster.one(WAIT, WAIT, NOW)}
    if cluster.chance(0.9):
        labels = {ZONE: cluster.one("z1", "z2", "z3")}
        fields["nodeTopology"] = cluster.one({"matchLabels": labels}, {"matchLabels": labels}, {})
    if cluster.chance(0.85):
        fields["capacity"] = cluster.one("2Gi", "7Gi", "100Gi")
        if cluster.chance(0.3):  # alone, it makes kube-scheduler 1.37 panic when it scores the node
            fields["maximumVolumeSize"] = cluster.one("1Gi", "5Gi")
    cluster.add("storage.k8s.io/v1", "CSIStorageCapacity", cluster.metadata(f"capacity-{number}", "default"), **fields)
    cluster.mark("volumes:capacity")


def on_node(cluster: GeneratedCluster, node: Manifest) -> None:
    """Add the node's CSINode with volume limits of drivers and migrated in-tree plugins."""
    if cluster.chance(0.3):
        return
    meta = cluster.metadata(node["metadata"]["name"])
    drivers = []
    for name in cluster.some((DRIVER, AWS_DRIVER, GCE_DRIVER)):
        driver: Manifest = {"name": name, "nodeID": meta["name"], "topologyKeys": [ZONE]}
        if cluster.chance(0.75):
            driver["allocatable"] = {"count": cluster.one(0, 1, 1, 2, 3)}
        drivers.append(driver)
    if cluster.chance(0.5):
        meta["annotations"] = {_MIGRATED: "kubernetes.io/aws-ebs,kubernetes.io/gce-pd"}
        cluster.mark("volumes:migrated")
    cluster.add("storage.k8s.io/v1", "CSINode", meta, spec={"drivers": drivers})
    cluster.mark("volumes:csi-node")


def after(cluster: GeneratedCluster) -> None:
    """Add unclaimed volumes, and attachments of volumes that no pod here uses."""
    for number in range(cluster.number(0, 4)):
        class_name = cluster.one(LOCAL, LOCAL, WAIT)
        made = volume(cluster, f"free-{number}", class_name, cluster.one(*SIZES, "20Gi"))
        made["status"] = {"phase": cluster.one("Available", "Available", "Available", "Released")}
        if class_name == LOCAL and cluster.nodes:
            _pin(made, HOSTNAME, cluster.one(*cluster.nodes)["metadata"]["name"])
        if cluster.chance(0.3):
            made["metadata"].setdefault("labels", {})["quality"] = "gold"
        if cluster.chance(0.1):
            made["spec"]["volumeAttributesClassName"] = "quick"
        if cluster.chance(0.05):
            delete(cluster, made)
        cluster.mark("volumes:free")
    if cluster.nodes:
        for number in range(cluster.number(0, 4)):
            _attachment(cluster, number)


def _attachment(cluster: GeneratedCluster, number: int) -> None:
    volumes = [o for o in cluster.others if o["kind"] == "PersistentVolume"]
    name = cluster.one(*volumes)["metadata"]["name"] if volumes and cluster.chance(0.7) else f"unknown-{number}"
    spec = {
        "attacher": cluster.one(DRIVER, DRIVER, AWS_DRIVER, GCE_DRIVER),
        "nodeName": cluster.one(*cluster.nodes)["metadata"]["name"],
        "source": {"persistentVolumeName": name},
    }
    meta = cluster.metadata(f"attachment-{number}")
    cluster.add("storage.k8s.io/v1", "VolumeAttachment", meta, spec=spec, status={"attached": True})
    cluster.mark("volumes:attachment")


def volume(cluster: GeneratedCluster, name: str, class_name: str, size: str) -> Manifest:
    """Return an unbound PersistentVolume without node affinity."""
    spec: Manifest = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany"] if cluster.chance(0.3) else ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "volumeMode": "Block" if cluster.chance(0.04) else "Filesystem",
        "storageClassName": class_name,
    }
    if class_name == LOCAL:
        spec["local"] = {"path": "/mnt/disk"}
    elif class_name == AWS:
        spec["awsElasticBlockStore"] = {"volumeID": cluster.one(f"vol-{name}", f"aws://z1/vol-{name}")}
    elif class_name == GCE:
        spec["gcePersistentDisk"] = {"pdName": f"pd-{name}"}
    else:
        spec["csi"] = {"driver": DRIVER, "volumeHandle": f"handle-{name}"}
    return cluster.add("v1", "PersistentVolume", cluster.metadata(name), spec=spec)


def confine(cluster: GeneratedCluster, made: Manifest) -> None:
    """Limit the volume to a place by node affinity or zone labels, or not at all."""
    kind = cluster.rng.random()
    if kind < 0.3:
        _pin(made, *cluster.one((ZONE, cluster.one("z1", "z2")), (REGION, "r1"), (HOSTNAME, cluster.one("n0", "n1"))))
        cluster.mark("volumes:node-affinity")
    elif kind < 0.6:
        key = cluster.one(ZONE, ZONE, OLD_ZONE, REGION)
        value = cluster.one("r1", "r2") if key == REGION else cluster.one("z1", "z2__z3", "z1__z3")
        made["metadata"]["labels"] = {key: value}
        cluster.mark("volumes:zone-label")


def _pin(made: Manifest, key: str, value: str) -> None:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    made["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
