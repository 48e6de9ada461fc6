"""`ApiWriter` over a real connection: the writes that Bind-type plugins may make.

A binding without a response can safely be sent again: it contains the pod's UID, and the API server binds a pod only
once. If the retry is rejected with "already assigned", the pod is read to find out if the first call succeeded. After
an internal error of the server it is retried like kube-scheduler's (BindPod), with its pauses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import Any, TypeVar

import msgspec

from pyscheduler.api import ApiError, ApiWriter, PluginMetric, Pod, PodObject
from pyscheduler.clock import Clock, SystemClock, rfc3339
from pyscheduler.core.commands import EventType, Record
from pyscheduler.kube import paths
from pyscheduler.kube.connection import MERGE_PATCH, Connection, unanswered
from pyscheduler.kube.http1 import PROTOBUF
from pyscheduler.kube.protobuf import is_message
from pyscheduler.kube.sanitize import sanitize
from pyscheduler.shell.writers import claim_update, protobuf
from pyscheduler.texts import encodable

T = TypeVar("T")
_CONFLICT, _INVALID = 409, 422
_SERVER_ERRORS = (500, 503)
_SERVER_TIMEOUT = "ServerTimeout"
_BIND_TRIES = 3
"""Number of calls for a binding without a response."""
_BIND_PAUSES = (0.01, 0.05, 0.25)
"""Seconds before each retry after a server error, as in client-go's retry.DefaultBackoff."""
_encode = msgspec.json.Encoder().encode
_decode_pod = msgspec.json.Decoder(PodObject).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


class KubeWriter(ApiWriter):
    """Makes calls; the connection limits how many are in flight. Events go to `recorder`, metrics to `observer`."""

    def __init__(
        self,
        connection: Connection,
        clock: Clock | None = None,
        recorder: Callable[[Record], None] = lambda _: None,
        observer: Callable[[PluginMetric, tuple[str, ...], float], None] = lambda *_: None,
    ) -> None:
        self._connection = connection
        self._clock = clock or SystemClock()
        self._recorder = recorder
        self._observer = observer

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Create the binding. Some failed calls are retried, since the API server binds a pod only once."""
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding"
        for tries in count(1):
            try:
                await self._connection.request("POST", path, partial(_binding, pod, node_name))
                return
            except ApiError as problem:
                if tries > 1 and problem.status == _CONFLICT and await self._is_bound(pod, node_name):
                    return
                pause = _pause_before_retry(problem, tries)
                if pause is None:
                    raise
                await self._clock.sleep(pause)

    async def _is_bound(self, pod: Pod, node_name: str) -> bool:
        path = paths.pod(pod.namespace, pod.name)
        found = _read(_decode_pod, path, await self._connection.request("GET", path))
        return found.metadata.uid == pod.uid and found.spec.node_name == node_name

    async def get(self, path: str) -> dict[str, Any]:
        return _object(path, await self._connection.request("GET", path))

    async def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return _object(path, await self._connection.request("POST", path, _encode(body)))

    async def replace(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return _object(path, await self._connection.request("PUT", path, _encode(body)))
        except ApiError as problem:
            if problem.status != _INVALID or body.get("kind") != claim_update.KIND:
                raise
            if not await self._extend_claim(path, body):
                raise
        return await self.get(path.removesuffix("/status"))  # no role may read the status alone

    async def _extend_claim(self, path: str, body: Mapping[str, Any]) -> bool:
        """Append finalizers and consumers to a claim in protobuf. Return False if `body` has other changes."""
        claim = path.removesuffix("/status")
        if not claim_update.extends(await self.get(claim), body):
            return False
        stored = await self._connection.request("GET", claim, content_type=PROTOBUF)
        if not is_message(stored):
            return False
        try:
            message = claim_update.extended(stored, body)
        except ValueError:
            return False
        await self._connection.request("PUT", path, message, PROTOBUF)
        return True

    async def merge(self, path: str, patch: Mapping[str, Any]) -> dict[str, Any]:
        return _object(path, await self._connection.request("PATCH", path, _encode(patch), MERGE_PATCH))

    async def delete(self, path: str) -> None:
        await self._connection.request("DELETE", path)

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    def timestamp(self) -> str:
        return rfc3339(self._clock.wall())

    def record(self, pod: Pod, reason: str, action: str, note: str) -> None:
        self._recorder(Record(EventType.NORMAL, encodable(reason), encodable(action), note, pod))

    def observe(self, metric: PluginMetric, labels: tuple[str, ...] = (), value: float = 1) -> None:
        self._observer(metric, labels, value)


def _pause_before_retry(problem: ApiError, tries: int) -> float | None:
    """Return the seconds until a binding that failed is sent again; None if it is not."""
    if unanswered(problem):
        return 0.0 if tries < _BIND_TRIES else None
    if problem.status in _SERVER_ERRORS and problem.reason != _SERVER_TIMEOUT and tries <= len(_BIND_PAUSES):
        return _BIND_PAUSES[tries - 1]
    return None


def _binding(pod: Pod, node_name: str, content_type: str) -> bytes:
    if content_type == PROTOBUF:
        return protobuf.binding(pod, node_name)
    return _encode(
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
        }
    )


def _object(path: str, content: bytes) -> dict[str, Any]:
    return _read(_decode_object, path, content)


def _read(decode: Callable[[bytes], T], path: str, content: bytes) -> T:
    """Decode a response, without its deepest levels if it is nested too deep."""
    try:
        try:
            return decode(content)
        except RecursionError:
            return decode(sanitize(content))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise ApiError(0, "UnreadableResponse", f"the response to {path} is not a JSON object: {problem}") from None
