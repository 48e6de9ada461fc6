"""Kinds of objects that the simulated API server stores.

The kinds that plugins watch are added to the ones listed here, and a CustomResourceDefinition adds its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from pyscheduler.api.events import ResourceKind
from pyscheduler.kube.paths import NODES, PODS

PRIORITY_CLASSES: Final = ResourceKind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
DEFINITIONS: Final = ResourceKind(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
_NAMESPACED: Final = {
    "v1": "ConfigMap LimitRange PersistentVolumeClaim ReplicationController ResourceQuota Service ServiceAccount",
    "apps/v1": "DaemonSet Deployment ReplicaSet StatefulSet",
    "batch/v1": "CronJob Job",
    "policy/v1": "PodDisruptionBudget",
    "resource.k8s.io/v1": "ResourceClaim ResourceClaimTemplate",
    "storage.k8s.io/v1": "CSIStorageCapacity",
    "scheduling.k8s.io/v1beta1": "PodGroup Workload",
    "scheduling.k8s.io/v1alpha3": "CompositePodGroup PodGroup Workload",
    "scheduling.k8s.io/v1alpha2": "PodGroup Workload",
    "scheduling.volcano.sh/v1beta1": "PodGroup",
    "scheduling.x-k8s.io/v1alpha1": "ElasticQuota PodGroup",
    "batch.volcano.sh/v1alpha1": "Job",
}
_CLUSTER_SCOPED: Final = {
    "v1": "Namespace PersistentVolume",
    "resource.k8s.io/v1": "DeviceClass ResourceSlice",
    "storage.k8s.io/v1": "CSIDriver CSINode StorageClass VolumeAttachment",
    "scheduling.volcano.sh/v1beta1": "Queue",
    "topology.volcano.sh/v1alpha1": "HyperNode",
}

Resource = tuple[str, str, str]
"""Group, version and plural of a kind."""


class PathTarget(NamedTuple):
    """Object or collection at an API path."""

    kind: ResourceKind | None
    """None if the kind is not watched and has no object."""
    plural: str
    namespace: str
    name: str


class Kinds:
    """Known kinds, and those of them that the scheduler watches or that have objects."""

    def __init__(self) -> None:
        self._watched: dict[Resource, list[ResourceKind]] = {}
        self._known: dict[Resource, ResourceKind] = {}
        self._in_use: dict[Resource, ResourceKind] = {}
        for kind in (PODS, NODES, PRIORITY_CLASSES, DEFINITIONS, *_listed(_NAMESPACED, True)):
            self.add(kind)
        for kind in _listed(_CLUSTER_SCOPED, False):
            self.add(kind)

    def add(self, kind: ResourceKind) -> None:
        """Make a kind known."""
        self._known.setdefault(resource_of(kind), kind)

    def use(self, kind: ResourceKind) -> None:
        """Make a kind readable and writable by its path."""
        self.add(kind)
        self._in_use.setdefault(resource_of(kind), kind)

    def define(self, definition: Mapping[str, Any]) -> None:
        """Make the kinds of a CustomResourceDefinition known."""
        spec = definition["spec"]
        names = spec["names"]
        for version in spec["versions"]:
            namespaced = spec["scope"] == "Namespaced"
            self.add(ResourceKind(spec["group"], version["name"], names["plural"], names["kind"], namespaced))

    def watch(self, kinds: Iterable[ResourceKind]) -> list[ResourceKind]:
        """Add watched kinds. Return those that were not watched before."""
        added = []
        for kind in kinds:
            self.use(kind)
            watched = self._watched.setdefault(resource_of(kind), [])
            if kind not in watched:
                watched.append(kind)
                added.append(kind)
        return added

    @property
    def watched(self) -> list[ResourceKind]:
        """All watched kinds."""
        return [kind for same in self._watched.values() for kind in same]

    def watched_as(self, kind: ResourceKind) -> list[ResourceKind]:
        """Return the watched kinds that are this one; plugins may differ in `optional`."""
        return self._watched.get(resource_of(kind), [])

    def by_plural(self) -> dict[str, ResourceKind]:
        """Return the kinds in use by plural; of several with one plural, the first."""
        return {kind.plural: kind for kind in reversed(self._in_use.values())}

    def of(self, manifest: Mapping[str, Any]) -> ResourceKind:
        """Return the kind of a manifest. ValueError if it is unknown."""
        version, name = manifest.get("apiVersion"), manifest.get("kind")
        for kind in self._known.values():
            if kind.kind == name and api_version(kind) == version:
                return kind
        raise ValueError(self._why_unknown(version, name))

    def _why_unknown(self, version: object, name: object) -> str:
        """Return why no known kind has this apiVersion and name."""
        if not name or not isinstance(name, str):
            return "a manifest needs a kind, such as Pod"
        versions = sorted({api_version(kind) for kind in self._known.values() if kind.kind == name})
        if not version:
            return f"{name}: apiVersion is required, such as {versions[0] if versions else 'example.com/v1'}"
        if versions:
            return f"kind {name!r} in apiVersion {version!r} is unknown: its apiVersion is {' or '.join(versions)}"
        near = self._near(name)
        hint = f"did you mean {near}?" if near else "apply its CustomResourceDefinition first"
        return f"kind {name!r} in apiVersion {version!r} is unknown: {hint}"

    def _near(self, name: str) -> str:
        """Return the kind that a misspelt name, a plural or a name in lower case means, "" if there is none."""
        by_spelling = {spelling: k.kind for k in self._known.values() for spelling in (k.kind.lower(), k.plural)}
        near = get_close_matches(name.lower(), by_spelling, n=1, cutoff=0.8)
        return by_spelling[near[0]] if near else ""

    def named(self, name: str) -> list[ResourceKind]:
        """Return the kinds with a name such as `PodGroup` or `PodGroup.scheduling.k8s.io`. ValueError for none."""
        kind_name, _, group = name.partition(".")
        found = [k for k in self._known.values() if k.kind == kind_name and (not group or k.group == group)]
        if not found:
            near = self._near(kind_name)
            raise ValueError(f"kind {name!r} is unknown" + (f": did you mean {near}?" if near else ""))
        return found

    def at(self, path: str) -> PathTarget:
        """Return the target of an API path, with or without a subresource. Tests may shorten it to `plural/name`."""
        parts = path.strip("/").split("/")
        group, version, namespace = "", "", ""
        if parts[0] == "apis":
            group, version, parts = parts[1], parts[2], parts[3:]
        elif parts[0] == "api":
            version, parts = parts[1], parts[2:]
        if parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        plural, name = parts[0], parts[1] if len(parts) > 1 else ""
        kind = self._in_use.get((group, version, plural)) if version else self.by_plural().get(plural)
        return PathTarget(kind, plural, namespace, name)


def resource_of(kind: ResourceKind) -> Resource:
    """Return the identity of a kind."""
    return kind.group, kind.version, kind.plural


def api_version(kind: ResourceKind) -> str:
    """Return the apiVersion of a kind's manifests."""
    return f"{kind.group}/{kind.version}" if kind.group else kind.version


def _listed(table: Mapping[str, str], namespaced: bool) -> Iterator[ResourceKind]:
    for version, names in table.items():
        group, _, number = version.rpartition("/")
        for name in names.split():
            yield ResourceKind(group, number, _plural(name), name, namespaced)


def _plural(name: str) -> str:
    lower = name.lower()
    if lower.endswith(("s", "x")):
        return f"{lower}es"
    return f"{lower[:-1]}ies" if lower.endswith("y") else f"{lower}s"
