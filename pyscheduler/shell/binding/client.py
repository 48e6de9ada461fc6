"""A hand acts for one pod at a time: it knows which plugin is at work, and is the plugin's way to the API server.

What was called off may go on all the same, if a plugin will have it so: its hand is shut then, and nothing can be done
to the cluster through it any more. A binding that was sent before is waited for, so that it is known how it ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from pyscheduler.api.handle import ApiError, ApiWriter
from pyscheduler.api.pod import Pod
from pyscheduler.core.commands import Bind

CANCELLED: Final = "CalledOff"
"""ApiError.reason: the call was not made, because the binding cycle that it belongs to is over."""
Response = Coroutine[Any, Any, dict[str, Any]]


class BindingClient(ApiWriter):
    """Who acts for a pod in its binding cycle, through `api`."""

    def __init__(self, api: ApiWriter) -> None:
        self._api = api
        self.task: asyncio.Task[None] | None = None
        self.command: Bind | None = None
        """Whose binding cycle it is busy with."""
        self.began = 0.0
        self.point = self.plugin = ""
        """Who is at work, and where."""
        self.is_bound = False
        """Whether the API server has said that the pod is bound now."""
        self.may_be_bound = False
        """Whether a call that may have bound the pod had no answer that says so."""
        self.is_detached = False
        """Whether it takes so long that others need not wait for it; it takes no other pod."""
        self.is_cancelled = False
        self.is_reported = False
        """Whether the outcome was told; it may be before the end."""
        self._sent = 0
        self._all_answered: asyncio.Event | None = None

    def start(self, command: Bind, now: float) -> None:
        """Begin with a pod."""
        self.command, self.began = command, now
        self.is_bound = self.may_be_bound = self.is_reported = False

    def cancel(self) -> None:
        """Let nothing through any more."""
        self.is_cancelled = True

    @property
    def is_binding(self) -> bool:
        """Whether a binding was sent, or waits for another call to end, and its answer is not there yet."""
        return self._sent > 0

    async def wait_for_responses(self) -> None:
        """Wait until every call that was sent has its answer; the connection bounds how long that takes."""
        if self._sent:
            self._all_answered = asyncio.Event()
            await self._all_answered.wait()

    async def wait_for_write(self, written: asyncio.Event) -> None:
        """Wait for a call that the binding must not overtake, as if that were part of the binding."""
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
        if self._all_answered is not None and not self._sent:
            self._all_answered.set()

    def get(self, path: str) -> Response:
        self._check()
        return self._api.get(path)

    def create(self, path: str, body: Mapping[str, Any]) -> Response:
        self._check()
        return self._create_binding(path, body) if path.endswith("/binding") else self._api.create(path, body)

    async def _create_binding(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        answer = await self._api.create(path, body)
        self.is_bound = True
        return answer

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

    def _check(self) -> None:
        if self.is_cancelled:
            raise ApiError(0, CANCELLED, "the binding cycle was called off")
