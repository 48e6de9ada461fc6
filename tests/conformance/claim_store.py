"""API server of a sequence, reduced to ResourceClaims: it shows to the scheduler what DynamicResources writes."""

from __future__ import annotations

import copy
import json
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from typing import Any

from pyscheduler.api import ApiError, PluginMetric, Pod
from tests.conformance.generator.generated_cluster import Manifest

_FIRST_CHANGE = 1 << 40
"""A version above those of the objects of a document."""


class _Waits(Exception):
    """PreBind waits for a driver."""


class ClaimStore:
    """API client of DynamicResources. Waits for drivers end at once, as if these had set their conditions."""

    def __init__(
        self, objects: Iterable[Manifest], changed: Callable[[Manifest], None], gone: Callable[[str, str], None]
    ) -> None:
        """Store the claims among the objects; the two functions are called with what was written and deleted."""
        self._claims = {_key(each["metadata"]): each for each in objects if each["kind"] == "ResourceClaim"}
        self._changed, self._gone = changed, gone
        self._version = _FIRST_CHANGE
        self._written: dict[tuple[str, str], None] = {}
        self._deleted: dict[tuple[str, str], None] = {}
        self.suffix = ""
        """Suffix of the names of created claims."""

    def run(self, call: Awaitable[object]) -> None:
        """Run a call that waits for nothing but this client."""
        steps: Generator[Any, None, object] = call.__await__()
        try:
            for _ in steps:
                raise AssertionError("the call waits for something else than its API client")
        except _Waits:
            return

    def take_written(self) -> dict[str, list[str]]:
        """Show the written claims to the scheduler, and return their devices (`driver/pool/device`) by name.

        A generated name is represented by its prefix.
        """
        devices = {}
        for key in self._written:
            claim = self._claims[key]
            meta, allocation = claim["metadata"], (claim.get("status") or {}).get("allocation") or {}
            results = allocation.get("devices", {}).get("results") or ()
            devices[meta.get("generateName") or meta["name"]] = [
                "/".join((each["driver"], each["pool"], each["device"])) for each in results
            ]
            self._changed(copy.deepcopy(claim))
        for key in self._deleted:
            self._gone(*key)
        self._written, self._deleted = {}, {}
        return devices

    # -- ApiWriter -----------------------------------------------------------------------------------------------

    async def get(self, path: str) -> dict[str, Any]:
        return copy.deepcopy(self._at(path))

    async def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        made = _copied(body)
        meta = made["metadata"]
        meta.update(name=f"{meta['generateName']}created{self.suffix}", uid=f"uid:created{self.suffix}")
        return self._stored(made)

    async def replace(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        self._at(path)
        return self._stored(_copied(body))

    async def merge(self, path: str, patch: Mapping[str, Any]) -> dict[str, Any]:
        if "/resourceclaims/" not in path:
            return {}  # the status of the pod, which does not influence scheduling
        claim = self._at(path)
        status = {**claim.get("status", {}), **_copied(patch["status"])}
        return self._stored({**claim, "status": {key: value for key, value in status.items() if value is not None}})

    async def delete(self, path: str) -> None:
        key = _key(self._at(path)["metadata"])
        del self._claims[key]
        self._written.pop(key, None)
        self._deleted[key] = None

    def _at(self, path: str) -> Manifest:
        *_, namespace, _, name = path.removesuffix("/status").split("/")
        found = self._claims.get((namespace, name))
        if found is None:
            raise ApiError(404, "NotFound", f"{path} does not exist")
        return found

    def _stored(self, claim: Manifest) -> Manifest:
        self._version += 1
        key = _key(claim["metadata"])
        self._claims[key] = {**claim, "metadata": {**claim["metadata"], "resourceVersion": str(self._version)}}
        self._written[key] = None
        return copy.deepcopy(self._claims[key])

    async def sleep(self, seconds: float) -> None:
        raise _Waits

    async def bind(self, pod: Pod, node_name: str) -> None:
        raise AssertionError("DynamicResources binds no pods")

    def timestamp(self) -> str:
        return "2026-01-01T00:00:00Z"

    def record(self, pod: Pod, reason: str, action: str, note: str) -> None:
        """Events are not compared."""

    def observe(self, metric: PluginMetric, labels: tuple[str, ...] = (), value: float = 1) -> None:
        """Metrics are not compared."""


def _key(meta: Mapping[str, Any]) -> tuple[str, str]:
    return meta["namespace"], meta["name"]


def _copied(body: Mapping[str, Any]) -> Manifest:
    copied: Manifest = json.loads(json.dumps(body))
    return copied
