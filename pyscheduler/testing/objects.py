"""Objects of the simulated API server, as it stores them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
import yaml

from pyscheduler.api.events import ResourceKind
from pyscheduler.kube.paths import NODES, PODS
from pyscheduler.testing.builders import PodBuilder
from pyscheduler.testing.kinds import Kinds, Resource, resource_of

T = TypeVar("T")
Manifest = dict[str, Any]


class Objects:
    """Objects by kind, namespace and name."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self.pods: dict[str, PodBuilder] = {}
        """Pods by namespace/name."""
        self.nodes: dict[str, Manifest] = {}
        """Nodes by name."""
        self.names: set[str] = set()
        """Names of all objects that were ever added."""
        self._others: dict[Resource, dict[tuple[str, str], Manifest]] = {}
        self._versions = 0

    def next_version(self) -> int:
        """Return a new resourceVersion."""
        self._versions += 1
        return self._versions

    def set(self, kind: ResourceKind, obj: Manifest) -> None:
        """Store an object that is neither a pod nor a node."""
        meta = obj.get("metadata") or {}
        key = str(meta.get("namespace", "")), str(meta.get("name", ""))
        self.kinds.use(kind)
        self.names.add(key[1])
        self._others.setdefault(resource_of(kind), {})[key] = obj

    @contextmanager
    def unchanged_if_invalid(self, kind: ResourceKind, manifest: Mapping[str, Any]) -> Iterator[None]:
        """Restore a pod or node whose manifest turns out to be invalid. ValueError names the object."""
        namespace, name = named(kind, manifest)
        key = f"{namespace}/{name}"
        pod, node = self.pods.get(key), self.nodes.get(name)
        try:
            yield
        except (KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
            if kind == PODS:
                _restore(self.pods, key, pod)
            elif kind == NODES:
                _restore(self.nodes, name, node)
            raise ValueError(f"{kind.kind} {name}: {error}") from error
        self.names.add(name)

    def remove(self, kind: ResourceKind, name: str, namespace: str) -> None:
        """Remove an object that is neither a pod nor a node; unknown ones are ignored."""
        self._others.get(resource_of(kind), {}).pop((namespace, name), None)

    def get(self, kind: ResourceKind, name: str, namespace: str) -> Manifest | None:
        """Return an object, or None. The namespace of cluster-scoped kinds is ignored."""
        if kind == PODS:
            pod = self.pods.get(f"{namespace}/{name}")
            return None if pod is None else pod.manifest
        if kind == NODES:
            return self.nodes.get(name)
        objects = self._others.get(resource_of(kind), {})
        return objects.get((namespace if kind.namespaced else "", name))

    def listed(self, kind: ResourceKind) -> list[Manifest]:
        """Return the objects of a kind, other than Pod and Node, by namespace and name: the order of a list."""
        objects = self._others.get(resource_of(kind), {})
        return [objects[key] for key in sorted(objects)]

    def kind_of(self, kind: str, name: str, namespace: str) -> ResourceKind | None:
        """Return the kind of the object with a name, or None if there is none. ValueError if there are several.

        `kind` is a name such as PodGroup, or PodGroup.scheduling.k8s.io to choose the group.
        """
        found = [each for each in self.kinds.named(kind) if self.get(each, name, namespace) is not None]
        if len(found) > 1:
            raise ValueError(f"{kind} {name} exists in several groups: {', '.join(sorted(k.group for k in found))}")
        return found[0] if found else None


def _restore(stored: dict[str, T], key: str, value: T | None) -> None:
    if value is None:
        stored.pop(key, None)
    else:
        stored[key] = value


def timestamp(seconds: float) -> str:
    """Return virtual time as a Kubernetes timestamp."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def documents(manifest: Mapping[str, Any] | str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a manifest: a dict, or YAML text of one or several documents. ValueError if it has none."""
    if isinstance(manifest, str):
        try:
            found = [document for document in yaml.safe_load_all(manifest) if document is not None]
        except yaml.YAMLError as error:
            raise ValueError(f"not valid YAML: {error}") from None
    else:
        found = [manifest]
    if not found:
        raise ValueError("the manifest has no object")
    for document in found:
        if not isinstance(document, Mapping):
            raise ValueError(f"a manifest is an object with apiVersion, kind and metadata, not {document!r}")
        if document.get("kind") == "List":
            yield from (each for item in document.get("items") or () for each in documents(item))
        else:
            yield document


def named(kind: ResourceKind, manifest: Mapping[str, Any]) -> tuple[str, str]:
    """Return the namespace ("" for a cluster-scoped kind, "default" by default) and the name of a manifest."""
    meta = manifest.get("metadata")
    name = meta.get("name") if isinstance(meta, Mapping) else None
    if not isinstance(meta, Mapping) or not isinstance(name, str) or not name:
        raise ValueError(f"{kind.kind}: metadata.name is required")
    return (str(meta.get("namespace") or "default") if kind.namespaced else ""), name


def with_condition(obj: Mapping[str, Any], condition: Mapping[str, str]) -> Manifest:
    """Return an object with a condition set in its status."""
    status = obj.get("status") or {}
    others = [each for each in status.get("conditions") or () if each.get("type") != condition["type"]]
    return {**obj, "status": {**status, "conditions": [*others, dict(condition)]}}


def condition_of(obj: Mapping[str, Any] | None, condition_type: str) -> dict[str, Any] | None:
    """Return the condition of a type in the status of an object, or None."""
    conditions = ((obj or {}).get("status") or {}).get("conditions") or ()
    return next((dict(each) for each in conditions if each.get("type") == condition_type), None)
