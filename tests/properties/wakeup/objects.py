"""Events of other objects: namespaces, storage, owners, disruption budgets, device classes."""

from __future__ import annotations

from collections.abc import Callable

from tests.conformance.generator import preemption, spread, storage, volumes
from tests.conformance.generator.base import APPS, delete
from tests.conformance.generator.generated_cluster import HOSTNAME, ZONE, Manifest
from tests.conformance.generator.resources import GPU
from tests.properties.wakeup.cluster import Cluster

_COMPLETED = "pv.kubernetes.io/bind-completed"
_SELECTED = "volume.kubernetes.io/selected-node"
_MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
Change = Callable[[Cluster, Manifest], str]


def _changed(cluster: Cluster, kind: str, change: Change) -> str:
    known = cluster.objects(kind)
    if not known:
        return ""
    obj = cluster.generated.one(*known)
    what = change(cluster, obj)
    return f"{cluster.show(obj)}: {what}" if what else ""


# -- namespaces --------------------------------------------------------------------------------------------------------


def relabel_namespace(cluster: Cluster) -> str:
    return _changed(cluster, "Namespace", _other_team)


def _other_team(cluster: Cluster, namespace: Manifest) -> str:
    team = cluster.generated.one(None, "red", "blue")
    namespace["metadata"]["labels"] = {} if team is None else {"team": team}
    return f"team {team}"


def replace_namespace(cluster: Cluster) -> str:
    """Delete a namespace object, or create a missing one."""
    known = cluster.objects("Namespace")
    missing = set(cluster.generated.namespaces) - {n["metadata"]["name"] for n in known}
    if missing and cluster.generated.chance(0.7):
        name = cluster.generated.one(*sorted(missing))
        labels = {"team": cluster.generated.one("red", "blue")}
        return cluster.show({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    return cluster.delete(cluster.generated.one(*known)) if known else ""


# -- volumes and claims ------------------------------------------------------------------------------------------------


def create_volume(cluster: Cluster) -> str:
    generated = cluster.generated
    made = storage.volume(generated, f"free-{generated.serial()}", generated.one(storage.LOCAL, storage.WAIT), "10Gi")
    made["status"] = {"phase": generated.one("Available", "Available", "Pending")}
    if generated.chance(0.5):
        storage.confine(generated, made)
    pending = [c for c in cluster.objects("PersistentVolumeClaim") if not c["spec"].get("volumeName")]
    if pending and generated.chance(0.3):
        made["spec"]["claimRef"] = _reference(generated.one(*pending))
    cluster.show_drawn()
    return f"PersistentVolume {made['metadata']['name']} created"


def change_volume(cluster: Cluster) -> str:
    return _changed(cluster, "PersistentVolume", _volume_change)


def _volume_change(cluster: Cluster, volume: Manifest) -> str:
    generated, spec = cluster.generated, volume["spec"]
    what = generated.one("phase", "release", "labels", "affinity", "size", "deletion", "class", "handle", "attributes")
    if what == "phase":
        volume["status"] = {"phase": generated.one("Available", "Bound", "Released")}
    elif what == "release":
        spec.pop("claimRef", None)
        volume["status"] = {"phase": "Available"}
    elif what == "labels":
        volume["metadata"]["labels"] = generated.one({}, {ZONE: "z1"}, {ZONE: "z1__z2"}, {"quality": "gold"})
    elif what == "affinity":
        spec.pop("nodeAffinity", None)
        if generated.chance(0.5):
            storage.confine(generated, volume)
    elif what == "size":
        spec["capacity"] = {"storage": generated.one("1Gi", "20Gi")}
    elif what == "deletion":
        _toggle_deletion(cluster, volume)
    elif what == "class":
        spec["storageClassName"] = generated.one(storage.LOCAL, storage.WAIT, storage.NOW)
    elif what == "handle" and "csi" in spec:
        spec["csi"] = {"driver": storage.DRIVER, "volumeHandle": generated.one("handle-a", "handle-b")}
    else:
        spec["volumeAttributesClassName"] = generated.one("", "quick")
    return what


def _toggle_deletion(cluster: Cluster, obj: Manifest) -> None:
    if obj["metadata"].pop("deletionTimestamp", None) is None:
        delete(cluster.generated, obj)


def change_claim(cluster: Cluster) -> str:
    return _changed(cluster, "PersistentVolumeClaim", _claim_change)


def _claim_change(cluster: Cluster, claim: Manifest) -> str:
    generated, annotations = cluster.generated, claim["metadata"].setdefault("annotations", {})
    what = generated.one("select", "size", "lost", "deletion", "class", "mode", "owner")
    if what == "select":
        annotations.pop(_SELECTED, None)
        if generated.chance(0.5):
            annotations[_SELECTED] = generated.one(*cluster.nodes, "n-gone")
    elif what == "size":
        claim["spec"]["resources"] = {"requests": {"storage": generated.one("1Gi", "10Gi")}}
    elif what == "lost":
        claim["status"] = {"phase": generated.one("Lost", "Pending", "Bound")}
    elif what == "deletion":
        _toggle_deletion(cluster, claim)
    elif what == "class":
        claim["spec"]["storageClassName"] = generated.one(storage.LOCAL, storage.WAIT, storage.NOW)
    elif what == "mode":
        claim["spec"]["accessModes"] = [generated.one("ReadWriteOnce", "ReadWriteOncePod")]
    else:
        owners = [pod for pod in cluster.pods() if claim["metadata"]["name"].startswith(pod["metadata"]["name"])]
        claim["metadata"]["ownerReferences"] = [
            {"kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"], "controller": True}
            for pod in owners[:1]
        ]
    return what


def create_claim(cluster: Cluster) -> str:
    """Create a missing claim of a pod."""
    generated = cluster.generated
    known = {(c["metadata"]["namespace"], c["metadata"]["name"]) for c in cluster.objects("PersistentVolumeClaim")}
    wanted = [(pod["metadata"]["namespace"], name, pod) for pod in cluster.pods() for name in _claim_names(pod)]
    missing = [(namespace, name, pod) for namespace, name, pod in wanted if (namespace, name) not in known]
    if not missing:
        return ""
    namespace, name, pod = generated.one(*missing)
    claim = volumes.pending_claim(generated, name, namespace)
    owner = {"kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"], "controller": True}
    claim["metadata"]["ownerReferences"] = [owner]
    claim["spec"]["storageClassName"] = generated.one(storage.LOCAL, storage.WAIT, storage.AWS)
    cluster.show_drawn()
    return f"PersistentVolumeClaim {namespace}/{name} created"


def _claim_names(pod: Manifest) -> list[str]:
    named = [v["persistentVolumeClaim"]["claimName"] for v in _volumes(pod) if "persistentVolumeClaim" in v]
    return named + [f"{pod['metadata']['name']}-{v['name']}" for v in _volumes(pod) if "ephemeral" in v]


def _volumes(pod: Manifest) -> list[Manifest]:
    found: list[Manifest] = pod["spec"].get("volumes", [])
    return found


def bind_claim(cluster: Cluster) -> str:
    """Bind a claim to a new or an existing volume, as the volume controller does."""
    generated = cluster.generated
    pending = [c for c in cluster.objects("PersistentVolumeClaim") if _COMPLETED not in c["metadata"]["annotations"]]
    if not pending:
        return ""
    claim, free = generated.one(*pending), cluster.objects("PersistentVolume")
    if free and generated.chance(0.6):
        volume = generated.one(*free)
    else:
        volume = storage.volume(
            generated, f"made-{generated.serial()}", claim["spec"].get("storageClassName", ""), "10Gi"
        )
        storage.confine(generated, volume)
        cluster.show_drawn()
    volume["spec"]["claimRef"], volume["status"] = _reference(claim), {"phase": "Bound"}
    if generated.chance(0.9):
        cluster.show(volume)
    claim["spec"]["volumeName"] = volume["metadata"]["name"]
    claim["metadata"]["annotations"][_COMPLETED] = "yes"
    claim["status"] = {"phase": "Bound"}
    return f"{cluster.show(claim)} bound to {volume['metadata']['name']}"


def _reference(claim: Manifest) -> Manifest:
    return {key: claim["metadata"].get(key, "") for key in ("namespace", "name", "uid")}


# -- classes, drivers, limits ------------------------------------------------------------------------------------------


def change_class(cluster: Cluster) -> str:
    return _changed(cluster, "StorageClass", _class_change)


def _class_change(cluster: Cluster, storage_class: Manifest) -> str:
    what = cluster.generated.one("topologies", "no topologies", "mode", "provisioner")
    if what == "topologies":
        values = cluster.generated.some(("z1", "z2", "z3"), 1)
        storage_class["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": values}]}]
    elif what == "no topologies":
        storage_class.pop("allowedTopologies", None)
    elif what == "mode":  # immutable: stands for deletion and recreation between two watch events
        storage_class["volumeBindingMode"] = cluster.generated.one("Immediate", "WaitForFirstConsumer")
    else:
        storage_class["provisioner"] = cluster.generated.one(storage.DRIVER, "kubernetes.io/no-provisioner")
    return what


def change_driver(cluster: Cluster) -> str:
    """Create the driver, or toggle whether it publishes its capacity."""
    tracked = cluster.generated.chance(0.5)
    meta = {"name": storage.DRIVER}
    shown = cluster.show(
        {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": meta, "spec": {"storageCapacity": tracked}}
    )
    return f"{shown}: storageCapacity {tracked}"


def change_capacity(cluster: Cluster) -> str:
    generated = cluster.generated
    known = cluster.objects("CSIStorageCapacity")
    if not known or generated.chance(0.3):
        meta = {"name": f"capacity-{generated.number(0, 3)}", "namespace": "default"}
        made: Manifest = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity", "metadata": meta}
        made["storageClassName"] = storage.WAIT
    else:
        made = generated.one(*known)
    labels = {ZONE: generated.one("z1", "z2", "z3")}
    made["nodeTopology"] = generated.one({"matchLabels": labels}, {})
    made["capacity"] = generated.one("1Gi", "100Gi")
    made.pop("maximumVolumeSize", None)
    if generated.chance(0.3):
        made["maximumVolumeSize"] = generated.one("1Gi", "50Gi")
    return f"{cluster.show(made)}: {made['capacity']} {made.get('maximumVolumeSize', '')} at {made['nodeTopology']}"


def change_csi_node(cluster: Cluster) -> str:
    """Register a node's drivers again: with other limits, without limits, migrated or not."""
    generated = cluster.generated
    if not cluster.nodes:
        return ""
    name = generated.one(*cluster.nodes)
    meta: Manifest = {"name": name}
    if generated.chance(0.5):
        plugins = generated.one("kubernetes.io/aws-ebs", "kubernetes.io/aws-ebs,kubernetes.io/gce-pd")
        meta["annotations"] = {_MIGRATED: plugins}
    drivers = []
    for driver in generated.some((storage.DRIVER, storage.AWS_DRIVER, storage.GCE_DRIVER)):
        entry: Manifest = {"name": driver, "nodeID": name}
        if generated.chance(0.7):
            entry["allocatable"] = {"count": generated.one(0, 1, 2, 4)}
        drivers.append(entry)
    shown = cluster.show(
        {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": meta, "spec": {"drivers": drivers}}
    )
    return f"{shown}: {drivers}"


def change_attachment(cluster: Cluster) -> str:
    generated, known = cluster.generated, cluster.objects("PersistentVolume")
    if not cluster.nodes or not known:
        return ""
    source = {"persistentVolumeName": generated.one(*known)["metadata"]["name"]}
    spec = {"attacher": storage.DRIVER, "nodeName": generated.one(*cluster.nodes), "source": source}
    meta = {"name": f"attachment-{generated.number(0, 4)}"}
    made = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": meta, "spec": spec}
    return f"{cluster.show(made)}: {source} to {spec['nodeName']}"


# -- owners, budgets, devices ------------------------------------------------------------------------------------------


def change_owner(cluster: Cluster) -> str:
    """Create a Service or controller, or change its selector."""
    generated = cluster.generated
    kind = generated.one("Service", "Service", "ReplicaSet", "StatefulSet")
    known = cluster.objects(kind)
    if kind == "Service" and (not known or generated.chance(0.3)):
        meta = {"name": f"service-{generated.number(0, 3)}", "namespace": generated.one(*generated.namespaces)}
        made: Manifest = {"apiVersion": "v1", "kind": "Service", "metadata": meta}
    elif known:
        made = generated.one(*known)
    else:
        return ""
    app = {"app": generated.one(*APPS)}
    made["spec"] = {"selector": app if kind == "Service" else {"matchLabels": app}}
    return f"{cluster.show(made)} selects {app}"


def draw_owners(cluster: Cluster) -> str:
    before = len(cluster.generated.others)
    spread.owners(cluster.generated)
    cluster.show_drawn()
    return "owners created" if len(cluster.generated.others) > before else ""


def change_budgets(cluster: Cluster) -> str:
    cluster.generated.assigned = cluster.pods(assigned=True)
    preemption.budgets(cluster.generated)
    cluster.show_drawn()
    return "budgets drawn"


def change_device_class(cluster: Cluster) -> str:
    spec = cluster.generated.one({"extendedResourceName": GPU}, {})
    meta = {"name": "devices"}
    return cluster.show({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": meta, "spec": spec})


_DELETABLE = (
    "PersistentVolume",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "StorageClass",
    "CSINode",
    "CSINode",
    "CSIDriver",
    "CSIStorageCapacity",
    "VolumeAttachment",
    "VolumeAttachment",
    "Service",
    "ReplicaSet",
    "StatefulSet",
    "PodDisruptionBudget",
    "DeviceClass",
)


def delete_object(cluster: Cluster) -> str:
    known = cluster.objects(cluster.generated.one(*_DELETABLE))
    return cluster.delete(cluster.generated.one(*known)) if known else ""


def restore_classes(cluster: Cluster) -> str:
    """Restore a storage class to its original state."""
    drawn = [obj for obj in cluster.generated.others if obj["kind"] == "StorageClass"]
    return f"{cluster.show(cluster.generated.one(*drawn))} restored" if drawn else ""


def pin_volume(cluster: Cluster) -> str:
    """Create a local volume on a node."""
    generated = cluster.generated
    if not cluster.nodes:
        return ""
    made = storage.volume(generated, f"local-{generated.serial()}", storage.LOCAL, "20Gi")
    made["status"] = {"phase": "Available"}
    term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [generated.one(*cluster.nodes)]}]}
    made["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    cluster.show_drawn()
    return f"PersistentVolume {made['metadata']['name']} created"
