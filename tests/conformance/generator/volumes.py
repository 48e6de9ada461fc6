"""Pods that use claims, in every state that a claim can be in, and generic ephemeral volumes."""

from __future__ import annotations

from collections.abc import Callable

from tests.conformance.generator import storage
from tests.conformance.generator.base import delete
from tests.conformance.generator.generated_cluster import GeneratedCluster, Manifest, is_assigned, put

_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"


def in_pod(world: GeneratedCluster, pod: Manifest) -> None:
    """Up to two volumes; those of assigned pods are nearly always bound, as they would have to be."""
    for _ in range(world.one(0, 1, 1, 1, 2)):
        name = f"data-{world.serial()}"
        if world.chance(0.12):
            _ephemeral(world, pod, name)
            continue
        claim = _shared(world, pod) or _claim(world, pod, f"claim-{world.serial()}")
        put(pod, "spec.volumes", [{"name": name, "persistentVolumeClaim": {"claimName": claim}}])


def _shared(world: GeneratedCluster, pod: Manifest) -> str:
    """A claim that is there already, "" for none."""
    here: list[str] = [
        o["metadata"]["name"]
        for o in world.others
        if o["kind"] == "PersistentVolumeClaim" and o["metadata"]["namespace"] == pod["metadata"]["namespace"]
    ]
    if not here or world.chance(0.6):
        return ""
    world.mark("volumes:shared")
    return world.one(*here)


def _claim(world: GeneratedCluster, pod: Manifest, name: str) -> str:
    kinds = _ASSIGNED if is_assigned(pod) else _PENDING
    kind = world.rng.choices(list(kinds), list(kinds.values()))[0]
    world.mark(f"volumes:{kind}")
    if kind != "missing":
        _MAKERS[kind](world, pending_claim(world, name, pod["metadata"]["namespace"]))
    return name


def pending_claim(world: GeneratedCluster, name: str, namespace: str) -> Manifest:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": world.one(*storage.SIZES)}},
        "volumeMode": "Filesystem",
        "storageClassName": storage.WAIT,
    }
    meta = {**world.metadata(name, namespace), "annotations": {}}
    return world.add("v1", "PersistentVolumeClaim", meta, spec=spec, status={"phase": "Pending"})


def _bound(world: GeneratedCluster, claim: Manifest) -> None:
    """Bound to a volume of its own, both ways; in one case of twenty the volume is gone, or no class is named."""
    meta, spec = claim["metadata"], claim["spec"]
    name = f"pv-{meta['name']}"
    spec["volumeName"] = name
    spec["storageClassName"] = world.one(storage.WAIT, storage.WAIT, storage.NOW, storage.AWS, storage.GCE, "")
    meta["annotations"] = {_BIND_COMPLETED: "yes", _BOUND_BY_CONTROLLER: "yes"}
    claim["status"] = {"phase": "Bound"}
    if world.chance(0.04):
        world.mark("volumes:volume-gone")
        return
    made = storage.volume(world, name, spec["storageClassName"], spec["resources"]["requests"]["storage"])
    made["spec"]["claimRef"] = {"kind": "PersistentVolumeClaim", **_reference(meta)}
    made["status"] = {"phase": "Bound"}
    storage.confine(world, made)


def _reference(meta: Manifest) -> Manifest:
    return {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}


def _exclusive(world: GeneratedCluster, claim: Manifest) -> None:
    _bound(world, claim)
    claim["spec"]["accessModes"] = ["ReadWriteOncePod"]


def _static(world: GeneratedCluster, claim: Manifest) -> None:
    """Waits for a consumer; only volumes that are there can serve it."""
    claim["spec"]["storageClassName"] = storage.LOCAL
    if world.chance(0.15):
        claim["spec"]["selector"] = {"matchLabels": {"quality": "gold"}}
        world.mark("volumes:selector")
    if world.chance(0.1):
        claim["spec"]["volumeMode"] = "Block"
    if world.chance(0.1):
        claim["spec"]["volumeAttributesClassName"] = "quick"
        world.mark("volumes:attributes-class")
    if world.chance(0.08):
        claim["metadata"]["annotations"][_OLD_CLASS] = claim["spec"].pop("storageClassName")
        world.mark("volumes:class-annotation")
    if world.chance(0.1):
        claim["spec"]["accessModes"] = ["ReadOnlyMany"]
    if world.chance(0.2):
        size = claim["spec"]["resources"]["requests"]["storage"]
        made = storage.volume(world, f"for-{claim['metadata']['name']}", storage.LOCAL, size)
        made["spec"]["claimRef"] = _reference(claim["metadata"])
        if world.chance(0.5):
            made["spec"]["claimRef"].pop("uid")
        made["status"] = {"phase": "Available"}
        storage.confine(world, made)
        world.mark("volumes:pre-bound-volume")


def _dynamic(world: GeneratedCluster, claim: Manifest) -> None:
    """Waits for a consumer; a driver makes the volume where the pod goes."""
    claim["spec"]["storageClassName"] = world.one(storage.WAIT, storage.WAIT, storage.AWS, storage.GCE)


def _selected(world: GeneratedCluster, claim: Manifest) -> None:
    _dynamic(world, claim)
    claim["metadata"]["annotations"][_SELECTED_NODE] = world.one("n0", "n1", "n-gone")


def _immediate(world: GeneratedCluster, claim: Manifest) -> None:
    claim["spec"]["storageClassName"] = storage.NOW


def _without_class(world: GeneratedCluster, claim: Manifest) -> None:
    claim["spec"]["storageClassName"] = world.one("", storage.GONE)
    if world.chance(0.3):
        del claim["spec"]["storageClassName"]


def _lost(world: GeneratedCluster, claim: Manifest) -> None:
    _bound(world, claim)
    claim["status"] = {"phase": "Lost"}


def _deleting(world: GeneratedCluster, claim: Manifest) -> None:
    world.one(_bound, _dynamic)(world, claim)
    delete(world, claim)


def _pre_bound(world: GeneratedCluster, claim: Manifest) -> None:
    """Names its volume, but the binding is not complete."""
    _bound(world, claim)
    claim["metadata"]["annotations"] = {}
    claim["status"] = {"phase": "Pending"}


def _ephemeral(world: GeneratedCluster, pod: Manifest, name: str) -> None:
    """A volume whose claim is named after the pod; it may not be made yet, or be somebody else's."""
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": storage.WAIT}}
    put(pod, "spec.volumes", [{"name": name, "ephemeral": {"volumeClaimTemplate": template}}])
    world.mark("volumes:ephemeral")
    if world.chance(0.2):
        world.mark("volumes:ephemeral-not-made")
        return
    meta = pod["metadata"]
    claim = pending_claim(world, f"{meta['name']}-{name}", meta["namespace"])
    world.one(_bound, _dynamic)(world, claim)
    if world.errors and world.chance(0.12):
        world.mark("volumes:ephemeral-not-owner")
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
