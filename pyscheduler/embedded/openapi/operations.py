"""Paths of OpenAPI documents, one for each kind: kubectl reads whether PATCH takes `fieldValidation` and `dryRun`."""

from __future__ import annotations

from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.resources import Resource
from pyscheduler.embedded.verbs.patch import PATCH_TYPES, STRATEGIC

QUERY = ("dryRun", "fieldManager", "fieldValidation")
"""Query parameters of every write."""


def gvk(resource: Resource) -> Json:
    """Return the value of x-kubernetes-group-version-kind."""
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def path_of(resource: Resource) -> str:
    """Return the path template of one object."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    return f"{root}{scope}/{resource.plural}/{{name}}"


def patch_types(resource: Resource) -> list[str]:
    """Return the media types of patches that the kind accepts."""
    return [each for each in PATCH_TYPES if not (resource.custom and each == STRATEGIC)]
