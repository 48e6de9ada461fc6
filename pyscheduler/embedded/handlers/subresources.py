"""Handlers of bindings, evictions, scales, reviews, and subresources that hollow nodes do not support."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from pyscheduler.embedded.api import Api
from pyscheduler.embedded.handlers import respond
from pyscheduler.embedded.handlers.request import Target, is_dry_run, read_body, write_options
from pyscheduler.embedded.handlers.reviews import Reviews
from pyscheduler.embedded.handlers.tokens import ServiceAccountTokens
from pyscheduler.embedded.objects import dig
from pyscheduler.embedded.patch.merge import merge_patch
from pyscheduler.embedded.resources import Resource
from pyscheduler.embedded.status import bad_request, method_not_allowed, no_such_path, success

_HOLLOW = {
    "log": "hollow nodes run no containers, so there are no logs; see `kubectl describe pod` for what happened",
    "exec": "hollow nodes run no containers, so there is nothing to execute a command in",
    "attach": "hollow nodes run no containers, so there is nothing to attach to",
    "portforward": "hollow nodes run no containers, so there are no ports to forward to",
    "proxy": "hollow nodes run no containers, so there is nothing to proxy to",
    "ephemeralcontainers": "hollow nodes run no containers, so ephemeral containers cannot be added",
    "resize": "hollow nodes run no containers, so pods cannot be resized in place",
}
_SUCCESS = msgspec.json.encode(success())


class SubresourceHandlers:
    """Subresources other than status, and virtual resources."""

    def __init__(self, api: Api, token: str) -> None:
        """Handle the subresources of `api`; `token` is that of the server's own user."""
        self._api, self._tokens = api, ServiceAccountTokens(api.state.now)
        self._reviews = Reviews(token, self._tokens)

    async def virtual(self, request: web.BaseRequest, target: Target) -> web.Response | None:
        """Handle POST of a review or a binding; None if the target is neither."""
        review = self._reviews.kind(target.group, target.plural)
        is_binding = (target.group, target.plural) == ("", "bindings")
        if not review and not is_binding:
            return None
        if request.method != "POST":
            raise method_not_allowed()
        body = await read_body(request)
        if not isinstance(body, dict):
            raise bad_request("the body of the request is not an object")
        if is_binding:
            return self._bind(target.namespace, str(dig(body, "metadata", "name") or ""), body, request)
        head = {"kind": review, "apiVersion": f"{target.group}/{target.version}", "metadata": {}}
        return respond.document({**head, **body, "status": self._reviews.status(review, body)}, 201)

    async def subresource(self, request: web.BaseRequest, resource: Resource, target: Target) -> web.Response:
        """Handle any subresource but status."""
        name = target.subresource
        if name not in resource.subresources:
            raise no_such_path()
        if name in _HOLLOW:
            self._api.get(resource, target.namespace, target.name)
            raise method_not_allowed(_HOLLOW[name])
        if name == "scale":
            return await self._scale(request, resource, target)
        if request.method != "POST":
            raise method_not_allowed()
        body = await read_body(request)
        if name == "binding":
            return self._bind(target.namespace, target.name, body, request)
        if name == "token":
            account = self._api.get(resource, target.namespace, target.name).object
            return respond.document(self._tokens.request(account, body if isinstance(body, dict) else {}), 201)
        self._api.evict(target.namespace, target.name, body)
        return respond.document(success(), 201)

    def _bind(self, namespace: str, name: str, body: Any, request: web.BaseRequest) -> web.Response:
        dry_run = bool(request.query_string) and is_dry_run(request.query)
        self._api.bind(namespace, name, body, dry_run=dry_run)
        return respond.raw(_SUCCESS, 201)

    async def _scale(self, request: web.BaseRequest, resource: Resource, target: Target) -> web.Response:
        where = (target.namespace, target.name)
        if request.method == "GET":
            return respond.document(self._api.scale(resource, *where))
        body = await read_body(request)
        if request.method == "PATCH":
            if request.content_type == "application/json-patch+json" or not isinstance(body, dict):
                raise bad_request("the scale subresource takes merge patches")
            body = merge_patch(self._api.scale(resource, *where), body)
        elif request.method != "PUT":
            raise method_not_allowed()
        options = write_options(request, request.query, [])
        return respond.document(self._api.update_scale(resource, where, body, options))
