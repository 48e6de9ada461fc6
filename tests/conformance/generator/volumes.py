"""Pods with claims in every state, and generic ephemeral volumes."""

from __future__ import annotations

from collections.abc import Callable

from tests.conformance.generator import storage
from tests.conformance.generator.base import delete
from tests.conformance.generator.generated_cluster import GeneratedCluster, Manifest, is_assigned, put

_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"


def in_pod(cluster: GeneratedCluster, pod: Manifest) -> None:
    """Add up to two volumes; claims of placed pods are nearly always bound."""
    for _ in range(cluster.one(0, 1, 1, 1, 2)):
        name = f"data-{cluster.serial()}"
        if cluster.chance(0.12):
            _ephemeral(cluster, pod, name)
            continue
        claim = _shared(cluster, pod) or _claim(cluster, pod, f"claim-{cluster.serial()}")
        put(pod, "spec.volumes", [{"name": name, "persistentVolumeClaim": {"claimName": claim}}])


def _shared(cluster: GeneratedCluster, pod: Manifest) -> str:
    """Return the name of an existing claim, "" for none."""
    here: list[str] = [
        o["metadata"]["name"]
        for o in cluster.others
        if o["kind"] == "PersistentVolumeClaim" and o["metadata"]["namespace"] == pod["metadata"]["namespace"]
    ]
    if not here or cluster.chance(0.6):
        return ""
    cluster.mark("volumes:shared")
    return cluster.one(*here)


def _claim(cluster: GeneratedCluster, pod: Manifest, name: str) -> str:
    kinds = _ASSIGNED if is_assigned(pod) else _PENDING
    kind = cluster.rng.choices(list(kinds), list(kinds.values()))[0]
    cluster.mark(f"volumes:{kind}")
    if kind != "missing":
        _MAKERS[kind](cluster, pending_claim(cluster, name, pod["metadata"]["namespace"]))
    return name


def pending_claim(cluster: GeneratedCluster, name: str, namespace: str) -> Manifest:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": cluster.one(*storage.SIZES)}},
        "volumeMode": "Filesystem",
        "storageClassName": storage.WAIT,
    }
    meta = {**cluster.metadata(name, namespace), "annotations": {}}
    return cluster.add("v1", "PersistentVolumeClaim", meta, spec=spec, status={"phase": "Pending"})


def _bound(cluster: GeneratedCluster, claim: Manifest) -> None:
    """Bind the claim to a volume of its own, in both directions; one in twenty has no volume or no class."""
    meta, spec = claim["metadata"], claim["spec"]
    name = f"pv-{meta['name']}"
    spec["volumeName"] = name
    spec["storageClassName"] = cluster.one(storage.WAIT, storage.WAIT, storage.NOW, storage.AWS, storage.GCE, "")
    meta["annotations"] = {_BIND_COMPLETED: "yes", _BOUND_BY_CONTROLLER: "yes"}
    claim["status"] = {"phase": "Bound"}
    if cluster.chance(0.04):
        cluster.mark("volumes:volume-gone")
        return
    made = storage.volume(cluster, name, spec["storageClassName"], spec["resources"]["requests"]["storage"])
    made["spec"]["claimRef"] = {"kind": "PersistentVolumeClaim", **_reference(meta)}
    made["status"] = {"phase": "Bound"}
    storage.confine(cluster, made)


def _reference(meta: Manifest) -> Manifest:
    return {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}


def _exclusive(cluster: GeneratedCluster, claim: Manifest) -> None:
    _bound(cluster, claim)
    claim["spec"]["accessModes"] = ["ReadWriteOncePod"]


def _static(cluster: GeneratedCluster, claim: Manifest) -> None:
    """Make the claim wait for its first consumer; only existing volumes can satisfy it."""
    claim["spec"]["storageClassName"] = storage.LOCAL
    if cluster.chance(0.15):
        claim["spec"]["selector"] = {"matchLabels": {"quality": "gold"}}
        cluster.mark("volumes:selector")
    if cluster.chance(0.1):
        claim["spec"]["volumeMode"] = "Block"
    if cluster.chance(0.1):
        claim["spec"]["volumeAttributesClassName"] = "quick"
        cluster.mark("volumes:attributes-class")
    if cluster.chance(0.08):
        claim["metadata"]["annotations"][_OLD_CLASS] = claim["spec"].pop("storageClassName")
        cluster.mark("volumes:class-annotation")
    if cluster.chance(0.1):
        claim["spec"]["accessModes"] = ["ReadOnlyMany"]
    if cluster.chance(0.2):
        size = claim["spec"]["resources"]["requests"]["storage"]
        made = storage.volume(cluster, f"for-{claim['metadata']['name']}", storage.LOCAL, size)
        made["spec"]["claimRef"] = _reference(claim["metadata"])
        if cluster.chance(0.5):
            made["spec"]["claimRef"].pop("uid")
        made["status"] = {"phase": "Available"}
        storage.confine(cluster, made)
        cluster.mark("volumes:pre-bound-volume")


def _dynamic(cluster: GeneratedCluster, claim: Manifest) -> None:
    """Make the claim wait for its first consumer; a driver provisions the volume."""
    claim["spec"]["storageClassName"] = cluster.one(storage.WAIT, storage.WAIT, storage.AWS, storage.GCE)


def _selected(cluster: GeneratedCluster, claim: Manifest) -> None:
    _dynamic(cluster, claim)
    claim["metadata"]["annotations"][_SELECTED_NODE] = cluster.one("n0", "n1", "n-gone")


def _immediate(cluster: GeneratedCluster, claim: Manifest) -> None:
    claim["spec"]["storageClassName"] = storage.NOW


def _without_class(cluster: GeneratedCluster, claim: Manifest) -> None:
    claim["spec"]["storageClassName"] = cluster.one("", storage.GONE)
    if cluster.chance(0.3):
        del claim["spec"]["storageClassName"]


def _lost(cluster: GeneratedCluster, claim: Manifest) -> None:
    _bound(cluster, claim)
    claim["status"] = {"phase": "Lost"}


def _deleting(cluster: GeneratedCluster, claim: Manifest) -> None:
    cluster.one(_bound, _dynamic)(cluster, claim)
    delete(cluster, claim)


def _pre_bound(cluster: GeneratedCluster, claim: Manifest) -> None:
    """Set the claim's volumeName without completing the binding."""
    _bound(cluster, claim)
    claim["metadata"]["annotations"] = {}
    claim["status"] = {"phase": "Pending"}


def _ephemeral(cluster: GeneratedCluster, pod: Manifest, name: str) -> None:
    """Add an ephemeral volume; its claim may be missing or belong to another pod."""
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": storage.WAIT}}
    put(pod, "spec.volumes", [{"name": name, "ephemeral": {"volumeClaimTemplate": template}}])
    cluster.mark("volumes:ephemeral")
    if cluster.chance(0.2):
        cluster.mark("volumes:ephemeral-not-made")
        return
    meta = pod["metadata"]
    claim = pending_claim(cluster, f"{meta['name']}-{name}", meta["namespace"])
    cluster.one(_bound, _dynamic)(cluster, claim)
    if cluster.errors and cluster.chance(0.12):
        cluster.mark("volumes:ephemeral-not-owner")
        return
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}
    claim["metadata"]["ownerReferences"] = [owner]


_MAKERS: dict[str, Callable[[GeneratedCluster, Manifest], None]] = {
    "bound": _bound,
    "exclusive": _exclusive,
    "static": _static,
    "dynamic": _dynamic,
    "selected-node": _selected,
    "immediate": _immediate,
    "without-class": _without_class,
    "lost": _lost,
    "deleting": _deleting,
    "pre-bound-claim": _pre_bound,
}
_PENDING = {
    "bound": 32,
    "exclusive": 14,
    "static": 16,
    "dynamic": 16,
    "selected-node": 5,
    "immediate": 3,
    "without-class": 3,
    "lost": 2,
    "deleting": 2,
    "pre-bound-claim": 3,
    "missing": 2,
}
_ASSIGNED = {"bound": 70, "exclusive": 25, "dynamic": 6, "missing": 3, "deleting": 3, "without-class": 3}
