"""Batches of objects from one template: encoded once, with a few words replaced for each object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from bench.opcodes import Json

INDEX = "{{.Index}}"
NODE = "{{.Node}}"
SCHEDULER = "{{.SchedulerName}}"
LABEL = "{{.LabelValue}}"
GROUP = "{{.Group}}"
GROUP_SIZE = "{{.GroupSize}}"

_CORE, _STORAGE, _DEVICES = "/api/v1", "/apis/storage.k8s.io/v1", "/apis/resource.k8s.io/v1"
_CLUSTERED = {
    "Node": f"{_CORE}/nodes",
    "Namespace": f"{_CORE}/namespaces",
    "PersistentVolume": f"{_CORE}/persistentvolumes",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "StorageClass": f"{_STORAGE}/storageclasses",
    "CSINode": f"{_STORAGE}/csinodes",
    "DeviceClass": f"{_DEVICES}/deviceclasses",
    "ResourceSlice": f"{_DEVICES}/resourceslices",
}
_NAMESPACED = {
    "Pod": f"{_CORE}/namespaces/{{}}/pods",
    "Service": f"{_CORE}/namespaces/{{}}/services",
    "Secret": f"{_CORE}/namespaces/{{}}/secrets",
    "PersistentVolumeClaim": f"{_CORE}/namespaces/{{}}/persistentvolumeclaims",
    "ResourceClaim": f"{_DEVICES}/namespaces/{{}}/resourceclaims",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "ServiceAccount": f"{_CORE}/namespaces/{{}}/serviceaccounts",
}
KINDS = sorted([*_CLUSTERED, *_NAMESPACED])


def collection(kind: str, namespace: str = "") -> str:
    """Return the API path of a kind. KeyError for a kind that no workload needs."""
    return _CLUSTERED[kind] if kind in _CLUSTERED else _NAMESPACED[kind].format(namespace)


def namespaced(kind: str) -> bool:
    """Return True if the kind is namespaced."""
    return kind in _NAMESPACED


@dataclass(frozen=True)
class Batch:
    """`count` objects of one collection. {{.Index}} is the object's number; other words get values round robin."""

    path: str
    name: str
    count: int
    body: bytes
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, path: str, count: int, document: Json, words: Mapping[str, Sequence[str]] | None = None) -> Batch:
        """Return a batch of an object that has a name (with {{.Index}} in it for several objects)."""
        return cls(path, document["metadata"]["name"], count, msgspec.json.encode(document), words or {})

    def name_of(self, number: int) -> str:
        """Return the object's metadata.name."""
        return self.name.replace(INDEX, str(number))

    def body_of(self, number: int) -> bytes:
        """Return the object as JSON."""
        body = self.body.replace(INDEX.encode(), b"%d" % number)
        for word, values in self.words.items():
            body = body.replace(word.encode(), values[number % len(values)].encode())
        return body

    def names(self) -> Sequence[str]:
        """Return the names of all objects in order."""
        return [self.name_of(number) for number in range(self.count)]

    def for_scheduler(self, name: str) -> Batch:
        """Return the batch with this scheduler name."""
        return replace(self, words={**self.words, SCHEDULER: [name]})


def merged(document: Json, **metadata: Any) -> Json:
    """Return a copy with these metadata fields, maps merged with existing ones; generateName is removed."""
    old = {key: value for key, value in document.get("metadata", {}).items() if key != "generateName"}
    for key, value in metadata.items():
        old[key] = {**old.get(key, {}), **value} if isinstance(value, dict) else value
    return {**document, "metadata": old}
