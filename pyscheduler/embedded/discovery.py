"""Discovery documents: /api, /apis, the resource lists, and the aggregated form that kubectl prefers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.resources import Resource, ResourceRegistry
from pyscheduler.embedded.versions import version_priority

KUBERNETES = {"major": "1", "minor": "37", "gitVersion": "v1.37.2"}
_ONLY_GET = ("get", "patch", "update")
_ONLY_CREATE = ("create",)
_SUBRESOURCES: Mapping[str, tuple[str, str, str, tuple[str, ...]]] = {
    # name: group, version and kind of the request body ("" for the parent's kind), verbs
    "status": ("", "", "", _ONLY_GET),
    "scale": ("autoscaling", "v1", "Scale", _ONLY_GET),
    "binding": ("", "v1", "Binding", _ONLY_CREATE),
    "eviction": ("policy", "v1", "Eviction", _ONLY_CREATE),
    "log": ("", "", "", ("get",)),
    "exec": ("", "v1", "PodExecOptions", ("create", "get")),
    "attach": ("", "v1", "PodAttachOptions", ("create", "get")),
    "portforward": ("", "v1", "PodPortForwardOptions", ("create", "get")),
    "proxy": ("", "v1", "PodProxyOptions", ("create", "get")),
    "ephemeralcontainers": ("", "", "", _ONLY_GET),
    "resize": ("", "", "", _ONLY_GET),
    "approval": ("", "", "", _ONLY_GET),
    "token": ("authentication.k8s.io", "v1", "TokenRequest", _ONLY_CREATE),
}


@dataclass(frozen=True)
class VirtualResource:
    """Resource that is computed and not stored: reviews and bindings."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = False


VIRTUAL = (
    VirtualResource("", "v1", "Binding", "bindings", namespaced=True),
    VirtualResource("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews"),
    VirtualResource("authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews"),
    VirtualResource("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews"),
    VirtualResource(
        "authorization.k8s.io", "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", namespaced=True
    ),
    VirtualResource("authentication.k8s.io", "v1", "TokenReview", "tokenreviews"),
    VirtualResource("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews"),
)


def version_info() -> Json:
    """Return /version: the Kubernetes version that this server behaves like."""
    built = {"gitTreeState": "clean", "goVersion": "none", "compiler": "python", "platform": "embedded"}
    return {**KUBERNETES, "gitCommit": "", "buildDate": "1970-01-01T00:00:00Z", **built}


def core_versions(address: str) -> Json:
    """Return /api."""
    cidrs = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": cidrs}


def _group_versions(registry: ResourceRegistry) -> dict[str, dict[str, None]]:
    """Return the versions of each group, the preferred one first."""
    groups = {group: dict.fromkeys(versions) for group, versions in registry.groups().items()}
    for one in VIRTUAL:
        groups.setdefault(one.group, {}).setdefault(one.version, None)
    return {group: dict.fromkeys(sorted(versions, key=version_priority)) for group, versions in groups.items()}


def group_list(registry: ResourceRegistry) -> Json:
    """Return /apis."""
    groups = [_group(name, versions) for name, versions in _group_versions(registry).items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def one_group(registry: ResourceRegistry, name: str) -> Json | None:
    """Return /apis/group, None if it is not served."""
    versions = _group_versions(registry).get(name) if name else None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)} if versions else None


def _group(name: str, versions: Iterable[str]) -> Json:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _served(registry: ResourceRegistry, group: str, version: str) -> list[Resource]:
    return registry.groups().get(group, {}).get(version, [])


def resource_list(registry: ResourceRegistry, group: str, version: str) -> Json | None:
    """Return /api/v1 or /apis/group/version, None if it is not served."""
    if version not in _group_versions(registry).get(group, {}):
        return None
    resources: list[Json] = []
    for resource in _served(registry, group, version):
        resources.append(_listed(resource))
        resources += [_listed_part(resource, name) for name in sorted(resource.subresources)]
    for one in VIRTUAL:
        if (one.group, one.version) == (group, version):
            row = {"name": one.plural, "singularName": one.kind.lower(), "namespaced": one.namespaced}
            resources.append(row | {"kind": one.kind, "verbs": ["create"]})
    name = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources}


def _listed(resource: Resource) -> Json:
    row: Json = {"name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced}
    row |= {"kind": resource.kind, "verbs": list(resource.verbs)}
    if resource.short_names:
        row["shortNames"] = list(resource.short_names)
    if resource.categories:
        row["categories"] = list(resource.categories)
    return row


def _listed_part(resource: Resource, name: str) -> Json:
    group, version, kind, verbs = _SUBRESOURCES[name]
    row: Json = {"name": f"{resource.plural}/{name}", "singularName": "", "namespaced": resource.namespaced}
    if kind:
        row |= {"group": group, "version": version} if group else {}
    return row | {"kind": kind or resource.kind, "verbs": list(verbs)}


def aggregated(registry: ResourceRegistry, *, core: bool) -> Json:
    """Return /api or /apis as APIGroupDiscoveryList (apidiscovery.k8s.io/v2)."""
    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [_aggregated_version(registry, group, version) for version in versions],
        }
        for group, versions in _group_versions(registry).items()
        if (not group) is core
    ]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated_version(registry: ResourceRegistry, group: str, version: str) -> Json:
    resources = [_aggregated_resource(resource) for resource in _served(registry, group, version)]
    for one in VIRTUAL:
        if (one.group, one.version) == (group, version):
            resources.append(
                {
                    "resource": one.plural,
                    "responseKind": {"group": one.group, "version": one.version, "kind": one.kind},
                    "scope": "Namespaced" if one.namespaced else "Cluster",
                    "singularResource": one.kind.lower(),
                    "verbs": ["create"],
                }
            )
    return {"version": version, "freshness": "Current", "resources": resources}


def _aggregated_resource(resource: Resource) -> Json:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    row: Json = {
        "resource": resource.plural,
        "responseKind": kind,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
        "shortNames": list(resource.short_names),
        "categories": list(resource.categories),
    }
    parts = []
    for name in sorted(resource.subresources):
        group, version, part_kind, verbs = _SUBRESOURCES[name]
        own = {"group": group, "version": version, "kind": part_kind} if part_kind else kind
        parts.append({"subresource": name, "responseKind": own, "verbs": list(verbs)})
    return row | ({"subresources": parts} if parts else {})
