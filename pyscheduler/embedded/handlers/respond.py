"""HTTP responses. Lists are joined from the cached JSON of each version; nothing is encoded twice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from aiohttp import web

from pyscheduler.embedded.columns.table import TableView, metadata_only
from pyscheduler.embedded.handlers.request import METADATA, PLAIN
from pyscheduler.embedded.history import Version
from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.resources import Resource
from pyscheduler.embedded.status import ApiStatusError
from pyscheduler.embedded.verbs.read import ListPage

_encode = msgspec.json.Encoder().encode


def raw(body: bytes, status: int = 200, warnings: Iterable[str] = ()) -> web.Response:
    """Return a JSON response from bytes; warnings become headers, which kubectl prints."""
    response = web.Response(body=body, status=status, content_type="application/json")
    for text in warnings:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{quoted}"')
    return response


def document(body: Any, status: int = 200) -> web.Response:
    """Return a JSON response from a document."""
    return raw(_encode(body), status)


def error_status(error: ApiStatusError) -> web.Response:
    """Return the Status of a rejected request."""
    response = document(error.body(), error.code)
    retry = (error.details or {}).get("retryAfterSeconds")
    if retry:
        response.headers["Retry-After"] = str(retry)
    return response


def written(resource: Resource, version: Version, status: int, warnings: Iterable[str]) -> web.Response:
    """Return the object after a write."""
    return raw(version.json(resource.from_stored), status, warnings)


def one(resource: Resource, version: Version, view: str, table: TableView) -> web.Response:
    """Return one object in the requested view."""
    if view == PLAIN:
        return raw(version.json(resource.from_stored))
    if view == METADATA:
        return document(metadata_only(version.object))
    meta = {"resourceVersion": version.object["metadata"]["resourceVersion"]}
    return document(table.table([version], meta))


def page(resource: Resource, found: ListPage, view: str, table: TableView) -> web.Response:
    """Return a list in the requested view."""
    meta: Json = {"resourceVersion": str(found.revision)}
    if found.token:
        meta["continue"] = found.token
    if found.remaining is not None:
        meta["remainingItemCount"] = found.remaining
    if view == PLAIN:
        head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": meta}
        items = b",".join([version.json(resource.from_stored) for version in found.items])
        return raw(_encode(head)[:-1] + b',"items":[' + items + b"]}")
    if view == METADATA:
        items_only = [metadata_only(version.object) for version in found.items]
        head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
        return document({**head, "items": items_only})
    return document(table.table(found.items, meta))
