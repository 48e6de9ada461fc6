"""ConfigMaps and Leases in memory, with an API server's manners about resourceVersion, and with troubles by order."""

from __future__ import annotations

import asyncio
import copy
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from pyscheduler.backend.client import ClusterProblem
from pyscheduler.backend.state.objects import CONFIG_MAPS
from pyscheduler.backend.task import Json

MOST_BYTES = 1024 * 1024
"""Of a ConfigMap's data."""


class FakeObjects:
    """The server's side. `again` gives every client of it a view of its own, which a test may break."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Json] = {}
        self.calls: Counter[str] = Counter()
        self._version = 0

    def client(self) -> FakeClient:
        return FakeClient(self)

    def data(self, name: str) -> dict[str, str]:
        """What a ConfigMap says."""
        found: dict[str, str] = self.objects[CONFIG_MAPS, name]["data"]
        return found

    def write(self, path: str, name: str, body: Json) -> Json:
        """Take an object in. ClusterProblem as the API server has it."""
        if path == CONFIG_MAPS and len(json.dumps(body.get("data") or {})) > MOST_BYTES:
            raise ClusterProblem(422, "Invalid", "data: Too long: may not be more than 1048576 bytes")
        self._version += 1
        kept = copy.deepcopy(body)
        kept["metadata"]["resourceVersion"] = str(self._version)
        self.objects[path, name] = kept
        return copy.deepcopy(kept)


class FakeClient:
    """An `Objects`. `trouble` is called before every call with the verb and what it is about, and may raise or wait."""

    def __init__(self, server: FakeObjects) -> None:
        self._server = server
        self.trouble: Callable[[str, str], Any] = lambda verb, about: None
        self.lose_answers = 0
        """So many writes are carried out and answered with a broken connection."""

    async def get_object(self, path: str, name: str) -> Json:
        await self._arrives("get", path, name)
        if (path, name) not in self._server.objects:
            raise ClusterProblem(404, "NotFound", f"{name} not found")
        return copy.deepcopy(self._server.objects[path, name])

    async def create_object(self, path: str, body: Json) -> Json:
        name = body["metadata"]["name"]
        await self._arrives("create", path, name)
        if (path, name) in self._server.objects:
            raise ClusterProblem(409, "AlreadyExists", f"{path} {name!r} already exists")
        return self._answered(self._server.write(path, name, body))

    async def replace_object(self, path: str, name: str, body: Json) -> Json:
        await self._arrives("replace", path, name)
        kept = self._server.objects.get((path, name))
        if kept is None:
            raise ClusterProblem(404, "NotFound", f"{path} {name!r} not found")
        if kept["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise ClusterProblem(409, "Conflict", "the object has been modified")
        return self._answered(self._server.write(path, name, body))

    async def _arrives(self, verb: str, path: str, name: str) -> None:
        await asyncio.sleep(0)
        waiting = self.trouble(verb, f"{path.rpartition('/')[2]}/{name}")
        if waiting is not None:
            await waiting
        self._server.calls[verb] += 1

    def _answered(self, answer: Json) -> Json:
        if self.lose_answers:
            self.lose_answers -= 1
            raise ClusterProblem(0, "", "the connection was reset")
        return answer
