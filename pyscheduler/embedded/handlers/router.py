"""Routing of all requests to the handlers of paths and verbs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from aiohttp import web

from pyscheduler.embedded import discovery
from pyscheduler.embedded.api import Api
from pyscheduler.embedded.columns.table import TableView
from pyscheduler.embedded.handlers import respond
from pyscheduler.embedded.handlers.origin import check_origin
from pyscheduler.embedded.handlers.request import (
    Target,
    is_dry_run,
    parse_path,
    read_body,
    view_of,
    wants_aggregated_discovery,
    write_options,
)
from pyscheduler.embedded.handlers.subresources import SubresourceHandlers
from pyscheduler.embedded.handlers.watch import WatchHandler
from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.openapi import v2, v3
from pyscheduler.embedded.openapi.protobuf import MEDIA_TYPE, encode_document
from pyscheduler.embedded.resources import Resource
from pyscheduler.embedded.status import ApiStatusError, method_not_allowed, no_such_path, success
from pyscheduler.embedded.verbs.delete import delete_options
from pyscheduler.embedded.verbs.read import list_options

log = logging.getLogger("pyscheduler.embedded")
_STATUS_PARTS = frozenset({"status", "approval"})
"""Subresources that write the status of an object."""
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Router:
    """Entry point of every request to the server."""

    def __init__(self, api: Api, host: str, address: Callable[[], str], token: str) -> None:
        """Route for the server listening on `host`; `token` is that of its own user, for token reviews."""
        self._api, self._host, self._address = api, host, address
        self._subresources = SubresourceHandlers(api, token)
        self.watches = WatchHandler(api.state)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return the response to `request`; ApiErrors and unexpected exceptions become Status objects."""
        try:
            check_origin(request, self._host)
            return await self._route(request)
        except ApiStatusError as error:
            return respond.error_status(error)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            log.exception("unexpected error while serving %s %s", request.method, request.path)
            message = f"Internal error occurred: {type(error).__name__}: {error}"
            return respond.error_status(ApiStatusError(500, "InternalError", message))

    async def _route(self, request: web.BaseRequest) -> web.StreamResponse:
        target = parse_path(request.path)
        if target is None:
            return self._non_resource(request)
        virtual = await self._subresources.virtual(request, target)
        if virtual is not None:
            return virtual
        resource = self._api.resource(target.plural, target.group, target.version)
        if bool(target.namespace) and not resource.namespaced:
            raise no_such_path()
        if target.subresource in _STATUS_PARTS & resource.subresources:
            return await self._object(request, resource, target)
        if target.subresource:
            return await self._subresources.subresource(request, resource, target)
        if request.method != "GET" and "create" not in resource.verbs:
            raise method_not_allowed()
        if target.name:
            return await self._object(request, resource, target)
        return await self._collection(request, resource, target)

    def _non_resource(self, request: web.BaseRequest) -> web.Response:
        """Return discovery, OpenAPI, health and version documents."""
        if request.method != "GET":
            raise method_not_allowed()
        path, registry = request.path.rstrip("/"), self._api.state.registry
        parts = path.split("/")[1:]
        if path in {"/healthz", "/livez", "/readyz"} or path.startswith(("/livez/", "/readyz/")):
            return web.Response(text="ok")
        if path == "/version":
            return respond.document(discovery.version_info())
        if path in {"/api", "/apis"} and wants_aggregated_discovery(request.headers.get("Accept", "")):
            response = respond.document(discovery.aggregated(registry, core=path == "/api"))
            response.headers["Content-Type"] = _AGGREGATED
            return response
        if path == "/api":
            return respond.document(discovery.core_versions(self._address()))
        if path == "/apis":
            return respond.document(discovery.group_list(registry))
        if path == "/openapi/v3":
            return respond.document(v3.index(registry))
        if path == "/openapi/v2":
            return self._openapi_v2(request)
        if not path:
            return respond.document({"paths": ["/api", "/apis", "/healthz", "/openapi/v2", "/openapi/v3", "/version"]})
        return self._group_document(parts)

    def _openapi_v2(self, request: web.BaseRequest) -> web.Response:
        document = v2.document(self._api.state.registry)
        if "protobuf" not in request.headers.get("Accept", ""):
            return respond.document(document)
        return web.Response(body=encode_document(document), content_type=MEDIA_TYPE)

    def _group_document(self, parts: list[str]) -> web.Response:
        registry = self._api.state.registry
        found: Json | None = None
        match parts:
            case ["api", version]:
                found = discovery.resource_list(registry, "", version)
            case ["apis", group]:
                found = discovery.one_group(registry, group)
            case ["apis", group, version]:
                found = discovery.resource_list(registry, group, version)
            case ["openapi", "v3", "api", version]:
                found = v3.document(registry, "", version)
            case ["openapi", "v3", "apis", group, version]:
                found = v3.document(registry, group, version)
        if found is None:
            raise no_such_path()
        return respond.document(found)

    async def _object(self, request: web.BaseRequest, resource: Resource, target: Target) -> web.StreamResponse:
        where = (target.namespace, target.name, "status" if target.subresource else "")
        if request.method == "GET":
            version = self._api.get(resource, target.namespace, target.name)
            view = view_of(request.headers.get("Accept", ""))
            return respond.one(resource, version, view, self._table(request, resource))
        if request.method == "DELETE" and not target.subresource:
            return await self._delete(request, resource, target)
        warnings: list[str] = []
        options = write_options(request, request.query, warnings)
        if request.method == "PUT":
            version, created = self._api.update(resource, where, await read_body(request), options)
        elif request.method == "PATCH":
            change = (request.content_type, await read_body(request))
            version, created = self._api.patch(resource, where, change, options)
        else:
            raise method_not_allowed()
        return respond.written(resource, version, 201 if created else 200, warnings)

    async def _delete(self, request: web.BaseRequest, resource: Resource, target: Target) -> web.Response:
        query = request.query
        options = delete_options(await read_body(request), query, dry_run=is_dry_run(query))
        version, gone = self._api.delete(resource, target.namespace, target.name, options)
        if gone and not resource.returns_deleted:
            meta = version.object["metadata"]
            details = {"name": meta["name"], "group": resource.group, "kind": resource.plural, "uid": meta["uid"]}
            return respond.document(success({key: value for key, value in details.items() if value}))
        return respond.written(resource, version, 200, ())

    async def _collection(self, request: web.BaseRequest, resource: Resource, target: Target) -> web.StreamResponse:
        query = request.query
        if request.method == "POST":
            if resource.namespaced and not target.namespace:
                raise method_not_allowed()
            warnings: list[str] = []
            options = write_options(request, query, warnings)
            version = self._api.create(resource, target.namespace, await read_body(request), options)
            return respond.written(resource, version, 201, warnings)
        selection = list_options(resource, query)
        view = view_of(request.headers.get("Accept", ""))
        if request.method == "DELETE":
            how = delete_options(await read_body(request), query, dry_run=is_dry_run(query))
            deleted = self._api.delete_collection(resource, target.namespace, selection, how)
            return respond.page(resource, deleted, view, self._table(request, resource))
        if request.method != "GET":
            raise method_not_allowed()
        if selection.watch:
            return await self.watches.serve(request, resource, target.namespace, selection, view)
        found = self._api.list(resource, target.namespace, selection)
        return respond.page(resource, found, view, self._table(request, resource))

    def _table(self, request: web.BaseRequest, resource: Resource) -> TableView:
        include = request.query.get("includeObject", "Metadata") if request.query_string else "Metadata"
        return TableView(resource, self._api.state.now(), include)
