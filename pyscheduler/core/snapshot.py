"""Load a cluster snapshot, a list of Kubernetes objects in API form, into a machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from pyscheduler.api.events import ResourceKind
from pyscheduler.api.objects import NodeObject, PodObject
from pyscheduler.core.context import Context
from pyscheduler.core.events import Event, NodeChanged, ObjectChanged, PodChanged
from pyscheduler.core.machine import Machine

_DEFAULT_NAMESPACE = "default"
_DEFAULT_SCHEDULER = "default-scheduler"


class UnreadableObject(ValueError):
    """An object of the snapshot that cannot be parsed; the text has its position, kind and name, and the reason."""


def load_snapshot(machine: Machine, objects: Sequence[Any], at: float = 0.0) -> dict[str, PodObject]:
    """Feed every object to the machine in order, and return the pods by namespace/name.

    A List stands for its items. Kinds that no plugin watches are ignored. Raises UnreadableObject for the first object
    that cannot be parsed, before any later one is loaded.
    """
    watched = _watched(machine.context)
    pods: dict[str, PodObject] = {}
    for place, obj in _placed(objects):
        try:
            event = _event(obj, watched, at)
            if event is not None:
                machine.handle(event)
        except Exception as problem:  # snapshots are user input: any exception is an error in this object
            raise UnreadableObject(f"{place}{_name(obj)}: {str(problem) or type(problem).__name__}") from None
        if isinstance(event, PodChanged):
            meta = event.object.metadata
            pods[f"{meta.namespace}/{meta.name}"] = event.object
    return pods


def _placed(objects: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield every object after its place, the items of a List instead of the List."""
    for i, obj in enumerate(objects):
        if isinstance(obj, Mapping) and obj.get("kind") == "List" and isinstance(obj.get("items"), list):
            for j, item in enumerate(obj["items"]):
                yield f"objects[{i}].items[{j}]", item
        else:
            yield f"objects[{i}]", obj


def _watched(context: Context) -> dict[tuple[str, str], ResourceKind]:
    """Return the kinds that plugins watch, by apiVersion and kind."""
    kinds = (kind for profile in context.profiles.values() for kind in profile.watches)
    return {(f"{kind.group}/{kind.version}".lstrip("/"), kind.kind): kind for kind in kinds}


def _event(obj: Any, watched: Mapping[tuple[str, str], ResourceKind], at: float) -> Event | None:
    """Return the event that adds an object; None if no plugin watches its kind."""
    given = (obj.get("apiVersion"), obj.get("kind")) if isinstance(obj, Mapping) else ()
    kind = tuple(part for part in given if isinstance(part, str) and part)
    if len(kind) != 2:
        raise TypeError("an object must be a mapping with apiVersion and kind")
    if isinstance(obj.get("items"), list) and kind[1].endswith("List"):
        raise TypeError("a list among the objects must be of kind List, in no other List: add its items instead")
    if kind == ("v1", "List"):
        raise TypeError("items: must be a list")
    if kind == ("v1", "Pod"):
        return PodChanged(at, _completed(msgspec.convert(obj, PodObject)))
    if kind == ("v1", "Node"):
        return NodeChanged(at, msgspec.convert(obj, NodeObject))
    if kind not in watched:
        return None
    if not isinstance(obj.get("metadata"), Mapping) or not obj["metadata"].get("name"):
        raise TypeError("it has no metadata.name")
    return ObjectChanged(at, watched[kind], dict(obj))


def _completed(pod: PodObject) -> PodObject:
    """Return the pod with the API server's defaults for namespace and scheduler name."""
    if pod.metadata.namespace and pod.spec.scheduler_name:
        return pod
    replace = msgspec.structs.replace
    metadata = replace(pod.metadata, namespace=pod.metadata.namespace or _DEFAULT_NAMESPACE)
    spec = replace(pod.spec, scheduler_name=pod.spec.scheduler_name or _DEFAULT_SCHEDULER)
    return replace(pod, metadata=metadata, spec=spec)


def _name(obj: Any) -> str:
    """Return ` (Kind namespace/name)`, or the parts of it that the object has."""
    if not isinstance(obj, Mapping):
        return ""
    meta = obj.get("metadata")
    names = [meta.get("namespace"), meta.get("name")] if isinstance(meta, Mapping) else []
    path = "/".join(name for name in names if isinstance(name, str) and name)
    kind = obj.get("kind")
    parts = [part for part in (kind if isinstance(kind, str) else "", path) if part]
    return f" ({' '.join(parts)})" if parts else ""
