"""Pods of workloads, as their controllers create them. All that a workload's pods depend on is its manifest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pyscheduler.simulator.scenario import Manifest, PlacedManifest
from pyscheduler.simulator.workload import MAX_PODS, SimulatedWorkload, declared_run_seconds, no_run_time, problem

_SERVICES: Final = ("Deployment", "ReplicaSet", "StatefulSet")
_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_BOUND_TO_NODES: Final = ("DaemonSet", "Node")
"""Kinds of owners that do not create a pod anew when its node is removed."""


def is_workload(obj: Manifest) -> bool:
    """Return True if pods are created for an object of this kind."""
    return (obj.get("apiVersion"), obj.get("kind")) == ("v1", "Pod") or _group_kind(obj) in _READERS


def workload_of(placed: PlacedManifest, run_seconds: float | None = None) -> SimulatedWorkload | None:
    """Return the workload of an object, None if no pods are created for it.

    `run_seconds` is the run time of its pods, by default that of their annotations. SimulationProblem if it cannot be
    simulated.
    """
    obj = placed.manifest
    if (obj.get("apiVersion"), obj.get("kind")) == ("v1", "Pod"):
        return _of_pod(placed, run_seconds)
    reader = _READERS.get(_group_kind(obj))
    if reader is not None:
        return reader(placed, run_seconds)
    if obj.get("kind") != "CustomResourceDefinition" and _has_containers(obj):
        raise problem(placed, "has pod templates and cannot be simulated; use Pods, Jobs or Deployments instead")
    return None


def identity(obj: Manifest) -> tuple[str, str, str]:
    """Return kind, namespace and name of an object."""
    meta = obj.get("metadata") or {}
    return str(obj.get("kind")), str(meta.get("namespace") or "default"), str(meta.get("name"))


def owners_of(objects: Iterable[PlacedManifest]) -> frozenset[tuple[str, str, str]]:
    """Return kind, namespace and name of the controllers of objects: those in a dump have their pods already."""
    found = set()
    for placed in objects:
        if (owner := controller_of(placed.manifest)) is not None:
            found.add((str(owner.get("kind")), identity(placed.manifest)[1], str(owner.get("name"))))
    return frozenset(found)


def controller_of(obj: Manifest) -> dict[str, Any] | None:
    """Return the owner reference of the controller of an object, None if it has none."""
    owners = (obj.get("metadata") or {}).get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def _of_pod(placed: PlacedManifest, run_seconds: float | None) -> SimulatedWorkload:
    _check_claims(placed, _mapping(placed, placed.manifest, "spec"), "spec.")
    owner = controller_of(placed.manifest)
    declared = declared_run_seconds(placed, placed.manifest)
    return SimulatedWorkload(
        placed.place,
        iter([placed.manifest]),
        run_seconds=declared if run_seconds is None else run_seconds,
        recreates=owner is not None,
        survives_nodes=owner is None or owner.get("kind") not in _BOUND_TO_NODES,
    )


def _of_service(placed: PlacedManifest, _: float | None) -> SimulatedWorkload:
    spec, template = _spec_and_template(placed)
    if spec.get("volumeClaimTemplates"):
        raise problem(placed, "spec.volumeClaimTemplates: claims are not created in a simulation")
    replicas = _count(placed, spec, "replicas", 1)
    kind = "StatefulSet" if placed.manifest["kind"] == "StatefulSet" else "ReplicaSet"
    owner = _owner(placed.manifest, kind)
    return SimulatedWorkload(placed.place, (_pod(placed, template, owner, i) for i in range(replicas)), replicas)


def _of_job(placed: PlacedManifest, run_seconds: float | None) -> SimulatedWorkload:
    spec, template = _spec_and_template(placed)
    for name in ("suspend", "scheduling"):
        if spec.get(name):
            raise problem(placed, f"spec.{name}: cannot be simulated")
    parallelism = _count(placed, spec, "parallelism", 1)
    completions = _count(placed, spec, "completions", parallelism)
    seconds = run_seconds if run_seconds is not None else declared_run_seconds(placed, template)
    if seconds is None:
        raise no_run_time(placed)
    owner, is_indexed = _owner(placed.manifest, "Job"), spec.get("completionMode") == "Indexed"
    name = placed.manifest["metadata"]["name"]

    def pods() -> Iterator[Manifest]:
        for i in range(completions):
            labels = {
                "job-name": name,
                "batch.kubernetes.io/job-name": name,
                **({_INDEX: str(i)} if is_indexed else {}),
            }
            pod = _pod(placed, template, owner, i)
            meta = pod["metadata"]
            meta["labels"] = {**meta["labels"], **labels}
            meta["annotations"] = {**meta["annotations"], **({_INDEX: str(i)} if is_indexed else {})}
            yield pod

    return SimulatedWorkload(placed.place, pods(), min(parallelism, completions), seconds)


def _of_volcano_job(placed: PlacedManifest, run_seconds: float | None) -> SimulatedWorkload:
    # Imported here because it imports the operator framework, which takes a second.
    from pyscheduler.simulator.volcano_jobs import volcano_workload

    return volcano_workload(placed, run_seconds)


_READERS: Final = {
    ("batch", "Job"): _of_job,
    ("batch.volcano.sh", "Job"): _of_volcano_job,
    **{("apps", kind): _of_service for kind in _SERVICES},
}


def _group_kind(obj: Manifest) -> tuple[str, str]:
    group, slash, _ = str(obj.get("apiVersion")).partition("/")
    return (group if slash else ""), str(obj.get("kind"))


def _spec_and_template(placed: PlacedManifest) -> tuple[Manifest, Manifest]:
    spec = _mapping(placed, placed.manifest, "spec")
    template = _mapping(placed, spec, "template", "spec.")
    pod_spec = _mapping(placed, template, "spec", "spec.template.")
    _check_claims(placed, pod_spec, "spec.template.spec.")
    return spec, template


def _check_claims(placed: PlacedManifest, pod_spec: Manifest, path: str) -> None:
    if any(claim.get("resourceClaimTemplateName") for claim in pod_spec.get("resourceClaims") or ()):
        raise problem(placed, f"{path}resourceClaims: claims of templates are not created in a simulation")


def _mapping(placed: PlacedManifest, parent: Manifest, key: str, path: str = "") -> Manifest:
    found = parent.get(key)
    if not isinstance(found, dict):
        raise problem(placed, f"{path}{key}: must be a mapping")
    return found


def _count(placed: PlacedManifest, spec: Manifest, name: str, default: int) -> int:
    count = spec.get(name)
    if count is None:
        return default
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= MAX_PODS:
        raise problem(placed, f"spec.{name}: must be a whole number from 0 to {MAX_PODS}")
    return count


def pod_run_seconds(pod: Manifest, workload: SimulatedWorkload) -> float | None:
    """Return how long a pod runs; None: until the end."""
    if workload.run_seconds is not None:
        return workload.run_seconds
    owner = controller_of(pod)
    if owner is not None and owner.get("kind") in (*_SERVICES, *_BOUND_TO_NODES):
        return None
    return declared_run_seconds(PlacedManifest(workload.place, pod), pod)


def _owner(obj: Manifest, kind: str) -> Manifest:
    _, namespace, name = identity(obj)
    uid = f"{kind}-{namespace}-{name}".lower()
    return {"apiVersion": str(obj["apiVersion"]), "kind": kind, "name": name, "uid": uid, "controller": True}


def _pod(placed: PlacedManifest, template: Manifest, owner: Manifest, number: int) -> Manifest:
    meta, of_template = placed.manifest["metadata"], template.get("metadata") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{meta['name']}-{number}",
            "namespace": meta.get("namespace") or "default",
            "labels": dict(of_template.get("labels") or {}),
            "annotations": dict(of_template.get("annotations") or {}),
            "ownerReferences": [owner],
        },
        "spec": template["spec"],
    }


def _has_containers(part: Any) -> bool:
    """Return True if an object has a pod template somewhere."""
    if isinstance(part, dict):
        return isinstance(part.get("containers"), list) or any(map(_has_containers, part.values()))
    return isinstance(part, list) and any(map(_has_containers, part))
