"""Defaults that the API server and the kubelet set in pods, nodes and pod groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pyscheduler.api.events import ResourceKind
from pyscheduler.kube.paths import NODES, PODS
from pyscheduler.kube.pod_defaults import default_container_requests
from pyscheduler.testing.builders import PodBuilder, plain_copy
from pyscheduler.testing.kinds import PRIORITY_CLASSES
from pyscheduler.testing.objects import Manifest, Objects, named, timestamp, with_condition

ENDS_AFTER: Final = "pyscheduler.io/ends-after"
"""Annotation of a pod: seconds that it takes to end once it is evicted."""
_SYSTEM_CLASSES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_DEFAULT_SCHEDULER: Final = "default-scheduler"
_IDENTITY: Final = ("uid", "creationTimestamp", "deletionTimestamp")
_KEPT: Final = ("nodeName", "priority", "priorityClassName", "preemptionPolicy", "schedulerName")
"""Fields of a pod's spec that an update keeps unless it sets them."""


class Admission:
    """Admission of applied manifests by the simulated API server."""

    def __init__(self, objects: Objects, now: Callable[[], float], profiles: Callable[[], Sequence[str]]) -> None:
        """`profiles` returns the names of the profiles; the first schedules the pods that name none."""
        self._objects = objects
        self._now = now
        self._profiles = profiles
        self._created = 0

    def admit(self, kind: ResourceKind, manifest: Mapping[str, Any]) -> Manifest:
        """Return a copy of an applied manifest with the fields that the API server sets.

        The object that it updates keeps its identity and the fields of its status that the manifest does not set.
        """
        namespace, name = named(kind, manifest)
        new: Manifest = plain_copy(dict(manifest))
        current = self._objects.get(kind, name, namespace)
        new["metadata"] |= {"namespace": namespace} if namespace else {}
        if current is None:
            self._created += 1
            fixed = {"uid": f"{name}-{self._created}", "creationTimestamp": timestamp(self._now())}
        else:
            fixed = {key: value for key, value in current["metadata"].items() if key in _IDENTITY}
            new["status"] = {**(current.get("status") or {}), **(new.get("status") or {})}
        new["metadata"] = {**fixed, **new["metadata"], "resourceVersion": str(self._objects.next_version())}
        self._set_defaults(kind, new, current)
        return new

    def with_scheduler(self, pod: PodBuilder) -> PodBuilder:
        """Return a pod of the first profile if it has the default scheduler and no profile has this name."""
        profiles = self._profiles()
        if pod.manifest["spec"].get("schedulerName") != _DEFAULT_SCHEDULER or _DEFAULT_SCHEDULER in profiles:
            return pod
        return pod.scheduler(profiles[0])

    def _set_defaults(self, kind: ResourceKind, new: Manifest, current: Manifest | None) -> None:
        classes = self._objects.listed(PRIORITY_CLASSES)
        if kind == PODS:
            _default_pod(new, current, self._profiles()[0])
            _resolve_priority(new, classes)
            grace_seconds(new)
        elif kind == NODES:
            _default_node(new)
        elif (kind.group, kind.kind) == ("scheduling.k8s.io", "PodGroup"):
            _resolve_priority(new, classes)


def _default_pod(pod: Manifest, current: Manifest | None, scheduler_name: str) -> None:
    spec = pod["spec"] = dict(pod.get("spec") or {})
    if current is not None:
        spec |= {key: current["spec"][key] for key in _KEPT if key in current["spec"] and key not in spec}
    spec.setdefault("schedulerName", scheduler_name)
    default_container_requests(spec)


def _resolve_priority(obj: Manifest, classes: list[Manifest]) -> None:
    """Set spec.priority from spec.priorityClassName, as the Priority admission plugin does; a given value is kept."""
    spec = obj.setdefault("spec", {})
    name, by_name = spec.get("priorityClassName", ""), {each["metadata"]["name"]: each for each in classes}
    if name in _SYSTEM_CLASSES:
        spec.setdefault("priority", _SYSTEM_CLASSES[name])
        return
    if name and name not in by_name:
        raise ValueError(f"no PriorityClass with name {name} was found")
    defaults = [each for each in classes if each.get("globalDefault")]
    chosen = by_name[name] if name else min(defaults, key=_value, default=None)
    if chosen is not None:
        spec.setdefault("priority", _value(chosen))
        if "preemptionPolicy" in chosen:
            spec.setdefault("preemptionPolicy", chosen["preemptionPolicy"])


def _value(priority_class: Mapping[str, Any]) -> int:
    return int(priority_class.get("value", 0))


def grace_seconds(pod: Mapping[str, Any]) -> float:
    """Return the seconds that an evicted pod takes to end. ValueError if its annotation is not a number."""
    text = (pod["metadata"].get("annotations") or {}).get(ENDS_AFTER, "0")
    try:
        return float(text)
    except (TypeError, ValueError):
        raise ValueError(f"annotation {ENDS_AFTER}: {text!r} is not a number of seconds") from None


def _default_node(node: Manifest) -> None:
    """Set what a kubelet reports of a node: its host name, capacity equal to allocatable, room for 110 pods."""
    meta, status = node["metadata"], dict(node.get("status") or {})
    meta["labels"] = {"kubernetes.io/hostname": meta["name"], **(meta.get("labels") or {})}
    amounts = status.get("allocatable") or status.get("capacity") or {}
    status["allocatable"] = {"pods": "110", **amounts}
    status.setdefault("capacity", status["allocatable"])
    status.setdefault("conditions", [{"type": "Ready", "status": "True"}])
    node["status"] = status


def started(pod: PodBuilder, node_name: str, now: float) -> PodBuilder:
    """Return a bound pod as its kubelet starts it."""
    scheduled = with_condition(pod.manifest, {"type": "PodScheduled", "status": "True"})
    status = {**scheduled["status"], "phase": "Running", "startTime": timestamp(now)}
    return PodBuilder({**scheduled, "spec": {**scheduled["spec"], "nodeName": node_name}, "status": status})
