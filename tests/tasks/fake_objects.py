"""In-memory API server for ConfigMaps and Leases, with resourceVersion conflicts and injected faults."""

from __future__ import annotations

import asyncio
import copy
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from pyscheduler.api import ApiError, ResourceKind
from pyscheduler.backend.state.objects import CONFIG_MAPS
from pyscheduler.backend.task import Json

MOST_BYTES = 1024 * 1024
"""Largest data of a ConfigMap."""


class FakeObjects:
    """Objects of the server; `client` returns a new client, with its own injected faults."""

    def __init__(self) -> None:
        self.objects: dict[tuple[ResourceKind, str], Json] = {}
        self.calls: Counter[str] = Counter()
        self._version = 0

    def client(self) -> FakeClient:
        return FakeClient(self)

    def data(self, name: str) -> dict[str, str]:
        """Return the data of a ConfigMap."""
        data: dict[str, str] = self.objects[CONFIG_MAPS, name]["data"]
        return data

    def write(self, kind: ResourceKind, name: str, body: Json) -> Json:
        """Store an object with a new resourceVersion and return it. ApiError 422 if it is too large."""
        if kind == CONFIG_MAPS and len(json.dumps(body.get("data") or {})) > MOST_BYTES:
            raise ApiError(422, "Invalid", "data: Too long: may not be more than 1048576 bytes")
        self._version += 1
        stored = copy.deepcopy(body)
        stored["metadata"]["resourceVersion"] = str(self._version)
        self.objects[kind, name] = stored
        return copy.deepcopy(stored)


class FakeClient:
    """`ObjectsApi` of the server. `before_call` gets verb and "plural/name" of each call, and may raise or wait."""

    def __init__(self, server: FakeObjects) -> None:
        self._server = server
        self.before_call: Callable[[str, str], Any] = lambda verb, path: None
        self.lost_responses = 0
        """Number of next writes that take effect, but lose their response."""

    async def get_object(self, kind: ResourceKind, name: str) -> Json:
        await self._handle_call("get", kind, name)
        if (kind, name) not in self._server.objects:
            raise ApiError(404, "NotFound", f"{name} not found")
        return copy.deepcopy(self._server.objects[kind, name])

    async def create_object(self, kind: ResourceKind, body: Json) -> Json:
        name = body["metadata"]["name"]
        await self._handle_call("create", kind, name)
        if (kind, name) in self._server.objects:
            raise ApiError(409, "AlreadyExists", f"{kind.plural} {name!r} already exists")
        return self._respond(self._server.write(kind, name, body))

    async def replace_object(self, kind: ResourceKind, body: Json) -> Json:
        name = body["metadata"]["name"]
        await self._handle_call("replace", kind, name)
        stored = self._server.objects.get((kind, name))
        if stored is None:
            raise ApiError(404, "NotFound", f"{kind.plural} {name!r} not found")
        if stored["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "the object has been modified")
        return self._respond(self._server.write(kind, name, body))

    async def _handle_call(self, verb: str, kind: ResourceKind, name: str) -> None:
        await asyncio.sleep(0)
        waiting = self.before_call(verb, f"{kind.plural}/{name}")
        if waiting is not None:
            await waiting
        self._server.calls[verb] += 1

    def _respond(self, body: Json) -> Json:
        if self.lost_responses:
            self.lost_responses -= 1
            raise ApiError(0, "", "the connection was reset")
        return body
