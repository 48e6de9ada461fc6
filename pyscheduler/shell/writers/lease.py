"""Lease on the API server: read and written as a whole, so that a concurrent write is a conflict."""

from __future__ import annotations

from typing import Any

import msgspec

from pyscheduler.api import ApiError
from pyscheduler.clock import rfc3339
from pyscheduler.core.leader_election import Lease
from pyscheduler.kube.connection import Connection
from pyscheduler.kube.paths import CORE_EVENTS, LEASES, collection
from pyscheduler.truncation import event_name

_NOT_FOUND = 404
_encode = msgspec.json.Encoder().encode

Json = dict[str, Any]


class _Object(msgspec.Struct):
    """The part of a Lease that is decoded; the rest is written back unchanged."""

    spec: Lease = Lease()


class LeaseLock:
    """One Lease, by name, and the connection to it.

    A write is rejected with 409 if the Lease was changed since it was last read or written here.
    """

    def __init__(self, connection: Connection, namespace: str, name: str, component: str) -> None:
        """`component` is the source of the Events about it."""
        self._connection = connection
        self._collection = collection(LEASES, namespace)
        self._name = name
        self._namespace = namespace
        self._component = component
        self._object: Json | None = None

    def __str__(self) -> str:
        return f"{self._namespace}/{self._name}"

    async def read(self) -> Lease | None:
        """Return the lease, None if there is none. ApiError."""
        try:
            return self._store(await self._connection.request("GET", f"{self._collection}/{self._name}"))
        except ApiError as problem:
            if problem.status != _NOT_FOUND:
                raise
        self._object = None
        return None

    async def write(self, lease: Lease) -> None:
        """Store the lease. ApiError if it was rejected or the outcome is unknown."""
        spec = msgspec.to_builtins(lease)
        if self._object is None:
            metadata = {"name": self._name, "namespace": self._namespace}
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
            self._store(await self._connection.request("POST", self._collection, _encode(body)))
        else:
            body = {**self._object, "spec": {**self._object.get("spec", {}), **spec}}
            self._store(await self._connection.request("PUT", f"{self._collection}/{self._name}", _encode(body)))

    async def record(self, message: str, wall: float) -> None:
        """Write an Event about the lease as client-go does: core/v1, reason LeaderElection. ApiError."""
        seen = (self._object or {}).get("metadata", {})
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": event_name(self._name, int(wall * 1e9)), "namespace": self._namespace},
            "involvedObject": {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "namespace": self._namespace,
                "name": self._name,
                "uid": seen.get("uid", ""),
                "resourceVersion": seen.get("resourceVersion", ""),
            },
            "reason": "LeaderElection",
            "message": message,
            "type": "Normal",
            "count": 1,
            "firstTimestamp": rfc3339(wall),
            "lastTimestamp": rfc3339(wall),
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
        }
        await self._connection.request("POST", collection(CORE_EVENTS, self._namespace), _encode(event))

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()

    def _store(self, content: bytes) -> Lease:
        """Return the Lease in a response and store it for the next write."""
        try:
            self._object = msgspec.json.decode(content, type=Json)
            return msgspec.json.decode(content, type=_Object).spec
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
            raise ApiError(0, "UnreadableResponse", f"the response is not a Lease: {problem}") from None
