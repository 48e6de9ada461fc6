"""API client of one binding cycle: records the running plugin and makes the plugin's API calls.

A plugin may ignore the cancellation of its cycle, so a cancelled client rejects all further calls. A binding that was
sent before is awaited, so that its outcome is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from pyscheduler.api.handle import ApiError, ApiWriter
from pyscheduler.api.metrics import PluginMetric
from pyscheduler.api.pod import Pod
from pyscheduler.core.commands import Bind

CANCELLED: Final = "Cancelled"
"""ApiError.reason: the call was rejected because its binding cycle was cancelled."""
Response = Coroutine[Any, Any, dict[str, Any]]


class BindingClient(ApiWriter):
    """API access of the plugins of one binding cycle, through `api`; reused for the next pod of the worker."""

    def __init__(self, api: ApiWriter) -> None:
        self._api = api
        self.task: asyncio.Task[None] | None = None
        self.command: Bind | None = None
        """The binding cycle that is running; None while there is none."""
        self.began = 0.0
        self.point = self.plugin = ""
        """The running plugin and its extension point."""
        self.is_bound = False
        """True if the API server confirmed the binding of the pod."""
        self.may_be_bound = False
        """True if a call that may have bound the pod failed without a definite response."""
        self.is_detached = False
        """True if the cycle is slow and occupies no worker any more; the client takes no other pod then."""
        self.is_cancelled = False
        self.is_reported = False
        """True if the result was emitted, possibly before the cycle ends."""
        self._sent = 0
        self._all_received: asyncio.Event | None = None

    def start(self, command: Bind, now: float) -> None:
        """Begin the binding cycle of `command` at time `now`."""
        self.command, self.began = command, now
        self.is_bound = self.may_be_bound = self.is_reported = False

    def cancel(self) -> None:
        """Reject all further calls."""
        self.is_cancelled = True

    @property
    def is_binding(self) -> bool:
        """Return True while a binding, or a status write that it waits for, is in flight."""
        return self._sent > 0

    async def wait_for_responses(self) -> None:
        """Wait until no call is in flight; the connection's deadline bounds the time."""
        if self._sent:
            self._all_received = asyncio.Event()
            await self._all_received.wait()

    async def wait_for_write(self, written: asyncio.Event) -> None:
        """Wait for a status write that the binding must not overtake; counts as part of the binding."""
        self._sent += 1
        try:
            await written.wait()
        finally:
            self._response_received()

    async def bind(self, pod: Pod, node_name: str) -> None:
        self._check()
        self._sent += 1
        try:
            await self._api.bind(pod, node_name)
        finally:
            self._response_received()
        command = self.command
        self.is_bound = command is not None and (command.pod.uid, command.node_name) == (pod.uid, node_name)

    def _response_received(self) -> None:
        self._sent -= 1
        if self._all_received is not None and not self._sent:
            self._all_received.set()

    def get(self, path: str) -> Response:
        self._check()
        return self._api.get(path)

    def create(self, path: str, body: Mapping[str, Any]) -> Response:
        self._check()
        return self._create_binding(path, body) if path.endswith("/binding") else self._api.create(path, body)

    async def _create_binding(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        created = await self._api.create(path, body)
        self.is_bound = True
        return created

    def replace(self, path: str, body: Mapping[str, Any]) -> Response:
        self._check()
        return self._api.replace(path, body)

    def merge(self, path: str, patch: Mapping[str, Any]) -> Response:
        self._check()
        return self._api.merge(path, patch)

    def delete(self, path: str) -> Coroutine[Any, Any, None]:
        self._check()
        return self._api.delete(path)

    def sleep(self, seconds: float) -> Coroutine[Any, Any, None]:
        self._check()
        return self._api.sleep(seconds)

    def timestamp(self) -> str:
        return self._api.timestamp()

    def record(self, pod: Pod, reason: str, action: str, note: str) -> None:
        if not self.is_cancelled:
            self._api.record(pod, reason, action, note)

    def observe(self, metric: PluginMetric, labels: tuple[str, ...] = (), value: float = 1) -> None:
        self._api.observe(metric, labels, value)

    def _check(self) -> None:
        if self.is_cancelled:
            raise ApiError(0, CANCELLED, "the binding cycle was cancelled")
