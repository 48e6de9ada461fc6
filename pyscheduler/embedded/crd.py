"""Custom resources: every CustomResourceDefinition in the store becomes a Resource in the registry.

Not implemented: conversion webhooks (versions differ in apiVersion only).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from pyscheduler.embedded.history import DELETED, Event
from pyscheduler.embedded.objects import Json, dig
from pyscheduler.embedded.resources import Lookup, Resource, ResourceRegistry, Rules, ScalePaths
from pyscheduler.embedded.schema import models, structural
from pyscheduler.embedded.schema.published import OBJECT_META
from pyscheduler.embedded.status import Cause
from pyscheduler.embedded.store import Store

BUCKET = "customresourcedefinitions.apiextensions.k8s.io"


def resources_of(crd: Mapping[str, Any]) -> Iterator[Resource]:
    """Yield one resource for each served version of a definition."""
    spec = crd["spec"]
    stored = next(version["name"] for version in spec["versions"] if version.get("storage"))
    for version in spec["versions"]:
        if version.get("served", True):
            yield _resource(spec, version, stored)


def _resource(spec: Mapping[str, Any], version: Mapping[str, Any], stored: str) -> Resource:
    names, group = spec["names"], spec["group"]
    schema = dig(version, "schema", "openAPIV3Schema") or {}
    subresources = version.get("subresources") or {}
    fields = {f["jsonPath"].lstrip("."): f["jsonPath"].lstrip(".") for f in version.get("selectableFields") or ()}
    same_form = version["name"] == stored
    return Resource(
        group,
        version["name"],
        names["kind"],
        names["plural"],
        spec.get("scope") == "Namespaced",
        tuple(names.get("shortNames") or ()),
        tuple(names.get("categories") or ()),
        frozenset(subresources.keys() & {"status", "scale"}),
        generation=True,
        spec_parts=(),
        unconditional_update=False,
        fields=fields,
        rules=_rules(schema),
        schema=structural.tree({"type": "object", **schema}, metadata=models.tree(OBJECT_META)),
        openapi=schema,
        scale=_scale_paths(subresources.get("scale") or {}),
        singular=names.get("singular", ""),
        to_stored=None if same_form else lambda obj: {**obj, "apiVersion": f"{group}/{stored}"},
        from_stored=None if same_form else lambda obj: {**obj, "apiVersion": f"{group}/{version['name']}"},
        printer_columns=tuple(version.get("additionalPrinterColumns") or ()),
        custom=True,
    )


def _scale_paths(scale: Mapping[str, str]) -> ScalePaths:
    return ScalePaths(
        scale.get("specReplicasPath", "").lstrip("."),
        scale.get("statusReplicasPath", "").lstrip("."),
        scale.get("labelSelectorPath", "").lstrip("."),
    )


def _rules(schema: Mapping[str, Any]) -> Rules:
    def default(obj: Json, _lookup: Lookup) -> None:
        structural.prune(obj, schema, root=True)
        structural.set_defaults(obj, schema)

    @cache
    def checker() -> Callable[[Json], list[Cause]]:
        from pyscheduler.embedded.schema import validation  # takes 0.1 s, so only for servers with custom resources

        return validation.checker(schema)

    if not structural.has_rules(schema):
        return Rules(default, check=lambda obj: checker()(obj))

    def check(obj: Json) -> list[Cause]:
        return checker()(obj) or _violations(schema, obj)

    def check_change(new: Json, old: Json) -> list[Cause]:
        return _violations(schema, new, old)

    return Rules(default, check=check, check_change=check_change, check_status_change=check_change)


def _violations(schema: Mapping[str, Any], new: Json, old: Json | None = None) -> list[Cause]:
    from pyscheduler.embedded.schema.cel_rules import violations  # only for servers with such rules

    return list(violations(schema, new, old))


class CustomResources:
    """Update the registry when definitions change; delete the objects of a definition that is deleted."""

    def __init__(self, store: Store, registry: ResourceRegistry) -> None:
        self._store, self._registry = store, registry
        self.serial = 0
        """Number of changes of the served resources; discovery documents are cached by it."""
        store.reactors.append(self._react)

    def _react(self, bucket: str, event: Event) -> None:
        if bucket != BUCKET:
            return
        spec = event.version.object["spec"]
        group, plural = spec["group"], spec["names"]["plural"]
        self.serial += 1
        if event.kind == DELETED:
            bucket = f"{plural}.{group}"
            for version in list(self._store.scan(bucket)):
                self._store.remove(bucket, version.key)
        self._registry.drop(group, plural)
        if event.kind != DELETED:
            for resource in resources_of(event.version.object):
                self._registry.add(resource)
