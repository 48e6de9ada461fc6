"""Embedded API with a virtual clock, and builders of objects."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from pyscheduler.embedded.api import Api
from pyscheduler.embedded.history import Version
from pyscheduler.embedded.resources import Resource
from pyscheduler.embedded.server_state import WriteOptions
from pyscheduler.embedded.status import ApiStatusError
from pyscheduler.embedded.verbs.read import list_options

Json = dict[str, Any]
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
START = 1_700_000_000.0
START_TEXT = "2023-11-14T22:13:20Z"


class Cluster:
    """An `Api` with a virtual clock and sequential uids, and shorthands for requests."""

    def __init__(self, history: int = 1000) -> None:
        self.now = START
        counter = itertools.count(1)
        self.api = Api(
            now=lambda: self.now,
            new_uid=lambda: f"uid-{next(counter)}",
            new_suffix=lambda: f"x{next(counter)}",
            history=history,
        )

    def resource(self, plural: str) -> Resource:
        """Return the resource with a name such as `pods`, `jobs.batch` or `podgroups.scheduling.k8s.io/v1beta1`."""
        name, _, version = plural.partition("/")
        return self.api.resource(*name.partition(".")[::2], version or "v1")

    def create(self, plural: str, obj: Json, namespace: str = "default", **options: Any) -> Json:
        resource = self.resource(plural)
        where = namespace if resource.namespaced else ""
        return self.api.create(resource, where, obj, WriteOptions(**options)).object

    def get(self, plural: str, name: str, namespace: str = "default") -> Json:
        return self.version(plural, name, namespace).object

    def version(self, plural: str, name: str, namespace: str = "default") -> Version:
        resource = self.resource(plural)
        return self.api.get(resource, namespace if resource.namespaced else "", name)

    def exists(self, plural: str, name: str, namespace: str = "default") -> bool:
        resource = self.resource(plural)
        key = (namespace if resource.namespaced else "", name)
        return self.api.state.store.get(resource.bucket, key) is not None

    def update(self, plural: str, obj: Json, subresource: str = "", namespace: str = "default", **options: Any) -> Json:
        resource = self.resource(plural)
        where = (namespace if resource.namespaced else "", obj["metadata"]["name"], subresource)
        return self.api.update(resource, where, obj, WriteOptions(**options))[0].object

    def patch(
        self, plural: str, name: str, body: Any, kind: str = STRATEGIC, subresource: str = "", **options: Any
    ) -> Json:
        resource = self.resource(plural)
        where = ("default" if resource.namespaced else "", name, subresource)
        return self.api.patch(resource, where, (kind, body), WriteOptions(**options))[0].object

    def names(self, plural: str, namespace: str = "", **query: str) -> list[str]:
        resource = self.resource(plural)
        page = self.api.list(resource, namespace, list_options(resource, query))
        return [version.key[1] for version in page.items]

    def bind(self, name: str, node: str = "n1", **meta: Any) -> None:
        self.api.bind("default", name, {"metadata": {"name": name, **meta}, "target": {"kind": "Node", "name": node}})


def pod(name: str = "p", labels: dict[str, str] | None = None, **spec: Any) -> Json:
    containers = [{"name": "c", "image": "image:1"}]
    meta: Json = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers, **spec}}


def owned(obj: Json, owner: Json, **reference: Any) -> Json:
    meta = owner["metadata"]
    about = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
    obj["metadata"]["ownerReferences"] = [{**about, **reference}]
    return obj


def workload(kind: str, name: str = "web", **spec: Any) -> Json:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "image:1"}]}}
    body = {"selector": {"matchLabels": labels}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body}


def config_map(name: str = "settings", **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def api_error(action: Callable[[], Any]) -> ApiStatusError:
    """Return the ApiStatusError that `action` raises."""
    with pytest.raises(ApiStatusError) as caught:
        action()
    return caught.value


def fields_of(error: ApiStatusError) -> list[str]:
    """Return the fields in the causes of a 422."""
    assert error.code == 422
    assert error.details is not None
    return [cause["field"] for cause in error.details["causes"]]
